"""Comparison of runs with a first one: differences, intervals and verdicts."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from statistics import median
from typing import Any

from v6t.analysis import sheet
from v6t.analysis.compare.effect import EffectEstimate, estimate_factor, estimate_shift
from v6t.analysis.compare.likeness import PointKey, compare_records, compare_runs, index_records
from v6t.analysis.presentation import Presentations, Quantity
from v6t.analysis.rundata import RunData
from v6t.analysis.statistics import drop_infinite

SCHEMA = "v6t-comparison/1"  # name and version of the JSON format
MAX_BRIEF_ROWS = 5  # brief tables print up to this number of a benchmark's quantities one by one


@dataclass(frozen=True)
class ComparedFigure:
    """Comparison of one quantity at one test point in two runs."""

    run: str  # name of the second run
    benchmark: str
    octets: str  # frame sizes
    direction: str
    what: str  # name of the quantity
    unit: str
    first: float | None  # median in the first run; None where undefined
    second: float | None  # median in the second run
    kind: str  # `factor` (second over first) or `difference` (second minus first)
    effect: EffectEstimate | None  # None if a value is undefined or missing
    verdict: str  # `no difference`, `more`, `less` or `undecided`
    words: str  # sentence that states the verdict
    improved: bool | None = None  # whether the second run is better; None: not known
    unlike: tuple[str, ...] = ()  # conditions in which the runs differ; only with `--anyway`
    limited: tuple[bool, bool] = (False, False)  # whether the tester or medium limits the medians
    loads: tuple[str, str] = ("", "")  # offered loads in both runs; empty: the quantity is a load

    @property
    def conclusion(self) -> str:
        """Result: ``better``, ``worse``, ``no difference``, ``undecided`` or ``rates differ``."""
        if self.improved is None:
            return self.verdict if self.loads[0] == self.loads[1] else "rates differ"
        return "better" if self.improved else "worse"

    @property
    def place(self) -> str:
        """Frame size and direction."""
        return f"{self.octets} {self.direction}"


@dataclass(frozen=True)
class RunComparison:
    """Comparison of several runs with the first one."""

    runs: tuple[str, ...]  # names of the runs
    lines: tuple[ComparedFigure, ...]
    left_out: tuple[str, ...]  # points that were not compared, and why
    unlike: dict[str, tuple[str, ...]]  # conditions in which whole runs differ, by name of the run

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as ``schema/comparison-1.json`` describes."""
        return {"schema": SCHEMA, **asdict(self)}


def compare_with_first(
    first: RunData, others: Sequence[RunData], presentations: Presentations, *, anyway: bool = False
) -> RunComparison:
    """Compare runs with a first one; with ``anyway``, even if their conditions differ."""
    lines: list[ComparedFigure] = []
    left_out: list[str] = []
    unlike: dict[str, tuple[str, ...]] = {}
    names = _name_runs([first, *others])
    for name, other in zip(names[1:], others, strict=True):
        if run_differences := compare_runs(first, other):
            unlike[name] = tuple(map(str, run_differences))
            if not anyway:
                continue
        first_records, other_records = index_records(first), index_records(other)
        for key in dict.fromkeys([*first_records, *other_records]):
            place = " ".join(key)
            if key not in first_records or key not in other_records:
                left_out.append(f"{place}: only in {names[0] if key in first_records else name}")
                continue
            both = (first_records[key], other_records[key])
            differing = compare_records(*both)
            if differing and not anyway:
                left_out.append(f"{place}: {'; '.join(map(str, differing))} ({name})")
                continue
            if unknown := [r for r in both if not presentations.has_presentation(r)]:
                left_out.append(
                    f"{place}: the benchmark '{unknown[0].benchmark}' is not installed or has "
                    "another version, so its results cannot be compared"
                )
                continue
            before, after = (
                {q.name: q for q in presentations.find(r).list_quantities(r) if q.is_comparable}
                for r in both
            )
            for what in sorted(before.keys() ^ after.keys()):
                left_out.append(f"{place}, {what}: only in one of the runs")
            lines += [
                _compare_result(name, key, q, after[what], tuple(map(str, differing)))
                for what, q in before.items()
                if what in after
            ]
    return RunComparison(tuple(names), tuple(lines), (*left_out, *presentations.failures), unlike)


def make_comparison_tables(comparison: RunComparison) -> list[sheet.Table]:
    """Make a table for each run that is compared with the first one."""
    first, *others = comparison.runs
    tables = []
    for run in others:
        columns: Sequence[sheet.Column[ComparedFigure]] = (
            sheet.Column("benchmark", lambda line: line.benchmark, text=True),
            sheet.Column("point", lambda line: line.place, text=True),
            sheet.Column("quantity", lambda line: f"{line.what}, {line.unit}", text=True),
            sheet.Column(first, lambda line: _format_medians(line)[0]),
            sheet.Column(run, lambda line: _format_medians(line)[1]),
            sheet.Column("factor or difference", _format_ratio, wide=True),
            sheet.Column("interval", _format_interval, wide=True),
            sheet.Column(
                "coverage", lambda x: x.effect and x.effect.coverage, ".1%", "-", wide=True
            ),
            sheet.Column("verdict", lambda line: line.words, text=True),
        )
        lines = [line for line in comparison.lines if line.run == run]
        tables.append(sheet.make_table(f"{run} against {first}", lines, columns))
    return [table for table in tables if table.rows]


def _format_interval(line: ComparedFigure) -> str:
    if line.effect is None:
        return "-"
    sign = "" if line.kind == "factor" else "+"
    return f"{line.effect.low:{sign}.4g} to {line.effect.high:{sign}.4g}"


def _format_medians(line: ComparedFigure) -> tuple[str, ...]:
    return tuple(
        sheet.mark_limited(_format_value(value), limited)
        for value, limited in zip((line.first, line.second), line.limited, strict=True)
    )


def _format_ratio(line: ComparedFigure) -> str:
    if line.effect is None:
        return "-"
    estimate = line.effect.estimate
    return f"{estimate:.4g} x" if line.kind == "factor" else f"{estimate:+.4g}"


def make_brief_comparison_tables(comparison: RunComparison) -> Iterator[sheet.Table]:
    """Yield a table for each point with a row for each quantity.

    Benchmarks with many quantities, such as the loss at ten rates, have one row, which counts conclusions.
    """
    quantity, result = sheet.make_text_columns("quantity", "result")
    for (run, place), lines in groupby(comparison.lines, lambda line: (line.run, line.place)):
        rows = []
        for benchmark, group in groupby(lines, lambda line: line.benchmark):
            quantities = [*group]
            if len(quantities) <= MAX_BRIEF_ROWS:
                rows += [_make_brief_row(line) for line in quantities]
                continue
            counts = Counter(line.conclusion for line in quantities)
            text = ", ".join(f"{count} {conclusion}" for conclusion, count in counts.items())
            many = sheet.pluralize(len(quantities), "quantity")
            rows.append((f"{benchmark}, {many}", "", "", "", text))
        octets, direction = place.split(" ", 1)
        title = f"{octets} octets, {direction}"
        if len(comparison.runs) > 2:
            title = f"{run} against {comparison.runs[0]}: {title}"
        columns = [quantity, comparison.runs[0], run, "ratio", result]
        yield sheet.make_text_table(title, columns, rows)


def _make_brief_row(line: ComparedFigure) -> tuple[str, ...]:
    first, second = _format_medians(line)
    result = line.conclusion
    if line.improved is not None and line.loads[0] != line.loads[1]:
        result += "; rates differ"
    return f"{line.benchmark} {line.what}, {line.unit}", first, second, _format_ratio(line), result


def _format_value(value: float | None) -> str:
    if value is None:
        return "undefined"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.5g}"


def _compare_result(
    run: str, key: PointKey, first: Quantity, second: Quantity, differing: tuple[str, ...]
) -> ComparedFigure:
    """Compare a quantity in two runs; ``run`` is the second one."""
    kind, effect = "factor", None
    undefined = sum(len(q.values) - len(q.defined_values) for q in (first, second))
    if not undefined:
        values = first.defined_values, second.defined_values
        resolution = first.resolution, second.resolution
        if not first.is_share:
            effect = estimate_factor(*values, resolution)
        if effect is None:
            kind, effect = "difference", estimate_shift(*values, resolution)
    verdict, words = _judge(kind, effect, first, second, undefined)
    if first.load != second.load:
        words += f"; measured at {first.load} and {second.load}"
    improved = (verdict == "more") == first.more_is_better if verdict in ("more", "less") else None
    medians = (_find_median(first), _find_median(second))
    return ComparedFigure(
        run, *key, first.name, first.unit, *medians, kind, effect, verdict, words, improved, differing,
        (first.limited, second.limited), (first.load, second.load),
    )  # fmt: skip


def _find_median(quantity: Quantity) -> float | None:
    values = [math.inf if v is None else v for v in quantity.values]
    return drop_infinite(median(values)) if values else None


def _judge(
    kind: str, effect: EffectEstimate | None, first: Quantity, second: Quantity, undefined: int
) -> tuple[str, str]:
    """Return the verdict and a sentence about it; ``undefined`` counts the undefined repetitions."""
    if effect is None:
        verb = "is" if undefined == 1 else "are"
        some = f"{sheet.pluralize(undefined, 'repetition')} {verb} undefined"
        why = some if undefined else "values are missing"
        return "undecided", f"cannot be compared: {why}"
    neutral = 1.0 if kind == "factor" else 0.0
    coverage_note = f" (too few repetitions: the interval covers {effect.coverage:.0%} only)"
    coverage_note *= not effect.is_covered
    if first.limited and second.limited:
        return "undecided", "undecided: in both, the tester or the medium is the limit"
    if effect.coverage <= 0:
        why = "one repetition per run gives no confidence interval"
        return "undecided", f"undecided: {_format_estimate(kind, effect)}, but {why}"
    limit_note = " (one of them is limited by the tester or the medium)"
    limit_note *= first.limited or second.limited
    if effect.low <= neutral <= effect.high:
        reach = _compute_reach(effect, neutral)
        bound = f"{reach:.1%}" if kind == "factor" else f"{reach:.4g} {first.unit}"
        return "no difference", f"no difference above {bound}{limit_note}{coverage_note}"
    if not effect.is_covered:
        fewest = sorted({len(first.defined_values), len(second.defined_values)})
        return "undecided", (
            f"no difference can be shown with {' and '.join(map(str, fewest))} repetitions: "
            f"{_format_estimate(kind, effect)}, "
            f"but the interval covers {effect.coverage:.0%} only{limit_note}"
        )
    more = effect.estimate > neutral
    improved = more == first.more_is_better
    if (first if improved else second).limited:
        # without the limit, the worse one could be as good as the other
        why = "the worse one is limited by the tester or the medium"
        return "undecided", f"undecided: {_format_estimate(kind, effect)}, but {why}"
    word = "better" if improved else "worse"
    form, unit = (".3g", "times") if kind == "factor" else ("+.4g", first.unit)
    estimate, low, high = (f"{v:{form}}" for v in (effect.estimate, effect.low, effect.high))
    return ("more" if more else "less"), f"{estimate} {unit} ({low} to {high}), {word}{limit_note}"


def _format_estimate(kind: str, effect: EffectEstimate) -> str:
    if kind != "factor":
        return f"{effect.estimate:+.4g}"
    times = f"{effect.estimate:.3g}"
    return f"{'1.00' if times == '1' else times} times"


def _compute_reach(effect: EffectEstimate, neutral: float) -> float:
    """Return how far the interval reaches from ``neutral``, the value for equal runs."""
    return max(effect.high - neutral, neutral - effect.low)


def summarize_comparison(comparison: RunComparison) -> str:
    """Return a sentence with the number of each conclusion and the largest undetected difference."""
    counts = Counter(line.conclusion for line in comparison.lines)
    equal = [line for line in comparison.lines if line.conclusion == "no difference"]
    effects = [line.effect for line in equal if line.effect and line.kind == "factor"]
    words = {name: name for name in ("worse", "better", "no difference", "undecided")}
    if effects and len(effects) == len(equal):
        reach = max(_compute_reach(effect, 1.0) for effect in effects)
        words["no difference"] += f" above {reach:.1%}"
    words["rates differ"] = "at different rates"
    counted = [f"{counts[kind]} {word}" for kind, word in words.items() if counts[kind]]
    many = sheet.pluralize(len(comparison.lines), "quantity")
    text = f"{many} against {comparison.runs[0]}: {', '.join(counted)}."
    if coverages := [x.effect.coverage for x in equal if x.effect and not x.effect.is_covered]:
        text += f" Too few repetitions: the intervals cover {min(coverages):.0%} only."
    return text


def _name_runs(runs: Sequence[RunData]) -> list[str]:
    """Return the names of runs, with numbers if several have the same."""
    plain = [r.name for r in runs]
    return [
        name if plain.count(name) == 1 else f"{name} ({number})"
        for number, name in enumerate(plain, 1)
    ]
