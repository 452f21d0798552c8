"""Computed results equal the stored ones; docs/development.md describes how to update these."""

from __future__ import annotations

import pytest
from v6t.base.errors import EnvironmentLacking
from v6t.tests.golden import cases as net
from v6t.tests.golden.store import differences, load

pytestmark = pytest.mark.slow

CASES = [case for case in net.cases() if not (case.in_lab or case.slow)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.family}-{case.name}")
def test_results_equal_the_stored_ones(case: net.Case) -> None:
    try:
        parts = net.compute(case)
    except EnvironmentLacking as exc:
        pytest.skip(exc.message)
    result = differences(load(case.family).get(case.name, {}), parts)
    assert not result, "\n".join([*result, "intended? python -m v6t.tests.golden --write"])


def test_every_stored_result_has_its_case() -> None:
    present = {(case.family, case.name) for case in net.cases()}
    families = {family for family, _ in present}
    assert {(family, name) for family in families for name in load(family)} <= present
