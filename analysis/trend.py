"""Detection of changes in a series of runs that chance does not explain."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from v6t.analysis.sheet import pluralize
from v6t.analysis.statistics import MAD_TO_SIGMA, OUTLIER_DEVIATIONS

SCHEMA = "v6t-trend/1"  # name and version of the JSON format
# A daily check of a dozen series reports one false change in two years.
MAX_CHANCE = 0.0001  # largest share of shuffled series with a change as large
MIN_CHANGE_PERCENT = 1.0  # smaller changes are not reported
MIN_RUNS_PER_SIDE = 3  # least number of runs before and after a change
MIN_RUNS = 17  # with fewer runs, even the clearest change may be chance (16: 1 in 6,435)
# A few shuffles suffice for most series, in which nothing changed; the others decide unclear ones.
_SHUFFLE_BATCHES, _SEED = (499, *[9500] * 21), 2544
_NEIGHBORS = 2  # runs on either side of a run that show whether it is an outlier


@dataclass(frozen=True)
class TrendValue:
    """Value of a quantity in one run."""

    run: str  # name of the run
    when: str  # time of the run
    value: float
    limited: bool = False  # whether the tester or the medium limits the value


@dataclass(frozen=True)
class TrendChange:
    """Change between two successive runs of a series."""

    place: int  # index of the first run after the change
    run: str  # name of that run
    before: float  # median of the runs since the previous change
    after: float  # median of the runs until the next change
    percent: float | None  # difference of both medians [%]; None: the first one is 0
    chance: float  # share of shuffled series with a change as large; 0.0001: that or less
    better: bool | None  # whether it is an improvement; None: unknown, the worse runs are limited

    @property
    def size(self) -> str:
        """Difference in per cent, or the new value if the former one is 0."""
        return f"0 to {self.after:.5g}" if self.percent is None else f"{self.percent:+.1f} %"


@dataclass(frozen=True)
class TrendSeries:
    """Values of one quantity at one test point over all runs."""

    point: str  # benchmark, frame sizes and direction
    quantity: str  # name of the quantity
    unit: str
    more_is_better: bool  # whether a larger value is an improvement
    values: tuple[TrendValue, ...]  # values in the order of the runs
    changes: tuple[TrendChange, ...]
    resolution: float = 0.0  # coarsest resolution of the searches; 0: no search
    least_percent: float = MIN_CHANGE_PERCENT  # smallest change to report [%]

    @property
    def resolution_percent(self) -> float | None:
        """Resolution as a share of the median [%]; None if the median is 0."""
        if not self.resolution:
            return 0.0
        usual = abs(median([v.value for v in self.values]))
        return 100 * self.resolution / usual if usual else None

    @property
    def unseen(self) -> str:
        """Sentence about changes that the resolution could hide; empty if they are too small to report."""
        percent = self.resolution_percent
        if percent is not None and percent <= self.least_percent:
            return ""
        share = "" if percent is None else f", {percent:.3g} % of the value"
        return f"changes below {self.resolution:,.6g} {self.unit}{share} (the resolution), could go unseen"

    @property
    def has_enough_runs(self) -> bool:
        """Whether there are enough runs to detect a change."""
        return len(self.values) >= MIN_RUNS

    @property
    def words(self) -> str:
        """Sentence about the changes in the series."""
        if not self.has_enough_runs:
            return f"{pluralize(len(self.values), 'run')}: too few to tell a change from chance"
        verdicts = {True: "better", False: "worse", None: "limited by the tester or the medium"}
        parts = [f"{c.size} from {c.run} on, {verdicts[c.better]}" for c in self.changes] or [
            f"no change among {pluralize(len(self.values), 'run')}"
        ]
        return "; ".join([*parts, self.unseen] if self.unseen else parts)


@dataclass(frozen=True)
class Trend:
    """Series of all quantities over runs that measured the same."""

    runs: tuple[str, ...]  # names of the runs in order
    order: str  # `time`, `label` or `given`
    series: tuple[TrendSeries, ...]
    left_out: tuple[str, ...]  # runs and points without a series, and why

    @property
    def worse(self) -> bool:
        """Whether the last change of any series is for the worse."""
        return any(s.changes and s.changes[-1].better is False for s in self.series)

    def to_json(self) -> dict[str, Any]:
        """Return the trend as ``schema/trend-1.json`` describes."""
        return {
            "schema": SCHEMA,
            "runs": list(self.runs),
            "order": self.order,
            "worse": self.worse,
            "series": [
                {**asdict(s), "resolution_percent": s.resolution_percent, "words": s.words}
                for s in self.series
            ],
            "left_out": list(self.left_out),
        }


def find_changes(
    values: Sequence[TrendValue], more_is_better: bool, least_percent: float = MIN_CHANGE_PERCENT
) -> tuple[TrendChange, ...]:
    """Find the runs at which the level of the values changes."""
    usual = _drop_outliers([v.value for v in values])
    change_points = _find_change_points([values[n].value for n in usual], 0)
    points = [(usual[place], chance) for place, chance in change_points]
    bounds = [0, *(place for place, _ in points), len(values)]
    changes = []
    for number, (place, chance) in enumerate(points):
        sides = values[bounds[number] : place], values[place : bounds[number + 2]]
        before, after = (median([v.value for v in side]) for side in sides)
        percent = 100 * (after - before) / abs(before) if before else None
        if after != before and (percent is None or abs(percent) >= least_percent):
            improved = (after > before) == more_is_better
            # without the limit, the worse runs could be as good as the others
            worse = sides[0] if improved else sides[1]
            better = None if 2 * sum(v.limited for v in worse) > len(worse) else improved
            run = values[place].run
            changes.append(TrendChange(place, run, before, after, percent, chance, better))
    return tuple(changes)


def _drop_outliers(values: Sequence[float]) -> list[int]:
    """Return the indices of the values that are not single outliers (Hampel filter)."""
    medians = [
        median(values[max(0, n - _NEIGHBORS) : n + _NEIGHBORS + 1]) for n in range(len(values))
    ]
    deviations = [abs(v - usual) for v, usual in zip(values, medians, strict=True)]
    # where most runs are identical, the deviation is that of the others
    typical = median(deviations or [0.0]) or median([d for d in deviations if d] or [0.0])
    return [n for n, d in enumerate(deviations) if d <= OUTLIER_DEVIATIONS * MAD_TO_SIGMA * typical]


def _find_change_points(values: Sequence[float], start: int) -> list[tuple[int, float]]:
    """Return the index, counted from ``start``, and the chance of each change (binary segmentation)."""
    if len(values) < MIN_RUNS:
        return []
    series = np.asarray(values, dtype=float)
    chance = _compute_chance(series[np.newaxis])
    if chance > MAX_CHANCE:
        return []
    cut = _find_cut(series)
    return [
        *_find_change_points(values[:cut], start),
        (start + cut, chance),
        *_find_change_points(values[cut:], start + cut),
    ]


def _compute_chance(series: NDArray[np.float64]) -> float:
    """Return the share of shuffled series with a step as large (permutation test)."""
    observed = _compute_step(series)[0]
    shuffle = np.random.Generator(np.random.PCG64(_SEED))
    as_large, permutations, chance = 0, 0, 1.0
    for more in _SHUFFLE_BATCHES:
        shuffled = shuffle.permuted(np.tile(series, (more, 1)), axis=1)
        as_large += int((_compute_step(shuffled) >= observed - 1e-9).sum())
        permutations += more
        chance = (1 + as_large) / (1 + permutations)
        if chance <= MAX_CHANCE or as_large > 2 + 3 * MAX_CHANCE * permutations:
            break
    return chance


def _find_cut(values: NDArray[np.float64]) -> int:
    """Return the index that splits the values into the two most homogeneous parts."""

    def sum_distances(part: NDArray[np.float64]) -> float:
        return float(np.abs(part - np.median(part)).sum())

    places = range(MIN_RUNS_PER_SIDE, len(values) - MIN_RUNS_PER_SIDE + 1)
    return min(places, key=lambda cut: sum_distances(values[:cut]) + sum_distances(values[cut:]))


def _compute_step(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of the spread that the best step explains, for each series.

    It grows with the t statistic, and needs no spread within both sides.
    """
    deviations = series - series.mean(axis=1, keepdims=True)
    n = deviations.shape[1]
    before = np.arange(MIN_RUNS_PER_SIDE, n - MIN_RUNS_PER_SIDE + 1)
    sums = deviations.cumsum(axis=1)[:, MIN_RUNS_PER_SIDE - 1 : n - MIN_RUNS_PER_SIDE]
    explained = (sums**2 * n / (before * (n - before))).max(axis=1)
    spread = (deviations**2).sum(axis=1)
    statistic: NDArray[np.float64] = explained / np.where(spread > 0, spread, 1.0)
    return statistic
