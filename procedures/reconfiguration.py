"""Reconfiguration: loss of traffic while another part of the device is changed."""

from collections.abc import Mapping
from dataclasses import dataclass

from v6t.procedures.trial_runner import PointSpec, RepeatedResult, TrialRunner, Watch, repeat
from v6t.trials.result import Measure
from v6t.trials.trial import (
    CONFIGURATION_CHANGES,
    NO_CHANGE,
    DeviceEvent,
    list_directions,
    name_change_hook,
)

BENCHMARK = "reconfiguration"


@dataclass(frozen=True)
class ReconfigurationSpec(PointSpec):
    """Specification of changes under traffic at a point."""

    rate_fps: float  # offered per direction
    rate_source: str  # origin of the rate
    duration_s: float  # length of each stream [s]
    at_s: float  # time of the change in the stream [s]
    repetitions: int  # number of times each change is made

    benchmark = BENCHMARK

    def __post_init__(self) -> None:
        """Check that the change lies within the stream."""
        if not 0 < self.at_s < self.duration_s:
            raise ValueError("the change must lie within the stream")


@dataclass(frozen=True)
class BlockedTime:
    """Time for which a change blocked one direction, from its frame loss."""

    frames: int  # required frames of the stream
    lost: int  # required frames that were lost
    blocked_s: float  # lost frames over the offered rate [s]
    silence_s: float | None  # longest time without a received frame [s]; None: unknown


@dataclass(frozen=True)
class ChangeStream:
    """Loss during one stream in which the device is changed."""

    change: str  # what was done to the device
    number: int  # repetition, from 1
    directions: Mapping[str, BlockedTime]  # empty if every attempt was invalid


ReconfigurationResult = RepeatedResult[ReconfigurationSpec, list[ChangeStream]]


def measure_reconfiguration(
    spec: ReconfigurationSpec, measure: Measure, watch: Watch | None = None
) -> ReconfigurationResult:
    """Measure the loss during each change; ``measure`` makes the change during a stream."""
    at = spec.conditions

    def measure_changes(trials: TrialRunner) -> list[ChangeStream]:
        """Make each change during a stream, and return the streams with their losses."""
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
                blocked_s, silence_s = lost / spec.rate_fps, counted.longest_gap_s
                directions[direction] = BlockedTime(frames, lost, blocked_s, silence_s)
            done.append(ChangeStream(change, trials.number, directions))
        return done

    return repeat(spec, spec.repetitions, measure, watch, measure_changes)
