"""Curves of an experiment: scale-up over an axis, and mixtures with their models."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from v6t.analysis.blocks import Block, Drawing
from v6t.analysis.figures import plots
from v6t.analysis.presentation import AXIS_LABELS, Presentations
from v6t.analysis.record import RateRecord, Record
from v6t.analysis.rundata import POINT_AXES, CampaignRun, Runs, format_axis_value
from v6t.analysis.scaling import (
    HARMONIC_THROUGHPUT_FORMULA,
    MIN_THROUGHPUT_FORMULA,
    S_C_FORMULA,
    S_CPU_FORMULA,
    compute_residual,
    compute_scaling,
    count_cores,
    predict_harmonic,
    predict_minimum,
)
from v6t.analysis.sheet import Column, Table, make_table

R = TypeVar("R", bound=Record)

LOG_SCALE_RATIO = 6.0  # the axis is logarithmic from this ratio of largest to smallest on
CORE_AXES = ("cores", "workers")  # settings that are numbers or lists of processor cores
_MIXTURE_PARAMETERS = frozenset({"n", "m"})  # m of every n frames are translated
# models of mixtures: function, formula, label, line style and color of the curve
_MIXTURE_MODELS = (
    (predict_minimum, MIN_THROUGHPUT_FORMULA, "min(Tt/a, Tn/(1-a))", "--", plots.VERMILLION),
    (predict_harmonic, HARMONIC_THROUGHPUT_FORMULA, "1/(a/Tt + (1-a)/Tn)", ":", plots.GREEN),
)


def draw_curves(
    experiment: str, runs: Runs, all_runs: Runs, presentations: Presentations, *, figures: bool
) -> list[Block]:
    """Make the tables and figures of scale-up and of mixtures in an experiment.

    Args:
        all_runs: all runs of the campaign, of which some may measure native traffic alone.
    """
    blocks: list[Block] = []
    for number, axis in enumerate(dict.fromkeys(a for r in runs for a in r.axes)):
        name = f"{experiment}-{number}".replace(".", "-")
        values = [r.axes.get(axis) for r in runs]
        if all(isinstance(v, Mapping) and set(v) == _MIXTURE_PARAMETERS for v in values):
            blocks += _list_mixture_blocks(axis, runs, all_runs, f"mixture-{name}", figures)
        else:
            blocks += _list_scaling_blocks(axis, runs, f"scaling-{name}", figures)
    if figures:
        blocks += _draw_overlays(runs, presentations, experiment.replace(".", "-"), bool(blocks))
    return blocks


def _group_by_title(runs: Runs, kind: type[R]) -> dict[str, list[tuple[CampaignRun, R]]]:
    """Group the measured records of a class, with their runs, by title."""
    by_title: dict[str, list[tuple[CampaignRun, R]]] = {}
    for run in runs:
        for record in run.records:
            if isinstance(record, kind) and record.measured:
                by_title.setdefault(record.title, []).append((run, record))
    return by_title


def _list_axis_values(run: CampaignRun, *excluded: str) -> list[str]:
    """Return the values of a run's axes except those of the test point and ``excluded`` ones."""
    return [format_axis_value(v) for a, v in run.axes.items() if a not in (*POINT_AXES, *excluded)]


def _list_scaling_blocks(axis: str, runs: Runs, name: str, figures: bool) -> Iterator[Block]:
    """Yield tables and figures of rates over a numeric axis."""
    values = [_parse_number(axis, r.axes.get(axis)) for r in runs]
    if axis in POINT_AXES or None in values or len(set(values)) < 2:
        return
    axis_name = axis.rpartition(".")[2]
    for part, (title, pairs) in enumerate(_group_by_title(runs, RateRecord).items()):
        lines: dict[str, dict[Any, RateRecord]] = {}
        for run, record in pairs:
            label = ", ".join([*_list_axis_values(run, axis), record.sizes, record.direction])
            lines.setdefault(label, {})[_parse_number(axis, run.axes[axis])] = record
        lines = {
            label: line
            for label, line in lines.items()
            if len(line) > 1 and all(r.median for r in line.values())
        }
        if not lines:
            continue
        of_cores = axis_name in CORE_AXES and all(1 in line for line in lines.values())
        unit = AXIS_LABELS[pairs[0][1].unit or ""]
        yield _make_scaling_table(title, axis_name, unit, lines, of_cores)
        if figures:
            caption = f"{title} over {axis_name}: median, bars from P1 to P99, {unit}."
            caption += " Grey: the rate of one core times the cores." * of_cores
            drawn = _draw_scaling(lines, axis_name, unit, f"{name}-{part}", of_cores)
            yield Drawing(drawn, caption, caption)


def _parse_number(axis: str, value: Any) -> float | None:
    """Return an axis value as a number (a list of cores as their number), or None."""
    if axis.rpartition(".")[2] in CORE_AXES:
        return count_cores(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value


def _make_scaling_table(
    title: str, axis: str, unit: str, lines: Mapping[str, Mapping[Any, RateRecord]], of_cores: bool
) -> Table:
    """Make the table of medians and scale-up with a row for each point and value of the axis."""
    rows: list[tuple[str, Any, RateRecord, float]] = []
    for label, line in lines.items():
        scale = compute_scaling({n: record.median for n, record in line.items()}, per_core=of_cores)
        rows += [(label, n, line[n], scale_up) for n, scale_up in scale.items()]
    columns: Sequence[Column[tuple[str, Any, RateRecord, float]]] = (
        Column("point", lambda row: row[0], text=True),
        Column(axis, lambda row: row[1], ","),
        Column(f"median\n{unit}", lambda row: row[2].median),
        Column("P1", lambda row: row[2].p1),
        Column("P99", lambda row: row[2].p99),
        Column("scale-up", lambda row: row[3], ".3f"),
        Column("dispersion\n%", lambda row: row[2].dispersion, ".2f"),
    )
    title += f" over {axis}: {S_CPU_FORMULA if of_cores else S_C_FORMULA}"
    return make_table(title, rows, columns)


def _draw_overlays(
    runs: Runs, presentations: Presentations, name: str, has_curves: bool
) -> Iterator[Block]:
    line_rate_bps = max((r.data.config["line_rate_bps"] for r in runs if r.data), default=0.0)
    for number, pairs in enumerate(_group_by_title(runs, Record).values()):
        if has_curves and pairs[0][1].as_rate_record:
            continue  # the figure of the curve shows these rates
        rows = [(tuple(_list_axis_values(run)), record) for run, record in pairs]
        presentation = presentations.find(pairs[0][1])
        yield from presentation.draw_overlays(rows, f"{name}-{number}", line_rate_bps)


def _list_mixture_blocks(
    axis: str, runs: Runs, all_runs: Runs, name: str, figures: bool
) -> Iterator[Block]:
    """Yield tables and figures of mixtures of translated and native traffic."""
    lines: dict[tuple[str, ...], dict[float, float]] = {}
    for run in runs:
        for record in run.records:
            if record.throughput_fps:
                share = run.axes[axis]["m"] / run.axes[axis]["n"]
                place = (*_list_axis_values(run, axis), record.sizes, record.direction)
                lines.setdefault(place, {})[share] = record.throughput_fps
    natives = _find_native_rates(all_runs)
    for number, (place, line) in enumerate(lines.items()):
        octets, direction = place[-2].partition("/")[0], place[-1]
        native = line.get(0.0) or natives.get((runs[0].testbed, octets, direction))
        if 1.0 not in line or len(line) < 2 or not native:
            continue
        label = ", ".join(place)
        mixed = {share: rate for share, rate in line.items() if share}
        yield _make_mixture_table(label, mixed, line[1.0], native)
        if figures:
            measured = sorted([*mixed.items(), (0.0, native)])
            figure = _draw_mixture(measured, line[1.0], native, f"{name}-{number}")
            text = f"Mixtures of translated and native traffic compared with two models, {label}."
            yield Drawing(figure, text, text)


def _find_native_rates(all_runs: Runs) -> dict[tuple[str, ...], float]:
    return {
        (run.testbed, str(record.frame_sizes.ipv6), record.direction): record.throughput_fps
        for run in all_runs
        if run.data is not None
        and run.data.setup.get("native")
        and run.data.setup["ip_versions"] == [6, 6]
        for record in run.records
        if record.throughput_fps
    }


def _make_mixture_table(
    label: str, line: Mapping[float, float], translated: float, native: float
) -> Table:
    """Make the table of mixtures and both models, without residuals for native traffic alone."""
    rows: list[tuple[Any, ...]] = [
        (share, rate, *(predict(translated, native, share) for predict, *_ in _MIXTURE_MODELS))
        for share, rate in sorted(line.items(), reverse=True)
    ]
    columns: list[Column[Any]] = [
        Column("translated", lambda row: row[0], ".0%"),
        Column("measured fps", lambda row: row[1]),
    ]
    for place, (_, formula, *_) in enumerate(_MIXTURE_MODELS, 2):
        columns += [
            Column(formula, itemgetter(place), absent="-"),
            Column("residual %", lambda row, place=place: row[place] and
                   compute_residual(row[1], row[place]), "+.2f", absent="-"),
        ]  # fmt: skip
    title = f"Mixtures, {label}, frames per second per direction"
    return make_table(title, [*rows, (0.0, native, None, None)], columns)


def _draw_scaling(
    lines: Mapping[str, Mapping[Any, RateRecord]], axis: str, unit: str, name: str, of_cores: bool
) -> str:
    values = sorted({x for line in lines.values() for x in line})
    curves = []
    for number, (label, line) in enumerate(lines.items()):
        across = sorted(line)
        curves.append(plots.make_summary_curve(number, label, [(x, line[x]) for x in across]))
        if of_cores and 1 in line:
            ideal = [x * line[1].median for x in across]
            style = {"color": "#999999", "linewidth": 0.8}
            text = "_" if number else "n times one core"
            curves.append(plots.Curve(text, across, ideal, style=style))

    def adjust(axes: Any) -> None:
        if values[0] > 0 and values[-1] >= LOG_SCALE_RATIO * values[0]:
            axes.set_xscale("log", base=2)
        axes.set_xticks(values, [plots.abbreviate(value) for value in values])
        axes.set_xticks([], minor=True)

    ylabel = unit.replace(" per direction", "\nper direction")
    return plots.draw_errorbars(name, curves, axis, ylabel, linear=True, adjust=adjust)


def _draw_mixture(
    measured: Sequence[tuple[float, float]], translated: float, native: float, name: str
) -> str:
    shares = [i / 50 for i in range(51)]
    curves = []
    for predict, _, label, dash, color in _MIXTURE_MODELS:
        rates = [predict(translated, native, a) for a in shares]
        style = {"linestyle": dash, "color": color}
        curves.append(plots.Curve(label, [100 * a for a in shares], rates, style=style))
    dots = {"linestyle": "", "marker": "o", "color": plots.BLUE, "markeredgecolor": plots.BLACK}
    across, rates = [100 * a for a, _ in measured], [rate for _, rate in measured]
    curves.append(plots.Curve("measured", across, rates, style=dots))

    xlabel, ylabel = "translated share of the frames, %", "frames per second per direction"
    return plots.draw_errorbars(name, curves, xlabel, ylabel, linear=True)
