"""What holds for all tests: no report unless one asks for it; what is made once is shared."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("V6T_REPORT", "0")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a fixture of their module or the session stay on one worker."""
    for item in items:
        if isinstance(item, pytest.Function):
            made = [found[-1] for found in item._fixtureinfo.name2fixturedefs.values()]
            shared = [f for f in made if f.scope in ("module", "session") and f.baseid]
            if shared:
                base = min(f.baseid for f in shared)
                item.add_marker(pytest.mark.xdist_group(base))
