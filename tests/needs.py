"""Requirements of tests, and the reasons for which tests are skipped."""

import os
from typing import TypeVar

import pytest
from v6t.drivers.lab.privilege import check_availability

T = TypeVar("T")
LAB, _WHY = check_availability()
needs_lab = pytest.mark.skipif(not LAB, reason=f"needs a lab: {_WHY}")

TREX_DIR = os.environ.get("TREX_DIR", "")
NO_TREX = (
    "" if TREX_DIR else "needs a TRex installation: set TREX_DIR to the directory with t-rex-64"
)


def sample(few: T, many: T) -> T:
    """Return the number of samples or inputs of a test, which is larger if V6T_LONG is set."""
    return many if os.environ.get("V6T_LONG") else few


def mark_make_target(
    mark: str, target: str, variable: str, timeout_s: int = 900
) -> list[pytest.MarkDecorator]:
    """Return marks of a module that is skipped unless a make target sets this variable to 1."""
    return [
        getattr(pytest.mark, mark),
        pytest.mark.timeout(timeout_s),
        pytest.mark.skipif(os.environ.get(variable) != "1", reason=f"run by `make {target}`"),
    ]


needs_trex = pytest.mark.skipif(bool(NO_TREX), reason=NO_TREX)
