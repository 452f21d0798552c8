"""Compare the test of ``v6t trend`` with jumpavg, FD.io CSIT's test, on the same series.

``pip install jumpavg && python -m v6t.tools.compare_trend``. Both tests see series of 30 runs with one
step or none. jumpavg has no significance level, so it reports a step here only if its groups save more
bits than a limit. With the limit, jumpavg reports no more of the series without a step than v6t does.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial

import click
from v6t.analysis.trend import TrendValue, _drop_outliers, find_changes

RUNS = 30
RATE_FPS = 3_100_000.0
RESOLUTION_FPS = 1000.0
OUTLIER_SHARE = 0.04  # runs with a rate far too low, as on a disturbed machine
OUTLIER_FACTOR = 0.85
STEPS_PERCENT = (1.0, 2.0, 3.0, 5.0)
MAX_DISTANCE = 2  # runs between a step and the change that is reported for it

Detector = Callable[[Sequence[float]], list[int]]
"""Function that returns the index of the first run after each change."""


def make_series(
    seed: int, step: float, noise: float, outlier_share: float
) -> tuple[list[float], int]:
    """Return rates with Gaussian noise, and the index of the first run after the step."""
    generator = random.Random(seed)  # noqa: S311
    place = generator.randint(8, RUNS - 8)
    rates = []
    for number in range(RUNS):
        rate = RATE_FPS * (1 + step * (number >= place)) * generator.gauss(1.0, noise)
        if generator.random() < outlier_share:
            rate *= OUTLIER_FACTOR
        rates.append(round(rate / RESOLUTION_FPS) * RESOLUTION_FPS)
    return rates, place


def find_v6t_changes(rates: Sequence[float]) -> list[int]:
    """Find changes with the test of ``v6t trend``, also those that it finds too small to report."""
    values = [TrendValue(f"run{n}", str(n), rate) for n, rate in enumerate(rates)]
    return [change.place for change in find_changes(values, True, least_percent=0.0)]


def find_jumpavg_changes(
    rates: Sequence[float], least_bits: float = 0.0, filtered: bool = False
) -> list[int]:
    """Find changes with jumpavg, if its groups save more than ``least_bits``."""
    saved_bits, places = classify_rates(rates, filtered)
    return places if saved_bits > least_bits else []


def classify_rates(rates: Sequence[float], filtered: bool) -> tuple[float, list[int]]:
    """Return the bits that jumpavg's groups save over a single group, and where they begin.

    ``filtered``: without the outliers that ``v6t trend`` removes.
    """
    from jumpavg import BitCountingGroupList, classify  # pyrefly: ignore[missing-import]

    kept = _drop_outliers(rates) if filtered else range(len(rates))
    values = [rates[n] for n in kept]
    groups = classify(values, unit=RESOLUTION_FPS)
    single = BitCountingGroupList(max_value=max(values), unit=RESOLUTION_FPS)
    single.append_group_of_runs(values)
    places = [kept[sum(len(group) for group in groups[:n])] for n in range(1, len(groups))]
    return single.bits - groups.bits, places


def match_false_alarms(saved_bits: Sequence[float], alarms: int) -> float:
    """Return the limit that at most ``alarms`` of the series without a step exceed."""
    return sorted(saved_bits, reverse=True)[alarms]


def measure_detection(find: Detector, series: Sequence[tuple[list[float], int]]) -> float:
    """Return the share of series whose step is found [%]."""
    hits = sum(any(abs(n - place) <= MAX_DISTANCE for n in find(rates)) for rates, place in series)
    return 100 * hits / len(series)


def compare_tests(count: int, noise: float, outlier_share: float) -> None:
    """Print the false alarms and detection rates of v6t, and of jumpavg without and with a limit."""

    def make_all(first_seed: int, step: float) -> list[tuple[list[float], int]]:
        return [make_series(first_seed + n, step, noise, outlier_share) for n in range(count)]

    steady = [rates for rates, _ in make_all(1_000_000, 0.0)]
    alarms = sum(bool(find_v6t_changes(rates)) for rates in steady)
    tests: dict[str, Detector] = {"v6t": find_v6t_changes}
    for name, filtered in (("jumpavg", False), ("jumpavg, filtered", True)):
        limit = match_false_alarms([classify_rates(rates, filtered)[0] for rates in steady], alarms)
        tests[name] = partial(find_jumpavg_changes, filtered=filtered)
        tests[f"{name}, {limit:.1f} bits"] = partial(
            find_jumpavg_changes, least_bits=limit, filtered=filtered
        )
    stepped = [make_all(0, -percent / 100) for percent in STEPS_PERCENT]
    click.echo(f"noise {noise:.1%}, outliers {outlier_share:.0%}, {count} series of each step")
    click.echo(f"{'':28}{'false alarms':>14}" + "".join(f"{-p:>9.0f} %" for p in STEPS_PERCENT))
    for name, find in tests.items():
        share = 100 * sum(bool(find(rates)) for rates in steady) / count
        columns = "".join(f"{measure_detection(find, series):>9.1f} %" for series in stepped)
        click.echo(f"{name:28}{share:>12.1f} %{columns}")


@click.command()
@click.option("--series", default=1000, show_default=True, help="Series of each step.")
@click.option("--noise", default=0.01, show_default=True, help="Standard deviation over the mean.")
def main(series: int, noise: float) -> None:
    """Compare the tests without and with outliers."""
    for outlier_share in (0.0, OUTLIER_SHARE):
        compare_tests(series, noise, outlier_share)


if __name__ == "__main__":
    main()
