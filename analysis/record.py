"""Records of ``results.json`` and the statistics of their repetitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from functools import cached_property
from math import inf
from statistics import median
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_origin

from pydantic import (
    ConfigDict,
    Field,
    NonNegativeInt,
    WithJsonSchema,
    computed_field,
    model_validator,
)
from v6t.analysis.statistics import compute_means, describe_repetitions, drop_infinite, summarize
from v6t.base.strict_model import DescribedModel
from v6t.trials.conditions import Conditions
from v6t.trials.result import TrialResult
from v6t.trials.trial import format_mix, make_sizes_key
from v6t.trials.verdict import Attempt

F = TypeVar("F", bound="RepeatedFigure")
K = TypeVar("K", bound="Record")
T = TypeVar("T")

PER_DIRECTION: Literal["per_direction"] = "per_direction"  # convention of rates
FPS: Literal["frames per second"] = "frames per second"
CPS: Literal["connections per second"] = "connections per second"
Number = Annotated[int | float, WithJsonSchema({"type": "number"})]  # integers stay integers
# size of a frame, or the mean size of a mix, which may have decimals
FrameOctets = Annotated[int | float, Field(ge=0), WithJsonSchema({"type": "number", "minimum": 0})]
CsvRow = dict[str, Any]  # values of a row of a CSV file by column
FindResult = Callable[[str], TrialResult]  # returns the result of a trial by the trial's key

# computed fields that are read from a file if the record's benchmark is not installed
_STORED_FIELDS = {"title", "above_usable"}


class RecordModel(DescribedModel):
    """Base of records and their parts; reading ignores unknown fields, which the schema forbids."""

    model_config = ConfigDict(
        defer_build=True, extra="ignore", json_schema_extra={"additionalProperties": False}
    )

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object of the fields that were set."""
        return self.model_dump(mode="json", exclude_unset=True)


class FrameSizes(RecordModel):
    """Frame sizes on the IPv6 and the IPv4 side [octets with FCS]."""

    ipv6: FrameOctets = Field(description="octets on the IPv6 side; of a mix of sizes their mean")
    ipv4: FrameOctets = Field(description="octets on the IPv4 side; of a mix of sizes their mean")
    mix: str | None = None
    """mix of sizes (RFC 6985): sizes on both sides, and frames of each in one round"""

    def __str__(self) -> str:
        """Return the sizes as ``"104/64"``, or the mix."""
        return format_mix(self.mix) if self.mix else f"{self.ipv6}/{self.ipv4}"

    @property
    def size_or_mix(self) -> float | str:
        """IPv6 frame size, or the whole mix."""
        return str(self) if self.mix else self.ipv6

    @property
    def key(self) -> str:
        """Frame sizes as a part of file names."""
        return make_sizes_key(self.ipv6, self.mix)


class InvalidTrial(RecordModel):
    """A trial in which the tester failed."""

    key: str = Field(description="key of the trial in the journal")
    reasons: list[str] = Field(description="what failed in the tester")


class MedianInterval(RecordModel):
    """Distribution-free confidence interval of a median."""

    low: Number | None = Field(description="lower end; null is undefined")
    high: Number | None = Field(description="upper end; null is undefined")
    coverage: Number = Field(description="probability that the interval holds the true median")
    ranks: Annotated[list[NonNegativeInt], Field(min_length=2, max_length=2)]
    """ranks of both ends among the repetitions, from 1"""


class RepetitionMeans(RecordModel):
    """Mean and deviation of the repetitions, for comparison with papers."""

    mean: Number = Field(description="mean of the repetitions")
    margin_99: Number = Field(description="half the width of the mean's 99 % interval")
    rsd_percent: Number = Field(description="relative standard deviation [%]")


class OrderStatistics(RecordModel):
    """Order statistics of values that the file does not list; null is undefined."""

    count: NonNegativeInt = Field(description="number of values")
    median: Number | None = Field(description="middle value (RFC 8219 section 12)")
    p1: Number | None = Field(description="1st percentile")
    p99: Number | None = Field(description="99th percentile")
    min: Number | None = Field(description="smallest value")
    max: Number | None = Field(description="largest value")
    dispersion: Number | None = Field(description="(P99 - P1) / median [%]")
    median_interval: MedianInterval | None
    """confidence interval of the median; null where there are too few values"""

    @classmethod
    def from_values(cls, values: Sequence[float]) -> OrderStatistics:
        """Compute the statistics of values."""
        return cls(**summarize(values))


def _make_statistic(name: str, description: str, kind: Any = Number | None) -> Any:
    """Make a computed field with a statistic of the repetitions."""
    field: Any = property(lambda series: getattr(series._statistics, name))
    return computed_field(return_type=kind, description=description)(field)


class RepetitionSeries(RecordModel):
    """Repetitions of a figure with the statistics computed from them."""

    unit_name: ClassVar[str] = ""  # unit of the values in notes
    means: RepetitionMeans | None = Field(None, description="means, where the run requests them")

    @model_validator(mode="before")
    @classmethod
    def _drop_statistics(cls, values: Any) -> Any:
        """Drop computed fields from the values of a file; they are computed again."""
        if not isinstance(values, Mapping):
            return values
        dropped = cls.model_computed_fields.keys() - _STORED_FIELDS
        return {k: v for k, v in values.items() if k not in dropped}

    @property
    def repetition_values(self) -> Sequence[float | None]:
        """Value of each repetition; None is undefined."""
        raise NotImplementedError

    @property
    def _ordered_values(self) -> list[float]:
        """Values of the repetitions with infinity for undefined ones."""
        return [inf if v is None else v for v in self.repetition_values]

    @cached_property
    def _statistics(self) -> OrderStatistics:
        return OrderStatistics.from_values(self._ordered_values)

    median = _make_statistic("median", "Middle value (RFC 8219 section 12); null is undefined.")
    p1 = _make_statistic("p1", "1st percentile, nearest rank; up to 99 values the smallest.")
    p99 = _make_statistic("p99", "99th percentile, nearest rank; up to 99 values the largest.")


class DispersedSeries(RepetitionSeries):
    """Repetitions with their dispersion and the confidence interval of the median."""

    dispersion = _make_statistic(
        "dispersion", "(P99 - P1) / median [%]; null where the median is 0."
    )
    median_interval = _make_statistic(
        "median_interval",
        "Confidence interval of the median; null where there are too few values.",
        MedianInterval | None,
    )


class RangedSeries(DispersedSeries):
    """Repetitions with their smallest and largest value."""

    min = _make_statistic("min", "Smallest value.")
    max = _make_statistic("max", "Largest value.")


class AnnotatedSeries(RepetitionSeries):
    """Repetitions with sentences about outliers and modes."""

    @computed_field
    @property
    def notes(self) -> list[str]:
        """Sentences about outliers, modes and undefined repetitions."""
        return describe_repetitions(self._ordered_values, self.unit_name)

    @property
    def repetition_notes(self) -> Sequence[str]:
        return self.notes


class ValueSeries(RangedSeries):
    """Repetitions stored as `values`."""

    values: list[Number | None] = Field(description="each repetition's value; null is undefined")

    @property
    def repetition_values(self) -> Sequence[float | None]:
        return self.values

    @computed_field
    @property
    def count(self) -> NonNegativeInt:
        """Number of values."""
        return len(self.values)


class RepeatedFigure(ValueSeries, AnnotatedSeries):
    """A figure with the value of each repetition, statistics and notes."""

    @classmethod
    def from_values(cls: type[F], values: Sequence[float]) -> F:
        """Make a figure of values, of which infinite ones are undefined."""
        return cls(values=[drop_infinite(v) for v in values])


class Record(RecordModel):
    """Result of one benchmark at one frame size and in one direction."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"additionalProperties": True})

    heading: ClassVar[str] = ""  # title of all such records; empty: the benchmark is not installed
    benchmark: str = Field(description="name of the benchmark, as for `--measure`")
    direction: Literal["forward", "reverse", "bidirectional", "connections", "queries"]
    """direction of the load, or what is measured without one: `connections` or DNS `queries`"""
    frame_sizes: FrameSizes = Field(description="octets with FCS on either side")
    repetitions: NonNegativeInt = Field(description="number of repetitions")
    trials: list[str] = Field(description="keys of the trials, as in journal.jsonl and trials.csv")
    invalid_trials: list[InvalidTrial]
    """trials in which the tester failed: repeated, never counted as loss of the device"""
    conditions: dict[str, Any]
    """conditions of the result: traffic, trials, origin of the tester's capacity; a file states
    those that all records share only once"""
    not_measured: str | None = Field(default=None, description="why there is no result")
    unit: str | None = Field(None, description="unit of values whose names state none")
    convention: Literal["per_direction"] | None = Field(None, description="what rates refer to")
    counted_by: str | None = None
    """how the tester recognized test frames in all trials: by a `trailer` in each, by `marks`,
    which show neither order nor duplicates, or by counters of its `ports`; null: not stated"""
    usable_fps: Number | None = None
    """highest rate that the tester's self-test covers [frames per second per direction]"""

    @computed_field
    @property
    def title(self) -> str:
        """Heading of the record, with deviations from the RFC."""
        return self.describe()

    def describe(self) -> str:
        """Return the heading with deviations from the RFC; benchmarks override this."""
        return self.heading or self._read_stored("title", self.benchmark)

    @computed_field
    @property
    def above_usable(self) -> Sequence[Number]:
        """Offered rates above `usable_fps`: loss and delay there may be the tester's own."""
        if not self.offered_rates:
            return self._read_stored("above_usable", [])
        usable_fps = inf if self.usable_fps is None else self.usable_fps
        return [rate for rate in self.offered_rates if rate > usable_fps]

    def _read_stored(self, name: str, default: T) -> T:
        """Read a computed field from the file, for a record whose benchmark is not installed."""
        value: T = (self.model_extra or {}).get(name, default)
        return value

    @classmethod
    def from_result(
        cls: type[K],
        result: Any,
        conditions: Mapping[str, Any],
        *,
        direction: str = "",
        **values: Any,
    ) -> K:
        """Make the record of a procedure's result at a point.

        Args:
            result: result of the procedure. Attributes of its specification and conditions are copied to
                the fields of the same name; there the name of a rate may end in its unit.
            conditions: preset, tester, device, shares of traffic and the like.
            direction: direction of the record where it is not that of the point.
        """
        spec, attempts = result.spec, result.attempts
        point: Conditions = spec.conditions
        invalid = [a for a in attempts if not a.verdict.valid]
        head: dict[str, Any] = {
            "repetitions": len(result.repetitions),
            "benchmark": spec.benchmark,
            "direction": direction or point.mode,
            "frame_sizes": {"ipv6": point.ipv6_frame_size, "ipv4": point.ipv4_frame_size},
            "trials": [a.trial.key for a in attempts],
            "invalid_trials": [{"key": a.trial.key, "reasons": a.verdict.reasons} for a in invalid],
            "conditions": dict(conditions),
        }
        if not direction:
            head["convention"] = PER_DIRECTION
        if point.mix:
            head["frame_sizes"]["mix"] = point.mix
        return cls(**{**cls._copy_fields(point), **cls._copy_fields(spec), **head, **values})

    @classmethod
    def _copy_fields(cls, source: object) -> dict[str, Any]:
        """Return the attributes of an object that are also fields of this record."""
        copied: dict[str, Any] = {}
        for name, field in cls.model_fields.items():
            choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
            known = [n for n in (name, f"{name}_fps", f"{name}_cps") if hasattr(source, n)]
            if len(choices) == 1:
                copied[name] = choices[0]
            elif known:
                value = getattr(source, known[0])
                copied[name] = asdict(value) if is_dataclass(value) else value
        return copied

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object of the fields that were set, always with unit and convention."""
        always = {"unit": self.unit, "convention": self.convention}
        values = super().to_json()
        if self.usable_fps is None and not self.above_usable:
            del values["above_usable"]
        return {**{k: v for k, v in always.items() if v is not None}, **values}

    @property
    def sizes(self) -> str:
        """Octets of the IPv6 and the IPv4 frame: ``"104/64"``."""
        return str(self.frame_sizes)

    @property
    def point(self) -> str:
        """Frame sizes and direction: ``"104/64 octets, forward"``."""
        return f"{self.sizes} octets, {self.direction}"

    @property
    def load_directions(self) -> int:
        """Number of directions that carry the rate at the same time."""
        return 2 if self.direction == "bidirectional" else 1

    def describe_direction(self, direction: str) -> str:
        """Return the label of a direction, marked if the other one carried load at the same time."""
        is_part = self.direction == "bidirectional" and direction != "sum"
        return f"{direction}, both" if is_part else direction

    @property
    def measured(self) -> bool:
        """Whether the benchmark gave a result."""
        return not self.not_measured

    @property
    def limited(self) -> bool:
        """Whether the tester or the medium, not the device, limits the result."""
        return False

    @property
    def offered_rates(self) -> Sequence[float]:
        """Offered rates that the tester's self-test may not cover [fps per direction]."""
        return ()

    @property
    def rate_origin(self) -> str:
        """Reason for the rate of a delay measurement; empty for other records."""
        return ""

    @property
    def is_rate_lowered(self) -> bool:
        """Whether the rate is lower than the procedure requires, because the tester failed at it."""
        return False

    @property
    def repetition_notes(self) -> Sequence[str]:
        """Sentences about outliers, modes and undefined repetitions."""
        return ()

    @property
    def as_rate_record(self) -> RateRecord | None:
        """This record, or None if it does not hold one searched rate."""
        return None

    @property
    def throughput_fps(self) -> float | None:
        """Median rate without loss (RFC 2544, section 26.1) [fps per direction]; None in other records."""
        return None

    @property
    def forwarded_at_full_load_fps(self) -> float | None:
        """Median forwarded rate at the highest offered rate [fps per direction], or None."""
        return None

    @property
    def round_trip_ms(self) -> float | None:
        """Sum of the typical latencies of both directions [ms]; None if not measured."""
        return None

    @property
    def published_conditions(self) -> Mapping[str, Any]:
        """Conditions of the RFC that a paper with this benchmark need not state, by name."""
        return {}

    def list_series(self) -> Iterator[tuple[str, RepetitionSeries, str]]:
        """Yield (label prefix, series, unit) for each repeated figure."""
        if isinstance(self, RepetitionSeries):
            yield "", self, self.unit_name

    def with_means(self) -> Record:
        """Return a copy of the record with the mean of the repetitions of each figure."""
        copy = self.model_copy(deep=True)
        for _, series, _ in copy.list_series():
            figures = compute_means(series.repetition_values)
            series.means = None if figures is None else RepetitionMeans(**figures)
        return copy


class SearchedRates(DispersedSeries, AnnotatedSeries):
    """A rate that a search found in each repetition, in the record's `unit`."""

    unit_name = "fps"
    repetitions: NonNegativeInt = Field(description="number of repetitions")
    rates: list[Number] = Field(description="rate found in each repetition")
    tester_limited: bool
    """whether the result is above 90 % of the tester's capacity, or trials just above it were invalid"""
    tester_ceiling: Number | None = Field(description="the tester's capacity without a device")
    upper_bound: Number = Field(description="highest rate of the search")
    upper_bound_reason: str = Field(description="origin of the bound: `media`, `tester` or `given`")
    upper_bound_hit: bool = Field(description="the device passed the bound: it may be faster")

    @property
    def repetition_values(self) -> Sequence[float | None]:
        return self.rates

    median = _make_statistic("median", "Middle value of the rates (RFC 8219 section 12).", Number)

    @property
    def limited(self) -> bool:
        return self.tester_limited or self.upper_bound_hit


class RateRecord(SearchedRates, RangedSeries, Record):
    """A record of one searched rate."""

    @property
    def as_rate_record(self) -> RateRecord:
        return self


def find_counting_method(results: Iterable[TrialResult]) -> str | None:
    """Find how the tester recognized test frames in these trials; see :class:`Record`."""
    stated = (str(r.tester["counting"]).split(" and ") for r in results if "counting" in r.tester)
    return " and ".join(dict.fromkeys(method for methods in stated for method in methods)) or None


def summarize_rates(
    searches: Sequence[tuple[float, Sequence[Attempt]]], capacity: float | None, margin: float
) -> dict[str, Any]:
    """Return the fields of searched rates, and whether the tester limits them.

    Args:
        searches: rate and trials of each repetition's search.
        capacity: rate of the tester without a device; None: unknown.
        margin: results above ``(1 - margin)`` of the capacity are limited by the tester.
    """
    rates = [rate for rate, _ in searches]
    above = capacity is not None and median(rates) > capacity * (1 - margin)
    limited = above or any(is_bounded_by_tester(rate, attempts) for rate, attempts in searches)
    return {
        "repetitions": len(rates), "rates": rates, "tester_limited": limited,
        "tester_ceiling": capacity,
    }  # fmt: skip


def is_bounded_by_tester(rate: float, attempts: Sequence[Attempt]) -> bool:
    """Check whether a step at the next higher rate stayed invalid, and the device failed none there."""
    above = [a for a in attempts if a.trial.rate_fps > rate]
    if not above:
        return False
    following = min(a.trial.rate_fps for a in above)
    outcomes = {
        a.trial.key.rpartition("/")[0]: a.verdict for a in above if a.trial.rate_fps == following
    }  # of each step, the last attempt
    invalid = any(not verdict.valid for verdict in outcomes.values())
    return invalid and not any(verdict.device_failed for verdict in outcomes.values())
