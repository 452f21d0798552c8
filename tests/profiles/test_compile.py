import subprocess
import sys
from dataclasses import replace
from math import lcm

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from v6t.packets.arrays import sort_unique
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.compiler.enumeration import LISTED_BITS
from v6t.profiles.compiler.random_draws import FILLED_BIAS, FILLED_BITS, FILLED_RANGE, compute_bias
from v6t.profiles.expand import Expander
from v6t.profiles.model import Kind, Role, Traffic, Variable
from v6t.tests.expect import expect_error

from .traffics import (
    ETHER,
    IPV6,
    UDP6,
    Binding,
    compile_stream,
    make_background,
    make_mape,
    make_traffic,
)
from .vm import Machine

pytestmark = pytest.mark.slow

FIELD = "IPv6.dst"


def bind_low_bits(variable):
    """Bind the whole variable to the low bits of an address."""
    return (Binding(variable.name, FIELD, 128 - variable.width, 127),)


def compile_low(variable, **keys):
    return compile_stream(variable, bind=bind_low_bits(variable), **keys)


def read_low_bits(stream, width, count, core=0, cores=1):
    """Return the low bits of the address in the first frames of one core."""
    frames = Machine(stream, core, cores).take(count)
    return [int.from_bytes(f[38:54], "big") & ((1 << width) - 1) for f in frames]


def expand_low_bits(stream, width, count, core=0, cores=1):
    """Return the low bits of the address in many frames of one core, which the expander computes."""
    frames = Expander(stream, core, cores).compute_frames(0, count)
    return frames[:, 46:54].copy().view(">u8")[:, 0] & np.uint64((1 << width) - 1)


def test_compiled_streams_have_ids_rates_and_bursts_of_their_classes():
    traffic = Traffic("reverse", (make_mape(), make_background(3)), seed=5)
    compiled = compile_traffic(traffic, rate_fps=1000, frames=4001, first_stream_id=7)
    assert compiled.direction == "reverse"
    described = [(s.name, s.role, s.stream_id, s.weight) for s in compiled.streams]
    assert described == [("fg", Role.FOREGROUND, 7, 1), ("bg", Role.BACKGROUND, 8, 3)]
    modes = [s.trex["mode"] for s in compiled.streams]
    assert [m["rate"]["value"] for m in modes] == [250.0, 750.0]
    assert [m["type"] for m in modes] == ["single_burst"] * 2
    assert sum(m["total_pkts"] for m in modes) == 4001
    assert all(s.trex["flow_stats"] == {"enabled": False} for s in compiled.streams)
    (stream,) = compile_traffic(Traffic("forward", (make_mape(),))).streams
    assert stream.trex["mode"] == {"type": "continuous", "rate": {"type": "pps", "value": 1000.0}}
    others = (replace(make_background(), name=f"n{k}") for k in range(2))
    classes = (make_mape(), make_background(), *others)
    compiled = compile_traffic(Traffic("forward", classes), rate_fps=100)
    assert [s.trex["isg"] for s in compiled.streams] == [0.0, 1e4, 2e4, 3e4]
    classes = (replace(make_mape(), weight=9), make_background())
    compiled = compile_traffic(Traffic("forward", classes), frames=2)
    assert [s.trex["enabled"] for s in compiled.streams] == [True, False]
    assert [s.trex["mode"]["total_pkts"] for s in compiled.streams] == [2, 1]


def test_seeds_are_repeatable_distinct_and_never_zero():
    def seeds(seed, first=0):
        traffic = Traffic("forward", (make_mape(), make_background()), seed)
        compiled = compile_traffic(traffic, first_stream_id=first)
        return [s.trex["random_seed"] for s in compiled.streams]

    assert seeds(1) == seeds(1)
    matching = [x for seed in range(50) for first in (0, 2) for x in seeds(seed, first)]
    assert len(set(matching)) == len(matching) == 200
    assert all(0 < x < 1 << 32 for x in matching)


@pytest.mark.parametrize(
    ("width", "maximum", "shifts"), [(5, 0x7FFF, [-10]), (16, FILLED_RANGE - 1, [])]
)
def test_random_bits_are_the_top_of_one_draw(width, maximum, shifts):
    """Low bits of successive draws would depend on each other."""
    program = compile_low(Variable("v", width)).program
    assert sum(i["type"] == "flow_var" for i in program) == 1
    assert program[0]["max_value"] == maximum
    assert [i["shift"] for i in program if i.get("shift")] == shifts


@pytest.mark.parametrize("width", [1, 5, 8, 11, 13, 15, 16, 20, 23, 24, 30, 32, 40, 46, 48])
def test_bits_of_random_variable_vary_evenly(width):
    values = expand_low_bits(compile_low(Variable("v", width)), width, 4000)
    for bit in range(width):
        ones = np.count_nonzero(values & np.uint64(1 << bit))
        assert abs(ones - 2000) < 5 * 32, bit  # five standard deviations


@pytest.mark.parametrize(
    ("low", "high"), [(0, 65535), (1024, 65535), (1, 49151), (1, 65535), (100, 163), (5, 5), (7, 9)]
)
def test_random_ports_are_even_within_their_range(low, high):
    span = high - low + 1
    stream = compile_low(Variable("v", 16, low=low, high=high))
    values = expand_low_bits(stream, 16, 20000).astype(int)
    assert low <= values.min() <= values.max() <= high
    cells = min(64, span)
    if cells > 1:
        sizes = np.diff([-(-c * span // cells) for c in range(cells + 1)])
        expected = 20000 * sizes / sizes.sum()
        counts = np.bincount((values - low) * cells // span, minlength=cells)
        chi2 = float(((counts - expected) ** 2 / expected).sum())
        assert chi2 < cells + 6 * (2 * cells) ** 0.5


def test_variables_are_independent_of_each_other():
    variables = [Variable(name, 4) for name in "abc"]
    bind = tuple(Binding(v.name, FIELD, 100 + 8 * k, 103 + 8 * k) for k, v in enumerate(variables))
    values = expand_low_bits(compile_stream(*variables, bind=bind), 28, 40960).astype(int)
    cells = (values >> 8 & 15) | (values >> 12 & 0xF0) | (values >> 16 & 0xF00)
    chi2 = float(((np.bincount(cells, minlength=4096) - 10) ** 2 / 10).sum())
    # chi-square is 34,000 with the low bits of each draw
    assert abs(chi2 - 4096) < 6 * (2 * 4096) ** 0.5


BIASES = [
    *((span, 0) for span in (3, 100, 32768, 40000, 49151, 64512, 65535, 98304)),
    (63, 5), (1000, 4), (62, 8),
]  # fmt: skip


@pytest.mark.parametrize(("span", "dropped"), BIASES)
def test_bias_equals_counted_bias(span, dropped):
    size = span << dropped
    laps, rest = divmod(1 << 15, size)  # each value of the high bits adds 2^15 successive values
    starts = (np.arange(1 << 15) << 16) % size
    edges = [np.bincount(at, minlength=2 * size) for at in (starts, starts + rest)]
    twice = np.cumsum(edges[0] - edges[1]).reshape(2, span, 1 << dropped)
    counts = twice.sum((0, 2)) + (laps << 15 + dropped)
    assert counts.sum() == 1 << 30
    mean = (1 << 30) / span
    expected = np.abs(counts - mean).max() / mean
    assert compute_bias(span, dropped) == pytest.approx(expected, abs=1e-9)


def test_sixteen_bits_of_the_filled_range_are_even():
    counts = np.zeros(1 << FILLED_BITS, dtype=np.int64)
    for high in range(1 << 15):
        first = (high << 16) % FILLED_RANGE & 0xFFFF
        # the draws of one block are consecutive
        assert ((high << 16) + 0x7FFF) % FILLED_RANGE & 0xFFFF == first + 0x7FFF
        counts[first : first + (1 << 15)] += 1
    mean = 2.0 ** (30 - FILLED_BITS)
    assert np.abs(counts - mean).max() / mean == FILLED_BIAS


RANGES = [
    (16, 0, 65535), (16, 1024, 65535), (16, 1, 65535), (8, 5, 5), (48, (1 << 40) - 3, (1 << 40) + 3),
    (17, 0, (1 << 17) - 1), (20, 3 << 16, (5 << 16) - 1), (21, 1 << 12, (101 << 12) - 1),
    (32, 0xC6120000, 0xC6120000 + (1 << 17) - 1), (18, 1 << 16, (1 << 18) - 1),
]  # fmt: skip
LONG = [(20, 0, (1 << 20) - 1, 16), (21, 0, (1 << 21) - 1, 3)]


@pytest.mark.parametrize(("width", "low", "high", "cores"), [
    *((*bounds, cores) for bounds in RANGES for cores in (1, 3, 16)), *LONG,
])  # fmt: skip
def test_enumeration_uses_each_value_once(width, low, high, cores):
    stream = compile_low(Variable("v", width, Kind.PERMUTATION, low, high))
    count = high - low + 1
    parts = [
        expand_low_bits(stream, width, -(-(count - core) // cores), core, cores)
        for core in range(min(cores, count))
    ]
    values = np.concatenate(parts)
    unique = sort_unique(values)
    assert (len(values), len(unique), unique[0], unique[-1]) == (count, count, low, high)


@pytest.mark.parametrize("apart", [0, 3])
@pytest.mark.parametrize("width", [17, 22, 24, 28, 31, 32, 36, 40, 44, 45])
def test_wide_enumerations_are_bijections(width, apart):
    source = Expander(compile_low(Variable("v", width, Kind.PERMUTATION, apart=apart)))

    def value(frame):
        (octets,) = source.compute_frames(frame, 1)
        return int.from_bytes(octets[38:54].tobytes(), "big") & ((1 << width) - 1)

    period, decided = width + apart, 0
    frames = [0, 1, 12345, (1 << period) - 3, (1 << period) // 3]
    assert [value(f + (1 << period)) for f in frames] == [value(f) for f in frames]
    for t in reversed(range(LISTED_BITS, period)):
        # bits of higher t, which may also change, are decided already
        (bit,) = {(value(f) ^ value(f + (1 << t))) & ~decided for f in frames}
        assert bit.bit_count() == 1
        decided |= bit
    listed = source.compute_frames(0, 1 << LISTED_BITS)[:, 48:54].astype(np.int64)
    low = sum(listed[:, k] << 8 * (5 - k) for k in range(6)) & ((1 << width) - 1) & ~decided
    for r in range(1 << apart):
        assert len(sort_unique(low[r :: 1 << apart])) == 1 << LISTED_BITS - apart


@pytest.mark.parametrize("width", [16, 17, 20, 24, 28])
def test_steps_of_an_enumeration_look_random(width):
    halves = (0, width // 2), (width // 2, width)
    cuts = tuple(
        Binding("v", FIELD, 128 - high, 127 - low, width - high, width - low - 1)
        for low, high in halves
    )
    stream = compile_stream(Variable("v", width, Kind.PERMUTATION), bind=cuts)
    frames = Expander(stream).compute_frames(0, 60_000)
    values = sum(frames[:, 50 + k].astype(np.int64) << 8 * (3 - k) for k in range(4))
    values &= (1 << width) - 1
    steps = np.diff(values) % (1 << width)
    assert np.unique(steps, return_counts=True)[1].max() < 30
    for low, high in halves:
        field = values >> low & ((1 << high - low) - 1)
        distinct, counts = np.unique(np.diff(field) % (1 << high - low), return_counts=True)
        assert len(distinct) > 0.9 * (1 << high - low) or len(distinct) > 4000
        assert counts.max() < 4 * len(steps) / (1 << high - low) + 60
        assert abs(np.corrcoef(field[1:], field[:-1])[0, 1]) < 0.1


def test_enumeration_with_an_added_constant_has_one_stride():
    bind = (Binding("v", FIELD, 112, 127, add=3),)
    stream = compile_stream(Variable("v", 16, Kind.PERMUTATION), bind=bind)
    assert any("fixed stride" in note for note in stream.notes)
    assert len(set(np.diff(read_low_bits(stream, 16, 200)) % (1 << 16))) == 1


def test_flow_variables_of_values_apart_have_unique_names():
    variable = Variable("v", 17, Kind.PERMUTATION, low=1 << 15, high=(1 << 17) - 1, apart=1)
    names = [i["name"] for i in compile_low(variable).program if i["type"] == "flow_var"]
    assert len(set(names)) == len(names) == 3


@pytest.mark.parametrize(("frames", "noted"), [(250, True), (256, False)])
def test_uneven_bursts_over_cores_are_noted(frames, noted):
    stream = compile_low(Variable("v", 8, Kind.PERMUTATION), frames=frames, cores=4)
    assert any("not a multiple" in note for note in stream.notes) is noted


@settings(max_examples=150)
@given(st.sampled_from([Kind.INC, Kind.DEC]), st.sampled_from([8, 16, 32]), st.data())
def test_counters_follow_model(kind, width, data):
    top, cores = (1 << width) - 1, data.draw(st.integers(1, 16))
    low = data.draw(st.integers(0, top))
    high = data.draw(st.integers(low, min(top, low + 90)))
    step, core = data.draw(st.integers(1, 100)), data.draw(st.integers(0, cores - 1))
    stream = compile_low(Variable("v", width, kind, low, high, step))
    values = list(range(low, high + 1, step))[:: -1 if kind is Kind.DEC else 1]
    expected = [values[(core + k * cores) % len(values)] for k in range(40)]
    assert read_low_bits(stream, width, 40, core, cores) == expected


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("width", "step"), [(16, 1), (32, 1), (48, 1), (48, 4), (40, 1 << 20), (8, 1)]
)
def test_counter_over_its_full_range_starts_at_its_end(width, step, sign):
    kind = Kind.INC if sign > 0 else Kind.DEC
    start = 0 if sign > 0 else (1 << width) - step
    expected = [(start + sign * step * k) % (1 << width) for k in range(20)]
    assert read_low_bits(compile_low(Variable("v", width, kind, step=step)), width, 20) == expected


def test_lists_of_different_lengths_advance_together():
    lists = {"a": [1, 2, 3], "b": [7, 8]}
    variables = (Variable(n, 8, Kind.LIST, values=v) for n, v in lists.items())
    bind = (Binding("a", FIELD, 112, 119), Binding("b", FIELD, 120, 127))
    stream = compile_stream(*variables, bind=bind)
    for cores, core in ((1, 0), (2, 1), (5, 3)):
        frames = [core + k * cores for k in range(6)]
        expected = [lists["a"][f % 3] << 8 | lists["b"][f % 2] for f in frames]
        assert read_low_bits(stream, 16, lcm(2, 3), core, cores) == expected


def vary_many(count):
    variables = [Variable(f"v{k}", 16, low=1, high=40000) for k in range(count)]
    places = [(f, 16 * k) for f in ("IPv6.src", "IPv6.dst") for k in range(8)]
    bind = [Binding(v.name, f, at, at + 15) for v, (f, at) in zip(variables, places, strict=False)]
    return make_traffic(*variables, bind=tuple(bind))


def vary_field(field):
    layers = (ETHER, *[IPV6] * 14, UDP6[2])
    bind = (Binding("v", field, 0, 7),)
    return make_traffic(Variable("v", 8), bind=bind, layers=layers, frame_size=1000)


def vary_list(count):
    variable = Variable("v", 32, Kind.LIST, values=range(count))
    return make_traffic(variable, bind=bind_low_bits(variable))


@pytest.mark.parametrize(("largest", "beyond", "mention"), [
    (vary_many(15), vary_many(16), "68"),
    (vary_field("IPv6:11.hlim"), vary_field("IPv6:13.hlim"), "541"),
    (vary_field("IPv6.hlim"), vary_field("UDP.sport"), "127"),
    (vary_list(65535), vary_list(65536), "65536"),
], ids=["memory", "octet", "checksum", "list"])  # fmt: skip
def test_traffic_beyond_a_limit_of_trex_is_rejected(largest, beyond, mention):
    assert compile_traffic(largest).streams[0].program
    with expect_error("beyond-trex", mentions=mention):
        compile_traffic(beyond)


def test_more_streams_than_packet_groups_are_rejected():
    traffic = Traffic("forward", tuple(replace(make_mape(), name=f"c{k}") for k in range(3)))
    compile_traffic(traffic, first_stream_id=125)
    with expect_error("too-many-for-trex", mentions="128"):
        compile_traffic(traffic, first_stream_id=126)


V = Variable("v", 16)


@pytest.mark.parametrize(("variable", "bind", "code"), [
    (Variable("v", 24, low=1, high=(1 << 24) - 1), None, "beyond-trex"),
    (Variable("v", 32, low=1), None, "beyond-trex"),
    (Variable("v", 17, Kind.PERMUTATION, low=1), None, "beyond-trex"),
    (Variable("v", 32, Kind.INC, step=3), None, "beyond-trex"),
    (Variable("v", 49), None, "invalid-traffic-model"),
    (Variable("v.0", 8), None, "invalid-traffic-model"),
    (Variable("v", 8, low=9, high=8), None, "invalid-traffic-model"),
    (Variable("v", 8, high=256), None, "invalid-traffic-model"),
    (Variable("v", 8, Kind.INC, step=0), None, "invalid-traffic-model"),
    (Variable("v", 8, Kind.LIST), None, "invalid-traffic-model"),
    (Variable("v", 8, Kind.LIST, values=[256]), None, "invalid-traffic-model"),
    (Variable("v", 8, Kind.LIST, values=[-1, 5]), None, "invalid-traffic-model"),
    (V, (Binding("v", FIELD, 0, 3, 14, 17),), "invalid-traffic-model"),
    (V, (Binding("v", FIELD, 0, 15), Binding("v", FIELD, 15, 30)), "invalid-traffic-model"),
    (Variable("v", 40), (Binding("v", FIELD, 0, 39, add=1),), "beyond-trex"),
    (Variable("v", 24), (Binding("v", FIELD, 0, 23, add=1),), "beyond-trex"),
])  # fmt: skip
def test_variable_that_trex_cannot_have_is_rejected(variable, bind, code):
    with expect_error(code) as caught:
        compile_stream(variable, bind=bind or bind_low_bits(variable))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("classes", "keys", "code"), [
    *(((make_mape(),), {"rate_fps": rate}, "out-of-range") for rate in (0, -1, float("nan"))),
    ((make_mape(),), {"frames": 1 << 32}, "trial-too-long"),
    ((), {}, "invalid-traffic-model"),
    ((make_mape(), make_mape()), {}, "invalid-traffic-model"),
])  # fmt: skip
def test_traffic_that_cannot_be_sent_is_rejected(classes, keys, code):
    with expect_error(code):
        compile_traffic(Traffic("forward", classes), **keys)


def test_scapy_is_loaded_only_to_build_frames():
    code = (
        "import sys, v6t.profiles.compiler.compile, v6t.profiles.exports, v6t.base.ethernet;"
        "sys.exit('scapy' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
