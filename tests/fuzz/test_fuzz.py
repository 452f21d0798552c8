"""A little of the attack, the same each time; `make fuzz` is the whole."""

from __future__ import annotations

import sys
import time

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from . import bench
from .attack import batch
from .bench import Place
from .inputs import FOLDER, PIPE, ZERO, Input
from .kinds import KINDS, SHARES

pytestmark = pytest.mark.slow

INPUTS = 60


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


def test_what_is_looked_for_is_found(place, monkeypatch):
    """The attack would see a defect, a hang, an escape sequence."""
    name = "v6t.core.cli.run_command.resolve_flags"
    bad = Input(("run", "--dry-run", "run.yaml"), {"run.yaml": b"seed: x\n"})
    monkeypatch.setattr(name, lambda given: 1 // 0)
    assert place.outcome(bad).trouble == "status 1"
    monkeypatch.setattr(name, lambda given: sys.stderr.write("\x1b[2J") and sys.exit(0))
    assert place.outcome(bad).trouble == "control characters on the terminal"
    monkeypatch.setattr(bench, "HANGS_S", 1)
    monkeypatch.setattr(name, lambda given: time.sleep(30))
    assert place.outcome(bad).trouble == "status -1"


def test_odd_kinds_of_files_are_made(place):
    for kind in (PIPE, ZERO, FOLDER):
        done = place.outcome(Input(("run", "--dry-run", "run.yaml"), {"run.yaml": kind}))
        assert done.status == 2
        assert not done.trouble


def test_every_kind_is_in_the_long_attack():
    assert sum(share for _, share in SHARES.values()) == pytest.approx(1.0)
    assert batch(("words", 1, 20))["inputs"] == 20
