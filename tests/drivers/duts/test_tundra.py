"""What Tundra's drivers and TAYGA's take and refuse; the programs themselves: ``test_built_translators``."""

from __future__ import annotations

import pytest
from v6t.drivers.duts.registry import make_driver
from v6t.plugins.nat64 import Nat64
from v6t.tests.expect import expect_error


@pytest.mark.parametrize(
    ("driver", "name"),
    [("tundra", "tundra-nat64"), ("tayga", "tayga"), ("tayga-nftables", "tayga")],
)
def test_it_is_known_by_its_name_which_the_undo_asks_for(driver, name):
    assert make_driver(driver, {"program": f"/opt/built/{name}"})
    with expect_error("wrong-form", path=["program"]):
        make_driver(driver, {"program": f"/opt/built/{name}-6.0.2"})


@pytest.mark.parametrize(
    ("network", "code"),
    [
        ("10.0.0.0/31", "not-enough-addresses"),
        ("10.0.0.1/30", "option-invalid"),
        ("10.0.0.0/40", "option-invalid"),
    ],
)
def test_dynamic_pool_that_is_not_a_network_is_rejected(network, code):
    intent = Nat64().dut_intent()
    driver = make_driver("tayga-nftables", {"dynamic_pool": network})
    with expect_error(code, mentions="dut.options.dynamic_pool"):
        driver.plan(intent, driver.example(intent))


def test_tayga_address_option_is_used():
    intent = Nat64().dut_intent()
    driver = make_driver("tayga-nftables", {"ipv4_addr": "10.9.9.9"})
    assert any(
        "ipv4-addr 10.9.9.9" in step.text
        for step in driver.plan(intent, driver.example(intent)).steps
    )
