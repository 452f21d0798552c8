"""Routers and NPTv6: networks, hosts and ports (RFC 2544, RFC 4814), and the example of RFC 6296."""

from ipaddress import IPv6Address, ip_address

import numpy as np
import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from v6t.intent.device import LinkIntent
from v6t.packets.checksum import write_ipv4_checksum
from v6t.plugins.router import RouterDrop

from .support import MAC, first_frames, make, read_addresses, read_numbers


@pytest.mark.parametrize(("name", "direction", "at", "pattern"), [
    ("ipv4-router", "forward", 30, "198.19.{}.2"), ("ipv4-router", "reverse", 30, "198.18.{}.2"),
    ("ipv6-router", "forward", 38, "2001:2:0:80{:02x}::2"),
    ("ipv6-router", "reverse", 38, "2001:2:0:{:x}::2"),
])  # fmt: skip
def test_router_with_256_networks_per_side_sends_to_each(name, direction, at, pattern):
    plugin = make(name, left_networks=256, right_networks=256)
    frames = first_frames(plugin, direction, 8000)
    expected = {str(ip_address(pattern.format(n))) for n in range(256)}
    assert read_addresses(frames, at, 4 if at == 30 else 16) == expected
    # the source address is constant
    assert len(read_addresses(frames, 26 if at == 30 else 22, 4 if at == 30 else 16)) == 1
    intent = plugin.make_dut_intent()
    assert len(intent.left.routes) == len(intent.right.routes) == 256


RANDOM_HOSTS = {"left_hosts": {"policy": "random"}, "right_hosts": {"policy": "random"}}


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_random_hosts_vary_as_in_the_multiple_ip_paper(direction):
    ipv4, ipv6 = make("ipv4-router", **RANDOM_HOSTS), make("ipv6-router", **RANDOM_HOSTS)
    frames = first_frames(ipv4, direction, 65_533)
    for at in (28, 32):
        assert sorted(read_numbers(frames, at, 2).tolist()) == list(range(2, 65535))
    frames = first_frames(ipv6, direction, 3000)
    for at in (34, 50):
        assert len(np.unique(read_numbers(frames, at, 2))) > 2500
        assert set(read_numbers(frames, at + 2, 2).tolist()) == {2}
    to_left = {"198.18.0.0/16": "192.168.18.2"}
    assert ipv4.make_dut_intent().left.routes == LinkIntent(routes=to_left).routes
    to_right = {"2001:2:0:8000::/64": "2001:2:0:f001::2"}
    assert ipv6.make_dut_intent().right.routes == LinkIntent(routes=to_right).routes


def test_incrementing_hosts_stay_within_hexadecimal_limits():
    hosts = {"policy": "inc", "min": "0x10", "max": "0x13", "offset": 14}
    frames = first_frames(make("ipv6-router", right_hosts=hosts), "forward", 6)
    assert frames[:, 53].tolist() == [16, 17, 18, 19, 16, 17]


def test_fixed_ports_equal_rfc_2544():
    fixed, port_9 = {"policy": "fixed"}, {"policy": "fixed", "min": 9}
    plugin = make("ipv4-router", fw_sport=fixed, fw_dport=fixed, rv_sport=fixed, rv_dport=port_9)
    frames = first_frames(plugin, "forward", 3)
    assert set(read_numbers(frames, 34, 4).tolist()) == {0xC020_0007}
    assert len({row.tobytes() for row in frames}) == 1
    assert set(read_numbers(first_frames(plugin, "reverse", 3), 36, 2).tolist()) == {9}


def test_frame_without_a_route_is_dropped():
    plugin = make("ipv4-router")
    frames = first_frames(plugin, "forward", 2)
    frames[0, 31] ^= 1
    write_ipv4_checksum(frames, 14)
    assert plugin.expect("forward", frames).reason.tolist() == [RouterDrop.NO_ROUTE, 0]


@pytest.mark.parametrize(("inside", "outside"), [
    # RFC 6296, section 3.6
    ("fd01:203:405:1::1234", "2001:db8:1:d550::1234"),
    # one's complement: the sum exceeds 0xFFFF once, and 0xFFFF is written as 0
    ("fd01:203:405:3000::1", "2001:db8:1:550::1"),
    ("fd01:203:405:2ab0::1", "2001:db8:1:0::1"),
])  # fmt: skip
def test_external_address_keeps_the_checksum(inside, outside):
    plugin = make("nptv6", internal="fd01:203:405::/48", external="2001:db8:1::/48")
    assert plugin.find_external_address(IPv6Address(inside)) == IPv6Address(outside)


def test_packet_of_another_prefix_is_routed_unchanged_or_dropped():
    header = Ether(src=MAC[0], dst=MAC[1]) / IPv6(src="2001:2::7", dst="2001:2:0:8000::2")
    octets = np.frombuffer(bytes(header / UDP(sport=1, dport=2) / bytes(10)), np.uint8)
    frames = np.repeat(octets[None], 2, axis=0)
    frames[1, 14 + 24 + 7] ^= 1  # unknown destination
    answer = make("nptv6").expect("forward", frames)
    assert read_addresses(answer.frames[:1], 22, 16) == {"2001:2::7"}
    assert (answer.length > 0).tolist() == [True, False]
