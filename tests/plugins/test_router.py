"""The baselines: networks and hosts of GEN-09 and GEN-11, ports of GEN-10."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from pydantic import ValidationError
from v6t.intent.device import LinkIntent
from v6t.packets.checksum import write_ipv4_checksum
from v6t.plugins.router import Ipv4Router, Ipv4RouterParams, Ipv6Router, Ipv6RouterParams
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.tests.expect import expect_error


def frames(plugin, direction, count, size=84):
    streams = compile_traffic(plugin.traffic(direction, plugin.frame_pair(size))).streams
    return Expander(streams[0]).frames(0, count)


def addresses(rows, first, end):
    return {row.tobytes() for row in rows[:, first:end]}


def test_256_networks_on_either_side():
    given = {"left_networks": 256, "right_networks": 256}
    four, six = Ipv4Router(Ipv4RouterParams(**given)), Ipv6Router(Ipv6RouterParams(**given))
    for direction, octet, base in (("forward", 19, 0x8000), ("reverse", 18, 0)):
        seen = addresses(frames(four, direction, 8000), 30, 34)
        assert seen == {IPv4Address(f"198.{octet}.{n}.2").packed for n in range(256)}
        seen = addresses(frames(six, direction, 8000), 38, 54)
        assert seen == {IPv6Address(f"2001:2:0:{base + n:x}::2").packed for n in range(256)}
    # only destinations vary
    assert addresses(frames(four, "forward", 100), 26, 30) == {IPv4Address("198.18.0.2").packed}
    for plugin in (four, six):
        intent = plugin.dut_intent()
        assert len(intent.left.routes) == len(intent.right.routes) == 256


def test_pseudorandom_hosts_of_the_multiple_ip_paper():
    """IPv4 hosts 2 to 65534; IPv6 hosts 2001:2::[0-ffff]:2."""
    hosts = {"left_hosts": {"policy": "random"}, "right_hosts": {"policy": "random"}}
    four, six = (
        Ipv4Router(Ipv4RouterParams.model_validate(hosts)),
        Ipv6Router(Ipv6RouterParams.model_validate(hosts)),
    )
    for direction in ("forward", "reverse"):
        rows = frames(four, direction, 65_533)
        for first in (26, 30):
            low = rows[:, first + 2].astype(int) << 8 | rows[:, first + 3]
            assert sorted(low.tolist()) == list(range(2, 65535))
        rows = frames(six, direction, 3000)
        for first in (22, 38):
            assert len(addresses(rows, first + 12, first + 14)) > 2500
            assert addresses(rows, first + 14, first + 16) == {b"\0\2"}
    to_left = {"198.18.0.0/16": "192.168.18.2"}
    assert four.dut_intent().left.routes == LinkIntent(routes=to_left).routes
    to_right = {"2001:2:0:8000::/64": "2001:2:0:f001::2"}
    assert six.dut_intent().right.routes == LinkIntent(routes=to_right).routes


def test_hexadecimal_limits_and_counters():
    given = {"right_hosts": {"policy": "inc", "min": "0x10", "max": "0x13", "offset": 14}}
    rows = frames(Ipv6Router(Ipv6RouterParams.model_validate(given)), "forward", 6)
    assert rows[:, 53].tolist() == [16, 17, 18, 19, 16, 17]


def test_fixed_ports_are_rfc_2544s():
    fixed = {"policy": "fixed"}
    given = {
        "fw_sport": fixed,
        "fw_dport": fixed,
        "rv_sport": fixed,
        "rv_dport": {**fixed, "min": 9},
    }
    plugin = Ipv4Router(Ipv4RouterParams.model_validate(given))
    rows = frames(plugin, "forward", 3, size=64)
    assert addresses(rows, 34, 38) == {(0xC020).to_bytes(2, "big") + (7).to_bytes(2, "big")}
    assert addresses(frames(plugin, "reverse", 3), 36, 38) == {(9).to_bytes(2, "big")}
    assert len({row.tobytes() for row in rows}) == 1


def test_no_route_no_frame():
    plugin = Ipv4Router()
    rows = frames(plugin, "forward", 2)
    rows[0, 31] ^= 1
    write_ipv4_checksum(rows, 14)
    answer = plugin.expect("forward", rows)
    assert [plugin.drops.describe(r) for r in answer.reason] == [
        "no route to the destination", "forwarded",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "given", "code"),
    [
        (Ipv4RouterParams, {"left_networks": 2, "left_hosts": {"policy": "random"}}, "conflict"),
        (
            Ipv4RouterParams,
            {"right_ipv4": "198.19.9.2", "right_networks": 248},
            "not-enough-addresses",
        ),
        (Ipv4RouterParams, {"left_hosts": {"offset": 1}}, "out-of-range"),
        (Ipv6RouterParams, {"left_hosts": {"offset": 13}}, "out-of-range"),
        (Ipv4RouterParams, {"right_ipv4": "198.18.0.3"}, "duplicate"),
    ],
)
def test_refusals(model, given, code):
    with expect_error(code):
        model.model_validate(given)


def test_more_than_256_networks():
    with expect_error("out-of-range", mentions="256"):
        Ipv4RouterParams(left_networks=257)
    with expect_error("empty-range", kind=ValidationError):
        Ipv4RouterParams.model_validate({"left_hosts": {"min": 9, "max": 8}})


@pytest.mark.parametrize(
    ("plugin", "size", "code"),
    [
        (Ipv4Router(), 63, "frame-too-small"),
        (Ipv6Router(), 81, "frame-too-small"),
        (Ipv4Router(), 1519, "frame-too-long"),
    ],
)
def test_impossible_sizes(plugin, size, code):
    with expect_error(code):
        plugin.frame_pair(size)


def test_background_needs_room_for_ipv6():
    plugin = Ipv4Router(Ipv4RouterParams(n=2, m=1))
    with expect_error("frame-too-small"):
        plugin.traffic("forward", plugin.frame_pair(64))
    assert len(plugin.traffic("forward", plugin.frame_pair(82)).classes) == 2
