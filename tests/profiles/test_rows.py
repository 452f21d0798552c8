"""Streams of precomputed rows and streams with a later start send the frames of the original program."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from v6t.core.config.run_setup import make_setup
from v6t.core.runs.bench import compile_directions
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.rows import convert_to_rows, cover_octets
from v6t.profiles.streams import compute_period, start_at_frame
from v6t.tests.expect import expect_error
from v6t.tests.settings import resolve

from .test_export_trex import make_samples

pytestmark = pytest.mark.slow


def compile_plugin(plugin, size=104, **params):
    run = resolve(plugin=plugin, params=params)
    technology = make_setup(run).technology
    return compile_directions(technology, technology.make_frame_pair(size), run.seed)


@pytest.mark.parametrize("plugin", ["mape-br", "mapt-br", "siit", "ipv4-router", "ipv6-router"])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_rows_send_the_frames_of_the_program(plugin, direction):
    plain = compile_plugin(plugin)[direction]
    for before, after in zip(plain.streams, convert_to_rows(plain, 500).streams, strict=True):
        frames = Expander(before).compute_frames(0, 500)
        assert np.array_equal(Expander(after).compute_frames(0, 500), frames)
        assert np.array_equal(Expander(after).compute_frames(500, 3), frames[:3])
        assert {i["type"] for i in after.program} <= {"flow_var", "write_flow_var"}
        assert len(after.program) <= len(before.program)
        assert any("500 precomputed frames" in note for note in after.notes)


def test_zero_rows_change_nothing_and_too_many_are_rejected():
    plain = compile_plugin("mape-br")["forward"]
    assert convert_to_rows(plain, 0) == plain
    with expect_error("too-many-for-trex", mentions="65535"):
        convert_to_rows(plain, 70_000)


@given(st.sets(st.integers(14, 99), max_size=60))
@settings(max_examples=200)
def test_writes_cover_the_changing_octets(octets):
    changing = sorted(octets)
    result = cover_octets(changing, 100)
    covered = {at + k for at, size in result for k in range(size)}
    assert set(changing) <= covered
    assert all(at + size <= 100 for at, size in result)
    assert all(size in (1, 2, 4, 8) for _, size in result)
    assert len(result) <= len(changing)


def compile_with_fixed_ports(ces):
    port = '{"policy": "fixed", "min": 5000}'
    ports = {"fw_sport": "fixed", "fw_dport": port, "rv_sport": port, "rv_dport": "fixed"}
    return compile_plugin("mape-br", ces=ces, **ports)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_frames_with_a_short_period_are_always_converted_to_rows(direction):
    plain = compile_with_fixed_ports("1000")[direction]
    (before,), (after,) = plain.streams, convert_to_rows(plain, 0).streams
    assert compute_period(before) == 1000
    assert after is not before
    assert any("1000 precomputed frames" in note for note in after.notes)
    frames = Expander(before).compute_frames(0, 3000)
    assert np.array_equal(Expander(after).compute_frames(0, 3000), frames)
    rows, frames = (Expander(s).compute_frames(123_456, 50) for s in (after, before))
    assert np.array_equal(rows, frames)


@pytest.mark.parametrize(
    "compiled", [compile_plugin("mape-br"), compile_with_fixed_ports("all")], ids=["random", "long"]
)
def test_pseudorandom_and_long_traffic_remains_a_program(compiled):
    for streams in compiled.values():
        assert convert_to_rows(streams, 0) == streams


COMPILED = {n: compile_traffic(make_samples()[n], frames=1000) for n in ("neutral", "wide")}
STREAMS = {name: compiled.streams[0] for name, compiled in COMPILED.items()}
STREAMS["rows"] = convert_to_rows(compile_plugin("mape-br", ces="5000")["forward"], 300).streams[0]


@given(
    st.sampled_from(["inc", "dec"]), st.integers(1, 300), st.integers(1, 9), st.integers(0, 1000)
)
def test_period_equals_period_of_frames(op, count, step, low):
    program = [ins.declare_range("v", 2, op, low, low + count * step - 1, step), ins.write("v", 36)]
    counting = STREAMS["neutral"].with_program(program)
    period = compute_period(counting)
    frames = Expander(counting).compute_frames(0, 2 * period)
    assert np.array_equal(frames[:period], frames[period:])
    assert len(np.unique(frames[:period, 36:38], axis=0)) == period


@pytest.mark.parametrize("name", STREAMS)
@given(first=st.integers(0, 1 << 20), count=st.integers(1, 300))
def test_stream_with_later_start_continues_from_there(name, first, count):
    stream = STREAMS[name]
    later = Expander(start_at_frame(stream, first)).compute_frames(0, count)
    assert np.array_equal(later, Expander(stream).compute_frames(first, count))
