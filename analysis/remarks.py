"""What must be said below the tables: why there is no number, what is odd about one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from v6t.analysis.means import remarks_on_means
from v6t.analysis.presentation import Presentations
from v6t.analysis.records.base import Record


def remarks(records: Sequence[Record], presentations: Presentations) -> list[str]:
    """One sentence each, with the point it is about."""
    return [
        f"{record.benchmark} {record.sizes} {record.direction}: {said}"
        for record in records
        for said in _said(record, presentations)
    ]


def _said(record: Record, presentations: Presentations) -> Iterator[str]:
    if record.not_measured:
        yield f"not measured, {record.not_measured}"
        return
    if record.above_usable:
        yield (
            f"offered up to {max(record.above_usable):,.0f} fps, but the tester's self-test covers "
            f"only {record.usable_fps or 0.0:,.0f}: loss and delay above may be its own"
        )
    yield from presentations.of(record).remarks(record)
    yield from record.odd
    yield from remarks_on_means(record)
