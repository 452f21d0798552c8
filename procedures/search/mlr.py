"""Multiple Loss Ratio search (RFC 9971): the library that chooses the trials."""

import importlib
import importlib.metadata
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from v6t.procedures.search.goals import Goal, ObservedTrial

LIBRARY_NAME = "MLRsearch"
SUPPORTED_VERSION = "1.2.1"  # release that RFC 9971 refers to; others have other names
# name of a throughput that MLRsearch found
RESULT_LABEL = (
    "MLRsearch relevant lower bound; goal: loss ratio 0, exceed ratio 0, "
    "duration sum one full trial (RFC 9971 section 4.10.2)"
)


@dataclass(frozen=True)
class TrialCounts:
    """Frames and losses of a trial in both directions."""

    frames: int  # required frames
    lost: int  # required frames that were lost
    sound: bool  # no fault but loss; otherwise the trial fails for all goals


# runs a trial: load per direction [fps], duration [s], name of the step
OfferLoad = Callable[[float, float, str], TrialCounts]


def find_missing_library() -> tuple[str, str] | None:
    """Return what the installation lacks and how to install it; None if it can search."""
    try:
        version = importlib.metadata.version(LIBRARY_NAME)
    except importlib.metadata.PackageNotFoundError:
        version = ""
    if version == SUPPORTED_VERSION:
        return None
    instead = f" ({version} is installed)" if version else ""
    problem = f"MLRsearch needs the library {LIBRARY_NAME} {SUPPORTED_VERSION}{instead}"
    return problem, "pip install 'v6t[mlrsearch]'"


def run_search(
    offer: OfferLoad, goals: Sequence[Goal], *, min_load_fps: float, max_load_fps: float
) -> tuple[ObservedTrial, ...]:
    """Run trials until the bounds of every goal are found or cannot be found.

    Args:
        goals: every trial counts for all goals.

    Raises:
        ValueError: invalid bounds, or a goal that the library rejects.
    """
    if not 0 < min_load_fps < max_load_fps:
        raise ValueError("the loads must be positive, the smallest below the largest")
    library = importlib.import_module(LIBRARY_NAME)
    config = library.Config()
    search_goals = [
        library.SearchGoal(
            loss_ratio=goal.loss_ratio,
            exceed_ratio=goal.exceed_ratio,
            relative_width=goal.width,
            initial_trial_duration=goal.initial_trial_s,
            final_trial_duration=goal.final_trial_s,
            duration_sum=goal.duration_sum_s,
            preceding_targets=goal.preceding_targets,
            expansion_coefficient=goal.expansion_coefficient,
            fail_fast=False,
        )
        for goal in goals
    ]
    config.goals = dict.fromkeys(search_goals)  # the library rejects duplicates
    # limits are set in an order that keeps the smallest load below the largest
    config.min_load = min(min_load_fps, config.max_load / 2)
    config.max_load = max_load_fps
    config.min_load = min_load_fps
    # the library measures real time; here the loads bound the length of a search
    config.search_duration_max = 1e9
    config.warmup_duration = None
    measurer = _make_measurer(library, offer, max(goal.loss_ratio for goal in goals))
    library.MultipleLossRatioSearch(config=config).search(measurer)
    return tuple(measurer.trials)


def _make_measurer(library: Any, offer: OfferLoad, largest_ratio: float) -> Any:
    """Make the object through which the library runs trials."""
    base: Any = library.AbstractMeasurer

    class Measurer(base):
        """Adapter through which the library runs trials of v6t."""

        def __init__(self) -> None:
            self.trials: list[ObservedTrial] = []

        def measure(self, intended_duration: float, intended_load: float) -> Any:
            observation = offer(intended_load, intended_duration, f"s{len(self.trials):02d}")
            frames, lost = max(1, observation.frames), observation.lost
            if not observation.sound:
                lost = max(lost, math.floor(frames * largest_ratio) + 1)
            result = library.MeasurementResult(
                intended_duration=intended_duration,
                intended_load=intended_load,
                offered_count=frames,
                loss_count=lost,
            )
            # the library's own ratio, so that both compare the same number with a goal's
            self.trials.append(ObservedTrial(intended_load, intended_duration, result.loss_ratio))
            return result

    return Measurer()
