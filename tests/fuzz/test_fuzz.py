"""A small, reproducible part of the inputs of ``make fuzz``."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from v6t.tests.needs import sample

from .batch import KINDS
from .workspace import Workspace

pytestmark = pytest.mark.slow

INPUTS = sample(20, 60)


@pytest.fixture(scope="module")
def workspace():
    directory = Workspace()
    yield directory
    directory.close()


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "campaigns"])
def test_input_has_no_problem(kind, workspace):
    """A command may fail with a message, but must not hang, lose results or print escape codes."""

    @settings(
        max_examples=INPUTS, derandomize=True, database=None, deadline=None,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(KINDS[kind]())
    def execute(command):
        outcome = workspace.execute(command)
        assert not outcome.problem, (outcome, command)

    execute()
