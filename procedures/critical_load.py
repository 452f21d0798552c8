"""Critical load: the load at which a device with random loss loses a given share on average."""

from dataclasses import dataclass, field

from v6t.procedures.trial_runner import PointSpec, RepeatedResult, TrialRunner, Watch, repeat
from v6t.trials.load_estimate import EstimateLoad, LoadEstimate, TrialLoss
from v6t.trials.result import Measure, TrialResult

BENCHMARK = "critical-load"
LOSSY_LOAD_COPIES = 4  # times a load with loss is listed as lossy
FORGOTTEN_LOADS = 3  # entries removed for each trial without loss


@dataclass(frozen=True)
class CriticalLoadSpec(PointSpec):
    """Specification of the search for the critical load."""

    least_fps: float  # lowest load that may be offered, per direction
    most_fps: float  # highest load that may be offered, per direction
    target: float  # loss ratio at the critical load
    search_s: float  # total length of all trials [s]
    first_s: float  # length of the first trial [s]
    longer_s: float  # increment of the length from trial to trial [s]

    benchmark = BENCHMARK
    is_search = True

    def __post_init__(self) -> None:
        """Check the bounds and the target."""
        if not 0 < self.least_fps < self.most_fps or not 0 < self.target < 1:
            raise ValueError("a critical load lies between two loads, at a share of frames lost")

    @property
    def durations_s(self) -> tuple[float, ...]:
        """Lengths of all trials [s]."""
        durations, together_s = [self.first_s], self.first_s
        while (
            together_s + (next_s := self.first_s + len(durations) * self.longer_s) <= self.search_s
        ):
            durations.append(next_s)
            together_s += next_s
        return tuple(durations)


@dataclass(frozen=True)
class LoadStep:
    """A valid trial and the estimate after it."""

    key: str  # key of the trial
    duration_s: float
    loss: TrialLoss
    estimate: LoadEstimate | None  # None: too few frames were lost


@dataclass(frozen=True)
class CriticalLoadResult(RepeatedResult[CriticalLoadSpec, tuple[LoadStep, ...]]):
    """Result of the search, which is its only repetition."""

    @property
    def steps(self) -> tuple[LoadStep, ...]:
        """The valid trials of the search."""
        return self.repetitions[0]

    @property
    def step_estimates(self) -> tuple[LoadEstimate | None, ...]:
        """Estimates after each step.

        None until a trial lost frames, and if the mean exceeds the largest load, which no trial measured.
        """
        estimates: list[LoadEstimate | None] = []
        lossy = False
        for step in self.steps:
            lossy = lossy or step.loss.lost > 0
            within = step.estimate is not None and step.estimate.mean_fps <= self.spec.most_fps
            estimates.append(step.estimate if lossy and within else None)
        return tuple(estimates)

    @property
    def estimate(self) -> LoadEstimate | None:
        """Estimate from all trials; None if it is not valid."""
        return self.step_estimates[-1] if self.steps else None


@dataclass
class _LoadChooser:
    """Choice of each next load from the losses so far (PLRsearch)."""

    spec: CriticalLoadSpec
    lossless_trials: int = 0  # successive trials without loss so far
    lossy: list[float] = field(default_factory=list)  # loads with too much loss, ascending

    def add_loss(self, loss: TrialLoss) -> None:
        """Record the loss at an offered load."""
        self.lossless_trials = 0 if loss.lost else self.lossless_trials + 1
        if loss.lost and loss.ratio >= self.spec.target:
            self.lossy = sorted([*self.lossy, *[loss.rate_fps] * LOSSY_LOAD_COPIES])

    def choose_next_rate(
        self, number: int, previous: TrialLoss | None, estimate: LoadEstimate | None
    ) -> float:
        """Choose the next rate: middle, maximum, two from the loss ratio, then from the estimate."""
        spec = self.spec
        if number == 0 or previous is None:
            return (spec.least_fps + spec.most_fps) / 2
        if number == 1:
            return spec.most_fps
        if (number < 4 and previous.lost) or estimate is None:
            # the rate at which the target would be lost, if the lost frames decrease with the rate
            return self._clamp_rate(previous.rate_fps * (1 - previous.ratio) / (1 - spec.target))
        rate = estimate.mean_fps
        if self.lossless_trials and self.lossy:
            smallest = self.lossy[0]
            del self.lossy[:FORGOTTEN_LOADS]
            if rate < smallest:
                weight = 0.5**self.lossless_trials
                rate = weight * rate + (1 - weight) * smallest
        return self._clamp_rate(rate)

    def _clamp_rate(self, rate_fps: float) -> float:
        return min(self.spec.most_fps, max(self.spec.least_fps, rate_fps))


def measure_critical_load(
    spec: CriticalLoadSpec, measure: Measure, infer: EstimateLoad, watch: Watch | None = None
) -> CriticalLoadResult:
    """Search for the critical load until the search time has elapsed; ignore invalid trials."""

    def run_search(trials: TrialRunner) -> tuple[LoadStep, ...]:
        loads, steps, durations = _LoadChooser(spec), list[LoadStep](), spec.durations_s
        for number, duration_s in enumerate(durations):
            previous = steps[-1] if steps else None
            estimate = previous.estimate if previous else None
            rate = loads.choose_next_rate(number, previous.loss if previous else None, estimate)
            low, high = (estimate.low_fps, estimate.high_fps) if estimate else (0.0, spec.most_fps)
            outcome = trials.run(
                spec.conditions.make_trial(BENCHMARK, rate, duration_s),
                f"s{number + 1:03d}",
                steps=len(durations),
                bracket=(min(low, spec.most_fps), min(high, spec.most_fps)),
            )
            if outcome.verdict.valid:
                loss = sum_loss(rate, outcome.result)
                loads.add_loss(loss)
                seen = [*(step.loss for step in steps), loss]
                inferred = infer(seen, spec.target, spec.most_fps) if steps else None
                steps.append(LoadStep(outcome.trial.key, duration_s, loss, inferred))
        return tuple(steps)

    done = repeat(spec, 1, measure, watch, run_search)
    return CriticalLoadResult(spec, done.repetitions, done.attempts)


def sum_loss(rate_fps: float, result: TrialResult) -> TrialLoss:
    """Sum the frames and losses of a trial over all directions."""
    directions = result.directions.values()
    required = sum(direction.count_frames("required") for direction in directions)
    received = sum(direction.count_frames("received") for direction in directions)
    return TrialLoss(rate_fps, required, max(0, required - received))
