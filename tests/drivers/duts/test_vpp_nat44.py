"""VPP's three plugins of NAT44: what each is told, refuses and says; no VPP is needed."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network

import numpy as np
import pytest
from v6t.core.config.files import Flags
from v6t.core.config.resolve import resolve_and_bind
from v6t.drivers.duts.kinds.vpp import syntax
from v6t.drivers.duts.kinds.vpp.det44 import (
    MOST,
    PER_CLIENT,
    MappedOracle,
    Mapping44,
    mapping_of,
)
from v6t.drivers.duts.registry import make_driver
from v6t.profiles.errors import UsageError

from . import intents

FEW = [f"198.18.0.{n}/32" for n in range(2, 6)]


def planned(intent, nat44, **options):
    driver = make_driver("vpp", {"nat44": nat44, **options})
    return driver.plan(intent, driver.example(intent))


def nat44(**settings):
    intent = intents.nat44()
    return replace(intent, settings={**intent.settings, **settings})


@pytest.mark.parametrize("plugin", ["ei", "det44"])
def test_what_clears_the_table_is_seen_to_have_cleared_it(plugin):
    (flush,) = planned(nat44(), plugin).flush
    assert "del ; " in flush.command
    said = {
        "ei": "NAT44 sessions:\n-------- thread 0 vpp_main: {} sessions --------\n",
        "det44": "NAT44 deterministic mappings:\n in 198.18.0.0/24 out 198.19.0.1/32\n"
        "  sessions number: {}\n",
    }[plugin]
    assert flush.check.checker(said.format(3)) == "3 sessions are left"
    assert flush.check.checker(said.format(0)) is None
    assert flush.check.checker("") == "it does not say how many sessions there are"


def test_the_command_that_leaves_ports_in_use_is_not_used():
    """`clear nat44 ei sessions` forgets sessions and not their ports."""
    (flush,) = planned(nat44(), "ei").flush
    assert "nat44 ei add address 198.19.0.1 del" in flush.command
    assert "clear" not in flush.command


def test_endpoint_independent_nat_has_room_for_all_clients():
    commands = [s.command for s in planned(nat44(inside4=["198.18.0.0/16"]), "ei").steps]
    assert any("plugin enable sessions 64512 users 65536" in c for c in commands)
    commands = [s.command for s in planned(nat44(session_limit=50), "ei").steps]
    assert any("plugin enable sessions 50 users 1024" in c for c in commands)


@pytest.mark.parametrize(
    ("plugin", "settings", "words"),
    [
        ("ei", {"udp_timeout_s": 30}, "udp_timeout_s cannot be told"),
        ("ei", {"port_block": 16}, "port_block cannot be told"),
        ("ed", {"port_block": 16}, "port_block cannot be told"),
        ("det44", {"session_limit": 50}, "session_limit cannot be told"),
        ("det44", {"ports": [2000, 3000]}, "gives out ports 1024 to 65535"),
        ("det44", {"pool4": ["198.19.0.1", "198.19.0.2"]}, "maps to a prefix"),
        ("det44", {"inside4": ["198.18.0.0/18"]}, "24,000 octets for each address"),
        ("det44", {"inside4": ["198.18.0.2/32"]}, "need 2 clients, not 1"),
        ("det44", {"port_block": 1000}, r"blocks of 64512 / 2\^n ports, not of 1000"),
    ],
)
def test_what_a_plugin_cannot_be_is_refused(plugin, settings, words):
    sessions = {"sessions": 1001} if "inside4" in settings and "need" in words else {}
    with pytest.raises(UsageError, match=words):
        planned(nat44(**settings, **sessions), plugin)


@pytest.mark.parametrize(("plugin", "version"), [("ei", "21.06"), ("det44", "20.05")])
def test_versions_with_other_commands_are_refused(plugin, version):
    with pytest.raises(UsageError, match=f"VPP {version} has no"):
        planned(nat44(), plugin, version=version)


def test_deterministic_nat_is_only_taken_where_it_can_be_taken_back():
    with pytest.raises(UsageError, match="only a VPP that v6t starts"):
        planned(nat44(), "det44", start=False)


def test_blocks_that_are_asked_for_make_the_mapping_larger():
    assert mapping_of(nat44(inside4=FEW)).words == "in 198.18.0.0/29 out 198.19.0.1/32"
    wanted = mapping_of(nat44(inside4=FEW, port_block=252))
    assert (wanted.inside, wanted.block) == (IPv4Network("198.18.0.0/24"), 252)
    with pytest.raises(UsageError) as info:
        mapping_of(nat44(inside4=FEW, port_block=250))
    assert info.value.params == {"port_block": 252}
    assert mapping_of(nat44(inside4=FEW, port_block=info.value.params["port_block"]))


def test_more_public_addresses_than_clients_are_a_mapping_all_the_same():
    pool = [f"198.19.0.{n}" for n in range(8, 16)]
    mapping = mapping_of(nat44(inside4=["198.18.0.2/32"], pool4=pool))
    assert (mapping.words, mapping.block) == ("in 198.18.0.0/29 out 198.19.0.8/29", 64512)
    assert mapping.of(IPv4Address("198.18.0.2")) == (IPv4Address("198.19.0.10"), 1024)


def test_the_arithmetic_is_that_of_vpps_own_example():
    """det44_cli.c: `det44 add in 10.0.0.0/18 out 1.1.1.0/30`; 10.0.0.2 has 1.1.1.0:<1054-1068>."""
    mapping = Mapping44(IPv4Network("10.0.0.0/18"), IPv4Network("1.1.1.0/30"))
    assert (mapping.share, mapping.block) == (4096, 15)
    assert mapping.of(IPv4Address("10.0.0.2")) == (IPv4Address("1.1.1.0"), 1054)
    assert mapping.of(IPv4Address("10.0.16.16")) == (IPv4Address("1.1.1.1"), 1024 + 15 * 16)


def test_every_client_has_ports_of_its_own():
    mapping = Mapping44(IPv4Network("198.18.0.0/22"), IPv4Network("198.19.0.4/31"))
    seen = {mapping.of(client) for client in mapping.inside}
    assert len(seen) == 1024
    assert max(low for _, low in seen) + mapping.block - 1 <= 65535


class Learned:
    """A technology that believes whatever was learned."""

    def __init__(self, out):
        self.out = out

    def expect(self, direction, frames):
        length = np.full(len(frames), self.out.shape[1], dtype=np.int32)
        return type("Answer", (), {"frames": self.out, "length": length})()


def frames_of(ends):
    """UDP frames from these addresses and ports."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    made = [
        bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src=a, dst="198.19.0.9")
              / UDP(sport=p, dport=7) / b"0123456789")
        for a, p in ends
    ]  # fmt: skip
    return np.frombuffer(b"".join(made), np.uint8).reshape(len(made), -1)


def test_a_learned_port_of_another_client_is_no_right_one():
    mapping = Mapping44(IPv4Network("198.18.0.0/24"), IPv4Network("198.19.0.1/32"))
    sent = frames_of([(f"198.18.0.{n}", 5000) for n in (2, 3, 4, 5)])
    of = {n: mapping.of(IPv4Address(f"198.18.0.{n}"))[1] for n in (2, 3, 4, 5)}
    pool = "198.19.0.1"
    came = frames_of(
        [(pool, of[2] + mapping.block - 1), (pool, of[2] + 5), (pool, of[4]), ("198.19.0.2", of[5])]
    )
    oracle = MappedOracle(Learned(came), mapping)
    answer = oracle.expect("forward", sent)
    assert (answer.frames == came).all(axis=1).tolist() == [True, False, True, False]
    assert (answer.frames == frames_of([(pool, of[2] + 251), (pool, of[3]), (pool, of[4]), (pool, of[5])])) \
        [:, 26:36].all()  # fmt: skip
    assert oracle.expect("reverse", sent).frames is came


def test_it_takes_the_plain_command_and_says_what_it_sets():
    bound = resolve_and_bind(flags=Flags(plugin="nat44", dut="vpp", dut_params={"nat44": "det44"}))
    assert bound.settings.params["initiator_count"] == 128
    assert bound.driver.plan(bound.intent, bound.driver.example(bound.intent)).flush
    wanted = bound.intent.settings["sessions"]
    assert wanted * 1.25 <= PER_CLIENT * 128 <= PER_CLIENT * MOST


def test_its_counts():
    two = (
        "NAT44 sessions:\n-------- thread 0 vpp_main: 0 sessions --------\n"
        "-------- thread 1 vpp_wk_0: 12 sessions --------\n"
        "  198.18.0.2: 12 dynamic translations, 0 static translations\n"
        "-------- thread 2 vpp_wk_1: 30 sessions --------\n"
    )
    assert syntax.nat44_ei_sessions(two) == {"sessions": 42}
    dumped = (
        "[0 @ 0]: 0 packets /nat44-ei/total-sessions\n"
        "[0 @ 1]: 12 packets /nat44-ei/total-sessions\n"
        "[0 @ 2]: 30 packets /nat44-ei/total-sessions\n"
    )
    reading = make_driver("vpp", {"nat44": "ei"}).telemetry(nat44())["table"]
    assert reading.parse(dumped) == {"used": 30, "limit": 64512}
    reading = make_driver("vpp", {"nat44": "det44"}).telemetry(nat44(inside4=FEW))["table"]
    assert reading.parse("  sessions number: 7\n") == {"used": 7, "limit": 4 * PER_CLIENT}


def test_only_one_of_them_counts_endpoints():
    kinds = {
        n: make_driver("vpp", {"nat44": n}).by_endpoint(nat44()) for n in ("ed", "ei", "det44")
    }
    assert kinds == {"ed": False, "ei": True, "det44": False}
    assert not make_driver("vpp", {"nat44": "ei"}).by_endpoint(intents.nat64())
