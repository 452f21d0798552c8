"""Frames of the expander compared with the scalar field engine, with scapy, and with TRex."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from v6t.packets.direction import DIRECTIONS
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.compiler.schedule import list_classes_with_index
from v6t.profiles.expand import BLOCK_FRAMES, Expander, expand_set, make_draw_tables, seed_core
from v6t.profiles.model import Kind, Variable
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify
from v6t.tests.plugins.support import TAGGED, make_mape_br

from .test_export_trex import make_samples
from .test_template import rebuild
from .traffics import FOUR_IN_SIX, UDP4, UDP6, Binding, compile_stream
from .vm import Machine

VECTORS = yaml.safe_load((Path(__file__).parent / "vectors" / "expansion.yaml").read_text())
MAPE = VECTORS["relays"]
each_relay = pytest.mark.parametrize("name", MAPE)
each_direction = pytest.mark.parametrize("direction", DIRECTIONS)


def compile_relay(name, direction, *, size=104, links=None, **keys):
    plugin = make_mape_br(links, **MAPE[name])
    return compile_traffic(plugin.build_traffic(direction, plugin.make_frame_pair(size)), **keys)


def assert_equals_machine(stream, count, core=0, cores=1):
    """Check that the expander and the machine compute the same first frames."""
    frames = Expander(stream, core, cores).compute_frames(0, count)
    assert frames.dtype == np.uint8
    assert [f.tobytes() for f in frames] == Machine(stream, core, cores).take(count)


@pytest.mark.parametrize("cores", [1, 2, 3, 4])
@each_direction
@each_relay
def test_frames_equal_scalar_machine(name, direction, cores):
    for stream in compile_relay(name, direction, cores=cores).streams:
        for core in range(cores):
            assert_equals_machine(stream, 120 // cores, core, cores)


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("name", make_samples())
def test_frames_of_other_traffic_equal_scalar_machine(name, cores):
    for stream in compile_traffic(make_samples()[name], cores=cores).streams:
        for core in range(cores):
            assert_equals_machine(stream, 100, core, cores)


@each_direction
@pytest.mark.parametrize("name", ["offset 6", "million", "spoofed"])
def test_frames_beyond_one_block_equal_scalar_machine(name, direction):
    for stream in compile_relay(name, direction).streams:
        assert_equals_machine(stream, BLOCK_FRAMES + 500)


@pytest.mark.parametrize(
    ("size", "links"), [(104, None), (105, None), (169, None), (1518, None), (108, TAGGED)]
)
@each_direction
@each_relay
def test_checksums_equal_scapy(name, direction, size, links):
    for stream in compile_relay(name, direction, size=size, links=links).streams:
        frames = Expander(stream).compute_frames(0, 500)
        assert links or verify(frames).all()
        assert [rebuild(f.tobytes()) for f in frames[::100]] == [f.tobytes() for f in frames[::100]]


@pytest.mark.parametrize("layers", [UDP4, UDP6, FOUR_IN_SIX])
def test_udp_checksum_is_never_zero(layers):
    variables = Variable("a", 16, Kind.INC), Variable("b", 16)
    bind = Binding("a", "UDP.dport", 0, 15), Binding("b", "UDP.sport", 0, 15)
    expander = Expander(compile_stream(*variables, bind=bind, layers=layers))
    udp, ones = expander.layout.start, 0
    for first in range(0, 1 << 18, 1 << 16):
        frames = expander.compute_frames(first, 1 << 16)
        field = frames[:, udp + 6 : udp + 8].view(">u2")[:, 0]
        assert (field > 0).all()
        assert verify(frames).all()
        ones += int((field == 0xFFFF).sum())
    assert ones > 0


@each_direction
@each_relay
def test_frames_do_not_depend_on_batches(name, direction):
    for stream in compile_relay(name, direction).streams:
        for core, cores in ((0, 1), (1, 2)):
            expander = Expander(stream, core, cores)
            frames = expander.compute_frames(0, 2 * BLOCK_FRAMES + 20)
            for first, count in (0, 37), (37, 63), (BLOCK_FRAMES - 3, 6), (5, 2 * BLOCK_FRAMES + 7):
                part = expander.compute_frames(first, count)
                assert (part == frames[first : first + count]).all()


@each_direction
@each_relay
def test_frames_repeat_after_multiples_of_all_cycles(name, direction):
    for stream in compile_relay(name, direction).streams:
        period = 1 << 32  # period of the random generator times all cycles
        for i in stream.program:
            if i["type"] == "flow_var" and i["op"] != "random":
                values = i.get("value_list")
                period *= len(values) if values else i["max_value"] - i["min_value"] + 1
        expander = Expander(stream)
        first = expander.compute_frames(0, 20)
        assert all((expander.compute_frames(period * n, 20) == first).all() for n in (1, 3, 1 << 8))


def test_frames_can_be_written_into_a_ring():
    expander = Expander(compile_relay("offset 6", "forward").streams[0])
    for at in (32, 33):
        ring = np.full((3000, 256), 0x77, np.uint8)
        rows = ring[:, at : at + expander.length]
        assert expander.compute_frames(10, 3000, rows) is rows
        assert (rows == expander.compute_frames(10, 3000)).all()
        assert (ring[:, :at] == 0x77).all() and (ring[:, at + expander.length :] == 0x77).all()


def test_stream_without_bindings_expands_to_its_packet():
    stream = compile_stream(Variable("v", 8), bind=())
    assert Expander(stream).compute_frames(0, 0).shape == (0, 124)
    frames = Expander(stream).compute_frames(7, 5000)
    assert {f.tobytes() for f in frames} == {stream.packet}


@each_direction
@pytest.mark.parametrize("name", ["million", "spoofed", "domains"])
def test_expand_set_yields_frames_in_sending_order(name, direction):
    streams, count = compile_relay(name, direction), BLOCK_FRAMES + 300
    frames = list(expand_set(streams, 0, count))
    classes, index = list_classes_with_index([s.weight for s in streams.streams], 0, count)
    machines = [Machine(s).frames() for s in streams.streams]
    assert frames[:300] == [next(machines[classes[k]]) for k in range(300)]
    expanders = [Expander(s) for s in streams.streams]
    for k in range(300, count, 97):
        assert frames[k] == expanders[classes[k]].compute_frames(int(index[k]), 1)[0].tobytes()
    assert list(expand_set(streams, 1234, 900)) == frames[1234:2134]


def replace_end(*instructions, drop):
    """Return a compiled stream whose last ``drop`` instructions are replaced."""
    stream = compile_relay("figure 8", "forward").streams[0]
    start = stream.program[: max(0, len(stream.program) - drop)]
    return stream.with_program([*start, *instructions])


@pytest.mark.parametrize(("op", "first"), [("inc", [0, 7, 14]), ("dec", [255, 248, 241])])
def test_range_is_rounded_up_to_the_step_as_the_server_does(op, first):
    stream = replace_end(ins.declare_range("x", 2, op, 0, 255, 7), ins.write("x", 22), drop=99)
    values = Expander(stream).compute_frames(0, 75)[:, 22:24].copy().view(">u2")[:, 0].tolist()
    assert values[:3] == first
    assert len(set(values)) == 37
    assert values[37:74] == values[:37]


EA = {"type": "write_mask_flow_var", "name": "ea", "pkt_offset": 22, "pkt_cast_size": 2,
      "mask": 1, "shift": 0, "add_value": 0, "is_big_endian": True}  # fmt: skip
REFUSED = {
    "an unknown instruction": ({"type": "trim_pkt_size"}, 1),
    "a write after the checksum": (EA, 0),
    "a write past the end": ({**EA, "pkt_offset": 99}, 1),
    "a little-endian write": ({**EA, "is_big_endian": False}, 1),
    "a random variable of 8 octets": (ins.declare_range("x", 8, "random", 0, 9), 1),
    "a checksum of ICMPv6": ({"type": "fix_checksum_icmpv6", "l2_len": 54, "l3_len": 20}, 1),
    "a checksum of neither UDP nor TCP": (ins.fix_hardware(54, 20, 17), 1),
    "a checksum at an odd offset": (ins.fix_hardware(54, 21, 11), 1),
}


@pytest.mark.parametrize(("instruction", "drop"), REFUSED.values(), ids=REFUSED)
def test_unsupported_instruction_is_rejected(instruction, drop):
    with expect_error("expander-unsupported"):
        Expander(replace_end(instruction, drop=drop))


@pytest.mark.parametrize(("seed", "core", "recorded"), VECTORS["draws"])
def test_random_numbers_equal_trex(seed, core, recorded):
    multipliers, increments = make_draw_tables(3, len(recorded))
    states = multipliers * np.uint32(seed_core(seed, core)) + increments
    short, high, low = (states >> 16 & 0x7FFF).astype(int)
    assert np.stack([short, (high << 16) + low], axis=1).tolist() == recorded
