"""What Tundra's drivers and TAYGA's take and refuse; the programs themselves: ``test_built_translators``."""

from __future__ import annotations

import pytest
from v6t.drivers.duts.registry import make_driver
from v6t.plugins.nat.nat64 import Nat64
from v6t.profiles.errors import UsageError

from .cases import CASES

CASE = {c.name: c for c in CASES}


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("tundra", "tundra-nat64"),
        ("tundra-nftables", "tundra-nat64"),
        ("tayga", "tayga"),
        ("tayga-nftables", "tayga"),
        ("map646", "map646"),
    ],
)
def test_it_is_known_by_its_name_which_the_undo_asks_for(driver, name):
    assert make_driver(driver, {"program": f"/opt/built/{name}"})
    with pytest.raises(UsageError, match="program"):
        make_driver(driver, {"program": f"/opt/built/{name}-6.0.2"})


def test_what_is_said_of_tundra_is_said_of_both():
    siit, nat64 = CASE["tundra-siit"], CASE["tundra-nftables-nat64"]
    notes = [
        driver.plan(case.intent, driver.example(case.intent)).notes
        for case in (siit, nat64)
        for driver in [make_driver(case.driver, {})]
    ]
    assert notes[0] == notes[1]
    assert "whose UDP checksum is 0 are dropped" in notes[1][0]


@pytest.mark.parametrize(
    ("option", "device"), [("inner_network", "tundra-nftables"), ("dynamic_pool", "tayga-nftables")]
)
@pytest.mark.parametrize("network", ["10.0.0.0/31", "10.0.0.1/30", "10.0.0.999/30", "10.0.0.0/40"])
def test_a_network_between_both_parts_that_is_none_is_refused(option, device, network):
    intent = Nat64().dut_intent()
    driver = make_driver(device, {option: network})
    with pytest.raises(UsageError, match=f"dut.options.{option}"):
        driver.plan(intent, driver.example(intent))


@pytest.mark.parametrize(
    ("device", "line"),
    [("tundra-nftables", "router.ipv4 = 10.9.9.9"), ("tayga-nftables", "ipv4-addr 10.9.9.9")],
)
def test_its_own_address_is_the_one_that_is_given(device, line):
    intent = Nat64().dut_intent()
    driver = make_driver(device, {"ipv4_addr": "10.9.9.9"})
    assert any(line in step.text for step in driver.plan(intent, driver.example(intent)).steps)
