"""Whole simulated runs with frames that must be dropped, of every plugin that has such frames."""

from __future__ import annotations

import pytest
from v6t.core.cli.progress import Silent
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.runner import execute

SHARES = {
    "ipv4-router": "expired_percent",
    "ipv6-router": "expired_percent",
    "siit": "unmapped_percent",
    "clat": "unmapped_percent",
    "mape-br": "spoof_percent",
    "mapt-br": "spoof_percent",
    "lwaftr": "spoof_percent",
    "mape-ce": "stray_percent",
    "mapt-ce": "stray_percent",
    "lwb4": "stray_percent",
}


def measured(name, path, **tester):
    run = resolve(
        flags=Flags(
            plugin=name,
            params={SHARES[name]: "5"},
            tester="sim",
            modes=["bidirectional"],
            tester_options=tester,
            procedure={"repetitions": 1, "resolution_fps": 50_000.0},
        )
    )
    return execute(bind(run), path, Silent())


@pytest.mark.parametrize("name", SHARES)
def test_the_loopback_forwards_them_and_the_device_does_not(name, tmp_path):
    outcome = measured(name, tmp_path / "out")
    assert outcome.status == "complete"
    (record,) = outcome.records
    assert 900_000 < record["median"] <= 1_000_000


def test_a_device_that_forwards_them_carries_nothing(tmp_path):
    from v6t.profiles.errors import TranslationError

    with pytest.raises(TranslationError, match="must be dropped"):
        measured("lwaftr", tmp_path / "out", forwards_negative="true")
