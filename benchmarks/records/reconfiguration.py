"""Records of reconfiguration under traffic for ``results.json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from v6t.analysis.record import Number, Record, Row, Series, Summary, head
from v6t.analysis.statistics import summary_json
from v6t.procedures.reconfiguration import ReconfigurationResult
from v6t.trials.device_events import CONFIGURATION_CHANGES
from v6t.trials.trial import list_directions


class BlockedTimes(Summary, Series):
    """Effective blocked time of one direction with one kind of change: lost frames over rate [s]."""

    values: list[Number]
    """each stream's [s]"""
    lost: list[int]
    """lost frames of each stream"""
    frames: list[int]
    """frames of each stream"""
    silence: list[Number | None]
    """longest time without a frame of each stream; null: not known [s]"""

    @property
    def repeated(self) -> Sequence[float | None]:
        return self.values


class ReconfigurationRecord(Record):
    """What traffic lost while something beside it was changed."""

    unit: Literal["s"]
    """of blocked times"""
    what: str
    """what was added, changed and removed"""
    rate: Number
    """offered [frames per second per direction]"""
    rate_source: str
    """where the rate is from"""
    duration_s: Number
    """length of each stream [s]"""
    at_s: Number
    """when the device was changed [s]"""
    changes: dict[str, dict[str, BlockedTimes]]
    """blocked times by what was done (`nothing`, `add`, `change`, `remove`), then by direction"""

    @property
    def ordered(self) -> Iterator[tuple[str, str, BlockedTimes]]:
        """What was done, in which direction, and the times, in the order of the streams."""
        for change in CONFIGURATION_CHANGES:
            yield from ((change, way, t) for way, t in self.changes.get(change, {}).items())

    @property
    def offered(self) -> Sequence[float]:
        return [self.rate]

    def series(self) -> Iterator[tuple[str, Series, str]]:
        yield from ((f"{change} {way} ", times, "s") for change, way, times in self.ordered)


def reconfiguration_record(
    result: ReconfigurationResult, *, what: str, conditions: Mapping[str, Any]
) -> ReconfigurationRecord:
    """The record of one point."""
    spec = result.spec
    changes: dict[str, dict[str, Any]] = {}
    for change in CONFIGURATION_CHANGES:
        for way in list_directions(spec.conditions.mode):
            seen = [
                s.directions[way]
                for s in result.streams
                if s.change == change and way in s.directions
            ]
            if seen:
                times = [b.blocked_s for b in seen]
                changes.setdefault(change, {})[way] = {
                    **summary_json(times),
                    "values": times,
                    "lost": [b.lost for b in seen],
                    "frames": [b.frames for b in seen],
                    "silence": [b.silence_s for b in seen],
                }
    title = "Reconfiguration under traffic, effective blocked time"
    return ReconfigurationRecord(
        **head(spec.conditions, spec.benchmark, title, result.attempts, conditions),
        unit="s",
        not_measured=None if changes else "the tester faltered in every stream",
        repetitions=spec.repetitions,
        what=what,
        rate=spec.rate_fps,
        rate_source=spec.rate_source,
        duration_s=spec.duration_s,
        at_s=spec.at_s,
        changes=changes,
    )


def reconfiguration_rows(result: ReconfigurationResult) -> list[Row]:
    """A row for each stream and direction."""
    at = result.spec.conditions
    return [
        {"No": s.number, "Size": at.size_label, "Dir": at.mode[0], "change": s.change,
         "direction": way, "frames": b.frames, "lost": b.lost, "blocked_s": b.blocked_s,
         "silence_s": b.silence_s}
        for s in result.streams
        for way, b in s.directions.items()
    ]  # fmt: skip
