"""Frame loss rate (RFC 8219 section 7.4, RFC 2544 section 26.3)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from v6t.procedures.repetition import AdaptiveLimits
from v6t.procedures.trial_runner import PointSpec, RepeatedResult, TrialRunner, Watch, repeat
from v6t.trials.result import Measure, TrialResult, sum_classes
from v6t.trials.trial import list_directions
from v6t.trials.verdict import Attempt

BENCHMARK = "frame-loss"
TIMEOUT_BENCHMARK = "frame-loss-frame-timeout"  # with a deadline for every frame
MAX_RATE_STEP = 0.1  # largest step that the RFC allows, as a share of the maximum rate


@dataclass(frozen=True)
class FrameLossSpec(PointSpec):
    """Specification of the frame loss rates at a point."""

    maximum_fps: float  # 100 % of the input rate, per direction
    maximum_reason: str  # ``media``, ``tester`` or ``given``; only ``media`` is the full range
    duration_s: float  # length of each stream [s]
    repetitions: int
    step: float = MAX_RATE_STEP  # as a share of the maximum, at most a tenth
    rates_fps: tuple[float, ...] | None = None  # offer exactly these rates; None: the RFC's descent
    adaptive: AdaptiveLimits | None = None  # used in place of ``repetitions``

    def __post_init__(self) -> None:
        """Check the rates against the RFC.

        Raises:
            ValueError: a step above a tenth or not positive, or a rate that is not positive.
        """
        if not 0 < self.step <= MAX_RATE_STEP:
            limits = f"between 0 and {MAX_RATE_STEP:.0%}"
            raise ValueError(f"steps of {self.step:.0%} of the maximum are not {limits}")
        if self.maximum_fps <= 0 or any(r <= 0 for r in self.rates_fps or ()):
            raise ValueError("input rates must be positive")

    @property
    def benchmark(self) -> str:
        """Name of the benchmark, with or without a deadline for every frame."""
        return BENCHMARK if self.conditions.frame_timeout_s is None else TIMEOUT_BENCHMARK

    @property
    def rates(self) -> tuple[float, ...]:
        """Rates to offer, in falling order [fps per direction]."""
        if self.rates_fps is not None:
            return tuple(sorted(set(self.rates_fps), reverse=True))
        count = int(1 / self.step + 1e-9)
        # from the top, so that the first rate is exactly the maximum
        rates = (self.maximum_fps * (1 - i * self.step) for i in range(count + 1))
        return tuple(r for r in rates if r > self.maximum_fps * self.step / 1000)


@dataclass(frozen=True)
class DirectionLoss:
    """Frame counts of one direction in one trial."""

    required: int  # frames of foreground and background
    sent: int
    received: int
    surplus: int  # frames received more than once
    # required and received frames, by role
    roles: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def loss_ratio(self) -> float:
        """Lost frames over required frames."""
        return (self.required - self.received) / self.required if self.required else 0.0


@dataclass(frozen=True)
class RateTrial:
    """Trial at one rate, within a repetition."""

    rate_fps: float  # per direction
    repetition: int  # from 1
    directions: Mapping[str, DirectionLoss]  # empty if every attempt was invalid
    attempts: tuple[Attempt, ...]

    @property
    def valid(self) -> bool:
        """Whether the tester carried out the trial."""
        return bool(self.directions)

    @property
    def lossless(self) -> bool:
        """Whether the trial is valid and no frame was lost."""
        return self.valid and all(d.received >= d.required for d in self.directions.values())

    @property
    def error(self) -> str | None:
        """Error message if more frames were received than sent, else None."""
        extra = sum(d.surplus for d in self.directions.values())
        return f"{extra} more frames were received than sent" if extra else None

    def compute_role_loss(self, role: str) -> float | None:
        """Compute the lost share of the foreground or background, or None if it is unknown."""
        counts = [d.roles[role] for d in self.directions.values() if role in d.roles]
        required = sum(due for due, _ in counts)
        if not required or self.error:
            return None
        return 1 - sum(came for _, came in counts) / required

    def compute_loss(self, direction: str | None = None) -> float | None:
        """Compute the lost share in one or all directions, or None if it is unknown."""
        if not self.valid or self.error:
            return None
        if direction is not None:
            return self.directions[direction].loss_ratio
        required = sum(d.required for d in self.directions.values())
        received = sum(d.received for d in self.directions.values())
        return (required - received) / required if required else 0.0


@dataclass(frozen=True)
class FrameLossResult(RepeatedResult[FrameLossSpec, list[RateTrial]]):
    """Result of all descents at a point."""

    @property
    def offered(self) -> tuple[RateTrial, ...]:
        """All trials, in order."""
        return tuple(offered for descent in self.repetitions for offered in descent)

    @property
    def rates(self) -> tuple[float, ...]:
        """Rates that were offered, in falling order."""
        return tuple(sorted({o.rate_fps for o in self.offered}, reverse=True))


def measure_frame_loss(
    spec: FrameLossSpec, measure: Measure, watch: Watch | None = None
) -> FrameLossResult:
    """Repeat the descent through the offered rates."""
    adaptive = spec.adaptive
    done = repeat(
        spec,
        spec.repetitions,
        measure,
        watch,
        lambda trials: _descend(spec, trials),
        adaptive=adaptive,
        is_enough=None if adaptive is None else partial(_can_stop, adaptive),
    )
    return FrameLossResult(spec, done.repetitions, done.attempts)


def _descend(spec: FrameLossSpec, trials: TrialRunner) -> list[RateTrial]:
    """Offer falling rates until two in succession lose no frame."""
    rates, offered, lossless = spec.rates, list[RateTrial](), 0
    for place, rate_fps in enumerate(rates, 1):
        trial = spec.conditions.make_trial(spec.benchmark, rate_fps, spec.duration_s)
        outcome = trials.run(trial, f"l{place:03d}", steps=len(rates))
        counts = _count_losses(spec, outcome.result) if outcome.verdict.valid else {}
        offered.append(RateTrial(rate_fps, trials.number, counts, outcome.attempts))
        lossless = lossless + 1 if offered[-1].lossless else 0
        if lossless == 2 and spec.rates_fps is None:
            break
    return offered


def _can_stop(adaptive: AdaptiveLimits, done: Sequence[Sequence[RateTrial]]) -> bool:
    """Check whether the share of forwarded frames is known well enough.

    This is checked in each direction, at every rate that all repetitions offered.
    """
    if len(done) < adaptive.fewest:
        return False
    trials = [offered for descent in done for offered in descent]
    times_offered = Counter(offered.rate_fps for offered in trials)
    forwarded: dict[tuple[float, str], list[float]] = {}
    for offered in trials:
        for direction in offered.directions:
            if (loss := offered.compute_loss(direction)) is not None:
                forwarded.setdefault((offered.rate_fps, direction), []).append(1 - loss)
    complete = [v for (rate, _), v in forwarded.items() if times_offered[rate] == len(done)]
    return bool(complete) and all(adaptive.can_stop(v) or not any(v) for v in complete)


def _count_losses(spec: FrameLossSpec, result: TrialResult) -> dict[str, DirectionLoss]:
    """Return the required, sent and received frames of a valid trial by direction."""
    losses = {}
    for direction in list_directions(spec.conditions.mode):
        d = result.directions[direction]
        roles = sum_classes((count.role, count) for count in d.classes.values())
        losses[direction] = DirectionLoss(
            d.count_frames("required"),
            d.count_frames("sent"),
            d.count_frames("received"),
            d.count_frames("surplus"),
            {role: (total.required, total.received) for role, total in roles.items()},
        )
    return losses
