"""Result lines of a campaign's page: one for each benchmark, run and point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from v6t.analysis.presentation import LOWER_BOUND, Presentations
from v6t.analysis.record import CPS, FPS, Record
from v6t.analysis.report.campaign import list_headlines
from v6t.analysis.rundata import (
    POINT_AXES,
    CampaignRun,
    format_axis_value,
    shorten_axis,
    strip_number,
)
from v6t.analysis.sheet import INVALID, mark_limited
from v6t.benchmarks.resolution import QPS
from v6t.tools.publish.differing import MARK, Differing
from v6t.tools.publish.doubts import LOST, QUEUED, is_queued, loses_elsewhere

STEPS: Mapping[str, str] = {FPS: "resolution_fps", CPS: "resolution_cps", QPS: "resolution_qps"}


@dataclass(frozen=True)
class Line:
    """Result of one benchmark at one point of one run.

    Attributes:
        technology, device, sizes, direction: what on what, and where.
        offered: at which rate, where it was not looked for; empty: it was.
        source: where that rate comes from.
        found: headline figures by unit and name, as :func:`figures_of` has them; a unit without any
            where nothing was measured.
        show: a number of them as it is printed.
        lacking: what is printed for a figure that is not there.
        told: repetitions and trials.
        why: nothing was measured; empty: something was.
        step: how near to each other rates were tried that passed and failed; None: none were looked for.
        own: figures of the tester alone, without a device, by name.
        odd: it was not measured as most lines of its technology were.
        doubt: mark of a rate that the device's queues made; empty: nothing tells of that.
    """

    technology: str
    device: str
    sizes: str
    direction: str
    offered: str
    source: str
    found: Mapping[str, Mapping[str, Mapping[str, Any]]]
    show: Callable[[float | None], str]
    lacking: str
    told: str
    why: str = ""
    step: float | None = None
    own: Mapping[str, float | None] = field(default_factory=dict)
    odd: bool = False
    doubt: str = ""

    @property
    def marked_device(self) -> str:
        """Device name, marked if its conditions differ."""
        return f"{self.device} {MARK}" if self.odd else self.device

    def of(self, unit: str) -> Mapping[str, Mapping[str, Any]]:
        """Return the figures in a unit, by name."""
        return self.found.get(unit, {})

    def printed(self, figure: Mapping[str, Any]) -> str:
        """Return the median with its marks."""
        least = f"{LOWER_BOUND} " if figure["figure"] == LOWER_BOUND else ""
        number = " ".join(filter(None, (self.number(figure["median"]), self.doubt)))
        return least + mark_limited(number, figure["limited"])

    def spread(self, figure: Mapping[str, Any]) -> str:
        """Print the figure with P1 and P99 if it was measured more than once."""
        if figure["repetitions"] < 2:
            return self.printed(figure)
        low, high = (self.number(figure[end]) for end in ("p1", "p99"))
        return f"{self.printed(figure)} ({low}-{high})"

    @property
    def tester(self) -> str:
        """Largest of the tester's own figures as text, or a dash without any."""
        known = [value for value in self.own.values() if value is not None]
        return self.show(max(known) if len(known) == len(self.own) else None) if self.own else "-"

    def is_drawn(self, figure: Mapping[str, Any]) -> bool:
        """Return whether a figure can be drawn; a rate below the lowest tried one cannot."""
        return figure["median"] is not None and not (figure["median"] == 0 and self.step)

    def number(self, value: float | None) -> str:
        """Format a value; a rate of zero is given as below the lowest rate tried."""
        return f"< {self.show(self.step)}" if value == 0 and self.step else self.show(value)


def technology(run: CampaignRun) -> str:
    """Name the plugin and other settings that vary in the experiment."""
    plugin = run.data.config["plugin"] if run.data else run.experiment
    beside = (*POINT_AXES, "plugin")
    others = [
        format_axis_value(v)
        for a, v in run.axes.items()
        if a not in beside and not _is_of_device(a)
    ]
    return ", ".join([str(plugin), *others])


def device(run: CampaignRun) -> str:
    """Return the driver with its varying settings."""
    name = driver(run)
    others = [
        f"{shorten_axis(a)} {format_axis_value(v)}"
        for a, v in run.axes.items()
        if _is_of_device(a) and a not in ("dut", "dut.driver")
    ]
    return ", ".join([name, *others])


def driver(run: CampaignRun) -> str:
    """Return the name of the device's driver."""
    return str(run.data.config["dut"]["driver"] if run.data else run.axes.get("dut.driver", ""))


def _is_of_device(axis: str) -> bool:
    return axis.partition(".")[0] == "dut"


def names_of(runs: Sequence[CampaignRun]) -> dict[str, tuple[str, str]]:
    """Return a unique technology and device name for each run directory."""
    plain = {run.directory: (technology(run), device(run)) for run in runs}
    points = Counter(
        (plain[run.directory], r.benchmark, r.sizes, r.direction)
        for run in runs
        for r in run.records
    )
    twice = {names for (names, *_), times in points.items() if times > 1}
    named = {}
    for run in runs:
        what, on = plain[run.directory]
        if (what, on) in twice:
            what = f"{strip_number(run.directory)}: {what}"
        named[run.directory] = what, on
    return named


def lines(
    benchmark: str,
    made: Sequence[CampaignRun],
    presentations: Presentations,
    odd: Mapping[str, Differing],
) -> Iterator[Line]:
    """Collect the lines of a benchmark.

    Args:
        benchmark: its name.
        made: runs that found something.
        presentations: of the benchmarks.
        odd: runs that were not measured as others of their technology were, by directory.
    """
    names = names_of(made)
    for run in made:
        differs = odd.get(run.directory)
        for record in run.records:
            if record.benchmark != benchmark:
                continue
            invalid = len(record.invalid_trials)
            doubt = _doubt(run, record)
            yield Line(
                *names[run.directory],
                sizes=record.sizes,
                direction=record.direction,
                offered=_offered(record),
                source=record.rate_origin,
                found=_found(record, presentations, queued=doubt == QUEUED),
                show=presentations.find(record).format_value,
                lacking=INVALID if invalid and not record.measured else "-",
                told=f"{record.repetitions} ({len(record.trials)}, {invalid} invalid)",
                why=record.not_measured or "",
                step=_step(record),
                own=presentations.find(record).list_loopback_values(record)
                if record.measured
                else {},
                odd=differs is not None and differs.concerns(benchmark),
                doubt=doubt,
            )


def _doubt(run: CampaignRun, record: Record) -> str:
    """Return the mark of a rate that other trials of its run contradict."""
    if run.data is None:
        return ""
    if is_queued(run.data, record):
        return QUEUED
    return LOST if loses_elsewhere(run.data, record) else ""


def _step(record: Record) -> float | None:
    """Return the resolution of a rate search, or None for other records, such as a table's size."""
    step: float | None = getattr(record, STEPS.get(str(record.unit), ""), None)
    return step


def _offered(record: Record) -> str:
    rates = [f"{rate:,.0f}" for rate in record.offered_rates]
    said = rates[0] if len(rates) == 1 else f"{len(rates)} rates" if rates else ""
    return f"{said}, lowered" if record.is_rate_lowered else said


def _found(
    record: Record, presentations: Presentations, *, queued: bool
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the headline figures by unit and name; the main figure has an empty name.

    Of a device that queued what it did not forward nobody can say that it may be faster.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for figure in list_headlines(record, presentations):
        of_unit = found.setdefault(str(figure["unit"] or ""), {})
        if record.measured:
            whole = figure["figure"] in (record.benchmark, LOWER_BOUND)
            limited = figure["limited"] and not queued
            of_unit["" if whole else figure["figure"]] = {**figure, "limited": limited}
    return found
