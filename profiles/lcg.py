"""TRex's pseudorandom numbers: a linear congruential generator, with random access.

One 32-bit state per stream: ``state = 214013 * state + 2531011``; a draw is bits 16..30 of the
new state, 15 bits (``fastrand`` in TRex's ``trex_stl_stream_vm.h``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MULTIPLIER = 214013
INCREMENT = 2531011
CORE_SPREAD = 514229
"""Seeds of cores differ by this factor (``generate_random_seed``)."""
DRAW_BITS = 15
_MASK = 0xFFFFFFFF


def core_seed(seed: int, core: int) -> int:
    """State a core starts from, for a stream's ``random_seed``."""
    return seed * (core + 1) * CORE_SPREAD & _MASK


def advance(state: int, steps: int) -> int:
    """State after ``steps`` draws, in O(log steps)."""
    multiplier, increment = 1, 0
    m, c = MULTIPLIER, INCREMENT
    while steps:
        if steps & 1:
            multiplier, increment = multiplier * m & _MASK, (increment * m + c) & _MASK
        m, c = m * m & _MASK, (m + 1) * c & _MASK
        steps >>= 1
    return (multiplier * state + increment) & _MASK


@lru_cache(maxsize=32)  # every stream of as many draws has the same
def tables(draws: int, block: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Multipliers and increments ``(draws, block)`` that lead from one state to a block of draws.

    Draw ``d`` of frame ``i`` of the block comes from ``multiplier[d, i] * state + increment[d, i]``
    where ``state`` is the one before the block's first draw.
    """
    import numpy as np

    size = draws * block
    multipliers = np.empty(size, dtype=np.uint32)
    increments = np.empty(size, dtype=np.uint32)
    if size:
        multipliers[0], increments[0] = MULTIPLIER, INCREMENT
    filled = min(1, size)
    while filled < size:  # doubling: the second half is the first half, `filled` steps later
        take = min(filled, size - filled)
        last_m, last_c = multipliers[filled - 1], increments[filled - 1]
        multipliers[filled : filled + take] = multipliers[:take] * last_m
        increments[filled : filled + take] = multipliers[:take] * last_c + increments[:take]
        filled += take
    shape = (block, draws)
    both = (
        np.ascontiguousarray(multipliers.reshape(shape).T),
        np.ascontiguousarray(increments.reshape(shape).T),
    )
    for table in both:
        table.setflags(write=False)
    return both
