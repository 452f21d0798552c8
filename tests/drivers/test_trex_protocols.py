"""TRex's stamps and capture filters for frames that are not UDP."""

import pytest
from v6t.drivers.trex.capture import make_control_filter
from v6t.drivers.trex.streams import with_stamps
from v6t.packets.walker import find_problems
from v6t.profiles.expand import Expander
from v6t.tests.expect import expect_error
from v6t.tests.plugins.foreign import ALL, Echo, Gre
from v6t.tests.profiles.test_protocols import streams


@pytest.mark.parametrize("plugin", [p for p in ALL if p is not Echo])
def test_stamped_streams_have_trex_fix_their_checksum(plugin):
    for stream in with_stamps(streams(plugin)).streams:
        program = [i["type"] for i in stream.program]
        assert ("fix_checksum_hw" in program) == (stream.checksum is not None)
        assert program.count("fix_checksum_hw") <= 1
        assert not find_problems(Expander(stream).frames(0, 1)[0].tobytes())


def test_stamp_under_a_checksum_beyond_trex_is_rejected():
    with expect_error("beyond-trex", mentions="fg"):
        with_stamps(streams(Echo))


def test_echoes_are_control_frames_unless_they_are_test_frames():
    assert "icmp or icmp6" in make_control_filter([streams(Gre)])
    assert "icmp[0] != 8" in make_control_filter([streams(Gre), streams(Echo)])
