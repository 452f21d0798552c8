"""Frame sizes of RFC 8219 section 5.1.1, and the larger ones where links carry them (GEN-04, 05)."""

from dataclasses import replace

import pytest
from v6t.core.config.plugins import load_plugin
from v6t.core.config.resolve import Flags, resolve
from v6t.packets.direction import DIRECTIONS
from v6t.plugins.base import JUMBO_SIZES, Link, Links
from v6t.plugins.frame_sizes import IPV6_UDP_OCTETS, translated_pair
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.model import FramePair
from v6t.tests.expect import expect_error
from v6t.tests.plugins.test_mixture import STATELESS


def links(mtu=1500, vlan=None):
    return Links(*(replace(link, mtu=mtu, vlan=vlan) for link in (Links().left, Links().right)))


@pytest.mark.parametrize("name", STATELESS)
def test_jumbo_frames_where_the_mtu_allows(name):
    plugin = load_plugin(name)
    listed = plugin.rfc_frame_sizes
    assert plugin(None, links()).list_rfc_sizes() == listed
    assert plugin(None, links(4082)).list_rfc_sizes() == (*listed, *JUMBO_SIZES[:2])
    wide = plugin(None, links(9216))
    assert wide.list_rfc_sizes() == (*listed, *JUMBO_SIZES)
    for size in JUMBO_SIZES:
        sizes = wide.frame_pair(size)
        assert (sizes.ipv6, sizes.ipv6 - sizes.ipv4) == (size, plugin.overhead)
        for direction in DIRECTIONS:
            (stream,) = compile_traffic(wide.traffic(direction, sizes, 1)).streams
            frames = Expander(stream).frames(0, 20)
            answer = wide.expect(direction, frames)
            assert {frames.shape[1] + 4, int(answer.length[0]) + 4} == {sizes.ipv6, sizes.ipv4}
            assert not answer.reason.any()


@pytest.mark.parametrize("name", STATELESS)
def test_the_tagged_size(name):
    plugin = load_plugin(name)
    assert plugin(None, links(vlan=7)).list_rfc_sizes()[-1] == 1522


def test_the_rfc_preset_measures_them(tmp_path):
    bed = tmp_path / "bed.yaml"
    bed.write_text("links: {left: {mtu: 9216}, right: {mtu: 9216}}\n")
    run = resolve(None, bed, Flags(plugin="siit", preset="rfc"))
    assert run.frame_sizes == (84, 128, 256, 512, 768, 1024, 1280, 1518, *JUMBO_SIZES)


def test_ipv6_in_ipv4_is_longer_on_its_ipv4_side():
    """A negative overhead: the listed size is the IPv6 frame's, as everywhere."""
    here, there = Link("", ""), Link("", "", vlan=5)
    assert translated_pair(1280, -20, here, here, "6rd") == FramePair(1280, 1300)
    assert translated_pair(128, -20, here, there, "6rd") == FramePair(128, 152)
    assert translated_pair(IPV6_UDP_OCTETS, -20, here, here, "6rd").ipv4 == IPV6_UDP_OCTETS + 20
    with expect_error("frame-too-small"):
        translated_pair(IPV6_UDP_OCTETS - 1, -20, here, here, "6rd")
    with expect_error("frame-too-long"):
        translated_pair(1518, -20, here, here, "6rd")
