"""Benchmarks that compare variants of the traffic: flows (RFC 8219 section 10), entropy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from v6t.analysis.marks import marked
from v6t.analysis.presentation import Headline, Presentation, Quantity
from v6t.analysis.scaling import XPD, XPD_LOWER
from v6t.analysis.sheet import UNDEFINED, Sheet, count, milliseconds, sheet
from v6t.benchmarks.presentations.common import POINT, at, matched
from v6t.benchmarks.records.variants import FlowFigure, FlowsRecord, ProbeRecord, VariantRates

_CASES = {
    "fixed": "fixed ports and addresses",
    "ports": "ports vary",
    "addresses": "addresses vary",
    "both": "ports and addresses vary",
}


MANY = 6
"""Of more values than this, as the losses at all rates, each has a row."""


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
            for point in record.points:
                rows.append(
                    [
                        *(*at(record), f"{point.flows:,}"),
                        _start(record, point.flows, point.start),
                        *_rates(point),
                        _xpd(point.degradation_percent),
                        count(point.tester_ceiling),
                        matched(point.matched),
                    ]
                )
        return sheet(records[0].title, names, rows)

    def tables(self, records: Sequence[FlowsRecord]) -> Iterator[Sheet]:
        """One for each benchmark (RFC 8219 section 10.2.1)."""
        yield self.sheet(records)
        for name in dict.fromkeys(f.benchmark for r in records for f in r.figures):
            yield _further(name, records)
        if len({r.sizes for r in records}) > 1:
            yield from _by_size(records)

    def quantities(self, record: FlowsRecord) -> Iterator[Quantity]:
        """The rate of each number of flows, and what else was measured with them."""
        for point in record.points:
            yield _quantity(point, f"rate, {point.flows:,} flows, {point.start}")
        for figure in record.figures:
            name = f"{figure.benchmark}, {figure.figure}, {figure.flows:,} flows, {figure.start}"
            load = "" if figure.rate is None else f"{figure.rate:,.0f} fps"
            yield Quantity(name, figure.unit, figure.values, figure.more_is_better, at=load)

    def headlines(self, record: FlowsRecord) -> Iterator[Headline]:
        """The rate of each number of flows."""
        for point in record.points:
            start = f", {point.start}" if point.flows > 1 else ""
            yield Headline(f"{point.flows:,} flows{start}", point.median, point.p1, point.p99)


def _further(name: str, records: Sequence[FlowsRecord]) -> Sheet:
    """Another benchmark by the number of flows: a column for each value and its Xpd, or, of many, a row."""
    pairs = [(r, f) for r in records for f in r.figures if f.benchmark == name]
    figures = list(dict.fromkeys((f.figure, f.unit) for _, f in pairs))
    groups: dict[tuple[str, ...], dict[str, FlowFigure]] = {}
    for record, f in pairs:
        rate = "-" if f.rate is None else count(f.rate)
        key = (*at(record), f"{f.flows:,}", _start(record, f.flows, f.start), rate)
        groups.setdefault(key, {})[f.figure] = f
    names = [*POINT, "flows", "<start", "applied fps\nper direction"]
    lower = any(not f.more_is_better for _, f in pairs)
    title = f"{name} by network flows, medians, {XPD_LOWER if lower else XPD}"
    if len(figures) > MANY:
        lines = [[*key, f.figure, *_cells(f)] for key, of in groups.items() for f in of.values()]
        return sheet(title, [*names, "<value", f"median\n{figures[0][1]}", "Xpd %"], lines)
    for figure, unit in figures:
        names += [f"{figure}\n{unit}", "Xpd %"]
    rows = [
        [*key, *(cell for figure, _ in figures for cell in _cells(of.get(figure)))]
        for key, of in groups.items()
    ]
    return sheet(title, names, rows)


def _by_size(records: Sequence[FlowsRecord]) -> Iterator[Sheet]:
    """Xpd and applied rate of each benchmark, a column for each frame size (RFC 8219 section 10.2.1)."""
    sizes = list(dict.fromkeys(r.sizes for r in records))
    cells: dict[str, dict[tuple[str, ...], dict[str, str]]] = {}
    for record in records:
        for f in record.all_figures:
            if f.flows == 1:
                continue
            start = _start(record, f.flows, f.start)
            key = (record.direction, f"{f.flows:,}", start, f.figure)
            text = _xpd(f.degradation_percent)
            text += "" if f.rate is None else f" at {count(f.rate)}"
            cells.setdefault(f.benchmark, {}).setdefault(key, {})[record.sizes] = text
    for benchmark, rows in cells.items():
        yield sheet(
            f"{benchmark} by network flows, Xpd % at the applied fps per direction, by frame size",
            ["<direction", "flows", "<start", "<value", *sizes],
            [[*key, *(of.get(size, "-") for size in sizes)] for key, of in rows.items()],
        )


def _cells(figure: FlowFigure | None) -> tuple[str, str]:
    return ("-", "-") if figure is None else (_value(figure), _xpd(figure.degradation_percent))


def _start(record: FlowsRecord, flows: int, start: str) -> str:
    if flows == 1:
        return "-"
    return f"one every {record.interval_s:g} s" if start == "successive" else start


def _xpd(percent: float | None) -> str:
    return UNDEFINED if percent is None else f"{percent:+.2f}"


def _value(figure: FlowFigure) -> str:
    if figure.median is None:
        return UNDEFINED
    if figure.unit == "ms":
        return milliseconds(figure.median)
    return f"{figure.median:.4f}" if figure.unit == "%" else f"{figure.median:,.6g}"


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
                *(*at(record), _CASES[case], *_rates(variant), count(variant.tester_ceiling)),
                matched(variant.matched),
                "this" if case == record.use else "",
            ]
            for record in records
            for case, variant in record.cases.items()
        ]
        return sheet(records[0].title, names, rows)

    def quantities(self, record: ProbeRecord) -> Iterator[Quantity]:
        """The rate of each case."""
        for case, variant in record.cases.items():
            yield _quantity(variant, f"rate, varying: {'nothing' if case == 'fixed' else case}")

    def remarks(self, record: ProbeRecord) -> Iterator[str]:
        """The recommendation."""
        yield record.why


def _rates(variant: VariantRates) -> tuple[str, str, str]:
    median = marked(count(variant.median), variant.limited)
    return median, count(variant.p1), count(variant.p99)


def _quantity(variant: VariantRates, name: str) -> Quantity:
    return Quantity(name, "fps", variant.rates, True, variant.resolution_fps, variant.limited)
