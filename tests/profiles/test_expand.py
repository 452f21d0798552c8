"""The expander against the scalar machine, against scapy, and against TRex itself."""

from __future__ import annotations

import base64
import os
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from scapy.utils import RawPcapReader
from v6t.plugins.base import Link, Links
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.compiler.schedule import list_classes_with_index
from v6t.profiles.expand import BLOCK, Expander, expand_set
from v6t.profiles.exports import to_stl_json
from v6t.profiles.model import Kind, Variable
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify
from v6t.tests.plugins.support import FIGURE_8, relay

from .test_export_trex import CLIENT, TREX, client
from .test_export_trex import traffics as compiler_traffics
from .test_template import rebuilt
from .traffics import FOUR_IN_SIX, OVER_FOUR, OVER_SIX, Binding, one
from .vm import Machine

WIDE = {"rule_ipv6": "2001:db8:100::/40", "rule_ipv4": "10.0.0.0/16", "ea_len": 24}
MAPE = {
    "figure 8": {**FIGURE_8, "ces": "all"},
    "offset 6": {**FIGURE_8, "psid_offset": 6, "n": 10, "m": 9},
    "offset 4": {**WIDE, "psid_offset": 4, "ces": "all", "n": 2, "m": 1},
    "enumerated": {**WIDE, "ces": 1 << 20},
    "million": {**WIDE, "ces": 1_000_000, "n": 4, "m": 3},
    "one port each": {**WIDE, "psid_offset": 8, "ces": "all", "fw_sport": "inc"},
    "long": {"rule_ipv6": "3ff0::/16", "rule_ipv4": "10.0.0.0/8", "ea_len": 32, "psid_offset": 0,
        "ces": "all", "rv_dport": "dec"},
    "prefixes": {**WIDE, "ea_len": 9, "ces": "all",
        "fw_dport": {"policy": "inc", "min": 9, "max": 99}},
    "nothing shared": {**WIDE, "ea_len": 16, "ces": "all",
        "rv_sport": {"policy": "dec", "min": 1, "max": 7}},
    "draft, fixed": {**FIGURE_8, "iid_format": "draft", "fw_sport": "fixed", "rv_dport": "fixed"},
    "spoofed": {**FIGURE_8, "ces": 77, "negative_percent": 30, "n": 3, "m": 2},
    "domains": {**FIGURE_8, "domains": [{**WIDE, "psid_offset": 2, "ces": "all", "share": 3}]},
}  # fmt: skip
TAGGED = Links(
    Link("02:00:00:00:01:02", "02:00:00:00:01:01", vlan=42),
    Link("02:00:00:00:02:02", "02:00:00:00:02:01", vlan=43),
)
DIRECTIONS = ("forward", "reverse")


def mape_set(name, direction, *, size=104, links=None, **keys):
    plugin = relay(links, **MAPE[name])
    return compile_traffic(plugin.traffic(direction, plugin.frame_pair(size)), **keys)


def same(expander, machine, count):
    """The first frames of both, octet by octet."""
    wanted = [frame for frame, _ in islice(machine.frames(), count)]
    got = expander.frames(0, count)
    assert got.dtype == np.uint8
    assert got.shape == (count, len(wanted[0]))
    assert [f.tobytes() for f in got] == wanted


@pytest.mark.parametrize("cores", [1, 2, 3, 4])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", MAPE)
def test_frames_are_those_of_the_scalar_machine(name, direction, cores):
    for stream in mape_set(name, direction, cores=cores).streams:
        for core in range(cores):
            same(Expander(stream, core, cores), Machine(stream, core, cores), 120 // cores)


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("name", compiler_traffics())
def test_other_traffic_too(name, cores):
    for stream in compile_traffic(compiler_traffics()[name], cores=cores).streams:
        for core in range(cores):
            same(Expander(stream, core, cores), Machine(stream, core, cores), 100)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", ["offset 6", "million", "spoofed"])
def test_long_runs_cross_blocks_and_cycles(name, direction):
    for stream in mape_set(name, direction).streams:
        same(Expander(stream), Machine(stream), BLOCK + 500)


@pytest.mark.parametrize("size", [104, 105, 169, 1518])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", MAPE)
def test_checksums_are_scapys(name, direction, size):
    for stream in mape_set(name, direction, size=size).streams:
        frames = Expander(stream).frames(0, 3000)
        assert verify(frames).all()
        for frame in frames[::500]:
            assert rebuilt(frame.tobytes()) == frame.tobytes()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_checksums_behind_vlan_tags(direction):
    for stream in mape_set("offset 6", direction, size=108, links=TAGGED).streams:
        same(Expander(stream), Machine(stream), 50)
        frames = Expander(stream).frames(0, 300)
        assert [rebuilt(f.tobytes()) for f in frames] == [f.tobytes() for f in frames]


def test_no_checksum_is_zero():
    """Every sum of 16 bits occurs, among them the one whose complement is 0."""
    variables = Variable("a", 16, Kind.INC), Variable("b", 16)
    bind = Binding("a", "UDP.dport", 0, 15), Binding("b", "UDP.sport", 0, 15)
    for layers in (OVER_FOUR, OVER_SIX, FOUR_IN_SIX):
        expander = Expander(compile_traffic(one(*variables, bind=bind, layers=layers)).streams[0])
        udp, ones = expander.layout.start, 0
        for first in range(0, 1 << 20, 1 << 16):
            frames = expander.frames(first, 1 << 16)
            field = frames[:, udp + 6 : udp + 8].view(">u2")[:, 0]
            assert (field > 0).all()
            assert verify(frames).all()
            ones += int((field == 0xFFFF).sum())
        assert ones > 0


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", MAPE)
def test_any_cut_gives_the_same_frames(name, direction):
    for stream in mape_set(name, direction).streams:
        for core, cores in ((0, 1), (1, 2)):
            expander = Expander(stream, core, cores)
            whole = expander.frames(0, 100)
            parts = np.concatenate([expander.frames(0, 37), expander.frames(37, 63)])
            assert (parts == whole).all()
            first = BLOCK - 3
            assert (expander.frames(first, 6)[3:] == expander.frames(BLOCK, 3)).all()
            many = expander.frames(5, 2 * BLOCK + 7)
            assert (many[BLOCK : BLOCK + 9] == expander.frames(BLOCK + 5, 9)).all()
            assert (many[-1] == expander.frames(2 * BLOCK + 11, 1)[0]).all()


@pytest.mark.parametrize("name", MAPE)
def test_far_frames_are_as_near(name):
    """Random access: what repeats must repeat, however far away."""
    for direction in DIRECTIONS:
        for stream in mape_set(name, direction).streams:
            expander = Expander(stream)
            whole = period(stream)
            for times in (1, 3, 1 << 8):
                far = expander.frames(whole * times, 20)
                assert (far == expander.frames(0, 20)).all()


def period(stream) -> int:
    """Frames after which a program certainly repeats: the generator's period times all cycles."""
    total = 1 << 32
    for i in stream.program:
        if i["type"] == "flow_var" and i["op"] != "random":
            listed = i.get("value_list")
            total *= len(listed) if listed else (i["max_value"] - i["min_value"] + 1)
    return total


def test_frames_can_be_written_into_a_ring():
    stream = mape_set("offset 6", "forward").streams[0]
    expander = Expander(stream)
    ring = np.full((3000, 256), 0x77, np.uint8)
    for at in (32, 33):
        ring[:] = 0x77
        rows = ring[:, at : at + expander.length]
        assert expander.frames(10, 3000, rows) is rows
        assert (rows == expander.frames(10, 3000)).all()
        assert (ring[:, :at] == 0x77).all()
        assert (ring[:, at + expander.length :] == 0x77).all()


def test_no_frames():
    expander = Expander(mape_set("offset 6", "forward").streams[0])
    assert expander.frames(0, 0).shape == (0, 100)


def test_constant_frames():
    stream = compile_traffic(one(Variable("v", 8), bind=())).streams[0]
    frames = Expander(stream).frames(7, 5000)
    packet = base64.b64decode(stream.trex["packet"]["binary"])
    assert {f.tobytes() for f in frames} == {packet}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", ["million", "spoofed", "domains"])
def test_sets_come_in_sending_order(name, direction):
    streams = mape_set(name, direction)
    count = BLOCK + 300
    got = list(expand_set(streams, 0, count))
    which, index = list_classes_with_index([s.weight for s in streams.streams], 0, count)
    machines = [Machine(s).frames() for s in streams.streams]
    for k in range(300):
        assert got[k] == next(machines[which[k]])[0]
    expanders = [Expander(s) for s in streams.streams]
    for k in range(300, count, 97):
        assert got[k] == expanders[which[k]].frames(int(index[k]), 1)[0].tobytes()
    assert list(expand_set(streams, 1234, 900)) == got[1234:2134]


def test_cores_together_send_each_value_once():
    streams = mape_set("enumerated", "forward", cores=4)
    stream = streams.streams[0]
    single = Expander(stream).frames(0, 4000)[:, 22:38]
    for core in range(4):
        shared = Expander(stream, core, 4).frames(0, 1000)[:, 22:38]
        assert (shared == single[core::4]).all()


def changed(*instructions, drop=0):
    """A compiled stream with other instructions at its end."""
    stream = mape_set("figure 8", "forward").streams[0]
    program = stream.program
    kept = program[: max(0, len(program) - drop)]
    return replace(stream, trex={**stream.trex, "vm": {"instructions": [*kept, *instructions]}})


@pytest.mark.parametrize(("op", "first"), [("inc", [0, 7, 14]), ("dec", [255, 248, 241])])
def test_range_is_rounded_up_to_the_step_as_the_server_does(op, first):
    v = ins.flow_var("x", 2, op, 0, 255, 7)
    values = (
        Expander(changed(v, ins.write("x", 22), drop=99))
        .frames(0, 75)[:, 22:24]
        .copy()
        .view(">u2")[:, 0]
    )
    assert values[:3].tolist() == first
    assert len(set(values.tolist())) == 37
    assert (values[37:74] == values[:37]).all()


EA = {"type": "write_mask_flow_var", "name": "ea", "pkt_offset": 22, "pkt_cast_size": 2,
      "mask": 1, "shift": 0, "add_value": 0, "is_big_endian": True}  # fmt: skip
REFUSED = {
    "an unknown instruction": ({"type": "trim_pkt_size"}, 1),
    "a write behind the checksum": (EA, 0),
    "a write past the end": ({**EA, "pkt_offset": 99}, 1),
    "a little-endian write": ({**EA, "is_big_endian": False}, 1),
    "a random variable of 8 octets": (ins.flow_var("x", 8, "random", 0, 9), 1),
    "a checksum of ICMPv6": ({"type": "fix_checksum_icmpv6", "l2_len": 54, "l3_len": 20}, 1),
    "a checksum of neither UDP nor TCP": (ins.fix_hardware(54, 20, 17), 1),
    "a checksum at an odd offset": (ins.fix_hardware(54, 21, 11), 1),
}


@pytest.mark.parametrize(("instruction", "drop"), REFUSED.values(), ids=REFUSED)
def test_what_it_cannot_do_it_refuses(instruction, drop):
    with expect_error("expander-unsupported"):
        Expander(changed(instruction, drop=drop))


# TRex itself

SIMULATED = {
    "figure 8": 240,
    "offset 6": 400,
    "million": 320,
    "spoofed": 360,
    "one port each": 240,
    "domains": 320,
}


@pytest.mark.trex
@pytest.mark.skipif(
    not TREX or not (CLIENT / "trex" / "stl").is_dir() or not Path(TREX, "bp-sim-64").exists(),
    reason="needs TRex with its simulator: set TREX_DIR to the directory with bp-sim-64",
)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", SIMULATED)
def test_trex_sends_the_same_octets(name, direction, tmp_path):
    """1, 2 and 4 cores of TRex's simulator; checksums left to a NIC are finished by scapy."""
    total, runs, body = SIMULATED[name], [], ["import os", f"sim = STLSim({TREX!r})"]
    for cores in (1, 2, 4):
        streams = mape_set(name, direction, frames=total, cores=cores)
        profile = tmp_path / f"v6t_{cores}.json"
        profile.write_text(to_stl_json(streams))
        for core in range(cores):
            capture = tmp_path / f"{cores}_{core}.pcap"
            body.append(
                f"sim.run([{os.fspath(profile)!r}], {os.fspath(capture)!r}, "
                f"dp_core_count={cores}, dp_core_index={core}, is_debug=False, "
                f"pkt_limit={2 * total}, tunables=[], silent=True)"
            )
            runs.append((streams, core, cores, capture))
    client("\n".join(body))
    for streams, core, cores, capture in runs:
        sent = [rebuilt(bytes(frame)) for frame, _ in RawPcapReader(os.fspath(capture))]
        assert len(sent) == total // cores
        wanted = []
        for stream in streams.streams:
            burst = stream.trex["mode"]["total_pkts"]
            assert burst % cores == 0, "the shares of this test split evenly"
            frames = Expander(stream, core, cores).frames(0, burst // cores)
            wanted.append([f.tobytes() for f in frames])
        # streams interleave as TRex's clock will; each keeps its own order
        for frame in sent:
            queue = next((q for q in wanted if q and q[0] == frame), None)
            assert queue is not None, frame.hex()
            queue.pop(0)
        assert not any(wanted)
