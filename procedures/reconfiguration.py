"""Reconfiguration: what traffic loses while something else of the device is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from v6t.procedures.trial_runner import PointSpec, RepeatedResult, TrialRunner, Watch, repeat
from v6t.trials.device_events import CONFIGURATION_CHANGES, NO_CHANGE, DeviceEvent, name_change_hook
from v6t.trials.result import Measure
from v6t.trials.trial import list_directions

BENCHMARK = "reconfiguration"


@dataclass(frozen=True)
class ReconfigurationSpec(PointSpec):
    """Specification of changes under traffic at a point.

    Attributes:
        rate_fps: offered per direction.
        rate_source: where the rate is from, in words.
        duration_s: length of each stream [s].
        at_s: when the device is changed [s].
        repetitions: times each change is made.
    """

    rate_fps: float
    rate_source: str
    duration_s: float
    at_s: float
    repetitions: int

    benchmark = BENCHMARK

    def __post_init__(self) -> None:
        """Check rate and times.

        Raises:
            ValueError: the change lies outside the stream.
        """
        if not 0 < self.at_s < self.duration_s:
            raise ValueError("the device is changed within the stream")


@dataclass(frozen=True)
class BlockedTime:
    """Loss of one direction during a change.

    Attributes:
        frames: of the stream.
        lost: of them.
        blocked_s: lost frames over the offered rate [s].
        silence_s: longest time without a frame at the receiver [s]; None: not known.
    """

    frames: int
    lost: int
    blocked_s: float
    silence_s: float | None


@dataclass(frozen=True)
class ChangeStream:
    """Stream with a change; ``directions`` is empty if every attempt was invalid."""

    change: str
    number: int
    directions: Mapping[str, BlockedTime]


ReconfigurationResult = RepeatedResult[ReconfigurationSpec, list[ChangeStream]]


def measure_reconfiguration(
    spec: ReconfigurationSpec, measure: Measure, watch: Watch | None = None
) -> ReconfigurationResult:
    """Make each change during a separate stream; ``measure`` carries it out."""
    at = spec.conditions

    def change_device(trials: TrialRunner) -> list[ChangeStream]:
        done = []
        for change in CONFIGURATION_CHANGES:
            hook = name_change_hook(change)
            event = None if change == NO_CHANGE else DeviceEvent(hook, spec.at_s)
            trial = at.make_trial(BENCHMARK, spec.rate_fps, spec.duration_s, device_event=event)
            outcome = trials.run(trial, change, steps=len(CONFIGURATION_CHANGES))
            directions = {}
            for direction in list_directions(at.mode) if outcome.verdict.valid else ():
                counted = outcome.result.directions[direction]
                frames = counted.count_frames("required")
                lost = frames - counted.count_frames("received")
                directions[direction] = BlockedTime(
                    frames, lost, lost / spec.rate_fps, counted.longest_gap_s
                )
            done.append(ChangeStream(change, trials.number, directions))
        return done

    return repeat(spec, spec.repetitions, measure, watch, change_device)
