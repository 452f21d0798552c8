"""The baselines: networks and hosts of GEN-09 and GEN-11, ports of GEN-10."""

from ipaddress import ip_address

import numpy as np
import pytest
from v6t.intent.device import LinkIntent
from v6t.packets.checksum import write_ipv4_checksum
from v6t.plugins.router import RouterDrop

from .support import addresses, first_frames, make, number


@pytest.mark.parametrize(("name", "direction", "at", "pattern"), [
    ("ipv4-router", "forward", 30, "198.19.{}.2"),
    ("ipv4-router", "reverse", 30, "198.18.{}.2"),
    ("ipv6-router", "forward", 38, "2001:2:0:80{:02x}::2"),
    ("ipv6-router", "reverse", 38, "2001:2:0:{:x}::2"),
])  # fmt: skip
def test_256_networks_on_either_side(name, direction, at, pattern):
    plugin = make(name, left_networks=256, right_networks=256)
    frames = first_frames(plugin, direction, 8000)
    wanted = {str(ip_address(pattern.format(n))) for n in range(256)}
    assert addresses(frames, at, 4 if at == 30 else 16) == wanted
    # only destinations vary
    assert len(addresses(frames, 26 if at == 30 else 22, 4 if at == 30 else 16)) == 1
    intent = plugin.dut_intent()
    assert len(intent.left.routes) == len(intent.right.routes) == 256


RANDOM_HOSTS = {"left_hosts": {"policy": "random"}, "right_hosts": {"policy": "random"}}


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_pseudorandom_hosts_of_the_multiple_ip_paper(direction):
    four, six = make("ipv4-router", **RANDOM_HOSTS), make("ipv6-router", **RANDOM_HOSTS)
    frames = first_frames(four, direction, 65_533)
    for at in (28, 32):
        assert sorted(number(frames, at, 2).tolist()) == list(range(2, 65535))
    frames = first_frames(six, direction, 3000)
    for at in (34, 50):
        assert len(np.unique(number(frames, at, 2))) > 2500
        assert set(number(frames, at + 2, 2).tolist()) == {2}
    to_left = {"198.18.0.0/16": "192.168.18.2"}
    assert four.dut_intent().left.routes == LinkIntent(routes=to_left).routes
    to_right = {"2001:2:0:8000::/64": "2001:2:0:f001::2"}
    assert six.dut_intent().right.routes == LinkIntent(routes=to_right).routes


def test_hexadecimal_limits_and_counters():
    hosts = {"policy": "inc", "min": "0x10", "max": "0x13", "offset": 14}
    frames = first_frames(make("ipv6-router", right_hosts=hosts), "forward", 6)
    assert frames[:, 53].tolist() == [16, 17, 18, 19, 16, 17]


def test_fixed_ports_are_rfc_2544s():
    fixed = {"policy": "fixed"}
    given = {
        **dict.fromkeys(("fw_sport", "fw_dport", "rv_sport"), fixed),
        "rv_dport": {**fixed, "min": 9},
    }
    plugin = make("ipv4-router", **given)
    frames = first_frames(plugin, "forward", 3)
    assert set(number(frames, 34, 4).tolist()) == {0xC020_0007}
    assert len({row.tobytes() for row in frames}) == 1
    assert set(number(first_frames(plugin, "reverse", 3), 36, 2).tolist()) == {9}


def test_frame_without_a_route_is_dropped():
    plugin = make("ipv4-router")
    frames = first_frames(plugin, "forward", 2)
    frames[0, 31] ^= 1
    write_ipv4_checksum(frames, 14)
    assert plugin.expect("forward", frames).reason.tolist() == [RouterDrop.NO_ROUTE, 0]
