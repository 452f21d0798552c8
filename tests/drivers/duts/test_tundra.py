"""A real Tundra-NAT64 in the lab, if this machine has one: in PATH, or named by V6T_TUNDRA."""

from __future__ import annotations

import pytest
from v6t.core.config.files import Flags
from v6t.core.config.resolve import resolve_and_bind
from v6t.core.runs.bench import Bench, compile_point
from v6t.core.runs.stateful import for_preflight
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.lab.privilege import available
from v6t.plugins.nat.nat64 import Nat64
from v6t.procedures.preflight import check_translation
from v6t.profiles.errors import DutError, UsageError
from v6t.tests.drivers import matrix

from . import sshserver
from .bench import standing, traffic_classes
from .cases import CASES

POSSIBLE, WHY = available()
PROGRAM = matrix.program("tundra")
OWN = {"program": PROGRAM}
ran = [
    pytest.mark.lab,
    pytest.mark.skipif(not POSSIBLE, reason=WHY),
    pytest.mark.skipif(not PROGRAM, reason="no tundra-nat64 in PATH; V6T_TUNDRA may name one"),
]
CASE = {c.name: c for c in CASES}
PAIRS = (("siit", "tundra"), ("clat", "tundra"), ("nat64", "tundra-nftables"))


def lab(function):
    for mark in ran:
        function = mark(function)
    return function


@lab
@pytest.mark.parametrize(("plugin", "device"), PAIRS)
def test_every_frame_is_the_reference_translation(plugin, device):
    bound = resolve_and_bind(flags=Flags(plugin, dut=device, dut_params=OWN))
    tool = bound.technology
    sizes = tool.frame_pair(bound.settings.frame_sizes[0])
    bench = Bench(bound)
    try:
        bench.load(compile_point(tool, sizes, bound.settings.seed))
        finding = check_translation(
            for_preflight(tool, bench.measure),
            ipv6_frame_size=sizes.ipv6,
            ipv4_frame_size=sizes.ipv4,
        )
        described = bench.describe()["device"]
    finally:
        bench.close()
    assert finding is None
    assert described["version"][0].isdigit()


@lab
@pytest.mark.parametrize(("plugin", "device"), PAIRS)
def test_traffic_classes_are_copied(plugin, device):
    octets = [(octet, octet) for octet in (0, 1, 2, 3, 0xB8, 0xB9)]
    for pair, (why, told) in traffic_classes(plugin, octets, dut=device, **OWN).items():
        assert why == "", pair
        kinds = {what for what in told if "TOS" in what or "traffic class" in what}
        if pair[0]:
            assert len(kinds) == 2
            assert all("copied" in kind for kind in kinds)


@lab
@pytest.mark.parametrize("way", ["directly", "over ssh"])
@pytest.mark.parametrize("case", ["tundra-siit", "tundra-clat", "tundra-nftables-nat64"])
def test_it_is_configured_read_back_and_put_back(case, way):
    if way == "over ssh" and (package := sshserver.lacking()):
        pytest.skip(f"needs {package}")
    more = {"ssh": {"lab": sshserver.unique("tundra")}} if way == "over ssh" else {}
    intent = CASE[case].intent
    with standing(CASE[case].driver, intent, **OWN, **more) as bed:
        assert len(bed.session.verify()) > 5
        figures = bed.dut.report()
        assert figures["process"]
        assert "tx.dropped" in figures["tun v6t-nat64"]
        bed.session.flush() if bed.session.plan.flush else None
        assert any("undone" in line for line in bed.session.restore())
        left = bed.session.transport.run("ls -A /run/v6t; ip -o link show dev v6t-nat64 2>&1").out
        assert "tundra" not in left
        assert "LOWER_UP" not in left


def test_a_device_without_it_says_so():
    driver = make_driver("tundra", {"program": "/nowhere/tundra-nat64"})
    with pytest.raises(DutError, match="has no Tundra-NAT64") as info:
        driver.read_version("sh: 1: /nowhere/tundra-nat64: not found")
    assert info.value.hint == "set dut.options.program to where it is"
    assert driver.read_version("Tundra-NAT64 / v6.0.2 / Copyright (c) 2024 Vit Labuda") == "6.0.2"


@pytest.mark.parametrize("driver", ["tundra", "tundra-nftables"])
def test_it_is_known_by_its_name_which_the_undo_asks_for(driver):
    assert make_driver(driver, {"program": "/opt/tundra/tundra-nat64"})
    with pytest.raises(UsageError, match="program"):
        make_driver(driver, {"program": "/opt/tundra/tundra-6.0.2"})


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


def test_several_clients_are_refused():
    intent = Nat64(
        Nat64.params_model(
            initiator_count=2,
            responder_count=2,
            enumerate_ips=3,
            initiator_ports={"min": 1024, "max": 2023},
        )
    )
    driver = make_driver("tundra-nftables", {})
    with pytest.raises(UsageError, match="one client's address, not 2"):
        driver.plan(intent.dut_intent(), driver.example(intent.dut_intent()))


@pytest.mark.parametrize("prefix", ["2001:db8::/64", "2001:db8::/32"])
def test_another_prefix_is_refused(prefix):
    intent = Nat64(Nat64.params_model(prefix=prefix)).dut_intent()
    driver = make_driver("tundra-nftables", {})
    with pytest.raises(UsageError, match="translates a prefix of /96, not"):
        driver.plan(intent, driver.example(intent))
