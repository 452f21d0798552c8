"""Frames of any protocol are compiled, expanded and stamped, and their checksums remain valid."""

import numpy as np
import pytest
from v6t.packets import trailer
from v6t.packets.direction import DIRECTIONS
from v6t.packets.walker import find_problems
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.model import Layer
from v6t.tests.expect import expect_error
from v6t.tests.plugins.foreign import ALL

from .test_export_trex import needs_simulator, simulate
from .test_template import rebuild
from .traffics import ETHER, IPV4, IPV6, UDP, make_traffic


def compile_streams(plugin, direction="forward", **more):
    technology = plugin()
    sizes = technology.make_frame_pair(128)
    return compile_traffic(technology.build_traffic(direction, sizes), **more)


def stamp_frames(stream, count):
    expander = Expander(stream)
    frames = expander.compute_frames(0, count)
    trailer.stamp(
        frames, expander.checksum, seq=np.arange(count) * 65_521, stream_id=stream.stream_id,
        nonce=7, time_ns=np.arange(count, dtype=np.uint64) * np.uint64(0x123456789AB),
    )  # fmt: skip
    return frames


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("plugin", ALL)
def test_frames_are_valid_with_and_without_a_trailer(plugin, direction):
    for stream in compile_streams(plugin, direction).streams:
        plain = Expander(stream).compute_frames(0, 300)
        assert [find_problems(f.tobytes()) for f in plain] == [[]] * 300
        assert [rebuild(f.tobytes()) for f in plain[::50]] == [f.tobytes() for f in plain[::50]]
        frames = stamp_frames(stream, 600)
        assert not any(find_problems(f.tobytes()) for f in frames)
        assert [rebuild(f.tobytes()) for f in frames[::60]] == [f.tobytes() for f in frames[::60]]


SUMMED = Layer("GRE", {"proto": 0x88B5, "chksum_present": 1})
CASES = {
    "udp": ((ETHER, IPV4, UDP), ("UDP", 14, 34, 40)),
    "no udp checksum": ((ETHER, IPV4, Layer("UDP", {"chksum": 0})), None),
    "tcp": ((ETHER, IPV6, Layer("TCP")), ("TCP", 14, 54, 70)),
    "gre": ((ETHER, IPV4, Layer("GRE", {"proto": 0x88B5})), None),
    "gre checksum": ((ETHER, IPV4, SUMMED), ("GRE", 14, 34, 38)),
    "innermost udp": ((ETHER, IPV4, Layer("GRE", {"chksum_present": 1}), IPV6, UDP), ("UDP", 42, 82, 88)),
    "ethernet": ((ETHER,), None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_innermost_checksum_is_located(name):
    layers, expected = CASES[name]
    (stream,) = compile_traffic(make_traffic(bind=(), layers=layers, frame_size=256)).streams
    found = stream.checksum
    place = found and (found.protocol, found.network, found.header, found.field)
    assert place == expected
    if name != "ethernet":
        assert not any(find_problems(f.tobytes()) for f in stamp_frames(stream, 50))


def test_frame_without_room_for_a_trailer_is_rejected():
    with expect_error("invalid-traffic-model", mentions="10"):
        compile_traffic(make_traffic(bind=(), layers=(ETHER, IPV6, Layer("TCP")), frame_size=88))


@pytest.mark.trex
@needs_simulator
@pytest.mark.parametrize("plugin", ALL)
def test_trex_sends_the_expanded_frames(plugin, tmp_path):
    compiled = compile_streams(plugin, frames=100)
    (sent,) = simulate(compiled, tmp_path, 200)
    frames = [Expander(s).compute_frames(0, s.trex["mode"]["total_pkts"]) for s in compiled.streams]
    assert set(sent) == {frame.tobytes() for rows in frames for frame in rows}
