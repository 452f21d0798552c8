"""Frame loss rate (RFC 8219 section 7.4), and the same with a deadline for every frame."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

from pydantic import Field, PositiveFloat, computed_field
from v6t.analysis.blocks import Drawing
from v6t.analysis.figures import plots
from v6t.analysis.presentation import (
    MAX_CURVES,
    Quantity,
    Ruling,
    TableRow,
    judge,
    split_batches,
    split_into_figures,
)
from v6t.analysis.record import Number, OrderStatistics, Record, RecordModel
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import (
    INVALID,
    Column,
    Table,
    format_number,
    format_offered_rate,
    make_table,
)
from v6t.base.strict_model import StrictModel
from v6t.benchmarks import common
from v6t.benchmarks.base import RFC_TRIAL_S, Benchmark, check_given_rate
from v6t.benchmarks.point import Measurement, Point, RunContext
from v6t.benchmarks.settings import AdaptiveSettings, RepetitionCount, TrialLength
from v6t.benchmarks.throughput import WITH_TIMEOUT, FrameTimeoutBenchmark
from v6t.procedures.frame_loss import (
    MAX_RATE_STEP,
    FrameLossResult,
    FrameLossSpec,
    measure_frame_loss,
)
from v6t.trials.result import FORWARDED_ROLES
from v6t.trials.trial import list_directions

FULL_AXIS_PERCENT = 60.0  # above this offered rate, the axis ends at 100 % of the medium


class FramesAtRate(RecordModel):
    """Numbers of frames of one direction at one rate, by valid trial."""

    required: list[int] = Field(description="frames that the rate and the length require")
    sent: list[int] = Field(description="frames that the tester sent")
    received: list[int] = Field(description="frames that the tester received")


class LossAtRate(RecordModel):
    """Loss at one offered rate."""

    rate: Number = Field(description="offered rate [frames per second per direction]")
    media_percent: Number = Field(description="the rate as a share of `media_maximum` [%]")
    trials: int = Field(description="trials at this rate")
    valid: int = Field(description="valid trials at this rate")
    loss_percent: dict[str, OrderStatistics]
    """lost share of the required frames, by direction; `sum`: of both together [%]"""
    frames: dict[str, FramesAtRate] = Field(description="frames of each direction")
    forwarded: OrderStatistics = Field(description="received, both directions together [fps]")
    errors: list[str] = Field(description="error messages of the trials at this rate")
    by_role: dict[str, OrderStatistics] = Field(default_factory=dict)
    """lost share of `foreground` and `background` in all directions; empty without both [%]"""

    @computed_field
    @property
    def fairness(self) -> Number | None:
        """Ratio of the forwarded shares of background and foreground."""
        foreground, background = (
            self.by_role[role].median if self.by_role else None for role in FORWARDED_ROLES
        )
        if foreground is None or background is None or foreground >= 100:
            return None
        return (100 - background) / (100 - foreground)

    @property
    def loss(self) -> OrderStatistics:
        """Loss of all loaded directions together."""
        return self.loss_percent.get("sum") or next(iter(self.loss_percent.values()))


class FrameLossRecord(Record):
    """Frame loss at all offered rates."""

    heading = "Frame loss rate"
    maximum: Number = Field(description="highest offered rate [frames per second per direction]")
    maximum_reason: str = Field("", description="`media`, `tester` or `given`")
    media_maximum: int | Number = Field(description="rate of the medium [fps per direction]")
    restricted_range: bool = Field(description="whether the rates start below the medium's rate")
    procedure: str = Field("", description="procedure by which the rates were chosen")
    duration_s: Number | None = Field(None, description="length of the trials [s]")
    adaptive: AdaptiveSettings | None = Field(None, description="limits of adaptive repetition")
    frame_timeout_s: Number | None = Field(None, description="deadline of every frame, if any [s]")
    rates: list[LossAtRate] = Field(description="each offered rate")

    def describe(self) -> str:
        title = self.heading
        if self.frame_timeout_s is not None:
            title = f"{title}{WITH_TIMEOUT} {self.frame_timeout_s * 1000:g} ms"
        deviations = ["restricted range"] * self.restricted_range
        deviations += [f"adaptive, n={self.repetitions}"] * (self.adaptive is not None)
        return title + (f" ({', '.join(deviations)})" if deviations else "")

    @property
    def offered_rates(self) -> Sequence[float]:
        return [row.rate for row in self.rates]

    @property
    def forwarded_at_full_load_fps(self) -> float | None:
        if self.frame_timeout_s is not None:
            return None
        forwarded = max(self.rates, key=lambda r: r.rate).forwarded.median
        return forwarded and forwarded / self.load_directions


def _summarize_rate(
    result: FrameLossResult, rate_fps: float, directions: tuple[str, ...], media_fps: float
) -> LossAtRate:
    """Summarize the trials of all repetitions at a rate."""
    offered = [o for o in result.offered if o.rate_fps == rate_fps]
    loss_percent = {
        name: _summarize_shares(o.compute_loss(None if name == "sum" else name) for o in offered)
        for name in ((*directions, "sum") if len(directions) > 1 else directions)
    }
    roles = {
        role: _summarize_shares(o.compute_role_loss(role) for o in offered)
        for role in FORWARDED_ROLES
    }
    valid = [o for o in offered if o.valid]
    frames = {
        direction: FramesAtRate(
            **{
                name: [getattr(o.directions[direction], name) for o in valid]
                for name in FramesAtRate.model_fields
            }
        )
        for direction in directions
    }
    return LossAtRate(
        rate=rate_fps,
        media_percent=rate_fps / media_fps * 100,
        trials=len(offered),
        valid=len(valid),
        loss_percent=loss_percent,
        frames=frames,
        # a stable device keeps this rate under overload
        forwarded=OrderStatistics.from_values(
            [sum(d.received for d in o.directions.values()) / result.spec.duration_s for o in valid]
        ),
        errors=[o.error for o in offered if o.error],
        by_role=roles if all(s.count for s in roles.values()) else {},
    )


def _summarize_shares(shares: Iterable[float | None]) -> OrderStatistics:
    """Return order statistics of the loss ratios that are known [%]."""
    return OrderStatistics.from_values([100 * share for share in shares if share is not None])


class FrameLossSettings(StrictModel):
    """Settings of the frame loss rate."""

    step: float = Field(default=MAX_RATE_STEP, gt=0, le=MAX_RATE_STEP)
    """Step over the maximum rate."""
    rates_fps: tuple[PositiveFloat, ...] | None = Field(default=None, min_length=1)
    """Rates to offer instead of the RFC's descent, as in the papers [fps]."""
    duration_s: TrialLength | None = None  #: Length of each stream [s]; None: as for throughput.
    repetitions: RepetitionCount | None = Field(None, description="None: as for throughput.")


class FrameLoss(Benchmark[FrameLossRecord, FrameLossSettings]):
    """Share of frames lost at rates from the maximum down.

    RFC 2544 section 26.3. The first rate is the maximum of the medium or the tester. Each step
    is a tenth of it lower, until two trials in a row lose nothing.
    """

    name = "frame-loss"
    csv_columns: ClassVar = {
        "direction": common.DIRECTION_MEANING,
        "rate": common.RATE_MEANING,
        "duration_s": common.DURATION_MEANING,
        "required": "frames to send, without negative traffic [frames]",
        "sent": "frames that left the tester [frames]",
        "received": "distinct frames that returned in time [frames]",
        "surplus": "duplicates received [frames]",
        "loss_percent": "lost share of the frames; empty: the trial is invalid [%]",
    }
    record = FrameLossRecord
    order = 30
    is_search = True
    connection_use = "optional"
    settings_model = FrameLossSettings
    quick_settings = FrameLossSettings(duration_s=0.4, repetitions=1)
    used_settings = frozenset({"adaptive"})
    can_stagger_flows = True
    format_value = staticmethod(partial(format_number, form=".4f"))

    def find_trial_s(self, context: RunContext) -> float:
        return self.get_settings(context).duration_s or context.settings.procedure.trial_duration_s

    def check(self, context: RunContext) -> None:
        rates_fps = self.get_settings(context).rates_fps
        check_given_rate(context, lambda _: max(rates_fps) if rates_fps else None)

    def run(self, point: Point) -> Measurement:
        """Descend from the highest rate as in the RFC, or offer the configured rates."""
        settings, conditions = self.get_settings(point.context), self.make_conditions(point)
        maximum_fps = max(settings.rates_fps) if settings.rates_fps else point.limit_fps
        spec = point.specify(
            FrameLossSpec,
            settings,  # has the remaining fields of the specification
            conditions=replace(conditions, search_limit_fps=maximum_fps),
            maximum_fps=maximum_fps,
            maximum_reason="given" if settings.rates_fps else point.limit_reason,
            duration_s=self.find_trial_s(point.context) + conditions.extra_duration_s,
            repetitions=settings.repetitions or point.max_repetitions,
            adaptive=point.adaptive,
        )
        result = measure_frame_loss(spec, point.measure, point.watch)
        return self.make_measurement(result, point.media_fps, point.run_conditions)

    def make_measurement(
        self, result: FrameLossResult, media_fps: float, conditions: Mapping[str, Any]
    ) -> Measurement:
        """Make the record of a point and a row for each trial and direction."""
        spec = result.spec
        directions = list_directions(spec.conditions.mode)
        record = FrameLossRecord.from_result(
            result,
            conditions,
            unit="per cent of the frames required",
            media_maximum=media_fps,
            restricted_range=spec.rates_fps is not None or spec.maximum_reason != "media",
            procedure="listed rates, none left out"
            if spec.rates_fps is not None
            else f"descending by {spec.step:.3g} of the maximum until two successive lossless trials",
            rates=[_summarize_rate(result, rate, directions, media_fps) for rate in result.rates],
        )
        rows = (
            (o.repetition, (direction, o.rate_fps, spec.duration_s, d.required, d.sent, d.received,
                            d.surplus, "" if o.error else d.loss_ratio * 100))
            for o in result.offered
            for direction, d in o.directions.items()
        )  # fmt: skip
        return Measurement(record, self.make_rows(spec.conditions, rows))

    columns = (
        *common.POINT_COLUMNS,
        Column("% of the\nmedium", lambda line: f"{line.value[0].media_percent:.2f}"),
        Column(
            "fps per\ndirection", lambda line: format_offered_rate(line.record, line.value[0].rate)
        ),
        Column("loss %\nmedian", lambda line: _format_loss(line, "median")),
        Column("P1", lambda line: _format_loss(line, "p1")),
        Column("P99", lambda line: _format_loss(line, "p99")),
        Column("trials", lambda line: str(line.value[1].count)),
        common.COUNTING_METHOD_COLUMN,
    )

    def list_rows(self, records: Sequence[FrameLossRecord]) -> list[TableRow]:
        """Return a row for each rate and direction, with the rate and its loss as the value."""
        return [
            TableRow(record, (row, lost), direction)
            for record in records
            for row in record.rates
            for direction, lost in row.loss_percent.items()
        ]

    def make_tables(self, records: Sequence[FrameLossRecord]) -> Iterator[Table]:
        yield self.make_main_table(records)
        mixed = [TableRow(record, row) for record in records for row in record.rates if row.by_role]
        if mixed:
            title = "How loss divides between foreground and background"
            yield make_table(title, mixed, _ROLE_COLUMNS)

    def make_brief_tables(self, records: Sequence[FrameLossRecord]) -> Iterator[Table]:
        """Yield a table of the highest rate without loss, and the loss at the highest rate."""
        yield make_table(records[0].title, records, _BRIEF_COLUMNS)

    def draw_figures(self, data: RunData, records: Sequence[FrameLossRecord]) -> Iterator[Drawing]:
        for number, batch in enumerate(_split_curves(records)):
            points = "; ".join(f"{r.sizes} {r.direction}" for r in batch) + "."
            name = f"-{number}" if number else ""
            yield Drawing(
                _draw_loss(batch, f"{self.name}-curve{name}"),
                "Frame loss against the offered rate as a share of the medium's maximum for the "
                "frame size: median, bars from P1 to P99; of both directions together where both "
                "were loaded.",
                "Frame loss curve: " + points,
            )
            yield Drawing(
                _draw_forwarded(batch, f"{self.name}-forwarded{name}"),
                "Frames forwarded against frames offered, per second and all directions together: "
                "a flat line beyond the knee is a device that stays stable under overload.",
                "Forwarded against offered frames per second: " + points,
            )

    def draw_overlays(
        self,
        rows: Sequence[tuple[tuple[str, ...], FrameLossRecord]],
        name: str,
        line_rate_bps: float,
    ) -> Iterator[Drawing]:
        all_records = [record for records in split_into_figures(rows) for record in records]
        caption = f"{rows[0][1].title} against the offered rate: median, bars from P1 to P99."
        for number, records in enumerate(split_batches(all_records, MAX_CURVES)):
            yield Drawing(_draw_loss(records, f"{name}-loss-{number}"), caption, caption)

    def list_quantities(self, record: FrameLossRecord) -> Iterator[Quantity]:
        for row in record.rates:
            beyond_usable = row.rate in record.above_usable
            yield Quantity(
                f"loss at {row.media_percent:.2f} % of the medium",
                "%",
                _list_losses(row),
                more_is_better=False,
                limited=beyond_usable,
                is_share=True,
                headline=f"loss at {row.rate:,.0f} fps",
                summary=row.loss,
                load_covered=not beyond_usable,
            )

    def check_clauses(self, data: RunData, records: Sequence[FrameLossRecord]) -> Iterator[Ruling]:
        descents = [_is_descent(r) for r in records]
        yield judge("RFC 2544 section 26.3",
                    "from the medium's maximum down, steps of at most 10 %, until two successive "
                    "trials without loss",
                    f"so in {sum(descents)} of {len(descents)} results",
                    descents)  # fmt: skip
        lengths = (t.request["duration_s"] for t in data.list_valid_trials(records))
        yield judge(f"RFC 2544 section 24, {self.name}", f"trials of {RFC_TRIAL_S:g} s",
                    *common.compare_minimum(RFC_TRIAL_S, lengths))  # fmt: skip
        yield common.check_repetitions(self.name, records)


def _format_loss(line: TableRow, figure: str) -> str:
    """Format the median, P1 or P99 of the loss of a table row."""
    row, lost = line.value
    return format_number(getattr(lost, figure), ".4f") if row.valid else INVALID


_ROLE_COLUMNS: Sequence[Column[TableRow]] = (
    *common.POINT_COLUMNS,
    Column("fps per\ndirection", lambda line: format_offered_rate(line.record, line.value.rate)),
    Column("foreground\nlost %", lambda r: r.value.by_role["foreground"].median, ".4f"),
    Column("background\nlost %", lambda r: r.value.by_role["background"].median, ".4f"),
    Column("background through\nover foreground through", lambda r: r.value.fairness, ".4f"),
)


class FrameLossFrameTimeout(FrameTimeoutBenchmark, FrameLoss):
    """Share of frames lost or received too late, at falling rates.

    RFC 2544 section 26.3 with a deadline: a frame that takes longer is lost.
    """

    name = "frame-loss-frame-timeout"
    order = 40
    used_settings = FrameLoss.used_settings


def _draw_loss(records: Sequence[FrameLossRecord], name: str) -> str:
    curves = [
        plots.make_summary_curve(
            number,
            f"{record.sizes} {record.direction}",
            [(r.media_percent, r.loss) for r in _sort_rates(record)],
        )
        for number, record in enumerate(records)
    ]
    # a restricted range far below the rate of the medium gets a shorter axis
    max_percent = max((r.media_percent for record in records for r in record.rates), default=100)
    return plots.draw_errorbars(
        name,
        curves,
        "offered rate, % of the medium's maximum for the frame size",
        "frames lost, %",
        linear=True,
        adjust=lambda axes: axes.set(
            xlim=(0, 100 if max_percent > FULL_AXIS_PERCENT else 1.1 * max_percent), ylim=(-2, 102)
        ),
    )


def _draw_forwarded(records: Sequence[FrameLossRecord], name: str) -> str:
    curves = []
    for number, record in enumerate(records):
        label = f"{record.sizes} {record.direction}"
        points = [(r.rate * record.load_directions, r.forwarded) for r in _sort_rates(record)]
        curves.append(replace(plots.make_summary_curve(number, label, points), bars=None))
    top = max((x for curve in curves for x in curve.x), default=0.0)
    grey = {"color": "#999999", "linewidth": 0.8}
    curves.append(plots.Curve("all offered frames", [0, top], [0, top], style=grey))
    xlabel, ylabel = "offered frames per second, all directions", "forwarded frames per second"

    def format_axes(axes: Any) -> None:
        axes.set_xlim(0, None)
        plots.format_thousands(axes, "x")

    return plots.draw_errorbars(name, curves, xlabel, ylabel, linear=True, adjust=format_axes)


def _sort_rates(record: FrameLossRecord) -> list[LossAtRate]:
    return sorted(record.rates, key=lambda r: r.rate)


def _is_descent(record: FrameLossRecord) -> bool:
    """Check that rates fell from the medium's maximum as RFC 2544 section 26.3 requires."""
    shares = [row.media_percent for row in record.rates]
    steps = [high - low for high, low in pairwise([*shares, 0.0])]
    last = record.rates[-2:]
    ended = len(last) == 2 and not any(map(any, map(_list_losses, last)))
    return (
        bool(shares)
        and shares[0] >= 99.99
        and max(steps[:-1], default=0.0) <= 10.01
        and (ended or steps[-1] <= 10.01)
    )


def _list_losses(row: LossAtRate) -> list[float]:
    """Return the loss of each trial over all directions [%]."""
    required = zip(*(direction.required for direction in row.frames.values()), strict=True)
    received = zip(*(direction.received for direction in row.frames.values()), strict=True)
    totals = zip(required, received, strict=True)
    return [100 * (1 - sum(returned) / sum(due)) for due, returned in totals if sum(due)]


def _split_curves(records: Sequence[FrameLossRecord]) -> Iterator[Sequence[FrameLossRecord]]:
    """Split the records so that each figure has a color for every curve."""
    max_curves = len(plots.COLOR_CYCLE)
    if len(records) <= max_curves:
        yield records
        return
    for mode in dict.fromkeys(r.direction for r in records):
        yield from split_batches([r for r in records if r.direction == mode], max_curves)


def _find_worst_loss(row: LossAtRate) -> float | None:
    medians = [lost.median for direction, lost in row.loss_percent.items() if direction != "sum"]
    return max((m for m in medians if m is not None), default=None) if row.valid else None


def _format_lossless_rate(record: FrameLossRecord) -> str:
    highest = None
    for row in reversed(record.rates):
        if _find_worst_loss(row) != 0:
            break
        highest = row.rate
    return "-" if highest is None else format_offered_rate(record, highest)


_BRIEF_COLUMNS: Sequence[Column[FrameLossRecord]] = (
    *common.POINT_COLUMNS,
    Column("no loss up to\nfps per direction", _format_lossless_rate),
    Column("highest fps\nper direction", lambda r: format_offered_rate(r, r.rates[0].rate)),
    Column("loss %\nat highest", lambda r: _find_worst_loss(r.rates[0]), ".4f"),
    Column("rates", lambda r: str(len(r.rates))),
)
