"""A profile's tunnels: the outer hop limit, and a TTL that is not decremented."""

from __future__ import annotations

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from v6t.drivers.duts.header_profile import HeaderProfile, ProfiledOracle
from v6t.plugins.mape_br import MapEBorderRelay, MapEParams


def encapsulated(**profile):
    plugin = MapEBorderRelay(MapEParams(psid_offset=0))
    link = plugin.links.right
    packet = IP(src="203.0.113.56", dst="192.0.2.80", ttl=64, flags="DF")
    frame = (
        Ether(src=link.tester_mac, dst=link.dut_mac)
        / packet
        / UDP(sport=41999, dport=35336)
        / bytes(26)
    )
    rows = np.frombuffer(bytes(frame), dtype=np.uint8)[None, :].copy()
    checker = ProfiledOracle(plugin, HeaderProfile(**profile))
    answer = checker.expect("reverse", rows)
    return Ether(answer.frames[0, : answer.length[0]].tobytes())


@pytest.mark.parametrize(
    ("profile", "outer", "inner"),
    [
        ({}, 64, 63),
        ({"tunnel_hop_limit": 63}, 63, 63),
        ({"tunnel_hop_limit": 255}, 255, 63),
        ({"tunnel_keeps_ttl": True}, 64, 64),
        ({"tunnel_hop_limit": 63, "tunnel_keeps_ttl": True}, 63, 64),
    ],
)
def test_only_what_the_profile_says_differs(profile, outer, inner):
    out = encapsulated(**profile)
    assert (out[IPv6].hlim, out[IP].ttl) == (outer, inner)
    wanted = encapsulated()
    wanted[IPv6].hlim, wanted[IP].ttl, wanted[IP].chksum = outer, inner, None
    assert bytes(out) == bytes(wanted)
