"""Benchmarks that compare variants of the traffic: flows (RFC 8219 section 10), entropy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from v6t.analysis.presentation import Headline, Presentation, Quantity
from v6t.analysis.presentations.common import POINT, at, marked, matched
from v6t.analysis.records.variants import FlowsRecord, ProbeRecord, VariantRates
from v6t.analysis.sheet import UNDEFINED, Sheet, count, sheet

_CASES = {
    "fixed": "fixed ports and addresses",
    "ports": "ports vary",
    "addresses": "addresses vary",
    "both": "ports and addresses vary",
}


class FlowsPresentation(Presentation[FlowsRecord]):
    """Degradation by the number of flows."""

    name = "flows"
    title = "Throughput by network flows"
    record = FlowsRecord

    def sheet(self, records: Sequence[FlowsRecord]) -> Sheet:
        """A row for each number of flows (SC-04)."""
        names = [
            *(*POINT, "flows", "<start", "median fps\nper direction", "P1", "P99", "Xpd %"),
            *("+tester's own\ncapacity", "frames\nmatched"),
        ]
        rows = []
        for record in records:
            for found in record.points:
                start, xpd = found.start, found.degradation_percent
                if start == "successive":
                    start = f"one every {record.interval_s:g} s"
                rows.append(
                    [
                        *(*at(record), f"{found.flows:,}", start if found.flows > 1 else "-"),
                        *_rates(found),
                        UNDEFINED if xpd is None else f"{xpd:+.2f}",
                        count(found.tester_ceiling),
                        matched(found.matched),
                    ]
                )
        return sheet(records[0].title, names, rows)

    def quantities(self, record: FlowsRecord) -> Iterator[Quantity]:
        """The rate of each number of flows."""
        for found in record.points:
            yield _quantity(found, f"rate, {found.flows:,} flows, {found.start}")

    def headlines(self, record: FlowsRecord) -> Iterator[Headline]:
        """The rate of each number of flows."""
        for found in record.points:
            start = f", {found.start}" if found.flows > 1 else ""
            yield Headline(f"{found.flows:,} flows{start}", found.median, found.p1, found.p99)


class ProbePresentation(Presentation[ProbeRecord]):
    """Throughput by what varies in the headers."""

    name = "rss-probe"
    title = "Entropy this device needs"
    record = ProbeRecord

    def sheet(self, records: Sequence[ProbeRecord]) -> Sheet:
        """A row for each case (GEN-12)."""
        names = [
            *(*POINT, "<case", "median fps\nper direction", "P1", "P99"),
            *("+tester's own\ncapacity", "frames\nmatched", "<use"),
        ]
        rows = [
            [
                *(*at(record), _CASES[case], *_rates(found), count(found.tester_ceiling)),
                matched(found.matched),
                "this" if case == record.use else "",
            ]
            for record in records
            for case, found in record.cases.items()
        ]
        return sheet(records[0].title, names, rows)

    def quantities(self, record: ProbeRecord) -> Iterator[Quantity]:
        """The rate of each case."""
        for case, found in record.cases.items():
            yield _quantity(found, f"rate, varying: {'nothing' if case == 'fixed' else case}")

    def remarks(self, record: ProbeRecord) -> Iterator[str]:
        """The recommendation."""
        yield record.why


def _rates(found: VariantRates) -> tuple[str, str, str]:
    median = marked(count(found.median), found.limited)
    return median, count(found.p1), count(found.p99)


def _quantity(found: VariantRates, name: str) -> Quantity:
    return Quantity(name, "fps", found.rates, True, found.resolution_fps, found.limited)
