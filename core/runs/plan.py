"""What a run would do: trials, time, streams, device. Nothing is opened."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from v6t.core.config.presets import caveats
from v6t.core.config.resolve import technology
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs import specs
from v6t.core.runs.bench import compile_point
from v6t.core.runs.connection_plan import connection_costs, with_phase_one
from v6t.procedures import estimate
from v6t.procedures.estimate import Cost
from v6t.procedures.flows import flow_points, flow_spec
from v6t.procedures.rss_probe import CASES
from v6t.procedures.throughput import ThroughputSpec
from v6t.procedures.trial import Mode
from v6t.profiles.model import FramePair
from v6t.profiles.wire import max_frame_rate_fps

ASSUMED_CEILING_TRIALS = 10


@dataclass(frozen=True)
class PlannedPoint:
    """One benchmark at one frame size and mode.

    ``trials`` and ``duration_s`` hold when no trial is invalid and the device does not carry the
    upper bound; the bound itself may turn out lower: the tester's own ceiling is measured first.
    """

    benchmark: str
    frame_sizes: dict[str, int]
    mode: str
    media_fps: int
    trials: int
    duration_s: float


@dataclass(frozen=True)
class RunPlan:
    """The whole run."""

    run: ResolvedRun
    points: tuple[PlannedPoint, ...]
    streams: tuple[str, ...]
    intent: dict[str, Any]
    caveats: list[str]

    @property
    def trials(self) -> int:
        """Trials of all points."""
        return sum(p.trials for p in self.points)

    @property
    def duration_s(self) -> float:
        """Seconds of all points."""
        return sum(p.duration_s for p in self.points)

    def to_json(self) -> dict[str, Any]:
        """JSON-like values."""
        return {
            "run": self.run.model_dump(mode="json"),
            "points": [asdict(p) for p in self.points],
            "trials": self.trials,
            "duration_s": self.duration_s,
            "streams": list(self.streams),
            "device_must_be": self.intent,
            "caveats": self.caveats,
        }


def plan(run: ResolvedRun) -> RunPlan:
    """Plan a run, without touching anything."""
    plugin = technology(run)
    points: list[PlannedPoint] = []
    streams: list[str] = []
    for size in run.frame_sizes:
        sizes = plugin.frame_pair(size)
        media = max_frame_rate_fps(run.line_rate_bps, sizes.ipv6)
        for direction, stream_set in compile_point(plugin, sizes, run.seed).items():
            total = sum(s.weight for s in stream_set.streams)
            streams += [
                f"{sizes.label} {direction}: {s.name} ({s.role.value}), "
                f"{s.weight / total:.1%} of the frames"
                for s in stream_set.streams
            ]
        each: list[tuple[str, str, Cost]] = [
            (mode, *found) for mode in run.modes for found in _costs(run, sizes, mode, media)
        ]
        if run.connects:
            each += [
                ("connections", *found) for found in connection_costs(run, plugin, sizes, media)
            ]
        for mode, benchmark, cost in each:
            points.append(
                PlannedPoint(
                    benchmark=benchmark,
                    frame_sizes={"ipv6": sizes.ipv6, "ipv4": sizes.ipv4},
                    mode=mode,
                    media_fps=media,
                    trials=cost.trials,
                    duration_s=cost.seconds,
                )
            )
    return RunPlan(run, tuple(points), tuple(streams), _intent(plugin.dut_intent()), caveats(run))


def _costs(
    run: ResolvedRun, sizes: FramePair, mode: Mode, media_fps: int
) -> list[tuple[str, Cost]]:
    """What each benchmark takes; the first one bears the tester's own ceiling."""
    at = specs.conditions(run, sizes, mode)
    search = specs.throughput_spec(run, sizes, mode, media_fps, media_fps)
    found: list[tuple[str, Cost]] = []
    for benchmark in specs.measured(run):
        if benchmark in specs.OF_CONNECTIONS:
            continue
        if benchmark in (specs.THROUGHPUT, specs.WITH_TIMEOUT):
            cost = estimate.throughput_cost(search)
        elif benchmark == specs.RSS_PROBE:
            one = estimate.throughput_cost(search)
            cost = Cost(len(CASES) * one.trials, len(CASES) * one.seconds)
        elif benchmark == specs.FLOWS:
            cost = _flows_cost(run, search)
        elif benchmark in (specs.FRAME_LOSS, specs.LOSS_WITH_TIMEOUT):
            cost = estimate.frame_loss_cost(specs.frame_loss_spec(run, at, media_fps, media_fps))
        elif benchmark == specs.BACK_TO_BACK:
            bursts = specs.burst_spec(run, at, media_fps, media_fps, media_fps / 2)
            cost = estimate.burst_cost(bursts)
        elif benchmark == specs.RECOVERY:
            cost = estimate.recovery_cost(specs.recovery_spec(run, at, media_fps, media_fps))
        elif benchmark == specs.RESET:
            cost = estimate.reset_cost(specs.reset_spec(run, at, media_fps))
        else:
            rate = run.procedure.rate_fps or media_fps
            cost = estimate.timing_cost(specs.timing_spec(run, benchmark, at, rate, "assumed"))
        cost = with_phase_one(run, cost, media_fps)
        if not found:
            ceiling = specs.ceiling_spec(run, sizes, mode, media_fps)
            own = ASSUMED_CEILING_TRIALS * (ceiling.duration_s + ceiling.residual_wait_s)
            cost = Cost(cost.trials, cost.seconds + own)
        found.append((benchmark, cost))
    return found


def _flows_cost(run: ResolvedRun, search: ThroughputSpec) -> Cost:
    wanted = run.procedure.flows
    each = [
        estimate.throughput_cost(flow_spec(search, point, wanted.interval_s))
        for point in flow_points(wanted.counts, wanted.starts)
    ]
    return Cost(sum(c.trials for c in each), sum(c.seconds for c in each))


def _intent(intent: Any) -> dict[str, Any]:
    values = asdict(intent)
    values["links"] = {side: dict(link) for side, link in values["links"].items()}
    return values
