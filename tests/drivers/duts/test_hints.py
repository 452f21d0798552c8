"""Suggested options in error messages, and driver capabilities shown by commands."""

import json
import shlex

import pytest
from v6t.core.config import compatibility
from v6t.core.config.plugins import list_names
from v6t.drivers.duts.registry import list_driver_names, make_driver
from v6t.tests.core.support import v6t
from v6t.tests.expect import expect_error, expect_refusal

from .support import run_shell

EAM = "eam=[{ipv4: 198.18.0.0/24, ipv6: 2001:2::/64}, {ipv4: 198.19.0.0/24, ipv6: 2001:2:0:1000::/64}]"
MANY_CLIENTS = ("initiator_count=300", "enumerate_ips=3", "responder_count=2",
                "initiator_ports={min: 4096, max: 4196}")  # fmt: skip
# Technology, driver and invalid settings; settings of the driver begin with ``dut:``.
HINTS = [
    ("dns64", "knot-resolver", "prefix=2001:db8:64::/64"),
    ("siit", "tundra", "prefix=2001:db8::/64"),
    ("clat", "tundra", "clat_ipv4=198.18.0.0/24", "clat_ipv6=2001:2:0:2::/120"),
    ("mape-br", "vpp", "iid_format=draft"),
    ("mapt-ce", "nat46", "ea_len=4", "ce_psid=0", "ce_ipv4=192.0.2.176"),
    ("siit", "nat46", "lowest_ipv6_mtu=1400"),
    ("siit", "nat46", EAM),
    ("siit", "tayga", EAM),
    ("clat", "tayga", "plat_prefix=64:ff9b::/96"),
    ("nat64", "tayga-nftables", "prefix=64:ff9b:1::/48", "dut:version=0.9.2-8"),
    ("nat64", "jool", "udp_timeout_s=60"),
    ("nat44", "nftables", "dut:sessions=500"),
    ("siit", "tayga", "dut:workers=2", "dut:version=0.9.2-8"),
    ("nat64", "tayga-nftables", *MANY_CLIENTS),
    ("nat64", "tayga-nftables", "responder_ipv4=192.168.255.77"),
    ("nat64", "tayga-nftables", "dut:dynamic_pool=192.168.255.0/31"),
    ("nat44", "iptables", "session_limit=200000"),
    ("siit", "tundra", "eam=[{ipv4: 198.18.0.0/24, ipv6: 2001:2::/120}]"),
    ("dslite-aftr", "vpp", "dut:start=false"),
    ("dslite-aftr", "vpp", "initiator_count=3"),
    ("dslite-aftr", "vpp", "pool_first=192.168.19.1"),
    ("mapt-br", "vpp", "dmr=64:ff9b::/96"),
    ("mapt-br", "vpp", "rule_ipv6=2001:db8:ce::/51"),
    ("mape-br", "vpp", "dut:version=20.05"),
    ("nat44", "vpp", "pool_ports={min: 2048, max: 65535}"),
    ("nat64", "vpp", "session_limit=200005"),
    # of a part of a chain
    ("ipv4aas", "chain", "prefix=64:ff9b::/96"),
    ("ipv4aas", "chain", "dut:parts.clat.options.workers=2", "dut:parts.clat.options.version=0.9.2-8"),
    ("ipv4aas", "chain", "dut:parts.plat.options.dynamic_pool=192.168.255.0/31"),
    ("ipv4aas", "chain", "variant=map-t", "dut:parts.br.driver=vpp"),
]  # fmt: skip


def make_command(technology, driver, *settings):
    words = ["run", "--dry-run", "--plugin", technology, "--dut", driver]
    for text in settings:
        words += ["--set-dut", text[4:]] if text.startswith("dut:") else ["--set", text]
    return words


@pytest.mark.parametrize("case", HINTS, ids=" ".join)
def test_suggested_option_is_accepted(case, snapshot):
    command = make_command(*case)
    refused = v6t(*command)
    hint = refused.err.partition("try: ")[2].strip()
    assert (refused.status, hint) == (2, snapshot)
    result = v6t(*command, *shlex.split(hint))
    assert result.status == 0, (hint, result.err)


@pytest.mark.parametrize(("number", "technology"), [*enumerate(list_names())])
def test_unsupported_technology_error_names_supporting_drivers(number, technology):
    supported = {name: compatibility.list_technologies(name) for name in list_driver_names()}
    others = [name for name, names in supported.items() if names and technology not in names]
    drivers = ", ".join(compatibility.list_compatible_drivers(technology)) or "none"
    hint = f"drivers for {technology}: {drivers}"
    for driver in others[number % 5 :: 5]:  # a part of the combinations
        refused = v6t(*make_command(technology, driver))
        assert refused.status == 2
        assert hint in refused.err or "drivers for" not in refused.err


@pytest.mark.parametrize(("command", "code", "drivers"), [
    (make_command("nat64", "reference"), "missing-reference", "drivers for nat64: "),
    (("dut", "plan", "--plugin", "ipv6-router", "--driver", "jool"), "unsupported-technology", "drivers for ipv6-router: linux-router, "),
    (make_command("ipv4aas", "chain", "dut:parts.clat.driver=nftables"), "unsupported-technology", ""),
])  # fmt: skip
def test_error_names_alternative_drivers(command, code, drivers):
    refused = v6t(*command)
    assert refused.code == code
    assert drivers in refused.err if drivers else "drivers for" not in refused.err


def test_error_for_tayga_as_map_t_ce_suggests_valid_options():
    refused = v6t("dut", "plan", "--plugin", "mapt-ce", "--driver", "tayga")
    options = refused.err.partition("use it with ")[2].partition(";")[0]
    assert v6t("dut", "plan", *shlex.split(options)).status == 0


def test_survey_finds_missing_module_and_wrong_system():
    driver = make_driver("nat46", {"module": "/nowhere/nat46.ko"})
    result = run_shell(driver.get_survey_commands()["module"])
    assert result.stdout in ("none\n", "/sys/module/nat46\n")
    with expect_error("wrong-system", mentions="6.1", hint="dut.options.ssh.host"):
        make_driver("openbsd-pf", {}).parse_facts({"system": "Linux 6.1\n"})


@pytest.mark.parametrize(("driver", "row", "value"), [
    ("jool", "technologies", "clat, mapt-br, mapt-ce, nat64, siit"),
    ("jool", "versions", "4.0.9, 4.1.9, 4.1.15, 4.2.0-rc3"),
    ("nftables", "settings", "udp_timeout_s, port_block"),
    ("nftables", "operations", "count sessions, read the size of the table, empty the table, filter, answer SNMP, speak BGP, change routes, change its configuration"),
    ("openbsd-pf", "timers", "timeout_s"),
    ("openbsd-pf", "counters", "cpu, pf, table"),
    ("tayga", "options", "queue_length, ipv4_addr, ipv6_addr, mend_checksums, program, workers"),
    ("network-cli", "technologies", "any"),
    ("linux-router", "options", None),  # only options that all drivers have
    ("linux-router", "operations", "filter, answer SNMP, speak BGP, change routes, change its configuration"),
])  # fmt: skip
def test_capabilities_combine_technologies_of_driver(driver, row, value):
    assert dict(compatibility.list_capabilities(driver)).get(row) == value


def test_plugins_plan_and_doctor_show_driver_capabilities(tmp_path):
    table = json.loads(v6t("plugins", "--drivers", "jool", "--json").out)["jool"]
    assert table["settings"] == "lowest_ipv6_mtu, udp_timeout_s"
    assert {"tayga", "vpp"} <= json.loads(v6t("plugins", "--drivers", "--json").out).keys()
    assert "  settings     lowest_ipv6_mtu\n" in v6t("plugins", "--drivers", "tayga").out
    expect_refusal(v6t("plugins", "--drivers", "--check", "jool"), "conflicting-options")
    plan = v6t("run", "--plugin", "nat64", "--dut", "jool", "--dry-run", "-v").out
    assert "\n  settings     udp_timeout_s\n" in plan
    bed = tmp_path / "bed.yaml"
    bed.write_text("dut: {driver: jool}")
    findings = v6t("doctor", "--testbed", bed, "--plugin", "nat64").out
    assert "ok      driver: jool: versions: 4.0.9, " in findings
