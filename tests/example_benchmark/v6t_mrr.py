"""Maximum receive rate (MRR), as FD.io's CSIT defines it: what arrives at the highest rate."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field
from v6t.analysis.presentation import Quantity, Ruling, judge
from v6t.analysis.record import FPS, Number, Record, RepeatedFigure
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Column
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Benchmark
from v6t.benchmarks.common import POINT_COLUMNS
from v6t.benchmarks.point import Measurement, Point
from v6t.procedures.trial_runner import PointSpec, repeat
from v6t.trials.trial import list_directions


class MrrSettings(StrictModel):
    """Maximum receive rate (MRR)."""

    duration_s: float = Field(1.0, ge=0.001, le=86_400, description="Length of each trial [s].")
    trials: int = Field(10, ge=1, le=1000, description="Times the rate is offered.")


@dataclass(frozen=True)
class MrrSpec(PointSpec):
    """Settings of one point."""

    benchmark = "mrr"
    rate_fps: float
    duration_s: float


class MrrRecord(Record):
    """Rates received at the highest offered rate, regardless of loss."""

    heading = "Maximum receive rate (MRR)"
    rate: Number = Field(description="offered rate [frames per second per direction]")
    directions: Mapping[str, RepeatedFigure] = Field(description="received [frames per second]")

    @property
    def offered_rates(self) -> Sequence[float]:
        return [self.rate]


class Mrr(Benchmark[MrrRecord, MrrSettings]):
    """Frames per second that arrive at the highest rate that tester and medium carry."""

    name, order = "mrr", 60
    settings_model, record = MrrSettings, MrrRecord
    quick_settings = MrrSettings(duration_s=0.5, trials=3)
    columns = (
        *POINT_COLUMNS,
        Column("offered fps\nper direction", lambda line: line.record.rate),
        Column("MRR fps", lambda line: line.value.median),
    )

    def run(self, point: Point) -> Measurement:
        settings = self.get_settings(point.context)
        spec = point.specify(MrrSpec, settings, rate_fps=point.limit_fps)
        trial = spec.conditions.make_trial(self.name, spec.rate_fps, spec.duration_s)
        times, watch = point.count_repetitions(settings.trials), point.watch
        done = repeat(spec, times, point.measure, watch, lambda trials: trials.run(trial))
        valid = [o.result.directions for o in done.repetitions if o.verdict.valid]
        received = {
            name: [d[name].count_frames("received") / spec.duration_s for d in valid]
            for name in list_directions(point.mode)
        }
        record = MrrRecord.from_result(
            done,
            point.run_conditions,
            unit=FPS,
            repetitions=len(valid),
            not_measured=None if valid else "the tester could not offer the rate in any trial",
            directions={d: RepeatedFigure.from_values(rates) for d, rates in received.items()},
        )
        return Measurement(record, [
            {"No": n, "Size": point.sizes.ipv6, "Dir": point.mode[0], "direction": d, "fps": rate}
            for d, rates in received.items() for n, rate in enumerate(rates, 1)
        ])  # fmt: skip

    def list_quantities(self, record: MrrRecord) -> Iterator[Quantity]:
        for d, figure in record.directions.items():
            yield Quantity(f"MRR {d}", "fps", figure.values, headline=f"MRR {d}", summary=figure)

    def check_clauses(self, data: RunData, records: Sequence[MrrRecord]) -> Iterator[Ruling]:
        fewest = min((r.repetitions for r in records), default=0)
        yield judge("CSIT, MRR", "10 trials of 1 s", f"{fewest} trials", fewest >= 10)
