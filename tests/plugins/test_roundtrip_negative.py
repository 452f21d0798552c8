"""Whole simulated runs with frames that must be dropped, of every plugin that has such frames."""

from __future__ import annotations

import pytest
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.events import Listener
from v6t.core.runs.runner import execute
from v6t.tests.expect import expect_error

pytestmark = pytest.mark.slow

TECHNOLOGIES = (
    "ipv4-router",
    "ipv6-router",
    "siit",
    "clat",
    "mape-br",
    "mapt-br",
    "lwaftr",
    "mape-ce",
    "mapt-ce",
    "lwb4",
)
"""What ``negative_percent`` was called when each technology had a name of its own for it."""


def measured(name, path, **tester):
    run = resolve(
        flags=Flags(
            plugin=name,
            params={"negative_percent": "5"},
            tester="sim",
            modes=["bidirectional"],
            tester_options=tester,
            procedure={"repetitions": 1, "resolution_fps": 50_000.0},
        )
    )
    return execute(bind(run), path, Listener())


@pytest.mark.parametrize("name", TECHNOLOGIES)
def test_the_loopback_forwards_them_and_the_device_does_not(name, tmp_path):
    outcome = measured(name, tmp_path / "out")
    assert outcome.status == "complete"
    (record,) = outcome.records
    assert 900_000 < record.median <= 1_000_000


def test_a_device_that_forwards_them_carries_nothing(tmp_path):
    with expect_error("translation-incorrect"):
        measured("lwaftr", tmp_path / "out", forwards_negative="true")
