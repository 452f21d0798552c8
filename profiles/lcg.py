"""TRex's pseudorandom numbers: a linear congruential generator, with random access.

One 32-bit state per stream: ``state = 214013 * state + 2531011``; a draw is bits 16..30 of the
new state, 15 bits (``fastrand`` in TRex's ``trex_stl_stream_vm.h``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from v6t.packets.arrays import U32

MULTIPLIER = 214013
INCREMENT = 2531011
CORE_SPREAD = 514229
"""Seeds of cores differ by this factor (``generate_random_seed``)."""
DRAW_BITS = 15
_MASK = 0xFFFFFFFF


def core_seed(seed: int, core: int) -> int:
    """Return the state from which a core starts, for a stream's ``random_seed``."""
    return seed * (core + 1) * CORE_SPREAD & _MASK


def advance(state: int, steps: int) -> int:
    """Return the state after ``steps`` draws, in O(log steps)."""
    multiplier, increment = 1, 0
    m, c = MULTIPLIER, INCREMENT
    while steps:
        if steps & 1:
            multiplier, increment = multiplier * m & _MASK, (increment * m + c) & _MASK
        m, c = m * m & _MASK, (m + 1) * c & _MASK
        steps >>= 1
    return (multiplier * state + increment) & _MASK


@lru_cache(maxsize=32)  # all streams with this number of draws share them
def make_tables(draws: int, block: int) -> tuple[U32, U32]:
    """Return multipliers and increments ``(draws, block)`` from one state to a block of draws.

    Draw ``d`` of frame ``i`` is ``multiplier[d, i] * state + increment[d, i]``.

    """
    import numpy as np

    powers = np.full(draws * block, MULTIPLIER, dtype=np.uint32).cumprod(dtype=np.uint32)
    sums = np.ones_like(powers)
    sums[1:] += powers[:-1].cumsum(dtype=np.uint32)
    both = [
        np.ascontiguousarray(table.reshape(block, draws).T)
        for table in (powers, sums * np.uint32(INCREMENT))
    ]
    for table in both:
        table.setflags(write=False)
    return both[0], both[1]
