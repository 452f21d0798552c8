"""What holds for all tests: no report unless one asks for it; what is made once is shared."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("V6T_REPORT", "0")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests that share a fixture of their module or the session stay on one worker."""
    if isinstance(item, pytest.Function):
        made = [found[-1] for found in item._fixtureinfo.name2fixturedefs.values()]
        shared = [f.baseid for f in made if f.scope in ("module", "session") and f.baseid]
        if shared:
            item.add_marker(pytest.mark.xdist_group(min(shared)))
