"""Warnings about a run and its results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from v6t.analysis.blocks import BulletList, Collapsible
from v6t.analysis.presentation import Presentations
from v6t.analysis.record import Record
from v6t.analysis.rundata import RunData

# codes of warnings about all figures of a run, and about missing ones
CONDITION, NOT_MEASURED = "condition", "not-measured"


@dataclass(frozen=True)
class ResultWarning:
    """A warning about a run or some of its results."""

    code: str
    text: str
    figures: str = ""  # benchmark and points; empty: the whole run

    def __str__(self) -> str:
        return f"{self.figures}: {self.text}" if self.figures else self.text


def list_run_warnings(data: RunData, presentations: Presentations) -> list[ResultWarning]:
    """List all warnings about a run, those about its conditions first."""
    conditions = [ResultWarning(CONDITION, text) for text in data.results.get("caveats", ())]
    return conditions + list_warnings(data.records, presentations)


def list_warnings(records: Sequence[Record], presentations: Presentations) -> list[ResultWarning]:
    """List the warnings of records; one that several points share is listed once."""
    points: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for record in records:
        for code, text in _find_warnings(record, presentations):
            directions = points.setdefault((record.benchmark, code, text), {})
            directions.setdefault(record.sizes, []).append(record.direction)
    return [
        ResultWarning(code, text, f"{benchmark} {_describe_points(directions)}")
        for (benchmark, code, text), directions in points.items()
    ]


def _describe_points(directions: Mapping[str, Sequence[str]]) -> str:
    """Write points as ``"84/64, 512/492 forward, reverse; 1518/1498 forward"``."""
    sizes: dict[tuple[str, ...], list[str]] = {}
    for size, names in directions.items():
        sizes.setdefault(tuple(dict.fromkeys(names)), []).append(size)
    return "; ".join(f"{', '.join(s)} {', '.join(names)}" for names, s in sizes.items())


def _find_warnings(record: Record, presentations: Presentations) -> Iterator[tuple[str, str]]:
    """Yield the code and the sentence of each warning about a record."""
    if record.not_measured:
        yield NOT_MEASURED, f"not measured, {record.not_measured}"
        return
    if record.above_usable:
        yield (
            "above-self-test",
            f"offered up to {max(record.above_usable):,.0f} fps, but the tester's self-test covers "
            f"only {record.usable_fps or 0.0:,.0f}: above, the tester itself may cause loss and delay",
        )
    yield from presentations.find(record).find_warnings(record)
    yield from (("repetitions", text) for text in record.repetition_notes)
    yield from (("means", text) for text in _describe_means(record))


def _describe_means(record: Record) -> Iterator[str]:
    """Yield a sentence about the mean of each figure that has one."""
    for name, series, unit in record.list_series():
        if series.means is not None:
            yield (
                f"{name}mean {series.means.mean:,.6g} +- {series.means.margin_99:,.3g} {unit} (99 %), "
                f"relative standard deviation {series.means.rsd_percent:.2f} %; the median is the "
                "result"
            )


def fold_warnings(warnings: Sequence[object], *, brief: bool = False) -> Collapsible:
    """Make a collapsible list of warnings, with their number in the summary."""
    one = len(warnings) == 1
    text = f"{len(warnings)} warning{'s' * (not one)} about {'a single number' if one else 'single numbers'}"
    return Collapsible(text, [BulletList([str(w) for w in warnings])], brief=brief)
