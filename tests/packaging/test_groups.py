"""Tests that share something stay on one worker: ``tests/conftest.py`` says so, pytest-xdist must heed it."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from v6t.tests import conftest


@pytest.fixture(scope="module")
def shared():
    return object()


def test_what_shares_is_in_a_group(shared, request):
    assert shared
    assert request.node.get_closest_marker("xdist_group")
    if "PYTEST_XDIST_WORKER" in os.environ:
        # by this ending of its name the scheduler knows the group; without it all are scattered
        assert request.node.nodeid.endswith("@tests/packaging/test_groups.py")


def test_what_failed_in_a_group_is_repeated_without_one():
    """A process without workers knows no groups: a name that ends with one would be repeated by nobody."""
    names = ["tests/a.py::test_b[c@d]@tests/a.py", "tests/a.py::test_e", "tests/f.py::test_g@tests"]
    failed = SimpleNamespace(lastfailed=dict.fromkeys(names, True))
    manager = SimpleNamespace(get_plugin={"lfplugin": failed}.get)
    conftest.pytest_configure(SimpleNamespace(pluginmanager=manager))
    assert [*failed.lastfailed] == [
        "tests/a.py::test_b[c@d]",
        "tests/a.py::test_e",
        "tests/f.py::test_g",
    ]
