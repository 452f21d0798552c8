"""What every record of ``results.json`` holds: numbers with their convention, trials, conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt

PER_DIRECTION: Literal["per_direction"] = "per_direction"
AGGREGATE: Literal["aggregate"] = "aggregate"
FPS: Literal["frames per second"] = "frames per second"
CPS: Literal["connections per second"] = "connections per second"

Positive = Annotated[int, Field(ge=1)]


class Model(BaseModel):
    """A part of a record. Its schema allows nothing else, yet what is not known is read over."""

    model_config = ConfigDict(
        use_attribute_docstrings=True,
        extra="ignore",
        json_schema_extra={"additionalProperties": False},
    )

    def to_json(self) -> dict[str, Any]:
        """What was given, as JSON-like values: a key that was never given is not there."""
        return self.model_dump(mode="json", exclude_unset=True)


class FrameSizes(Model):
    """Octets with FCS on either side."""

    ipv6: NonNegativeInt
    """octets on the IPv6 side"""
    ipv4: NonNegativeInt
    """octets on the IPv4 side"""

    def __str__(self) -> str:
        """``"104/64"``."""
        return f"{self.ipv6}/{self.ipv4}"


class InvalidTrial(Model):
    """A trial in which the tester faltered."""

    key: str
    """of the trial"""
    reasons: list[str]
    """why, in words"""


class Interval(Model):
    """Distribution-free confidence interval of a median."""

    low: float | None
    """lower end; null is undefined"""
    high: float | None
    """upper end; null is undefined"""
    coverage: float
    """probability that it holds the true median"""
    ranks: Annotated[list[NonNegativeInt], Field(min_length=2, max_length=2)]
    """ranks of both ends among the repetitions, from 1"""


class Means(Model):
    """What papers report in place of the median; never the result."""

    mean: float
    """mean of the repetitions"""
    margin_99: float
    """half the width of the mean's 99 % interval"""
    rsd_percent: float
    """relative standard deviation [%]"""


class Spread(Model):
    """Median of the repetitions with its percentiles."""

    median: float | None
    """middle value; null is undefined (RFC 8219 section 12)"""
    p1: float | None
    """1st percentile, nearest rank; up to 99 values the smallest"""
    p99: float | None
    """99th percentile, nearest rank; up to 99 values the largest"""


class Summary(Spread):
    """Repetitions in a few numbers, nearest rank; null is undefined."""

    count: NonNegativeInt
    """number of values"""
    min: float | None
    """smallest value"""
    max: float | None
    """largest value"""
    dispersion: float | None
    """(P99 - P1) / median [%]"""
    median_interval: Interval | None
    """confidence interval of the median; null where there are too few values"""


class Series(Model):
    """Repetitions that means may stand beside, where a run asks for them."""

    means: Means | None = None
    """mean, its margin and the relative deviation, where the run asked for them"""

    @property
    def repeated(self) -> Sequence[float | None]:
        """The value of each repetition; None is undefined."""
        return ()


class Figure(Summary, Series):
    """A quantity with each repetition's value."""

    values: list[float | None]
    """each repetition's value; null is undefined"""
    notes: list[str] = []
    """what is odd about the repetitions"""

    @property
    def repeated(self) -> Sequence[float | None]:
        """See the base class."""
        return self.values


class Record(Model):
    """One benchmark at one frame size and in one direction."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"additionalProperties": True})

    benchmark: str
    """name, as for `--measure`"""
    title: str
    """words for a heading; says what deviates from the RFC"""
    direction: Literal["forward", "reverse", "bidirectional", "connections"]
    """`connections`: of stateful devices, in no direction"""
    frame_sizes: FrameSizes
    """octets with FCS on either side"""
    repetitions: NonNegativeInt
    """how often it was measured"""
    trials: list[str]
    """keys of the trials behind the number, as in journal.jsonl and trials.csv"""
    invalid_trials: list[InvalidTrial]
    """trials in which the tester faltered: repeated, never counted as loss of the device"""
    conditions: dict[str, Any]
    """settings the numbers depend on: traffic, trials, where the ceiling comes from"""
    not_measured: str | None = None
    """why there is no number"""
    unit: str | None = None
    """of the values"""
    convention: Literal["per_direction"] | None = None
    """whether rates are `per_direction` or `aggregate`; always stated"""
    usable_fps: float | None = None
    """what the tester's self-test covers [frames per second per direction]"""
    above_usable: list[float] = []
    """offered rates above `usable_fps`: loss and delay there may be the tester's own"""

    @property
    def sizes(self) -> str:
        """``"104/64"``: octets of the IPv6 and of the IPv4 frame."""
        return str(self.frame_sizes)

    @property
    def point(self) -> str:
        """``"104/64 octets, forward"``."""
        return f"{self.sizes} octets, {self.direction}"

    @property
    def measured(self) -> bool:
        """Whether there is a number."""
        return not self.not_measured

    @property
    def offered(self) -> Sequence[float]:
        """Offered rates that the tester's self-test may not cover [fps per direction] (SELF-02)."""
        return ()

    def series(self) -> Iterator[tuple[Series, str]]:
        """Everything that was repeated, with its unit."""
        yield from ()


class RateRecord(Record, Spread, Series):
    """A record of one rate that a search found in each repetition."""

    rates: list[float]
    """each repetition's result, in `unit`"""
    dispersion: float | None
    """(P99 - P1) / median [%]"""
    median_interval: Interval | None
    """confidence interval of the median; null where there are too few values"""
    min: float
    """smallest of the rates"""
    max: float
    """largest of the rates"""
    notes: list[str] = []
    """what is odd about the repetitions"""
    tester_limited: bool
    """the result is above 90 % of the tester's own ceiling, or the trials just above it were
    invalid"""
    tester_ceiling: float | None
    """what the tester does without a device, in `unit`"""
    upper_bound: float
    """highest rate that could have been reported, in `unit`"""
    upper_bound_reason: str
    """`media`, `tester` or `given`"""
    upper_bound_hit: bool
    """the device carried it: it may be faster"""

    @property
    def repeated(self) -> Sequence[float | None]:
        """See the base class."""
        return self.rates

    @property
    def limited(self) -> bool:
        """Whether the tester or the medium, not the device, decided."""
        return self.tester_limited or self.upper_bound_hit


Json = Mapping[str, Any]
