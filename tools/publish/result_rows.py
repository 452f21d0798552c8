"""Rows of a benchmark's table: one for each run and point."""

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
from v6t.tools.publish.rate_checks import QUEUE_MARK, mark_rate
from v6t.tools.publish.setting_differences import MARK, SettingDifferences

RESOLUTION_FIELDS: Mapping[str, str] = {
    FPS: "resolution_fps",
    CPS: "resolution_cps",
    QPS: "resolution_qps",
}
"""Field of a record with the resolution of its rate search, by unit."""

Figure = Mapping[str, Any]
"""A headline figure of :func:`v6t.analysis.report.campaign.list_headlines`."""


@dataclass(frozen=True)
class ResultRow:
    """Result of one benchmark at one point of one run."""

    technology: str  # of the run, as named in tables
    device: str  # of the run, as named in tables
    sizes: str  # frame sizes [octets], IPv6/IPv4
    direction: str  # traffic direction
    offered: str  # offered rate [1/s]; empty if the benchmark searched for it
    rate_origin: str  # the result that the offered rate was taken from
    figures: Mapping[str, Mapping[str, Figure]]
    """Headline figures by unit and name. Without a measurement a unit has no figures."""
    format_value: Callable[[float | None], str]  # formats a number of the figures
    placeholder: str  # cell of an absent figure
    repetitions: str  # numbers of repetitions and trials
    not_measured: str = ""  # reason why nothing was measured; empty after a measurement
    resolution: float | None = None
    """Largest distance between a rate that passed and one that failed; None without a search."""
    loopback_values: Mapping[str, float | None] = field(default_factory=dict)
    """Results of the tester without a device, by name."""
    differs: bool = False  # the settings differ from most runs of the technology
    mark: str = ""  # mark of a rate that other trials contradict; empty without any

    @property
    def marked_device(self) -> str:
        """Device name, marked if the run's settings differ."""
        return f"{self.device} {MARK}" if self.differs else self.device

    @property
    def loopback(self) -> str:
        """Largest result of the tester without a device, or a dash without any."""
        if not self.loopback_values:
            return "-"
        values = [value for value in self.loopback_values.values() if value is not None]
        is_complete = len(values) == len(self.loopback_values)
        return self.format_value(max(values) if is_complete else None)

    def get_figures(self, unit: str) -> Mapping[str, Figure]:
        """Return the figures in a unit, by name."""
        return self.figures.get(unit, {})

    def can_draw(self, figure: Figure) -> bool:
        """Return whether a figure has a value; a rate below the lowest offered one has none."""
        return figure["median"] is not None and not (figure["median"] == 0 and self.resolution)

    def format_number(self, value: float | None) -> str:
        """Format a value; a rate of 0 becomes "< resolution"."""
        if value == 0 and self.resolution:
            return f"< {self.format_value(self.resolution)}"
        return self.format_value(value)

    def format_median(self, figure: Figure) -> str:
        """Format the median with its marks."""
        prefix = f"{LOWER_BOUND} " if figure["figure"] == LOWER_BOUND else ""
        number = " ".join(filter(None, (self.format_number(figure["median"]), self.mark)))
        return prefix + mark_limited(number, figure["limited"])

    def format_spread(self, figure: Figure) -> str:
        """Format the median, with P1 and P99 after several repetitions."""
        if figure["repetitions"] < 2:
            return self.format_median(figure)
        p1, p99 = (self.format_number(figure[key]) for key in ("p1", "p99"))
        return f"{self.format_median(figure)} ({p1}-{p99})"


def format_technology(run: CampaignRun) -> str:
    """Return the plugin, followed by the varied settings that do not belong to the device."""
    plugin = run.data.config["plugin"] if run.data else run.experiment
    values = [
        format_axis_value(value)
        for axis, value in run.axes.items()
        if axis not in (*POINT_AXES, "plugin") and not _is_device_axis(axis)
    ]
    return ", ".join([str(plugin), *values])


def format_device(run: CampaignRun) -> str:
    """Return the driver, followed by the varied settings of the device."""
    values = [
        f"{shorten_axis(axis)} {format_axis_value(value)}"
        for axis, value in run.axes.items()
        if _is_device_axis(axis) and axis not in ("dut", "dut.driver")
    ]
    return ", ".join([get_driver_name(run), *values])


def get_driver_name(run: CampaignRun) -> str:
    """Return the name of the device's driver."""
    return str(run.data.config["dut"]["driver"] if run.data else run.axes.get("dut.driver", ""))


def _is_device_axis(axis: str) -> bool:
    return axis.partition(".")[0] == "dut"


def name_runs(runs: Sequence[CampaignRun]) -> dict[str, tuple[str, str]]:
    """Return (technology, device) by the run's directory.

    Runs that would share a row name have their directory before the technology.
    """
    names = {run.directory: (format_technology(run), format_device(run)) for run in runs}
    points = Counter(
        (names[run.directory], r.benchmark, r.sizes, r.direction)
        for run in runs
        for r in run.records
    )
    ambiguous = {name for (name, *_), count in points.items() if count > 1}
    return {
        directory: (f"{strip_number(directory)}: {name[0]}", name[1]) if name in ambiguous else name
        for directory, name in names.items()
    }


def build_rows(
    benchmark: str,
    runs: Sequence[CampaignRun],
    presentations: Presentations,
    differences: Mapping[str, SettingDifferences],
) -> Iterator[ResultRow]:
    """Yield the rows of a benchmark.

    Args:
        benchmark: name of the benchmark.
        runs: runs with results.
        presentations: presentations of all benchmarks.
        differences: setting differences by the run's directory.
    """
    names = name_runs(runs)
    for run in runs:
        difference = differences.get(run.directory)
        for record in run.records:
            if record.benchmark != benchmark:
                continue
            invalid, presentation = len(record.invalid_trials), presentations.find(record)
            mark = mark_rate(run.data, record)
            yield ResultRow(
                *names[run.directory],
                sizes=record.sizes,
                direction=record.direction,
                offered=_format_offered_rates(record),
                rate_origin=record.rate_origin,
                figures=_group_figures(record, presentations, is_queued=mark == QUEUE_MARK),
                format_value=presentation.format_value,
                placeholder=INVALID if invalid and not record.measured else "-",
                repetitions=f"{record.repetitions} ({len(record.trials)}, {invalid} invalid)",
                not_measured=record.not_measured or "",
                # records of the size of a table have a resolution of another unit
                resolution=getattr(record, RESOLUTION_FIELDS.get(str(record.unit), ""), None),
                loopback_values=presentation.list_loopback_values(record)
                if record.measured
                else {},
                differs=difference is not None and difference.affect(benchmark),
                mark=mark,
            )


def _format_offered_rates(record: Record) -> str:
    """Return the offered rate [1/s], or the number of rates; empty without any."""
    rates = [f"{rate:,.0f}" for rate in record.offered_rates]
    text = f"{len(rates)} rates" if len(rates) > 1 else "".join(rates)
    return f"{text}, lowered" if record.is_rate_lowered else text


def _group_figures(
    record: Record, presentations: Presentations, *, is_queued: bool
) -> dict[str, dict[str, Figure]]:
    """Return the headline figures by unit and name; the main figure has an empty name.

    A device that queues frames has reached its limit, so its rate is not marked as limited by the tester.
    """
    by_unit: dict[str, dict[str, Figure]] = {}
    for figure in list_headlines(record, presentations):
        figures = by_unit.setdefault(str(figure["unit"] or ""), {})
        if record.measured:
            is_main = figure["figure"] in (record.benchmark, LOWER_BOUND)
            limited = figure["limited"] and not is_queued
            figures["" if is_main else figure["figure"]] = {**figure, "limited": limited}
    return by_unit
