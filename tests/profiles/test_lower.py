"""Frames contain the bits of variables at the places of any bindings."""

from collections import Counter as Tally
from ipaddress import IPv4Address, IPv6Address
from itertools import starmap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from v6t.base.errors import UsageError
from v6t.profiles.compiler.flow_variables import FlowVariable
from v6t.profiles.compiler.writes import Write, encode_writes
from v6t.profiles.model import Kind, Layer, Variable
from v6t.profiles.template import build_template, refresh_checksums
from v6t.tests.needs import sample

from .traffics import ETHER, FOUR_IN_SIX, Binding, compile_stream
from .vm import Machine

FRAMES = 12
FIELD_WIDTHS = {
    "Ether.dst": 48, "IPv6.tc": 8, "IPv6.fl": 20, "IPv6.src": 128, "IPv6.dst": 128, "IP.tos": 8, "IP.id": 16,
    "IP.frag": 13, "IP.src": 32, "IP.dst": 32, "UDP.sport": 16, "UDP.dport": 16,
}  # fmt: skip
"""Widths of header fields in bits."""


def count_types(stream):
    return Tally(i["type"] for i in stream.program)


IPV6S = st.integers(0, (1 << 128) - 1).map(lambda n: str(IPv6Address(n)))
IPV4S = st.integers(0, (1 << 32) - 1).map(lambda n: str(IPv4Address(n)))
SMALL = st.integers(0, 255)
TEMPLATES = st.builds(
    lambda *layers: (ETHER, *starmap(Layer, zip(("IPv6", "IP", "UDP"), layers, strict=True))),
    st.fixed_dictionaries({"src": IPV6S, "dst": IPV6S, "fl": SMALL, "tc": SMALL}),
    st.fixed_dictionaries({"src": IPV4S, "dst": IPV4S, "id": SMALL, "tos": SMALL}),
    st.fixed_dictionaries({"sport": SMALL, "dport": SMALL}),
)
"""4in6 headers with arbitrary constants."""


@st.composite
def variables(draw, name):
    width = draw(st.integers(1, 48))
    top = (1 << width) - 1
    kind = draw(st.sampled_from([Kind.LIST, Kind.LIST, Kind.INC, Kind.DEC, Kind.UNIFORM]))
    if kind is Kind.LIST:
        values = draw(st.lists(st.integers(0, top), min_size=1, max_size=5))
        return Variable(name, width, kind, values=values)
    if kind is Kind.UNIFORM:
        return Variable(name, width, kind)
    low = draw(st.integers(0, top))
    high = min(top, low + draw(st.integers(0, 60)))
    return Variable(name, width, kind, low, high, step=draw(st.integers(1, 70)))


@st.composite
def cases(draw):
    """Draw layers, variables and any number of bindings that do not overlap."""
    layers = draw(TEMPLATES)
    names = [f"v{k}" for k in range(draw(st.integers(1, 3)))]
    chosen = {n: draw(variables(n)) for n in names}
    used_bits, bindings = set(), []
    for _ in range(draw(st.integers(1, 9))):
        variable = chosen[draw(st.sampled_from(names))]
        field = draw(st.sampled_from(sorted(FIELD_WIDTHS)))
        length = draw(st.integers(1, min(variable.width, FIELD_WIDTHS[field])))
        first = draw(st.integers(0, FIELD_WIDTHS[field] - length))
        source = draw(st.integers(0, variable.width - length))
        bits = {(field, b) for b in range(first, first + length)}
        if bits & used_bits:
            continue
        used_bits |= bits
        may_add = variable.kind is not Kind.UNIFORM and variable.width <= 32
        add = draw(st.sampled_from([0, 0, 1, 1024, -1, 77777])) if may_add else 0
        end = first + length - 1
        bindings.append(Binding(variable.name, field, first, end, source, source + length - 1, add))
    return layers, list(chosen.values()), bindings


def list_values(v, count):
    """Return the first values of a variable by the definition of the model."""
    if v.kind is Kind.LIST:
        values = list(v.values)
    else:
        values = list(range(v.low, v.top + 1, v.step))
        values = values[::-1] if v.kind is Kind.DEC else values
    return [values[k % len(values)] for k in range(count)]


def select_bits(v, b, value):
    bits = b.bits([v])
    low = v.width - bits.source - bits.length
    return (value + b.add) % (1 << v.width) >> low & ((1 << bits.length) - 1)


@pytest.mark.slow
@settings(max_examples=sample(60, 150))
@given(cases())
def test_frames_contain_the_bits_of_all_bindings(case):
    layers, chosen, bindings = case
    try:
        stream = compile_stream(*chosen, bind=tuple(bindings), layers=layers)
    except UsageError as exc:
        # the only limit that small cases can exceed
        assert exc.code == "beyond-trex"
        return
    template, machine = build_template(layers, 128), Machine(stream)
    known = {v.name: list_values(v, FRAMES) for v in chosen if v.kind is not Kind.UNIFORM}
    by_name = {v.name: v for v in chosen}
    for k, frame in enumerate(machine.take(FRAMES)):
        number, size = int.from_bytes(frame, "big"), 8 * len(frame)
        expected, seen = int.from_bytes(template.packet, "big"), {}
        for b in bindings:
            v = by_name[b.variable]
            _, field = template.layout.find_field(b.field)
            shift, mask = size - 1 - field.first - b.last, (1 << b.last - b.first + 1) - 1
            if b.variable in known:
                placed = select_bits(v, b, known[b.variable][k])
            else:
                placed = number >> shift & mask
                low = v.width - b.var_first - (b.last - b.first + 1)
                for bit in range(b.last - b.first + 1):
                    value = placed >> bit & 1
                    assert seen.setdefault((b.variable, low + bit), value) == value
            expected = expected & ~(mask << shift) | placed << shift
        rebuilt = bytearray(expected.to_bytes(len(frame), "big"))
        payload = template.layout.payload
        rebuilt[payload:] = frame[payload:]  # may contain complements, which checksums cover
        refresh_checksums(rebuilt, template.layout)
        assert frame == bytes(rebuilt)


LONG = [0, 0xFFFFFFFF, 0x12345678]


@pytest.mark.parametrize(("variable", "bind", "masked", "plain"), [
    # two copies with the same shift and a constant bit between them
    (Variable("v", 16),
        [Binding("v", "IP.src", 8, 14, 0, 6), Binding("v", "IP.src", 16, 23, 8, 15)], 1, 0),
    # more bits than one write of four octets
    (Variable("v", 32, Kind.LIST, values=LONG), [Binding("v", "IPv6.src", 3, 34)], 2, 0),
    # aligned
    (Variable("v", 32, Kind.LIST, values=range(9)), [Binding("v", "IP.src", 0, 31)], 0, 1),
])  # fmt: skip
def test_bindings_are_compiled_to_few_writes(variable, bind, masked, plain):
    result = count_types(compile_stream(variable, bind=tuple(bind), layers=FOUR_IN_SIX))
    assert (result["write_mask_flow_var"], result["write_flow_var"]) == (masked, plain)


def test_sum_does_not_carry_into_the_constant_bits_before_a_field():
    bind = (Binding("v", "IP.id", 4, 15, add=1),)
    variable = Variable("v", 12, Kind.LIST, values=[0xFFF])
    (frame,) = Machine(compile_stream(variable, bind=bind, layers=FOUR_IN_SIX)).take(1)
    assert frame[58:60] == b"\0\0"


def test_write_at_the_end_of_a_frame_stays_within_it():
    flow_var = FlowVariable("v", 0, 24, "inc", values=[0xABCDEF], sizes=(4,))
    (_, write), _ = encode_writes([flow_var], [Write("v", 8 * 17, 24, 0)], bytes(20))
    assert write["pkt_offset"] + write.get("pkt_cast_size", 4) <= 20


def test_overlapping_plain_writes_are_ordered():
    # 4-octet variables in 2-octet fields: the second write restores octets that the first changed
    lists = [Variable(n, 17, Kind.LIST, values=[70000, 5]) for n in "ab"]
    bind = tuple(Binding(n, f"UDP.{f}", 0, 15, 1, 16) for n, f in (("a", "sport"), ("b", "dport")))
    stream = compile_stream(*lists, bind=bind, layers=FOUR_IN_SIX)
    assert count_types(stream)["write_flow_var"] >= 1
    (frame,) = Machine(stream).take(1)
    assert frame[74:78] == (70000 & 0xFFFF).to_bytes(2, "big") * 2
