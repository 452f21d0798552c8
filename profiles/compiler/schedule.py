"""Order of the frames of several traffic classes: m of n frames, spread evenly (RFC 8219, section 5).

Frame ``k`` of a class of weight ``w`` comes at ``(k + 1/2) / w`` of each period; at equal times the earlier
class is first. All functions raise UsageError if weights are invalid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from v6t.base.errors import UsageError
from v6t.profiles.model import make_model_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from v6t.packets.arrays import I64

    Classes = NDArray[np.intp]

MAX_PERIOD = 1 << 22  # frames: one period is kept in memory


def count_frames(weights: Sequence[int], total: int) -> list[int]:
    """Return the number of frames of each class among the first ``total`` frames."""
    reduced = _reduce_weights(weights)
    if total < 0:
        raise UsageError(f"{total} frames cannot be sent", code="out-of-range")
    periods, rest = divmod(total, sum(reduced))
    head = _compute_period(reduced)[0][:rest]
    return [periods * w + int((head == c).sum()) for c, w in enumerate(reduced)]


def list_classes(weights: Sequence[int], first: int, count: int) -> Classes:
    """Return the class ``(count,)`` of frames from ``first`` on, as an index into ``weights``."""
    return list_classes_with_index(weights, first, count)[0]


def list_classes_with_index(weights: Sequence[int], first: int, count: int) -> tuple[Classes, I64]:
    """Return the class of each frame, and the number of the frame within its class, both ``(count,)``."""
    import numpy as np

    reduced = _reduce_weights(weights)
    classes, index = _compute_period(reduced)
    periods, place = np.divmod(np.arange(first, first + count, dtype=np.int64), sum(reduced))
    chosen = classes[place]
    return chosen, index[place] + periods * np.asarray(reduced, dtype=np.int64)[chosen]


def find_positions(weights: Sequence[int], class_number: int, index: I64) -> I64:
    """Return the positions ``(n,)`` of a class's frames, given by their numbers within the class."""
    import numpy as np

    reduced = _reduce_weights(weights)
    places = np.nonzero(_compute_period(reduced)[0] == class_number)[0]
    periods, rest = np.divmod(index, reduced[class_number])
    return periods * sum(reduced) + places[rest]


def find_starts(weights: Sequence[int]) -> list[float]:
    """Return when each class begins to send at a constant pace, in frames; 0 for a class of weight 0.

    On average, its frames come neither before nor after their positions.
    """
    import numpy as np

    reduced = np.asarray(_reduce_weights(weights))
    classes, index = _compute_period(tuple(reduced.tolist()))
    total = len(classes)
    late = np.arange(total) - index * total / reduced[classes]
    starts = np.bincount(classes, late, len(reduced)) / np.maximum(reduced, 1)
    starts[reduced > 0] -= starts[reduced > 0].min()
    times: list[float] = starts.tolist()
    return times


def _reduce_weights(weights: Sequence[int]) -> tuple[int, ...]:
    values = tuple(int(w) for w in weights)
    if not values or min(values) < 0 or sum(values) == 0:
        problem = f"the shares {list(values)} of the traffic classes are invalid"
        raise make_model_error(problem, "give non-negative whole numbers that are not all zero")
    divisor = math.gcd(*values)
    reduced = tuple(w // divisor for w in values)
    if sum(reduced) > MAX_PERIOD:
        problem = f"the shares {list(values)} repeat only after {sum(reduced)} frames"
        hint = "round the shares so that they have a common divisor"
        raise UsageError(problem, hint, code="out-of-range")
    return reduced


@lru_cache(maxsize=16)
def _compute_period(weights: tuple[int, ...]) -> tuple[Classes, I64]:
    """Return the class of each frame of one period and its index in the class, as read-only arrays."""
    import numpy as np

    which = np.repeat(np.arange(len(weights)), weights)
    index: I64 = np.concatenate([np.arange(w, dtype=np.int64) for w in weights])
    # exact: times that differ do so by more than 1 / MAX_PERIOD**2, equal ones round alike
    time = (2 * index + 1) / (2.0 * np.repeat(np.asarray(weights), weights))
    by_time = np.argsort(time, kind="stable")
    classes, index = which[by_time], index[by_time]
    classes.setflags(write=False)
    index.setflags(write=False)
    return classes, index
