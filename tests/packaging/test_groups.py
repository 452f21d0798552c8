"""Tests that share something stay on one worker: ``tests/conftest.py`` says so, pytest-xdist must heed it."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="module")
def shared():
    return object()


def test_what_shares_is_in_a_group(shared, request):
    assert shared
    assert request.node.get_closest_marker("xdist_group")
    if "PYTEST_XDIST_WORKER" in os.environ:
        # by this ending of its name the scheduler knows the group; without it all are scattered
        assert request.node.nodeid.endswith("@tests/packaging/test_groups.py")
