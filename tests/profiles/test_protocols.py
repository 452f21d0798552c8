"""Frames of any protocol are compiled, expanded and marked; what covers the mark stays valid."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import numpy as np
import pytest
from scapy.utils import RawPcapReader
from v6t.drivers.trex.capture_filters import control_filter
from v6t.drivers.trex.streams import with_stamps
from v6t.packets import trailer
from v6t.packets.direction import DIRECTIONS
from v6t.packets.walker import find_problems
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.exports import from_stl_json, to_stl_json
from v6t.profiles.model import Layer
from v6t.tests.expect import expect_error
from v6t.tests.plugins.foreign import ALL, Echo, Gre, OverTcp
from v6t.tests.profiles.test_export_trex import CLIENT, TREX, client

from .test_template import rebuilt
from .traffics import ETHER, IPV4, IPV6, UDP, one

SIZE = 128


def streams(plugin, direction="forward", **more):
    made = plugin()
    return compile_traffic(made.traffic(direction, made.frame_pair(SIZE)), **more)


def marked(stream, count=3000):
    expander = Expander(stream)
    frames = expander.frames(0, count)
    trailer.stamp(
        frames, expander.checksum, seq=np.arange(count) * 65_521, stream_id=stream.stream_id,
        nonce=7, time_ns=np.arange(count, dtype=np.uint64) * np.uint64(0x123456789AB),
    )  # fmt: skip
    return frames


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("plugin", ALL)
def test_every_frame_is_valid_with_and_without_a_mark(plugin, direction):
    for stream in streams(plugin, direction).streams:
        plain = Expander(stream).frames(0, 300)
        assert [find_problems(f.tobytes()) for f in plain] == [[]] * 300
        assert [rebuilt(f.tobytes()) for f in plain[::50]] == [f.tobytes() for f in plain[::50]]
        frames = marked(stream)
        assert not any(find_problems(f.tobytes()) for f in frames)
        assert [rebuilt(f.tobytes()) for f in frames[::300]] == [f.tobytes() for f in frames[::300]]


@pytest.mark.parametrize("plugin", ALL)
def test_a_file_says_what_covers_the_mark(plugin):
    made = streams(plugin)
    assert from_stl_json(to_stl_json(made)) == made


def test_a_file_of_an_earlier_version_is_read():
    made = streams(OverTcp)
    text = to_stl_json(made)
    old = "\n".join(
        line.replace(f'"checksum": {text[start:end]}, ', "")
        for line in text.splitlines()
        for start, end in [(text.index('{"protocol"'), text.index("}", text.index('"field"')) + 1)]
    )
    assert '"protocol"' not in old
    assert from_stl_json(old) == made


CASES = {
    "udp": ((ETHER, IPV4, UDP), ("UDP", 14, 34, 40)),
    "no udp checksum": ((ETHER, IPV4, Layer("UDP", {"chksum": 0})), None),
    "tcp": ((ETHER, IPV6, Layer("TCP")), ("TCP", 14, 54, 70)),
    "gre": ((ETHER, IPV4, Layer("GRE", {"proto": 0x88B5})), None),
    "gre with one": (
        (ETHER, IPV4, Layer("GRE", {"proto": 0x88B5, "chksum_present": 1})),
        ("GRE", 14, 34, 38),
    ),
    "the innermost": (
        (ETHER, IPV4, Layer("GRE", {"chksum_present": 1}), IPV6, UDP),
        ("UDP", 42, 82, 88),
    ),
    "ethernet": ((ETHER,), None),
}


@pytest.mark.parametrize("name", CASES)
def test_the_checksum_that_covers_the_end_is_found(name):
    layers, wanted = CASES[name]
    (stream,) = compile_traffic(one(bind=(), layers=layers, frame_size=256)).streams
    found = stream.checksum
    assert (found and (found.protocol, found.network, found.header, found.field)) == wanted, found
    if name != "ethernet":
        assert not any(find_problems(f.tobytes()) for f in marked(stream, 50))


def test_no_mark_is_written_over_a_header():
    with expect_error("invalid-traffic-model", mentions="10"):
        compile_traffic(one(bind=(), layers=(ETHER, IPV6, Layer("TCP")), frame_size=88))


@pytest.mark.parametrize("plugin", [p for p in ALL if p is not Echo])
def test_trex_is_told_to_mend_what_its_stamp_breaks(plugin):
    for stream in with_stamps(streams(plugin)).streams:
        program = [i["type"] for i in stream.program]
        assert ("fix_checksum_hw" in program) == (stream.checksum is not None)
        assert program.count("fix_checksum_hw") <= 1
        assert not find_problems(Expander(stream).frames(0, 1)[0].tobytes())


def test_what_trex_cannot_mend_is_refused():
    with expect_error("beyond-trex", mentions="fg"):
        with_stamps(streams(Echo))


def test_echoes_are_control_frames_unless_they_are_test_frames():
    assert "icmp or icmp6" in control_filter([streams(Gre)])
    assert "icmp[0] != 8" in control_filter([streams(Gre), streams(Echo)])


@pytest.mark.trex
@pytest.mark.skipif(
    not TREX or not (CLIENT / "trex" / "stl").is_dir() or not Path(TREX, "bp-sim-64").exists(),
    reason="needs TRex with its simulator: set TREX_DIR to the directory with bp-sim-64",
)
@pytest.mark.parametrize("plugin", ALL)
def test_trex_sends_the_same_octets(plugin, tmp_path):
    made = streams(plugin, frames=100)
    profile, capture = tmp_path / "v6t_foreign.json", tmp_path / "out.pcap"
    profile.write_text(to_stl_json(made))
    client(
        f"sim = STLSim({TREX!r})\n"
        f"sim.run([{os.fspath(profile)!r}], {os.fspath(capture)!r}, dp_core_count=1, "
        "dp_core_index=0, is_debug=False, pkt_limit=200, tunables=[], silent=True)"
    )
    sent = {rebuilt(bytes(frame)) for frame, _ in RawPcapReader(os.fspath(capture))}
    wanted = {
        f.tobytes()
        for stream in made.streams
        for f in Expander(stream).frames(0, stream.trex["mode"]["total_pkts"])
    }
    assert sent == wanted
    assert len(base64.b64decode(made.streams[0].trex["packet"]["binary"])) == SIZE - 4
