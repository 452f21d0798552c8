"""Rows of medians.csv: the figures of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from v6t.analysis.presentation import Presentation
from v6t.analysis.record import Record, Row

FIGURE_COLUMNS: Mapping[str, str] = {
    "benchmark": "name of the benchmark",
    "ipv6_octets": "frame size on the IPv6 side with FCS; of a mix the mean [octets]",
    "ipv4_octets": "frame size on the IPv4 side with FCS; of a mix the mean [octets]",
    "mix": "sizes on both sides and frames of each; empty: one size",
    "direction": "directions under load",
    "figure": "name of the figure",
    "unit": "unit of the figure",
    "median": "median of the repetitions, as in results.json; empty: undefined [see `unit`]",
    "p1": "1st percentile; empty: undefined [see `unit`]",
    "p99": "99th percentile; empty: undefined [see `unit`]",
    "repetitions": "repetitions of the figure",
    "limited": "the tester or the medium limits the figure",
    "load": "load at which the figure was measured; empty: the figure is a load",
}
"""Meaning of each column, with its unit."""


def list_figure_rows(record: Record, presentation: Presentation[Any]) -> Iterator[Row]:
    """Yield a row for each figure of a record; none if it was not measured."""
    for result in presentation.results(record) if record.measured else ():
        summary = result.summary
        values = (
            record.benchmark,
            record.frame_sizes.ipv6,
            record.frame_sizes.ipv4,
            record.frame_sizes.mix,
            record.direction,
            result.name or result.headline,
            result.unit,
            summary.median if summary else None,
            summary.p1 if summary else None,
            summary.p99 if summary else None,
            len(result.values) or record.repetitions,
            result.limited or result.uncovered,
            result.at,
        )
        yield dict(zip(FIGURE_COLUMNS, values, strict=True))
