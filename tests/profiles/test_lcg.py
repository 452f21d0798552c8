from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from v6t.profiles import expand

# (random_seed, core): (2-octet draw, 4-octet draw) per frame, recorded from TRex v3.08's simulator
RECORDED = {
    (7, 0): [(23883, 445405885), (4607, 632167278), (20529, 915693915), (17249, 1101739884),
        (11073, 464012596), (31995, 173215348)],
    (7, 3): [(29881, 263942673), (11116, 787833722), (24251, 1610091255), (9929, 1108546659),
        (8095, 1800676388), (14681, 1081804232)],
    (0xDEADBEEF, 0): [(16898, 1516339153), (27015, 1833005745), (30454, 421273530),
        (5859, 1506704268), (27583, 470500587), (10164, 118632951)],
    (0xDEADBEEF, 3): [(1941, 252577380), (2446, 1296121988), (31185, 1779893362),
        (29902, 580920548), (8602, 1826759423), (25661, 863507415)],
}  # fmt: skip


def sequence(state: int):
    """States one after the other, by the definition."""
    while True:
        state = (214013 * state + 2531011) % (1 << 32)
        yield state


@pytest.mark.parametrize(("seed", "core"), RECORDED)
def test_draws_are_trexs(seed, core):
    recorded = RECORDED[seed, core]
    multipliers, increments = expand.make_draw_tables(3, len(recorded))
    states = multipliers * np.uint32(expand.seed_core(seed, core)) + increments
    short, high, low = (states >> 16 & 0x7FFF).astype(int)
    assert list(zip(short.tolist(), ((high << 16) + low).tolist(), strict=True)) == recorded


@settings(derandomize=True, deadline=None)
@given(st.integers(0, (1 << 32) - 1), st.integers(0, 300), st.integers(0, 1 << 70))
def test_advancing_is_drawing_and_adds_up(state, steps, more):
    last = [state, *islice(sequence(state), steps)][-1]
    assert expand.advance_state(state, steps) == last
    assert expand.advance_state(last, more) == expand.advance_state(state, steps + more)


@pytest.mark.parametrize("draws", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("block", [1, 2, 5, 64, 100])
def test_tables_lead_from_one_state_to_a_block(draws, block):
    multipliers, increments = expand.make_draw_tables(draws, block)
    assert multipliers.shape == increments.shape == (draws, block)
    for state in (0, 1, 0xFFFFFFFF):
        wanted = np.array(list(islice(sequence(state), draws * block)), dtype=np.uint32)
        assert ((multipliers * np.uint32(state) + increments).T.ravel() == wanted).all()
