"""All frames have valid checksums, which are computed only where fields below them vary."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from scapy.layers.l2 import Ether
from v6t.profiles.compiler.enumeration import mix_permutation
from v6t.profiles.model import Kind, Layer, Variable
from v6t.tests.expect import expect_error

from .test_template import STACKS, rebuild
from .traffics import ETHER, FOUR_IN_SIX, IPV6, UDP, UDP6, Binding, compile_stream
from .vm import Counter, Machine


def compile_field(layers, field, kind=Kind.UNIFORM, width=8, first=8, **keys):
    bind = (Binding("v", field, first, first + width - 1),)
    variable = Variable("v", width, kind, **keys)
    return compile_stream(variable, bind=bind, layers=layers, frame_size=168)


def list_fixes(stream):
    return [i for i in stream.program if i["type"].startswith("fix")]


def assert_valid(stream, count=40):
    frames = Machine(stream).take(count)
    assert [rebuild(frame) for frame in frames] == frames
    assert not any(any(frame[-16:]) for frame in frames), "trailer overwritten"
    assert len(set(frames)) > 1


def make_fix(kind, *lengths):
    names = ("pkt_offset",) if kind == "ipv4" else ("l2_len", "l3_len", "l4_type")
    return {"type": f"fix_checksum_{kind}", **dict(zip(names, lengths, strict=False))}


FIXES = yaml.safe_load((Path(__file__).parent / "vectors" / "checksums.yaml").read_text())


@pytest.mark.parametrize(("stack", "field", "first", "expected"), FIXES)
def test_only_changing_checksums_are_computed(stack, field, first, expected):
    stream = compile_field(STACKS[stack], field, first=first)
    fixes = [make_fix(*arguments) for arguments in expected]
    assert list_fixes(stream) == fixes
    assert stream.program[len(stream.program) - len(fixes) :] == fixes
    assert_valid(stream)


def test_outer_header_is_computed_in_software_and_inner_by_the_nic():
    bind = (Binding("v", "IP.src", 24, 31), Binding("v", "IP:1.src", 24, 31))
    stream = compile_stream(Variable("v", 8), bind=bind, layers=STACKS["4in4"])
    assert list_fixes(stream) == [make_fix("ipv4", 14), make_fix("hw", 34, 20, 11)]
    assert_valid(stream)


COUNTING = [
    (Kind.INC, {"low": 3, "high": 90, "step": 3}),
    (Kind.DEC, {"low": 3, "high": 90, "step": 3}),
    (Kind.DEC, {"low": 0, "high": 90, "step": 7}),  # a counter from 0 with a constant added
    (Kind.LIST, {"values": [0, 255, 17, 4]}),
    (Kind.PERMUTATION, {}),
]


@pytest.mark.parametrize(("kind", "keys"), COUNTING)
@pytest.mark.parametrize(("layers", "field", "first"), [
    (UDP6, "IPv6.src", 120), (UDP6, "IPv6.dst", 3), (UDP6, "UDP.sport", 8), (UDP6, "UDP.dport", 0),
    (FOUR_IN_SIX, "UDP.sport", 5), (STACKS["tcp6"], "TCP.seq", 12), (STACKS["icmp"], "ICMP.seq", 0),
    ((ETHER, Layer("IPv6", {"src": "ffff::ffff", "dst": "::1"}), UDP), "IPv6.src", 118),
])  # fmt: skip
def test_counter_with_complement_needs_no_checksum_fix(layers, field, first, kind, keys):
    stream = compile_field(layers, field, kind, first=first, **keys)
    assert list_fixes(stream) == []
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
def test_complement_without_free_payload_is_not_used(frame_size, is_free):
    # 84 octets contain a payload of 18, of which the trailer takes 16
    bind = (Binding("v", "UDP.sport", 0, 15),)
    stream = compile_stream(Variable("v", 16, Kind.INC), bind=bind, frame_size=frame_size)
    assert (list_fixes(stream) == []) == is_free
    frames = Machine(stream).take(20)
    assert [rebuild(frame) for frame in frames] == frames


@pytest.mark.parametrize(
    ("kind", "starts"), [(Kind.INC, (0, 16, 32, 48)), (Kind.PERMUTATION, (112,))]
)
def test_checksum_with_many_complements_is_left_to_the_nic(kind, starts):
    bind = tuple(Binding("v", "IPv6.src", first, first + 15) for first in starts)
    stream = compile_stream(Variable("v", 16, kind), bind=bind)
    assert [i["type"] for i in list_fixes(stream)] == ["fix_checksum_hw"]
    assert_valid(stream, 200)


def test_given_checksum_is_not_computed():
    stream = compile_field((ETHER, IPV6, Layer("UDP", {"chksum": 0x1234})), "UDP.sport", first=0)
    assert list_fixes(stream) == []
    assert {Ether(frame)["UDP"].chksum for frame in Machine(stream).take(5)} == {0x1234}


@pytest.mark.parametrize(("layers", "field", "mention"), [
    (STACKS["icmp"], "ICMP.seq", ""),  # TRex has no instruction for ICMP
    ((ETHER, IPV6, UDP, IPV6, UDP), "UDP:1.sport", ""),  # the outer checksum covers the inner
    ((ETHER, IPV6, IPV6, IPV6, IPV6, UDP), "UDP.sport", "127"),
])  # fmt: skip
def test_random_field_under_a_checksum_beyond_trex_is_rejected(layers, field, mention):
    bind = (Binding("v", field, 0, 7),)
    with expect_error("beyond-trex", mentions=mention):
        compile_stream(Variable("v", 8), bind=bind, layers=layers, frame_size=256)
