"""NPTv6 against RFC 6296's own example, and against checksums that nobody rewrote."""

from ipaddress import IPv6Address

import numpy as np
import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from .support import MAC, addresses, make


@pytest.mark.parametrize(("inside", "outside"), [
    # RFC 6296, its worked example
    ("fd01:203:405:1::1234", "2001:db8:1:d550::1234"),
    # one's complement: the sum passes 0xFFFF once, and 0xFFFF itself is written as 0
    ("fd01:203:405:3000::1", "2001:db8:1:550::1"),
    ("fd01:203:405:2ab0::1", "2001:db8:1:0::1"),
])  # fmt: skip
def test_external_address_keeps_the_checksum(inside, outside):
    plugin = make("nptv6", internal="fd01:203:405::/48", external="2001:db8:1::/48")
    assert plugin.find_external(IPv6Address(inside)) == IPv6Address(outside)


def test_packet_of_another_prefix_is_routed_unchanged_or_dropped():
    header = Ether(src=MAC[0], dst=MAC[1]) / IPv6(src="2001:2::7", dst="2001:2:0:8000::2")
    frames = np.repeat(
        np.frombuffer(bytes(header / UDP(sport=1, dport=2) / bytes(10)), np.uint8)[None], 2, axis=0
    )
    frames[1, 14 + 24 + 7] ^= 1  # another destination
    answer = make("nptv6").expect("forward", frames)
    assert addresses(answer.frames[:1], 22, 16) == {"2001:2::7"}
    assert (answer.length > 0).tolist() == [True, False]
