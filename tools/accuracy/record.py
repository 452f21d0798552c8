"""Record of an accuracy study: what really happened at the known device, and what the tester measured."""

from collections.abc import Mapping, Sequence
from typing import Any

from v6t.analysis.record import Number, RecordModel

SCHEMA = "v6t-accuracy/1"
POINTS: Mapping[str, float] = {"min": 0.0, "p1": 1.0, "p50": 50.0, "p99": 99.0, "p99_9": 99.9}
"""Percentiles at which delays are compared."""


class CountRow(RecordModel):
    """Frames that the device lost, duplicated or reordered, and how many of them the tester counted."""

    kind: str
    """impairment: loss, duplicates or reordering"""
    every: int
    """one frame in this number was impaired"""
    rate_fps: Number
    """offered rate [frames per second]"""
    frames: int
    """frames sent"""
    actual: int
    """frames impaired"""
    measured: int | None
    """impaired frames that the tester counted; null: it does not see the order of frames"""

    @property
    def exact(self) -> bool:
        """Whether frames were impaired and the tester counted all of them."""
        return self.actual == self.measured and self.actual > 0


class DelayRow(RecordModel):
    """One-way delays of a trial: percentiles in us, from the kernel's time stamps and from the tester."""

    behaviour: str
    """delay that the device adds"""
    rate_fps: Number
    """offered rate [frames per second]"""
    tagged: bool
    """whether only tagged frames were timed, as for latency; PDV times every frame"""
    actual_frames: int
    """frames whose actual delay is known"""
    measured_frames: int
    """frames timed by the tester"""
    actual: Mapping[str, Number]
    """actual delay [us] at each of ``POINTS``, and ``max``"""
    measured: Mapping[str, Number]
    """measured delay [us] at the same points"""
    ipdv_actual: Mapping[str, Number] | None = None
    """actual differences of the delays of consecutive frames [us]"""
    ipdv_measured: Mapping[str, Number] | None = None
    """the same as measured by the tester [us]"""

    @property
    def errors(self) -> dict[str, float]:
        """Measured minus actual delay at each point [us]."""
        return {name: self.measured[name] - self.actual[name] for name in POINTS}

    @property
    def bias(self) -> float:
        """Error of the median [us]."""
        return self.errors["p50"]

    @property
    def pdv_error(self) -> float:
        """Error of D99.9 - Dmin [us]."""
        return self.errors["p99_9"] - self.errors["min"]

    @property
    def ipdv_error(self) -> float | None:
        """Largest absolute error of the IPDV at 1, 50 and 99 per cent [us]."""
        if self.ipdv_actual is None or self.ipdv_measured is None:
            return None
        return max(abs(self.ipdv_measured[k] - self.ipdv_actual[k]) for k in ("p1", "p50", "p99"))


class PaceRow(RecordModel):
    """Rate and sending time of several trials, judged by the arrivals at the device."""

    rate_fps: Number
    """requested rate [frames per second]"""
    frames: int
    """frames of a trial"""
    rate_error_ppm: Sequence[Number]
    """relative error of the rate in each trial [ppm]"""
    sending_time_error_us: Sequence[Number]
    """reported minus actual sending time of each trial [us]"""
    reported_error_us: Number
    """largest uncertainty of the sending time that the tester reported [us]"""
    late_us: Mapping[str, Number]
    """how late frames left, compared with an evenly spaced stream, over all trials [us]"""


class CapacityRow(RecordModel):
    """A token bucket and its measured throughput."""

    capacity_fps: Number
    """tokens per second"""
    depth: int
    """tokens saved at most"""
    buffer: int
    """frames that may wait for a token"""
    duration_s: Number
    """duration of a trial [s]"""
    expected_fps: Number
    """highest rate at which an evenly spaced stream passes without loss [frames per second]"""
    measured_fps: Number
    """throughput by binary search [frames per second]"""
    resolution_fps: Number
    """resolution of the search [frames per second]"""

    @property
    def error(self) -> float:
        """Relative difference of measured and expected throughput."""
        return self.measured_fps / self.expected_fps - 1


class AccuracyRecord(RecordModel):
    """Results of all checks of a tester, with the conditions under which they were made."""

    schema_version: str = SCHEMA
    """version of the file format"""
    made: str
    """time of writing, UTC"""
    version: str
    """version of v6t"""
    source_commit: str | None
    """commit of v6t, if it runs from a checkout"""
    tester: Mapping[str, Any]
    """the tester's description"""
    options: Mapping[str, Any]
    """options of the tester"""
    machine: Mapping[str, Any]
    """machine of tester and device"""
    load: Sequence[Number]
    """the machine's load average before and after"""
    traffic: str
    """description of the traffic"""
    counts: Sequence[CountRow] = ()
    delays: Sequence[DelayRow] = ()
    pace: Sequence[PaceRow] = ()
    capacity: Sequence[CapacityRow] = ()

    @property
    def name(self) -> str:
        """Name of the tester, with its version if known."""
        version = self.tester.get("version") or {}
        release = version.get("version") if isinstance(version, Mapping) else None
        return f"{self.tester.get('kind', '?')}{f' {release}' if release else ''}"
