"""What a run would do: trials, time, streams, device. Nothing is opened."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from v6t.core.config import technology
from v6t.core.presets import caveats
from v6t.core.run import ceiling_spec, throughput_spec
from v6t.core.settings import ResolvedRun
from v6t.core.testers import compile_point
from v6t.procedures import estimate
from v6t.profiles.wire import max_frame_rate_fps

ASSUMED_CEILING_TRIALS = 10


@dataclass(frozen=True)
class PlannedPoint:
    """One frame size and mode.

    ``trials`` and ``duration_s`` hold when no trial is invalid and the device does not carry the
    upper bound; the bound itself may turn out lower: the tester's own ceiling is measured first.
    """

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
    points = []
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
        for mode in run.modes:
            spec = throughput_spec(run, sizes, mode, media, media)
            ceiling = ceiling_spec(run, sizes, mode, media)
            own = ASSUMED_CEILING_TRIALS * (ceiling.duration_s + ceiling.residual_wait_s)
            points.append(
                PlannedPoint(
                    frame_sizes={"ipv6": sizes.ipv6, "ipv4": sizes.ipv4},
                    mode=mode,
                    media_fps=media,
                    trials=estimate.trials(spec),
                    duration_s=estimate.duration_s(spec) + own,
                )
            )
    return RunPlan(run, tuple(points), tuple(streams), _intent(plugin.dut_intent()), caveats(run))


def _intent(intent: Any) -> dict[str, Any]:
    values = asdict(intent)
    values["links"] = {side: dict(link) for side, link in values["links"].items()}
    return values
