"""Capabilities of drivers, which are found by asking them, and where they are shown."""

from __future__ import annotations

import json

import pytest
from v6t.core.config.compatibility import list_capabilities
from v6t.drivers.duts.capabilities import DriverCapabilities, find_capabilities, list_driver_options
from v6t.drivers.duts.kinds.linux_router import LinuxRouter
from v6t.drivers.duts.registry import make_driver
from v6t.tests.core.support import v6t
from v6t.tests.expect import expect_refusal

from . import intents


@pytest.mark.parametrize(
    ("driver", "row", "value"),
    [
        ("jool", "technologies", "clat, mapt-br, mapt-ce, nat64, siit"),
        ("jool", "versions", "4.0.9, 4.1.9, 4.1.15, 4.2.0-rc3"),
        ("jool", "settings", "lowest_ipv6_mtu, udp_timeout_s"),
        ("nftables", "settings", "udp_timeout_s, port_block"),
        ("openbsd-pf", "timers", "timeout_s"),
        ("openbsd-pf", "counters", "cpu, pf, table"),
        ("tayga", "options", "queue_length, ipv4_addr, ipv6_addr, mend_checksums, program, workers"),
        ("network-cli", "technologies", "any"),
    ],
)  # fmt: skip
def test_capabilities_of_a_driver_are_those_of_its_technologies(driver, row, value):
    assert dict(list_capabilities(driver))[row] == value


def test_operations_are_those_that_the_driver_plans():
    stateful = find_capabilities(make_driver("nftables", {}), intents.nat44())
    assert {"count sessions", "empty the table", "filter"} <= set(stateful.operations)
    stateless = find_capabilities(make_driver("linux-router", {}), intents.ROUTER6)
    assert not {"count sessions", "empty the table"} & set(stateless.operations)


def test_shared_options_are_not_a_drivers_own():
    assert list_driver_options(LinuxRouter.options_model) == ()


def test_rows_leave_out_what_a_driver_lacks():
    one, other = DriverCapabilities(timers=("a",)), DriverCapabilities(timers=("a", "b"))
    assert (one | other).to_rows() == [("timers", "a, b")]


def test_plugins_shows_the_capabilities_of_drivers():
    table = json.loads(v6t("plugins", "--drivers", "jool", "--json").out)["jool"]
    assert table["settings"] == "lowest_ipv6_mtu, udp_timeout_s"
    assert {"tayga", "vpp"} <= json.loads(v6t("plugins", "--drivers", "--json").out).keys()
    assert "  settings     lowest_ipv6_mtu\n" in v6t("plugins", "--drivers", "tayga").out
    expect_refusal(v6t("plugins", "--drivers", "--check", "jool"), "conflicting-options")


def test_plan_and_doctor_show_the_capabilities_of_the_driver(tmp_path):
    plan = v6t("run", "--plugin", "nat64", "--dut", "jool", "--dry-run", "-v").out
    assert "\n  settings     udp_timeout_s\n" in plan
    bed = tmp_path / "bed.yaml"
    bed.write_text("dut: {driver: jool}")
    findings = v6t("doctor", "--testbed", bed, "--plugin", "nat64").out
    assert "ok      driver: jool: versions: 4.0.9, " in findings
