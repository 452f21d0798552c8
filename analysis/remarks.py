"""What must be said below the tables: why there is no number, what is odd about one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from v6t.analysis.blocks import Collapsible, Items
from v6t.analysis.means import remarks_on_means
from v6t.analysis.presentation import Presentations
from v6t.analysis.record import Record


def remarks(records: Sequence[Record], presentations: Presentations) -> list[str]:
    """One sentence each, with the points it is about: what is said of several is said once."""
    points: dict[tuple[str, str], dict[str, list[str]]] = {}
    for record in records:
        for remark in _sentences(record, presentations):
            of = points.setdefault((record.benchmark, remark), {})
            of.setdefault(record.sizes, []).append(record.direction)
    return [f"{benchmark} {_points(of)}: {remark}" for (benchmark, remark), of in points.items()]


def _points(directions: Mapping[str, Sequence[str]]) -> str:
    """``"84/64, 512/492 forward, reverse; 1518/1498 forward"``."""
    sizes: dict[tuple[str, ...], list[str]] = {}
    for size, ways in directions.items():
        sizes.setdefault(tuple(dict.fromkeys(ways)), []).append(size)
    return "; ".join(f"{', '.join(s)} {', '.join(ways)}" for ways, s in sizes.items())


def _sentences(record: Record, presentations: Presentations) -> Iterator[str]:
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


def folded(sentences: Sequence[str], *, brief: bool = False) -> Collapsible:
    """Remarks behind one line that counts them."""
    many = (
        "1 remark about a single number"
        if len(sentences) == 1
        else (f"{len(sentences)} remarks about single numbers")
    )
    return Collapsible(many, [Items(sentences)], brief=brief)
