"""The TCP benchmarks of RFC 8219 section 8, with the rows RFC 3511 asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import SIZES, Sheet, count, percent, seconds, sheet
from v6t.benchmarks.presentations.common import repeated
from v6t.benchmarks.records.tcp import (
    CAPACITY_TITLE,
    RATE_TITLE,
    Alone,
    Ending,
    Iteration,
    TcpCapacityRecord,
    TcpRateRecord,
)

_FALTERED = "The tester faltered in this trial: its counts say nothing of the device."
_SYN = SIZES.replace("octets", "SYN's octets")
_EXCHANGED = (
    *("object\noctets", "ms to establish\nmin", "mean", "max", "sum"),
    *("objects\nrequested", "returned"),
)
"""Headings of :func:`_exchanged`."""


class TcpRatePresentation(Presentation[TcpRateRecord]):
    """Maximum TCP connection establishment rate (RFC 3511 section 5.3)."""

    name = "tcp-rate"
    title = RATE_TITLE
    record = TcpRateRecord

    def sheet(self, records: Sequence[TcpRateRecord]) -> Sheet:
        """The rate, and establishment times at it."""
        names = [
            *(_SYN, "connections", "median\nconnections/s", "P1", "P99", "+dispersion\n%"),
            *(*_EXCHANGED, "+DUT\ncounts", "+repetitions"),
        ]
        rows = []
        for r in records:
            last = r.decisive[-1] if r.decisive else None
            rows.append(
                [
                    *(r.sizes, count(r.connections), marked(count(r.median), r.limited)),
                    *(count(r.p1), count(r.p99), percent(r.dispersion)),
                    *_exchanged(r, last),
                    "-" if last is None or last.sessions is None else count(last.sessions),
                    str(r.repetitions),
                ]
            )
        notes = [_how(records[0])]
        if any(len(r.decisive) > 1 for r in records):
            notes.append("Times, objects and the DUT's count are those of the last repetition.")
        notes += [_by_itself(r.alone) for r in records if r.alone is not None]
        return sheet(records[0].title, names, rows, notes)

    def quantities(self, record: TcpRateRecord) -> Iterator[Quantity]:
        """The rate."""
        yield Quantity("rate", "connections/s", record.rates, True, record.resolution_cps,
                       record.limited)  # fmt: skip

    def headlines(self, record: TcpRateRecord) -> Iterator[Headline]:
        """The rate."""
        yield Headline(self.name, record.median, record.p1, record.p99)

    def cards(self, record: TcpRateRecord) -> Iterator[Card]:
        """The rate."""
        limit = " - limited by the tester or the medium" if record.limited else ""
        what = f"{record.connections:,} connections, median of {record.repetitions}{limit}"
        number = marked(count(record.median), record.limited)
        yield Card(number, "TCP connections/s", f"{record.title}, {what}")

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """Every connection, validation, repetitions."""
        records = self.measured(data)
        iterations = [one for r in records for one in r.decisive]
        wanted = sum(r.repetitions for r in records)
        yield clause("RFC 8219 section 8.2, RFC 3511 section 5.3.4.2",
                     "the highest rate at which all connections were opened",
                     f"found by {len(iterations)} of {wanted} repetitions",
                     len(iterations) == wanted if records else None)  # fmt: skip
        yield _validated("5.3.3", iterations)
        yield repeated(self.name, records)


class TcpCapacityPresentation(Presentation[TcpCapacityRecord]):
    """Concurrent TCP connection capacity (RFC 3511 section 5.2)."""

    name = "tcp-capacity"
    title = CAPACITY_TITLE
    record = TcpCapacityRecord

    def sheet(self, records: Sequence[TcpCapacityRecord]) -> Sheet:
        """The capacity, and establishment times of the trial that found it."""
        names = [
            *(_SYN, "maximum\nconnections", "error", "attempt rate\nconnections/s"),
            *(*_EXCHANGED, "+steps"),
        ]
        rows = [
            [
                r.sizes,
                ("at least " if r.at_least else "") + count(r.capacity),
                *(count(r.error), count(_attempted_cps(r))),
                *(*_exchanged(r, r.decisive), str(len(r.steps))),
            ]
            for r in records
        ]
        return sheet(records[0].title, names, rows, [_how(records[0])])

    def tables(self, records: Sequence[TcpCapacityRecord]) -> Iterator[Sheet]:
        """Its table, what became of connections beyond it, and of those that ended."""
        yield self.sheet(records)
        for r in records:
            if r.overfull is not None:
                yield _trials(
                    "Beyond the capacity",
                    [r.overfull],
                    [
                        f"Of the {r.overfull.established:,} connections that were established, "
                        f"{r.still_answered or 0:,} answered afterwards; the others ended as: "
                        f"{r.overfull.refusals or 'none'}.",
                        *(() if r.overfull.valid else (_FALTERED,)),
                    ],
                )
            yield _endings(r)

    def headlines(self, record: TcpCapacityRecord) -> Iterator[Headline]:
        """The capacity, or that it is at least so large."""
        what = AT_LEAST if record.at_least else self.name
        yield Headline(what, record.capacity, record.capacity, record.capacity)

    def cards(self, record: TcpCapacityRecord) -> Iterator[Card]:
        """The capacity."""
        least = "at least " if record.at_least else ""
        yield Card(least + count(record.capacity), "concurrent TCP connections",
                   f"{record.title}, attempted at {count(_attempted_cps(record))} a second")  # fmt: skip

    def remarks(self, record: TcpCapacityRecord) -> Iterator[str]:
        """What became of connections beyond the end of the table, and of those that ended."""
        if record.overfull is not None:
            over = record.overfull.attempted - record.capacity
            yield f"{over:,} connections beyond the capacity: {_became(record.overfull)}"

    def clauses(self, data: RunData) -> Iterator[Clause]:
        """The search, validation."""
        records = self.measured(data)
        for r in records:
            ended = "no end was found" if r.at_least else f"within {r.error:,} connections"
            yield clause("RFC 8219 section 8.1, RFC 3511 section 5.2.3",
                         "an iterative search for the maximum number of connections",
                         f"{len(r.steps)} numbers of connections; {ended}", not r.at_least)  # fmt: skip
        yield _validated("5.2.3", [r.decisive for r in records if r.decisive is not None])


def _became(overfull: Iteration) -> str:
    """Of connections beyond the capacity, in words."""
    if not overfull.valid:
        return "not known, the tester faltered"
    return overfull.refusals or "all were established"


def _attempted_cps(record: TcpCapacityRecord) -> float:
    """Rate at which the connections of the capacity came: a second try is slower."""
    return record.attempt_rate_cps if record.decisive is None else record.decisive.rate_cps


def _trials(title: str, iterations: Sequence[Iteration], notes: Sequence[str] = ()) -> Sheet:
    """A row for each trial (RFC 3511 sections 5.2.5, 5.3.5)."""
    names = [
        *("attempted\nper second", "attempted", "completed", "%", "refused\nby reset"),
        *("by ICMP", "timed out", "requested", "returned", "%", "+closed"),
        *("ms to establish\nmin", "mean", "max", "sum", "<result"),
    ]
    rows = [
        [
            *(count(o.rate_cps), count(o.attempted), count(o.established)),
            _percent(o.established, o.attempted),
            *(count(o.reset_refused), count(o.icmp_refused), count(o.timed_out + o.half_open)),
            *(count(o.requested), count(o.answered), _percent(o.answered, o.requested)),
            *(count(o.closed), *_times(o)),
            "passed" if o.passed else "failed" if o.valid else "invalid",
        ]
        for o in iterations
    ]
    return sheet(title, names, rows, notes)


def _endings(record: TcpCapacityRecord) -> Sheet:
    names = [
        *("<ended by", "connections", "closed on\nboth sides", "DUT counts\nafterwards"),
        "forgotten\nafter",
    ]
    rows = [
        [
            e.closing.upper(),
            count(e.connections),
            count(e.closed),
            "-" if e.sessions_after is None else count(e.sessions_after),
            _forgotten(e),
        ]
        for e in record.endings
    ]
    timeouts = ", ".join(f"{name} {s:g} s" for name, s in record.tcp_timeouts_s.items())
    notes = [f"The device's own time-outs: {timeouts}."] if timeouts else []
    return sheet("Ends of connections", names, rows, notes)


def _forgotten(ending: Ending) -> str:
    if ending.aged_s is not None:
        return seconds(ending.aged_s)
    if ending.sessions_after is None or not ending.waited_s:
        return "-"
    return f"not within {ending.waited_s:g} s"


def _how(record: TcpRateRecord | TcpCapacityRecord) -> str:
    e = record.exchange
    unanswered = (
        f"a SYN that is not answered within {e.timeout_s:g} s is sent again {e.retransmissions} times"
        if e.retransmissions
        else f"a connection whose first SYN is not answered within {e.timeout_s:g} s is not established"
    )
    end = "a reset" if e.closing == "rst" else "FIN"
    return (
        f"{e.http} on both sides; every connection asks for an object once all are open; {unanswered}; "
        f"connections end by {end}. {_TIMES if _timed(record) else _NO_TIMES}"
    )


_TIMES = (
    "Establishment times are from the first SYN at the client to the last acknowledgement at the server, "
    "with what the tester itself takes to write a batch of segments and to answer one."
)
_NO_TIMES = "This tester does not tell how long each connection took."


def _timed(record: TcpRateRecord | TcpCapacityRecord) -> bool:
    found = record.decisive
    iterations = [found] if isinstance(found, Iteration) else found or []
    return not iterations or any(one.mean_s is not None for one in iterations)


def _by_itself(alone: Alone) -> str:
    times = (_milliseconds(s) for s in (alone.fastest_s, alone.mean_s, alone.slowest_s))
    return (
        f"Without a device the tester itself takes {' / '.join(times)} ms (min / mean / max) at "
        f"{alone.rate_cps:,.0f} connections a second, the fastest trial of its self-test that lost nothing."
    )


def _times(one: Iteration | None) -> list[str]:
    if one is None:
        return ["-"] * 4
    taken = (one.fastest_s, one.mean_s, one.slowest_s, one.sum_s)
    return ["-" if value is None else _milliseconds(value) for value in taken]


def _milliseconds(value_s: float) -> str:
    return f"{1000 * value_s:,.3g}" if value_s < 0.1 else f"{1000 * value_s:,.0f}"


def _exchanged(record: TcpRateRecord | TcpCapacityRecord, one: Iteration | None) -> list[str]:
    """What was asked for in each connection, and a trial's times and objects."""
    objects = ["-", "-"] if one is None else [count(one.requested), count(one.answered)]
    return [count(record.exchange.object_octets), *_times(one), *objects]


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.4g}" if whole else "-"


def _validated(section: str, iterations: Sequence[Iteration]) -> Clause:
    right = [o.answered == o.requested == o.established for o in iterations]
    return clause(f"RFC 3511 section {section}", "every connection is validated by HTTP 1.1",
                  f"{sum(o.answered for o in iterations):,} objects for "
                  f"{sum(o.requested for o in iterations):,} requests",
                  all(right) if right else None)  # fmt: skip
