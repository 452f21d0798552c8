"""Every frame leaves with valid checksums, and no more is computed than needed."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from scapy.layers.l2 import Ether
from v6t.profiles.compiler.enumeration import mix_permutation
from v6t.profiles.model import Kind, Layer, Variable
from v6t.tests.expect import expect_error

from .test_template import STACKS, rebuilt
from .traffics import (
    ETHER,
    FOUR_IN_SIX,
    IPV6,
    OVER_SIX,
    UDP,
    Binding,
    compile_one,
)
from .vm import Counter, Machine


def compiled(layers, field, kind=Kind.UNIFORM, width=8, first=8, **keys):
    bind = (Binding("v", field, first, first + width - 1),)
    variable = Variable("v", width, kind, **keys)
    return compile_one(variable, bind=bind, layers=layers, frame_size=168)


def fixes(stream):
    return [i for i in stream.program if i["type"].startswith("fix")]


def assert_valid(stream, count=40):
    frames = Machine(stream).take(count)
    assert [rebuilt(frame) for frame in frames] == frames
    assert not any(any(frame[-16:]) for frame in frames), "trailer overwritten"
    assert len(set(frames)) > 1


def fix(kind, *lengths):
    names = ("pkt_offset",) if kind == "ipv4" else ("l2_len", "l3_len", "l4_type")
    return {"type": f"fix_checksum_{kind}", **dict(zip(names, lengths, strict=False))}


FIXES = yaml.safe_load((Path(__file__).parent / "vectors" / "checksums.yaml").read_text())


@pytest.mark.parametrize(("stack", "field", "first", "expected"), FIXES)
def test_only_changing_checksums_are_computed(stack, field, first, expected):
    stream, wanted = compiled(STACKS[stack], field, first=first), [fix(*e) for e in expected]
    assert fixes(stream) == wanted
    assert stream.program[len(stream.program) - len(wanted) :] == wanted
    assert_valid(stream)


def test_outer_header_is_computed_in_software_and_inner_by_the_nic():
    bind = (Binding("v", "IP.src", 24, 31), Binding("v", "IP:1.src", 24, 31))
    stream = compile_one(Variable("v", 8), bind=bind, layers=STACKS["4in4"])
    assert fixes(stream) == [fix("ipv4", 14), fix("hw", 34, 20, 11)]
    assert_valid(stream)


COUNTING = [
    (Kind.INC, {"low": 3, "high": 90, "step": 3}),
    (Kind.DEC, {"low": 3, "high": 90, "step": 3}),
    (Kind.DEC, {"low": 0, "high": 90, "step": 7}),  # counts from 0, with a constant added
    (Kind.LIST, {"values": [0, 255, 17, 4]}),
    (Kind.PERMUTATION, {}),
]


@pytest.mark.parametrize(("kind", "keys"), COUNTING)
@pytest.mark.parametrize(("layers", "field", "first"), [
    (OVER_SIX, "IPv6.src", 120),
    (OVER_SIX, "IPv6.dst", 3),
    (OVER_SIX, "UDP.sport", 8),
    (OVER_SIX, "UDP.dport", 0),
    (FOUR_IN_SIX, "UDP.sport", 5),
    (STACKS["tcp6"], "TCP.seq", 12),
    (STACKS["icmp"], "ICMP.seq", 0),
    ((ETHER, Layer("IPv6", {"src": "ffff::ffff", "dst": "::1"}), UDP), "IPv6.src", 118),
])  # fmt: skip
def test_counter_and_its_complement_are_neutral(layers, field, first, kind, keys):
    stream = compiled(layers, field, kind, first=first, **keys)
    assert fixes(stream) == []
    assert "complement" in stream.notes[-1]
    assert_valid(stream)


def test_mixed_permutations_have_complements_bit_by_bit():
    for part in mix_permutation("v", 17, 0, (5, 12), np.random.default_rng(1)):
        mirror = part.make_complement("v.not")
        counter, inverse = (Counter(p.declare(p.sizes[-1])) for p in (part, mirror))
        for _ in range(300):
            value, opposite = counter.take(), inverse.take() + mirror.add
            for _, place, width in part.supplied_bits:
                ones = (1 << width) - 1
                assert (value >> place & ones) + (opposite >> place & ones) == ones


@pytest.mark.parametrize(("frame_size", "is_free"), [(84, True), (82, False)])
def test_neutrality_needs_free_payload(frame_size, is_free):
    # 84 octets: 18 of payload, of which the tester's trailer takes 16
    bind = (Binding("v", "UDP.sport", 0, 15),)
    stream = compile_one(Variable("v", 16, Kind.INC), bind=bind, frame_size=frame_size)
    assert (fixes(stream) == []) == is_free
    frames = Machine(stream).take(20)
    assert [rebuilt(frame) for frame in frames] == frames


@pytest.mark.parametrize(
    ("kind", "starts"), [(Kind.INC, (0, 16, 32, 48)), (Kind.PERMUTATION, (112,))]
)
def test_nic_computes_where_it_is_cheaper_than_complements(kind, starts):
    bind = tuple(Binding("v", "IPv6.src", first, first + 15) for first in starts)
    stream = compile_one(Variable("v", 16, kind), bind=bind)
    assert [i["type"] for i in fixes(stream)] == ["fix_checksum_hw"]
    assert_valid(stream, 200)


def test_given_checksum_is_not_computed():
    layers = (ETHER, IPV6, Layer("UDP", {"chksum": 0x1234}))
    stream = compiled(layers, "UDP.sport", first=0)
    assert fixes(stream) == []
    assert {Ether(frame)["UDP"].chksum for frame in Machine(stream).take(5)} == {0x1234}


@pytest.mark.parametrize(("layers", "field", "mention"), [
    (STACKS["icmp"], "ICMP.seq", ""),  # TRex has no instruction for ICMP
    ((ETHER, IPV6, UDP, IPV6, UDP), "UDP:1.sport", ""),  # the outer checksum covers the inner
    ((ETHER, IPV6, IPV6, IPV6, IPV6, UDP), "UDP.sport", "127"),
])  # fmt: skip
def test_random_field_under_a_checksum_beyond_trex_is_rejected(layers, field, mention):
    with expect_error("beyond-trex", mentions=mention):
        compile_one(
            Variable("v", 8), bind=(Binding("v", field, 0, 7),), layers=layers, frame_size=256
        )
