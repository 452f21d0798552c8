"""Every frame leaves with valid checksums, whatever varies, and no more is computed than needed."""

from __future__ import annotations

import numpy as np
import pytest
from scapy.layers.l2 import Ether
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.compiler.enumeration import mix_permutation
from v6t.profiles.model import Kind, Layer, Variable
from v6t.tests.expect import expect_error

from .test_template import rebuilt
from .traffics import (
    ETHER,
    FOUR_IN_SIX,
    IPV4,
    IPV6,
    OVER_FOUR,
    OVER_SIX,
    UDP,
    VLAN,
    Binding,
    one,
)
from .vm import Counter, Machine

TCP = Layer("TCP", {"sport": 1, "dport": 2})
TAGGED = (ETHER, VLAN, *FOUR_IN_SIX[1:])


def compiled(layers, field, kind=Kind.UNIFORM, width=8, first=None, **keys):
    first = 8 if first is None else first
    bind = (Binding("v", field, first, first + width - 1),)
    variable = Variable("v", width, kind, **keys)
    return compile_traffic(one(variable, bind=bind, layers=layers, frame_size=168)).streams[0]


def fixes(stream):
    return [i for i in stream.program if i["type"].startswith("fix")]


def assert_valid(stream, count=40):
    seen = set()
    for frame in Machine(stream).take(count):
        assert frame == rebuilt(frame)
        assert not any(frame[-16:]), "the last 16 octets are the tester's"
        seen.add(frame)
    assert len(seen) > 1


NOTHING = [
    (FOUR_IN_SIX, "IPv6.src"),
    (FOUR_IN_SIX, "IPv6.dst"),
    (FOUR_IN_SIX, "IPv6.fl"),
    (FOUR_IN_SIX, "Ether.dst"),
    (TAGGED, "IPv6.src"),
    (OVER_SIX, "IPv6.fl"),
]


@pytest.mark.parametrize(("layers", "field"), NOTHING)
def test_nothing_is_computed_where_nothing_changes(layers, field):
    stream = compiled(layers, field)
    assert fixes(stream) == []
    assert_valid(stream)


HARDWARE = [
    (FOUR_IN_SIX, "IP.src", 54, 20, 11),
    (FOUR_IN_SIX, "UDP.sport", 54, 20, 11),
    (TAGGED, "UDP.dport", 58, 20, 11),
    (OVER_SIX, "IPv6.src", 14, 40, 11),
    (OVER_SIX, "UDP.sport", 14, 40, 11),
    (OVER_FOUR, "IP.dst", 14, 20, 11),
    ((ETHER, IPV4, TCP), "TCP.seq", 14, 20, 13),
    ((ETHER, IPV6, TCP), "IPv6.src", 14, 40, 13),
    ((ETHER, IPV4, IPV6, UDP), "IPv6.src", 34, 40, 11),
    ((ETHER, IPV4, IPV4, UDP), "IP:1.src", 34, 20, 11),
]


@pytest.mark.parametrize(("layers", "field", "l2", "l3", "l4_type"), HARDWARE)
def test_addresses_and_ports_need_the_nic(layers, field, l2, l3, l4_type):
    first = 0 if "." in field and field.split(".")[1] in {"sport", "dport"} else 8
    stream = compiled(layers, field, first=first)
    assert fixes(stream) == [
        {"type": "fix_checksum_hw", "l2_len": l2, "l3_len": l3, "l4_type": l4_type}
    ]
    assert stream.program[-1] == fixes(stream)[0]
    assert "by the NIC" in stream.notes[-1]
    assert_valid(stream)


@pytest.mark.parametrize(
    ("layers", "field", "offset"),
    [
        (OVER_FOUR, "IP.id", 14),
        (FOUR_IN_SIX, "IP.tos", 54),
        ((ETHER, IPV4, IPV6, UDP), "IP.src", 14),
        ((ETHER, IPV4, IPV4, UDP), "IP.dst", 14),
    ],
)
def test_a_lone_ipv4_header_is_done_in_software(layers, field, offset):
    stream = compiled(layers, field, first=0)
    assert fixes(stream) == [{"type": "fix_checksum_ipv4", "pkt_offset": offset}]
    assert_valid(stream)


def test_outer_header_in_software_and_inner_by_the_nic():
    layers = (ETHER, IPV4, IPV4, UDP)
    bind = (Binding("v", "IP.src", 24, 31), Binding("v", "IP:1.src", 24, 31))
    stream = compile_traffic(one(Variable("v", 8), bind=bind, layers=layers)).streams[0]
    assert [i["type"] for i in fixes(stream)] == ["fix_checksum_ipv4", "fix_checksum_hw"]
    assert_valid(stream)


def test_icmpv6_is_done_in_software():
    layers = (ETHER, IPV6, Layer("ICMPv6EchoRequest", {}))
    stream = compiled(layers, "ICMPv6EchoRequest.seq", first=0)
    assert fixes(stream) == [{"type": "fix_checksum_icmpv6", "l2_len": 14, "l3_len": 40}]
    assert_valid(stream)


COUNTING = [
    (Kind.INC, {"low": 3, "high": 90, "step": 3}),
    (Kind.DEC, {"low": 3, "high": 90, "step": 3}),
    (Kind.DEC, {"low": 0, "high": 90, "step": 7}),  # counts from 0, with a constant added
    (Kind.LIST, {"values": [0, 255, 17, 4]}),
    (Kind.PERMUTATION, {}),
]


@pytest.mark.parametrize(("kind", "keys"), COUNTING)
@pytest.mark.parametrize(
    ("layers", "field", "first"),
    [
        (OVER_SIX, "IPv6.src", 120),
        (OVER_SIX, "IPv6.dst", 3),
        (OVER_SIX, "UDP.sport", 8),
        (OVER_SIX, "UDP.dport", 0),
        (FOUR_IN_SIX, "UDP.sport", 5),
        ((ETHER, IPV6, TCP), "TCP.seq", 12),
    ],
)
def test_a_counter_and_its_complement_are_neutral(layers, field, first, kind, keys):
    stream = compiled(layers, field, kind, first=first, **keys)
    assert fixes(stream) == []
    assert "complement" in stream.notes[-1]
    assert_valid(stream)


def test_mixed_permutations_have_complements_bit_by_bit():
    for part in mix_permutation("v", 17, 0, (5, 12), np.random.default_rng(1)):
        mirror = part.complement("v.not")
        both = [Counter(p.declare(p.sizes[-1]), 0, 1) for p in (part, mirror)]
        for _ in range(300):
            value, inverse = both[0].take(), both[1].take() + mirror.add
            for _, place, width in part.supplied:
                ones = (1 << width) - 1
                assert (value >> place & ones) + (inverse >> place & ones) == ones


def test_a_mixed_permutation_needs_the_nic():
    """Its complement has twice its counters: more than a checksum costs."""
    stream = compiled(OVER_SIX, "IPv6.src", Kind.PERMUTATION, width=16, first=112)
    assert [i["type"] for i in fixes(stream)] == ["fix_checksum_hw"]
    assert_valid(stream, 200)


def test_neutrality_with_constants_all_around():
    layers = (ETHER, Layer("IPv6", {"src": "ffff::ffff", "dst": "::1"}), Layer("UDP", {}))
    stream = compiled(layers, "IPv6.src", Kind.INC, width=7, first=118)
    assert fixes(stream) == []
    assert_valid(stream, 130)


def test_neutrality_needs_free_payload():
    bind = (Binding("v", "UDP.sport", 0, 15),)
    variable = Variable("v", 16, Kind.INC)
    # 84 octets: 18 of payload, of which the tester's trailer takes 16
    for size, free in ((84, True), (82, False)):
        made = compile_traffic(one(variable, bind=bind, frame_size=size)).streams[0]
        assert (fixes(made) == []) == free
        for frame in Machine(made).take(20):
            assert frame == rebuilt(frame)


def test_neutrality_is_not_bought_where_the_nic_is_cheaper():
    bind = tuple(Binding("v", "IPv6.src", 16 * k, 16 * k + 15) for k in range(4))
    stream = compile_traffic(one(Variable("v", 16, Kind.INC), bind=bind)).streams[0]
    assert len(fixes(stream)) == 1
    assert_valid(stream)


def test_random_variables_have_no_complement():
    assert len(fixes(compiled(OVER_SIX, "UDP.sport", first=0))) == 1


def test_checksums_the_user_gives_are_left_alone():
    layers = (ETHER, IPV6, Layer("UDP", {"chksum": 0x1234}))
    stream = compiled(layers, "UDP.sport", first=0)
    assert fixes(stream) == []
    for frame in Machine(stream).take(5):
        assert Ether(frame)["UDP"].chksum == 0x1234


def test_icmp_over_ipv4_only_where_it_can_be_neutral():
    layers = (ETHER, IPV4, Layer("ICMP", {}))
    assert_valid(compiled(layers, "ICMP.seq", Kind.INC, first=0))
    with expect_error("beyond-trex"):
        compiled(layers, "ICMP.seq", first=0)


def test_two_complements_keep_their_places_within_words():
    layers = (ETHER, IPV4, Layer("ICMP", {}))
    bind = (Binding("v", "ICMP.id", 0, 7), Binding("v", "ICMP.seq", 0, 7))
    made = one(Variable("v", 8, Kind.INC), bind=bind, layers=layers)
    assert_valid(compile_traffic(made).streams[0])


def test_one_transport_header_per_frame():
    layers = (ETHER, IPV6, UDP, IPV6, UDP)
    bind = (Binding("v", "UDP:1.sport", 0, 7),)
    # the outer checksum covers the inner header
    with expect_error("beyond-trex"):
        compile_traffic(one(Variable("v", 8), bind=bind, layers=layers, frame_size=256))


def test_headers_too_far_for_the_nic():
    layers = (ETHER, IPV6, IPV6, IPV6, IPV6, UDP)
    traffic = one(
        Variable("v", 8), bind=(Binding("v", "UDP.sport", 0, 7),), layers=layers, frame_size=256
    )
    with expect_error("beyond-trex", mentions="127"):
        compile_traffic(traffic)
