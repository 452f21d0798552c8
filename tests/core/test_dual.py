"""The setup with two devices from the command line: variants, plan and messages."""

import json

import pytest
from v6t.core.config.resolve import resolve, resolve_setup
from v6t.core.config.run_setup import make_setup
from v6t.core.config.warnings import list_result_warnings
from v6t.tests.core.support import v6t

RUN = ("run", "--plugin", "ipv4aas")


@pytest.mark.parametrize(
    ("variant", "parts"),
    [
        ("464xlat", ["CE clat", "PE plat"]),
        ("ds-lite", ["CE b4", "PE softwire", "PE nat"]),
        ("lw4o6", ["CE napt", "CE ce", "PE lwaftr"]),
        ("map-e", ["CE napt", "CE ce", "PE br"]),
        ("map-t", ["CE napt", "CE ce", "PE br"]),
    ],
)
def test_variant_needs_no_further_option(variant, parts):
    done = v6t(*RUN, "--variant", variant, "--dry-run", "--json")
    assert done.status == 0, done.err
    plan = json.loads(done.out)
    planned = plan["device_must_be"]["parts"]
    assert [f"{part['device']} {part['name']}" for part in planned] == parts


def test_without_a_variant_it_is_464xlat_on_the_embedded_lab():
    run = resolve(plugin="ipv4aas")
    assert (run.tester.kind, run.dut.driver, run.frame_sizes) == ("embedded", "chain", (84,))
    assert resolve(plugin="ipv4aas", params={"variant": "map-e"}).frame_sizes == (104,)
    words = make_setup(run).flush_description
    assert "conntrack -D -s 192.168.255.0/24" in words


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--variant", "6rd"], "unknown-name"),
        (["--variant", "map-t", "--set", "variant=map-e"], "conflicting-options"),
        (["--variant", "lw4o6", "--set", "psid_len=5"], "not-enough-addresses"),
        (["--set", "m=1"], "no-background"),
        (["--dut", "nftables"], "unsupported-technology"),
        (["--dut", "reference"], "missing-reference"),
        (["--set-procedure", "connections.count=5000000"], "not-enough-addresses"),
        (["--set", "enumerate_ports=3", "--set", "enumerate_ips=1"], "conflict"),
        (["--set", "prefix=64:ff9b::/96", "--dry-run"], "unsupported-by-device"),
    ],
)
def test_invalid_input_gives_one_error(arguments, code):
    done = v6t(*RUN, *arguments)
    assert done.status == 2
    assert done.code == code
    assert done.err.count("v6t: ") == 1


def test_stateful_device_and_full_ports_give_warnings():
    given = {"variant": "map-t", "initiator_ports.min": "4096", "initiator_ports.max": "12031"}
    said = [*list_result_warnings(resolve_setup(plugin="ipv4aas", params=given))]
    assert any("CE is stateful" in line for line in said)
    assert any("97%" in line and "8192" in line for line in said)
    said = [*list_result_warnings(resolve_setup(plugin="ipv4aas"))]
    assert any("PE is stateful" in line for line in said)
    assert not any("port set" in line for line in said)
