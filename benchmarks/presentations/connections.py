"""Benchmarks of stateful devices, with the rows RFC 9693 asks for (ST-14)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from v6t.analysis.marks import marked
from v6t.analysis.presentation import (
    AT_LEAST,
    Card,
    Clause,
    Headline,
    Presentation,
    Quantity,
    clause,
)
from v6t.analysis.record import Record
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import SIZES, Sheet, count, percent, seconds, sheet
from v6t.benchmarks.presentations.common import repeated
from v6t.benchmarks.records.connections import ConnectionRateRecord, PortRange
from v6t.benchmarks.records.state_table import CapacityRecord, TeardownRecord


class ConnectionRatePresentation(Presentation[ConnectionRateRecord]):
    """Maximum connection establishment rate (RFC 9693 section 4.5)."""

    name = "connection-rate"
    title = "Maximum connection establishment rate"
    record = ConnectionRateRecord
    metrics: ClassVar = {"max connection establishment rate": ""}

    def sheet(self, records: Sequence[ConnectionRateRecord]) -> Sheet:
        """A row for each frame size."""
        names = [
            *(SIZES, "connections", "median\nconnections/s", "P1", "P99"),
            *("+dispersion\n%", "source\nports", "destination\nports", "validated\nat"),
            *("+DUT\ncounts", "+public\nendpoints", "+DUT\ntimeout s", "+DUT's table\nentries"),
            *("+connections\nper bucket", "+repetitions", "+search\nends within"),
        ]
        rows = []
        for r in records:
            device = (r.counts.device if r.counts else None) or {}
            buckets = device.get("nf_conntrack_buckets")
            rows.append(
                [
                    *(r.sizes, count(r.connections), marked(count(r.median), r.limited)),
                    *(count(r.p1), count(r.p99)),
                    percent(r.dispersion),
                    *(_ports(r.setup.initiator_ports), _ports(r.setup.responder_ports)),
                    f"{r.alpha:g} R" if r.validated else "not",
                    _number(r.counts.sessions if r.counts else None),
                    _number(r.counts.public_endpoints if r.counts else None),
                    *(_number(device.get("timeout_s")), _number(device.get("nf_conntrack_max"))),
                    f"{r.connections / buckets:.3g}" if buckets else "-",
                    *(str(r.repetitions), count(r.resolution_cps)),
                ]
            )
        return sheet(records[0].title, names, rows)

    def quantities(self, record: ConnectionRateRecord) -> Iterator[Quantity]:
        """The rate."""
        yield Quantity("rate", "connections/s", record.rates, True, record.resolution_cps,
                       record.limited)  # fmt: skip

    def headlines(self, record: ConnectionRateRecord) -> Iterator[Headline]:
        """The rate."""
        yield Headline(self.name, record.median, record.p1, record.p99)

    def cards(self, record: ConnectionRateRecord) -> Iterator[Card]:
        """The rate."""
        yield _card(record)

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """Validation, loss, the table before every step, repetitions."""
        records = self.measured(data)
        yield _validated(data, records)
        counts = [r.counts for r in records if r.counts]
        missing = sum(c.connections - c.learned for c in counts)
        yield clause("RFC 9693 section 4.5 (ST-06)", "no connection of phase 1 may be missing",
                     f"{missing:,} missing at the rates found; no tolerance can be set",
                     not missing if counts else None)  # fmt: skip
        coarsest = max((r.resolution_cps for r in records), default=None)
        yield clause("RFC 9693 section 4.5 (ST-06)", "the search ends within 1,000 connections/s",
                     "not searched" if coarsest is None else f"within {coarsest:,.0f}",
                     None if coarsest is None else coarsest <= 1000)  # fmt: skip
        before = [c.sessions_before for c in counts]
        known = [n for n in before if n is not None]
        yield clause("RFC 9693 section 4.5 (ST-11)", "an empty connection table before every step",
                     "emptied; the device counted " + (f"at most {max(known):,}" if known else "-")
                     if known else "emptied; the device does not tell its count",
                     (not any(known)) if known and len(known) == len(before) else None)  # fmt: skip
        yield repeated(self.name, records)


class TeardownPresentation(Presentation[TeardownRecord]):
    """Connection tear-down rate (RFC 9693 section 4.8)."""

    name = "teardown"
    title = "Connection tear-down rate"
    record = TeardownRecord

    def sheet(self, records: Sequence[TeardownRecord]) -> Sheet:
        """A row for each frame size."""
        names = [
            *(SIZES, "connections", "median\nconnections/s", "P1", "P99"),
            *("full table\ns", "empty table\ns", "repetitions"),
        ]
        rows = [
            [
                *(r.sizes, count(r.connections), count(r.median), count(r.p1), count(r.p99)),
                *(_longest(r.full_s), _longest(r.idle_s), str(r.repetitions)),
            ]
            for r in records
        ]
        return sheet(records[0].title, names, rows)

    def quantities(self, record: TeardownRecord) -> Iterator[Quantity]:
        """The rate."""
        yield Quantity("rate", "connections/s", record.rates, True)

    def headlines(self, record: TeardownRecord) -> Iterator[Headline]:
        """The rate."""
        yield Headline(self.name, record.median, record.p1, record.p99)

    def cards(self, record: TeardownRecord) -> Iterator[Card]:
        """The rate."""
        yield _card(record)

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """Both times, repetitions."""
        records = self.measured(data)
        rates = [rate for r in records for rate in r.rates]
        undefined = sum(rate is None for rate in rates)
        yield clause("RFC 9693 section 4.8 (ST-10)",
                     "N / (t(N) - t(0)), the device empties its table",
                     "both times taken with the same command"
                     + (f"; {undefined} of {len(rates)} tell nothing" if undefined else ""),
                     not undefined if rates else None)  # fmt: skip
        yield repeated(self.name, records)


class CapacityPresentation(Presentation[CapacityRecord]):
    """Connection tracking table capacity (RFC 9693 section 4.9)."""

    name = "capacity"
    title = "Connection tracking table capacity"
    record = CapacityRecord

    def sheet(self, records: Sequence[CapacityRecord]) -> Sheet:
        """A row for each frame size."""
        names = [
            *(SIZES, "capacity\nconnections", "error", "rate at it\nconnections/s"),
            *("C0", "R0", "alpha", "beta", "gamma", "steps"),
        ]
        rows = [
            [
                r.sizes,
                ("at least " if r.at_least else "") + count(r.capacity),
                *(count(r.error), count(r.rate_cps), count(r.first_connections), count(r.r0)),
                "-" if r.alpha is None else f"{r.alpha:g}",
                *(f"{r.beta:g}", f"{r.gamma:g}", str(len(r.steps))),
            ]
            for r in records
        ]
        return sheet(records[0].title, names, rows)

    def headlines(self, record: CapacityRecord) -> Iterator[Headline]:
        """The one number that was found."""
        what = AT_LEAST if record.at_least else self.name
        yield Headline(what, record.capacity, record.capacity, record.capacity)

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """The search, validation."""
        for r in self.measured(data):
            ended = "no end was found" if r.at_least else f"within {r.error:,} connections"
            yield clause("RFC 9693 section 4.9 (ST-12)",
                         "exponential, then binary search for the capacity",
                         f"{r.sizes}: from {r.c0:,} on, beta {r.beta:g}, gamma {r.gamma:g}; {ended}",
                         not r.at_least and _bracketed(r))  # fmt: skip
        yield _validated(data, self.measured(data))


def _card(record: ConnectionRateRecord | TeardownRecord) -> Card:
    limit = " - limited by the tester or the medium" if record.limited else ""
    what = f"{record.connections:,} connections, median of {record.repetitions}{limit}"
    number = marked(count(record.median), record.limited)
    return Card(number, "connections/s", f"{record.title}, {record.point}, {what}")


def _bracketed(record: CapacityRecord) -> bool:
    """Whether the steps show a number that was held and, at most the error above, one that was not."""
    held = max((s.connections for s in record.steps if s.carried), default=0)
    failed = min((s.connections for s in record.steps if not s.carried), default=None)
    return failed is not None and held < failed <= held + record.error


def _validated(data: RunData, records: Sequence[Record]) -> Clause:
    """Of trials whose phase 1 filled the table: others have nothing to be validated."""
    connections = [t.result.connections for t in data.counted(records)]
    filled = [c for c in connections if c is not None and c.is_complete]
    tried = [c.validated is not None for c in filled]
    return clause("RFC 9693 section 4.6 (ST-07)", "every connection is validated",
                  f"in {sum(tried)} of {len(tried)} trials that made them all",
                  all(tried) if tried else None)  # fmt: skip


def _ports(ports: PortRange | None) -> str:
    return f"{ports.min}-{ports.max}" if ports else "-"


def _longest(times_s: Sequence[float | None]) -> str:
    return seconds(max((t for t in times_s if t is not None), default=None))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,g}" if value % 1 else f"{int(value):,}"
