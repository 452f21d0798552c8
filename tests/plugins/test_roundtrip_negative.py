"""Whole simulated runs with frames that must be dropped, of every plugin that has such frames."""

from __future__ import annotations

import pytest
from v6t.core.cli.progress import Silent
from v6t.core.config.bound import bind
from v6t.core.config.cautions import cautions
from v6t.core.config.resolve import Flags, resolve
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs.runner import execute
from v6t.profiles.errors import TranslationError, UsageError

pytestmark = pytest.mark.slow

FORMER = {
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
    return execute(bind(run), path, Silent())


@pytest.mark.parametrize("name", FORMER)
def test_the_loopback_forwards_them_and_the_device_does_not(name, tmp_path):
    outcome = measured(name, tmp_path / "out")
    assert outcome.status == "complete"
    (record,) = outcome.records
    assert 900_000 < record.median <= 1_000_000


@pytest.mark.parametrize("name", FORMER)
def test_a_former_name_is_read_and_said_once(name):
    run = resolve(flags=Flags(plugin=name, tester="sim", params={FORMER[name]: "7"}))
    assert bind(run).technology.params.model_dump()["negative_percent"] == 7
    said = [text for text in cautions(bind(run)) if FORMER[name] in text]
    assert said == [
        f"{name}'s parameter {FORMER[name]} is now called negative_percent, and is read as that"
    ]
    kept = ResolvedRun.model_validate_json(run.model_dump_json())
    assert bind(kept).technology.params == bind(run).technology.params
    plain = resolve(flags=Flags(plugin=name, tester="sim", params={"negative_percent": "7"}))
    assert bind(plain).technology.params == bind(run).technology.params
    assert not [text for text in cautions(bind(plain)) if "is now called" in text]


def test_a_former_name_beside_the_new_one_is_refused():
    both = {"spoof_percent": "7", "negative_percent": "5"}
    with pytest.raises(UsageError, match="spoof_percent is the former name of negative_percent"):
        resolve(flags=Flags(plugin="mape-br", tester="sim", params=both))


def test_a_former_name_is_checked_like_the_new_one():
    with pytest.raises(UsageError, match="unmapped_percent: it must be at most 50"):
        resolve(flags=Flags(plugin="siit", tester="sim", params={"unmapped_percent": "51"}))


def test_a_device_that_forwards_them_carries_nothing(tmp_path):
    with pytest.raises(TranslationError, match="must be dropped"):
        measured("lwaftr", tmp_path / "out", forwards_negative="true")
