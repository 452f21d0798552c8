"""How long a device's idle UDP connections live: what it is told, and what v6t believes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from v6t.drivers.duts.registry import make_driver
from v6t.intent.device import DeviceIntent
from v6t.plugins.nat44 import Nat66
from v6t.tests.expect import expect_error

from . import intents

RFC = {"rfc_timers": True}
NFT, OTHER = "nftables", "tayga-nftables"


@pytest.mark.parametrize(
    ("driver", "intent", "told_s", "options", "seconds"),
    [
        (NFT, intents.nat44(), 0, {}, 3600),
        (NFT, intents.nat44(), 0, {"timeout_s": 900}, 900),
        (NFT, intents.nat44(), 0, RFC, 330),
        (NFT, intents.nat44(), 4, {}, 4),
        (NFT, intents.nat44(), 4, RFC, 4),
        ("iptables", intents.nat44(), 400, RFC, 400),
        (OTHER, intents.nat64(), 0, RFC, 330),
        (OTHER, intents.nat64(), 4, RFC, 4),
        (OTHER, intents.nat64(), 4, {}, 4),
        ("nftables66", Nat66().make_dut_intent(), 0, RFC, 330),
        ("jool", intents.nat64(), 0, {}, 3600),
        ("jool", intents.nat64(), 150, {}, 150),
        ("vpp", intents.nat44(), 0, {"timeout_s": 900}, 900),
        ("vpp", intents.nat44(), 4, {}, 4),
    ],
)
def test_what_is_believed_is_what_the_device_is_told(
    driver: str, intent: DeviceIntent, told_s: int, options: Mapping[str, Any], seconds: int
) -> None:
    if told_s:
        intent = intents.with_values(intent, udp_timeout_s=told_s)
    made = make_driver(driver, options)
    assert made.get_timeout_s(intent) == seconds
    steps = made.plan(intent, made.make_example_facts(intent)).steps
    commands = "\n".join(s.command + s.text for s in steps)
    udp = re.findall(r"(?:udp_timeout=|udp_timeout_stream=|timeout udp )(\d+)", commands)
    if driver == "jool":
        assert (
            f'"udp-timeout": "{seconds // 3600}:{seconds % 3600 // 60:02}:{seconds % 60:02}"'
            in commands
        )
    else:
        assert set(udp) == {str(seconds)}


def test_a_device_that_is_told_nothing_has_the_kernels_own() -> None:
    assert make_driver(NFT, {"timeout_s": 0}).get_timeout_s(intents.nat44()) == 30


@pytest.mark.parametrize("driver", [NFT, "nftables66", "iptables", OTHER])
def test_timers_of_rfcs_and_one_of_the_users_exclude_each_other(driver: str) -> None:
    with expect_error("conflict"):
        make_driver(driver, {**RFC, "timeout_s": 900})
    assert make_driver(driver, {"rfc_timers": False, "timeout_s": 900}).get_timeout_s(
        intents.nat44()
    )


def test_icmp_of_both_versions_is_timed() -> None:
    made, intent = make_driver("nftables66", RFC), Nat66().make_dut_intent()
    commands = "\n".join(
        s.command for s in made.plan(intent, made.make_example_facts(intent)).steps
    )
    assert "nf_conntrack_icmp_timeout=66" in commands
    assert "nf_conntrack_icmpv6_timeout=66" in commands
