"""Computed results equal the stored ones; docs/development.md describes how to update these."""

import pytest
from v6t.base.errors import EnvironmentLacking
from v6t.tests.golden import cases as golden_cases
from v6t.tests.golden.store import list_differences, load

pytestmark = pytest.mark.slow

CASES = [case for case in golden_cases.list_cases() if not (case.in_lab or case.slow)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.family}-{case.name}")
def test_results_equal_the_stored_ones(case: golden_cases.Case) -> None:
    try:
        parts = golden_cases.compute(case)
    except EnvironmentLacking as exc:
        pytest.skip(exc.message)
    messages = list_differences(load(case.family).get(case.name, {}), parts)
    hint = "if the change is intended: python -m v6t.tests.golden --write"
    assert not messages, "\n".join([*messages, hint])


def test_every_stored_result_has_its_case() -> None:
    names = {(case.family, case.name) for case in golden_cases.list_cases()}
    families = {family for family, _ in names}
    assert {(family, name) for family in families for name in load(family)} <= names
