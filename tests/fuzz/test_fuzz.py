"""A little of the attack, the same each time; `make fuzz` is the whole."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from v6t.tests.needs import sample

from .attack import KINDS
from .bench import Place

pytestmark = pytest.mark.slow

INPUTS = sample(20, 60)


@pytest.fixture(scope="module")
def place():
    made = Place()
    yield made
    made.close()


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "campaigns"])
def test_no_input_is_a_defect(kind, place):
    """Status 0 or that of a sentence; nothing hangs, no result is lost, no terminal is steered."""

    @settings(
        max_examples=INPUTS,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(KINDS[kind]())
    def attack(found):
        done = place.outcome(found)
        assert not done.trouble, (done, found)

    attack()
