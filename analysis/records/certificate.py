"""The certificate of a tester: what it read of devices whose behaviour is known, beside the truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from v6t.analysis.records.base import Model, Number

SCHEMA = "v6t-accuracy/1"
LARGEST = {"latency": "of a median", "pdv": "of PDV", "ipdv": "of IPDV"}
"""What a benchmark's error is an error of."""
POINTS: Mapping[str, float] = {"min": 0.0, "p1": 1.0, "p50": 50.0, "p99": 99.0, "p99_9": 99.9}
"""Quantiles at which delays are compared, by name, in per cent."""


class Counted(Model):
    """Frames to which something was done on purpose, and how many the tester says they were."""

    kind: str
    """what was done: loss, duplicates, reordering"""
    every: int
    """to one frame in so many"""
    rate: Number
    """offered [frames per second]"""
    frames: int
    """frames sent"""
    true: int
    """frames it was done to"""
    read: int
    """what the tester counted"""

    @property
    def exact(self) -> bool:
        """The tester is right, and there was something to see."""
        return self.true == self.read > 0


class Timed(Model):
    """Delays of one trial: the kernel's at the device, and the tester's."""

    what: str
    """what the device was told to do"""
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
    """what the tester gives of them [us]"""

    @property
    def errors(self) -> dict[str, float]:
        """Read less true of each quantile [us]."""
        return {name: self.read[name] - self.true[name] for name in POINTS}

    @property
    def bias(self) -> float:
        """Of the median [us]."""
        return self.errors["p50"]

    @property
    def pdv_error(self) -> float:
        """Of D99.9 - Dmin [us]."""
        return self.errors["p99_9"] - self.errors["min"]

    @property
    def ipdv_error(self) -> float | None:
        """The largest of the errors at 1, 50 and 99 per cent, either way [us]."""
        if self.ipdv_true is None or self.ipdv_read is None:
            return None
        return max(abs(self.ipdv_read[k] - self.ipdv_true[k]) for k in ("p1", "p50", "p99"))


class Paced(Model):
    """How frames left the tester, by the kernel's clock at the device."""

    rate: Number
    """asked [frames per second]"""
    frames: int
    """frames of a trial"""
    rate_ppm: Sequence[Number]
    """true rate less asked rate of each trial, in millionths of it"""
    sending_us: Sequence[Number]
    """sending time as the tester gives it less the true one, each trial [us]"""
    said_error_us: Number
    """how far off the tester itself says that this may be [us]"""
    late_us: Mapping[str, Number]
    """how late frames were against an even stream, quantiles over all trials [us]"""


class Capacity(Model):
    """A token bucket, and the throughput that was found."""

    capacity: Number
    """tokens per second"""
    depth: int
    """tokens that are saved up at most"""
    buffer: int
    """frames that may wait for a token"""
    duration_s: Number
    """length of the trials [s]"""
    expected: Number
    """highest rate of an even stream of that length without loss [frames per second]"""
    found: Number
    """throughput by binary search [frames per second]"""
    resolution: Number
    """of the search [frames per second]"""

    @property
    def error(self) -> float:
        """Found less expected, relative."""
        return self.found / self.expected - 1


class Quoted(Model):
    """The error of a tester at a rate, as tables quote it."""

    made: str
    """when the certificate was made, UTC"""
    version: str
    """of v6t"""
    tester: str
    """and its version"""
    rate: Number
    """at which the errors were measured: the next at or above the record's, else the highest"""
    beyond: bool
    """the record's rate is higher than any in the certificate"""
    bias_us: Number
    """of the median delay"""
    lowest_us: Number
    """lowest error of any quantile of the delay, from the least to 99.9 %"""
    highest_us: Number
    """highest error of any of them"""
    delay_us: Number
    """largest error of a median delay, either way"""
    pdv_us: Number
    """largest error of PDV, either way"""
    ipdv_us: Number | None = None
    """largest error of IPDV, either way; null: not measured at this rate"""

    def error_us(self, benchmark: str) -> float | None:
        """The largest error of what a benchmark measures; None: not known."""
        known = {"latency": self.delay_us, "pdv": self.pdv_us, "ipdv": self.ipdv_us}
        return known.get(benchmark)

    def sentence(self, benchmark: str) -> str:
        """What a table says of it."""
        error = self.error_us(benchmark)
        largest = "" if error is None else f", {LARGEST[benchmark]} at most {error:,.1f} us"
        beyond = ", the highest that was certified" if self.beyond else ""
        return (
            f"the tester's own error at {self.rate:,.0f} fps{beyond}: median {self.bias_us:+,.1f} us, "
            f"quantiles {self.lowest_us:+,.1f} to {self.highest_us:+,.1f} us{largest} "
            f"(certificate of {self.made[:10]}, {self.tester}, v6t {self.version}); not subtracted"
        )


class Certificate(Model):
    """What was found, with the machine it was found on."""

    schema_version: str = SCHEMA
    """of this file"""
    made: str
    """UTC"""
    version: str
    """of v6t"""
    source_commit: str | None
    """of v6t, where it runs from a checkout"""
    tester: Mapping[str, Any]
    """as it describes itself"""
    options: Mapping[str, Any]
    """it was given"""
    machine: Mapping[str, Any]
    """on which this was measured"""
    load: Sequence[Number]
    """the machine's load average before and after"""
    traffic: str
    """what was sent"""
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
        """Of the tester, with a version where it has one."""
        version = self.tester.get("version") or {}
        release = version.get("version") if isinstance(version, Mapping) else None
        return f"{self.tester.get('kind', '?')}{f' {release}' if release else ''}"

    def quoted(self, rate: float) -> Quoted | None:
        """What stands beside delays at a rate; None if the certificate has no delays."""
        rates = sorted({row.rate for row in self.timed})
        if not rates:
            return None
        at = next((r for r in rates if r >= rate), rates[-1])
        rows = [row for row in self.timed if row.rate == at]
        errors = [e for row in rows for e in row.errors.values()]
        biases = sorted(row.bias for row in rows)
        ipdv = [e for row in rows if (e := row.ipdv_error) is not None]
        return Quoted(
            made=self.made,
            version=self.version,
            tester=self.name,
            rate=at,
            beyond=rate > at,
            bias_us=_rounded(biases[len(biases) // 2]),
            lowest_us=_rounded(min(errors)),
            highest_us=_rounded(max(errors)),
            delay_us=_largest(biases),
            pdv_us=_largest(row.pdv_error for row in rows),
            ipdv_us=_largest(ipdv) if ipdv else None,
        )


def _largest(errors: Iterable[float]) -> float:
    return _rounded(max(map(abs, errors)))


def _rounded(value_us: float) -> float:
    return round(value_us, 1)
