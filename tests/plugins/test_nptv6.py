"""NPTv6 against RFC 6296's own example, and against checksums that nobody rewrote."""

from __future__ import annotations

from ipaddress import IPv6Address

import numpy as np
import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from v6t.base.errors import UsageError
from v6t.plugins.nptv6 import Nptv6, Nptv6Params
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander

EXAMPLE = Nptv6(Nptv6Params(internal="fd01:203:405::/48", external="2001:db8:1::/48"))


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        # RFC 6296, its worked example
        ("fd01:203:405:1::1234", "2001:db8:1:d550::1234"),
        # one's complement: the sum passes 0xFFFF once, and 0xFFFF itself is written as 0
        ("fd01:203:405:3000::1", "2001:db8:1:550::1"),
        ("fd01:203:405:2ab0::1", "2001:db8:1:0::1"),
    ],
)
def test_an_address_has_the_one_that_keeps_checksums(inside, outside):
    assert EXAMPLE.find_external(IPv6Address(inside)) == IPv6Address(outside)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_checksums_stay_right_without_being_touched(direction):
    plugin = Nptv6(Nptv6Params(n=4, m=3, negative_percent=10))
    made = plugin.traffic(direction, plugin.frame_pair(84))
    for stream in compile_traffic(made).streams:
        frames = Expander(stream).frames(0, 200)
        answer = plugin.expect(direction, frames)
        assert answer.reason.all() == (stream.name == "expired")
        for before, after in zip(frames, _out(answer, frames), strict=True):
            if after is None:
                continue
            old, new = Ether(before.tobytes()), Ether(after)
            assert new[UDP].chksum == old[UDP].chksum
            right = IPv6(bytes(new[IPv6]))
            del right[UDP].chksum
            assert IPv6(bytes(right))[UDP].chksum == new[UDP].chksum


def _out(answer, frames):
    """Octets of what leaves for each frame, None where it is dropped."""
    return [
        None if why else frame[:octets].tobytes()
        for why, octets, frame in zip(answer.reason, answer.length, answer.frames, strict=True)
    ]


def test_what_belongs_to_neither_prefix_is_forwarded_as_it_is_or_has_no_route():
    plugin = Nptv6()
    frame = np.frombuffer(
        bytes(
            Ether(src="02:00:00:00:01:02", dst="02:00:00:00:01:01")
            / IPv6(src="2001:2::7", dst="2001:2:0:8000::2")
            / UDP(sport=1, dport=2)
            / bytes(10)
        ),
        np.uint8,
    )
    lost = frame.copy()
    lost[14 + 24 + 7] ^= 1  # another destination
    answer = plugin.expect("forward", np.stack([frame, lost]))
    kept, gone = _out(answer, [frame, lost])
    assert IPv6(kept[14:]).src == "2001:2::7"
    assert gone is None


@pytest.mark.parametrize(
    "params",
    [
        {"internal": "fd01::/56"},
        {"external": "2001:db8::/64"},
        {"hosts": {"policy": "random", "offset": 6}},
        {"hosts": {"policy": "random", "offset": 15}},
    ],
)
def test_what_is_not_translated_so_is_refused(params):
    with pytest.raises((UsageError, ValueError), match="48|offset"):
        Nptv6Params(**params)
