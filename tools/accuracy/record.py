"""Records of the certificate of a tester: measured values and the true values of known devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from v6t.analysis.record import Number, RecordModel

SCHEMA = "v6t-accuracy/1"
POINTS: Mapping[str, float] = {"min": 0.0, "p1": 1.0, "p50": 50.0, "p99": 99.0, "p99_9": 99.9}
"""Quantiles at which delays are compared, by name, in per cent."""


class Counted(RecordModel):
    """Number of deliberately changed frames, and the number that the tester counted."""

    kind: str
    """effect: loss, duplicates or reordering"""
    every: int
    """one frame in this number was affected"""
    rate: Number
    """offered [frames per second]"""
    frames: int
    """frames sent"""
    true: int
    """frames affected"""
    read: int
    """frames that the tester counted"""

    @property
    def exact(self) -> bool:
        """Whether the tester counted correctly and frames were changed."""
        return self.true == self.read > 0


class Timed(RecordModel):
    """Delays of one trial, by the kernel at the device and by the tester."""

    what: str
    """behaviour of the device"""
    rate: Number
    """offered [frames per second]"""
    tagged: bool
    """tagged frames were timed, as for latency; else every frame, as for PDV"""
    true_frames: int
    """frames whose true delay is known"""
    read_frames: int
    """frames the tester timed"""
    true: Mapping[str, Number]
    """quantiles of the true delays [us]"""
    read: Mapping[str, Number]
    """quantiles of the delays the tester gives [us]"""
    ipdv_true: Mapping[str, Number] | None = None
    """quantiles of the true differences of consecutive delays [us]"""
    ipdv_read: Mapping[str, Number] | None = None
    """the same quantiles as measured by the tester [us]"""

    @property
    def errors(self) -> dict[str, float]:
        """Difference of measured and true value at each quantile [us]."""
        return {name: self.read[name] - self.true[name] for name in POINTS}

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
        """Largest absolute error at 1, 50 and 99 per cent [us]."""
        if self.ipdv_true is None or self.ipdv_read is None:
            return None
        return max(abs(self.ipdv_read[k] - self.ipdv_true[k]) for k in ("p1", "p50", "p99"))


class Paced(RecordModel):
    """Departure times of the tester's frames, by the kernel's clock at the device."""

    rate: Number
    """requested [frames per second]"""
    frames: int
    """frames of a trial"""
    rate_ppm: Sequence[Number]
    """relative error of the true rate in each trial [ppm]"""
    sending_us: Sequence[Number]
    """error of the reported sending time in each trial [us]"""
    said_error_us: Number
    """uncertainty of the sending time, as reported by the tester [us]"""
    late_us: Mapping[str, Number]
    """quantiles over all trials of how late frames left, compared with an even stream [us]"""


class Capacity(RecordModel):
    """Parameters of a token bucket, and the measured throughput."""

    capacity: Number
    """tokens per second"""
    depth: int
    """tokens saved at most"""
    buffer: int
    """frames that may wait for a token"""
    duration_s: Number
    """length of the trials [s]"""
    expected: Number
    """highest rate of an even stream of that length without loss [frames per second]"""
    found: Number
    """throughput by binary search [frames per second]"""
    resolution: Number
    """resolution of the search [frames per second]"""

    @property
    def error(self) -> float:
        """Relative difference of measured and expected throughput."""
        return self.found / self.expected - 1


class Certificate(RecordModel):
    """Results of all checks, with the machine."""

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
    """machine that measured"""
    load: Sequence[Number]
    """the machine's load average before and after"""
    traffic: str
    """description of the traffic"""
    counted: Sequence[Counted] = ()
    """loss, duplicates, reordering"""
    timed: Sequence[Timed] = ()
    """delays"""
    paced: Sequence[Paced] = ()
    """rate and sending time"""
    capacity: Sequence[Capacity] = ()
    """token buckets"""

    @property
    def name(self) -> str:
        """Name of the tester, with its version if known."""
        version = self.tester.get("version") or {}
        release = version.get("version") if isinstance(version, Mapping) else None
        return f"{self.tester.get('kind', '?')}{f' {release}' if release else ''}"
