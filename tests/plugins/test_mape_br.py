"""The MAP-E border relay: its translation against the packet-level device, and its parameters."""

from __future__ import annotations

import random
from collections import Counter
from ipaddress import IPv6Address

import numpy as np
import pytest
from pydantic import ValidationError
from v6t.base.errors import UsageError
from v6t.packets.checksum import write_ipv4_checksum
from v6t.plugins.base import Link, Links
from v6t.plugins.mape_br import MapEParams
from v6t.tests.expect import expect_error
from v6t.tests.profiles.vm import ones_sum

from .support import (
    FIGURE_8,
    MAC,
    TAGGED,
    MapeDrop,
    addresses,
    emitted,
    forwarded_frames,
    packet_device,
    relay,
    stream_frames,
)

NO_EA_BITS = {"rule_ipv6": "2001:db8:12:3400::/56", "ea_len": 0, "ces": 1}
WIDE = {"rule_ipv6": "2001:db8:1000::/40"}
CONFIGURATIONS = {
    "figure 8": FIGURE_8,
    "offset 6": {**FIGURE_8, "psid_offset": 6},
    "offset 4, draft": {**WIDE, "rule_ipv4": "192.168.0.0/16", "ea_len": 20, "psid_offset": 4,
                        "iid_format": "draft"},
    "nothing shared": {**WIDE, "rule_ipv4": "20.0.0.0/8", "ea_len": 24},
    "prefixes": {**WIDE, "rule_ipv4": "198.18.0.0/16", "ea_len": 11},
    "no EA bits": {**NO_EA_BITS, "rule_ipv4": "192.0.2.18/32", "psid_len": 8, "psid": 52},
    "one prefix": {**NO_EA_BITS, "rule_ipv4": "192.0.2.0/28"},
    "every port counts": {"rule_ipv6": "2001:db8:1000::/44", "rule_ipv4": "192.0.2.240/28",
                          "ea_len": 14, "psid_offset": 6},
    "domains, nested": {**FIGURE_8, "ces": 5000, "domains": [
        {"rule_ipv6": "2001:db8:ce:1000::/56", "rule_ipv4": "192.0.2.64/26", "ea_len": 8,
         "psid_offset": 3, "ces": "all"},
        {"rule_ipv6": "2001:db8:2000::/36", "rule_ipv4": "10.0.0.0/8", "ea_len": 28, "ces": "all"}]},
}  # fmt: skip


def make_relay(name="offset 6", links=None):
    return relay(links, **{"ces": "all", **CONFIGURATIONS[name], "n": 3, "m": 2})


def relay_device(plugin):
    """Make the packet-level device; it routes all native IPv6 across, as the reference relay does."""
    device = packet_device(plugin)

    def route(side, packet):
        return [("right" if side == "left" else "left", device.decrement(packet))]

    device.route = route
    return device


def compare(plugin, direction, frames):
    """Compare both relays octet by octet; return how often each reason occurred."""
    answer = plugin.expect(direction, frames)
    assert len(answer.frames) == len(answer.length) == len(answer.reason) == len(frames)
    expected = forwarded_frames(relay_device(plugin), direction, frames)
    seen: Counter[MapeDrop] = Counter()
    for code, octets, wanted in zip(answer.reason, emitted(answer), expected, strict=True):
        reason = MapeDrop(code)
        # the reference relay forwards whole UDP only
        assert octets == (b"" if reason is MapeDrop.NO_TUNNEL else wanted), reason
        assert (reason is MapeDrop.FORWARDED) == bool(octets)
        seen[reason] += 1
    return seen


def damage(plugin, direction, frames, count, seed):
    """Return frames with one or two bits flipped, or with an old packet, where a relay looks."""
    rng = random.Random(seed)
    tag = 4 if frames[0, 12] == 0x81 else 0
    l3 = 14 + tag
    inner = l3 + 40 if direction == "forward" else l3
    ipv4 = range(inner + 12, inner + 20)
    places = [range(6), range(12, 14), range(12 + tag, 14 + tag), (inner + 9,), ipv4, ipv4]
    places += [range(inner + 20, inner + 24), range(inner + 20, inner + 22)]
    if direction == "forward":
        source = range(l3 + 8, l3 + 24)
        places += [(l3 + 6,), source, source, source, range(l3 + 24, l3 + 40)]
    chosen = frames[[rng.randrange(len(frames)) for _ in range(count)]]
    for frame in chosen:
        for _ in range(rng.choice([1, 1, 1, 2])):
            if rng.random() < 0.1:
                frame[inner + 8] = rng.randrange(3)
                frame[l3 + 7] = rng.randrange(3) if direction == "forward" else frame[l3 + 7]
            else:
                frame[rng.choice(rng.choice(places))] ^= 1 << rng.randrange(8)
    write_ipv4_checksum(chosen, inner)
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize("links", [None, TAGGED], ids=["untagged", "tagged"])
@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_frames_equal_those_of_the_packet_level_relay(name, direction, links):
    plugin = make_relay(name, links)
    classes = stream_frames(plugin, direction, 100, size=108)
    for frames in classes.values():
        assert compare(plugin, direction, frames) == {MapeDrop.FORWARDED: len(frames)}
    foreground = np.concatenate([f for n, f in classes.items() if n.startswith("fg")])
    seen = compare(plugin, direction, damage(plugin, direction, foreground, 300, name))
    reasons = {MapeDrop.NOT_OURS, MapeDrop.NO_TUNNEL, MapeDrop.TTL, MapeDrop.FORWARDED}
    if direction == "forward":
        reasons |= {MapeDrop.NO_RULE, MapeDrop.BAD_IID, MapeDrop.BAD_SOURCE}
    else:
        reasons |= {MapeDrop.NO_DESTINATION}
    assert reasons <= set(seen)


def first_frame(name="offset 6", direction="forward", kind="fg"):
    plugin = make_relay(name)
    return plugin, stream_frames(plugin, direction, 1)[kind].copy()


def drop_reason(plugin, direction, frame):
    """Return why a frame is dropped; the packet-level device drops it, too, if it is whole UDP."""
    (reason,) = compare(plugin, direction, frame)
    assert reason is not MapeDrop.FORWARDED
    return reason


FORWARD_FAULTS = [
    ("another station's MAC", 5, 1, MapeDrop.NOT_OURS),
    ("ARP", 13, 0xDD ^ 0x06, MapeDrop.NO_TUNNEL),
    ("a native UDP datagram for the BR", 20, 4 ^ 17, MapeDrop.NO_TUNNEL),
    ("TCP inside", 63, 17 ^ 6, MapeDrop.NO_TUNNEL),
    ("outside the rule prefix", 25, 1, MapeDrop.NO_RULE),
    ("another CE's EA bits", 29, 4, MapeDrop.BAD_IID),
    ("IPv4 address in the identifier", 34, 1, MapeDrop.BAD_IID),
    ("PSID in the identifier", 37, 1, MapeDrop.BAD_IID),
    ("PSID longer than it can be", 36, 1, MapeDrop.BAD_IID),
    ("first 16 bits of the identifier", 30, 128, MapeDrop.BAD_IID),
    ("inner address of another CE", 69, 1, MapeDrop.BAD_SOURCE),
    ("inner address outside the rule", 66, 1, MapeDrop.BAD_SOURCE),
    ("port of another CE", 75, 32, MapeDrop.BAD_PORT),
    ("TTL", 62, 64 ^ 1, MapeDrop.TTL),
    ("a first fragment inside", 60, 0x20, MapeDrop.NO_TUNNEL),
    ("a later fragment inside", 61, 1, MapeDrop.NO_TUNNEL),
    ("options inside", 54, 0x45 ^ 0x46, MapeDrop.NO_TUNNEL),
    ("a short total length inside", 57, 46 ^ 20, MapeDrop.NO_TUNNEL),
    ("a short payload length", 19, 1, MapeDrop.NO_TUNNEL),
    ("CE around Not-ECT", 15, 0x30, MapeDrop.UNMARKABLE),
]
REVERSE_FAULTS = [
    ("another station's MAC", 5, 1, MapeDrop.NOT_OURS),
    ("ARP", 13, 6, MapeDrop.NO_TUNNEL),
    ("TCP", 23, 17 ^ 6, MapeDrop.NO_TUNNEL),
    ("destination of no CE", 31, 1, MapeDrop.NO_DESTINATION),
    ("TTL 1", 22, 64 ^ 1, MapeDrop.TTL),
    ("TTL 0", 22, 64, MapeDrop.TTL),
    ("a first fragment", 20, 0x20, MapeDrop.NO_TUNNEL),
    ("a later fragment", 21, 1, MapeDrop.NO_TUNNEL),
    ("options", 14, 0x45 ^ 0x46, MapeDrop.NO_TUNNEL),
    ("a short total length", 17, 46 ^ 20, MapeDrop.NO_TUNNEL),
]


@pytest.mark.parametrize(
    ("direction", "what", "at", "bits", "reason"),
    [("forward", *f) for f in FORWARD_FAULTS] + [("reverse", *f) for f in REVERSE_FAULTS],
)
def test_faulty_frame_is_dropped_for_its_reason(direction, what, at, bits, reason):
    plugin, frame = first_frame(direction=direction)
    frame[0, at] ^= bits
    header = 54 if direction == "forward" else 14
    frame[0, header + 10 : header + 12] = 0
    total = 0xFFFF ^ ones_sum(frame[0, header : header + 20].tobytes())
    frame[0, header + 10 : header + 12] = total >> 8, total & 255
    assert drop_reason(plugin, direction, frame) == reason, what


@pytest.mark.parametrize(
    ("direction", "at", "reason"),
    [("forward", 74, MapeDrop.BAD_PORT), ("reverse", 36, MapeDrop.NO_PORT)],
)
def test_port_below_the_excluded_ones_is_dropped(direction, at, reason):
    plugin, frame = first_frame(direction=direction)
    frame[0, at] &= 0x03  # A = 0, the PSID stays
    assert drop_reason(plugin, direction, frame) == reason


def test_port_0_without_psid_offset_is_forwarded():
    plugin, frame = first_frame("figure 8", "reverse")
    frame[0, 36:38] = 0
    assert compare(plugin, "reverse", frame) == {MapeDrop.FORWARDED: 1}
    assert plugin.expect("reverse", frame).frames[0, 52:54].tolist() == [0, 0]


@pytest.mark.parametrize("inner", [0, 1, 2, 3, 0xB8, 0xBB])
def test_traffic_class_equals_that_of_the_packet_level_relay(inner):
    plugin, frame = first_frame()
    frames = np.repeat(frame, 12, axis=0)
    for row, outer in zip(frames, range(0, 256, 23), strict=True):
        row[14], row[15], row[55] = 0x60 | outer >> 4, outer << 4 & 0xF0, inner
    write_ipv4_checksum(frames, 54)
    assert compare(plugin, "forward", frames)
    plugin, frame = first_frame(direction="reverse")
    frame[0, 15] = inner
    write_ipv4_checksum(frame, 14)
    assert compare(plugin, "reverse", frame) == {MapeDrop.FORWARDED: 1}


@pytest.mark.parametrize(("mtu", "reason"), [(86, MapeDrop.FORWARDED), (85, MapeDrop.TOO_BIG)])
def test_packet_longer_than_the_tunnel_carries_is_dropped(mtu, reason):
    sender, frame = first_frame(direction="reverse")
    plugin = type(sender)(sender.params, Links(Link(MAC[0], MAC[1], mtu=mtu)))
    assert compare(plugin, "reverse", frame) == {reason: 1}


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_background_loses_one_hop(direction):
    plugin, frame = first_frame(direction=direction, kind="bg")
    frames = np.repeat(frame, 5, axis=0)
    frames[:, 21] = (64, 255, 2, 1, 0)
    assert compare(plugin, direction, frames) == {MapeDrop.FORWARDED: 3, MapeDrop.TTL: 2}
    assert plugin.expect(direction, frames).frames[:3, 21].tolist() == [63, 254, 1]


def test_mixed_batch_is_judged_frame_by_frame():
    plugin = make_relay("domains, nested")
    frames = np.concatenate(list(stream_frames(plugin, "forward", 40).values()))
    mixed = frames[np.random.default_rng(3).permutation(len(frames))]
    mixed[::7, 66] ^= 255  # inner source address, or payload of the background
    assert compare(plugin, "forward", mixed)[MapeDrop.FORWARDED] > 100
    assert set(plugin.expect("forward", mixed).length.tolist()) == {0, 60, 100}


OWN = {**NO_EA_BITS, "rule_ipv4": "192.0.2.18/32"}
SECOND = {"rule_ipv6": "2001:db8:100::/40", "rule_ipv4": "198.18.0.0/16", "ea_len": 20}
INSIDE = {"rule_ipv6": "2001:db8:ce:1000::/56", "rule_ipv4": "10.0.0.0/28", "ea_len": 8, "ces": 1}
NO_CE_LEFT = {**FIGURE_8, "rule_ipv4": "192.0.2.0/31", "ea_len": 6, "ces": 1}
REFUSED = {
    "MAP-01 negative EA length": ({"ea_len": -1}, "out-of-range"),
    "MAP-01 EA length": ({"rule_ipv6": "2000::/8", "ea_len": 49}, "out-of-range"),
    "MAP-02 end-user prefix": ({"rule_ipv6": "2001:db8:ce::/56"}, "out-of-range"),
    "MAP-02 rule prefix beyond 64 bits": ({**OWN, "rule_ipv6": "2001:db8::/65"}, "out-of-range"),
    "MAP-03 contradiction": ({"psid_len": 6}, "conflict"),
    "MAP-03 a PSID of an address that is not shared": ({"ea_len": 8, "psid_len": 4}, "conflict"),
    "MAP-03 explicit PSID for many addresses": (
        {**OWN, "rule_ipv4": "192.0.2.0/24", "psid_len": 8}, "conflict"),
    "MAP-03 psid_len too long": ({**OWN, "psid_len": 17}, "out-of-range"),
    "MAP-03 psid_len negative": ({**OWN, "psid_len": -1}, "out-of-range"),
    "MAP-03 psid beyond psid_len": ({**OWN, "psid_len": 3, "psid": 8}, "out-of-range"),
    "MAP-04 PSID longer than a port": (
        {"rule_ipv6": "2001:db8::/32", "rule_ipv4": "192.0.2.0/24", "ea_len": 25, "psid_offset": 0},
        "out-of-range"),
    "MAP-04 offset": ({"psid_offset": 17}, "out-of-range"),
    "MAP-04 negative offset": ({"psid_offset": -1}, "out-of-range"),
    "MAP-04 offset and PSID": ({"psid_offset": 12}, "out-of-range"),
    "MAP-15 only port 0": (
        {"rule_ipv6": "2001:db8:100::/40", "rule_ipv4": "192.0.2.0/24", "ea_len": 24,
         "psid_offset": 0}, "not-enough-addresses"),
    "MAP-15 only port 0 of the only CE": (
        {**OWN, "psid_len": 16, "psid_offset": 0}, "not-enough-addresses"),
    "IPv6 prefix with host bits": ({"rule_ipv6": "2001:db8:ce::1/51"}, "not-a-prefix"),
    "IPv4 prefix with host bits": ({"rule_ipv4": "192.0.2.1/24"}, "not-a-prefix"),
    "prefixes of the wrong family": (
        {"rule_ipv6": "192.0.2.0/24", "rule_ipv4": "2001:db8:ce::/51"}, "not-a-prefix"),
    "MAP-09 BR within a rule": ({"br_address": "2001:db8:ce:17a9::1"}, "address-conflict"),
    "MAP-10 server within a rule": ({"server_ipv4": "192.0.2.7"}, "address-conflict"),
    "MAP-13 same IPv6 prefix": (
        {"domains": [{**FIGURE_8, "rule_ipv4": "198.18.0.0/24"}]}, "duplicate"),
    "MAP-13 same IPv4 prefix": (
        {"domains": [{**FIGURE_8, "rule_ipv6": "2001:db8:cf::/51"}]}, "duplicate"),
    "MAP-13 all CEs of a rule around another": (
        {"ces": "all", "domains": [INSIDE]}, "not-enough-addresses"),
    "MAP-13 more CEs than another rule leaves": (
        {"ces": 7937, "domains": [INSIDE]}, "not-enough-addresses"),
    "MAP-13 a rule hidden by another": (
        {**OWN, "rule_ipv6": "2001:db8:ce::/51",
         "domains": [{**FIGURE_8, "rule_ipv6": "2001:db8:ce::/52", "ea_len": 9, "ces": 1}]},
        "not-enough-addresses"),
    "MAP-13 a bad further domain": ({"domains": [{**SECOND, "psid_offset": 13}]}, "out-of-range"),
    "MAP-14 more CEs than there are": ({"ces": 8193}, "not-enough-addresses"),
    "MAP-14 without network and broadcast": (
        {"ces": 8129, "exclude_network_broadcast": True}, "not-enough-addresses"),
    "MAP-14 no CE left": (
        {**NO_CE_LEFT, "exclude_network_broadcast": True}, "not-enough-addresses"),
    "GEN-14 more foreground than frames": ({"n": 2, "m": 3}, "out-of-range"),
    "GEN-14 common divisor": ({"n": 10, "m": 4}, "out-of-range"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_impossible_mape_parameters_are_refused(name):
    given, code = REFUSED[name]
    with expect_error(code, kind=UsageError):
        relay(**given)


@pytest.mark.parametrize(("name", "value"), [
    ("unknown_name", 1),
    ("iid_format", "rfc6052"),
    ("ces", "many"),
    ("share", 0),
    ("br_address", "192.0.2.1"),
    ("server_ipv4", "2001:db8::1"),
    ("tester_left_ipv6", "x"),
    ("fw_sport", "zigzag"),
    ("fw_dport", {"min": 5, "max": 4}),
    ("rv_sport", {"min": 1, "max": 65536}),
    ("bg_sport", {"min": -1, "max": 4}),
    ("bg_dport", {"min": 1, "max": "many"}),
    ("n", 0),
    ("m", -1),
    ("negative_percent", 51),
    ("ttl", 1),
    ("ttl", 256),
    ("df", "perhaps"),
    ("psid", -1),
    ("ea_len", "thirteen"),
    ("domains", [{"br_address": "2001:db8::1"}]),
])  # fmt: skip
def test_malformed_value_is_refused_with_its_parameter(name, value):
    with pytest.raises(ValidationError) as caught:
        relay(**{name: value})
    assert [error["loc"][0] for error in caught.value.errors()] == [name]


def test_ports_of_rfc_4814_are_the_defaults():
    p = MapEParams()
    assert (p.fw_dport.min, p.fw_dport.max) == (p.bg_dport.min, p.bg_dport.max) == (1, 49151)
    assert (p.rv_sport.min, p.rv_sport.max) == (p.bg_sport.min, p.bg_sport.max) == (1024, 65535)
    policies = {p.fw_sport, p.rv_dport, p.fw_dport.policy, p.rv_sport.policy, p.bg_sport.policy}
    assert policies == {"random"}
    assert p.psid_offset == 6


@pytest.mark.parametrize(("given", "kind", "direction", "at"), [
    ({"tester_left_ipv6": "3fff::a"}, "bg", "forward", 22),
    ({"tester_left_ipv6": "3fff::a"}, "bg", "reverse", 38),
    ({"tester_right_ipv6": "3fff::b"}, "bg", "forward", 38),
    ({"tester_right_ipv6": "3fff::b"}, "bg", "reverse", 22),
    ({"server_ipv4": "198.51.100.9"}, "fg", "forward", 70),
    ({"server_ipv4": "198.51.100.9"}, "fg", "reverse", 26),
    ({"br_address": "3fff::c"}, "fg", "forward", 38),
])  # fmt: skip
def test_address_parameter_is_in_the_frames(given, kind, direction, at):
    (address,) = given.values()
    frames = stream_frames(relay(**given, n=2, m=1), direction, 4)[kind]
    assert addresses(frames, at, 16 if ":" in address else 4) == {address}


@pytest.mark.parametrize("kind", ["fg", "bg"])
def test_macs_and_tags_are_those_of_the_links(kind):
    left = Link("02:aa:00:00:00:01", "02:aa:00:00:00:02", vlan=7)
    right = Link("02:bb:00:00:00:01", "02:bb:00:00:00:02")
    plugin = relay(Links(left, right), n=2, m=1)
    forward = stream_frames(plugin, "forward", 1, size=108)[kind][0]
    assert forward[:16].tobytes() == bytes.fromhex("02aa00000002 02aa00000001 8100 0007")
    reverse = stream_frames(plugin, "reverse", 1, size=108)[kind][0]
    assert reverse[:12].tobytes() == bytes.fromhex("02bb00000002 02bb00000001")
    # tags come on top: background is the same IPv6 packet both ways
    assert kind == "fg" or (len(forward), len(reverse)) == (14 + 4 + 86, 14 + 86)


LEFT_TAGGED = Links(left=Link(MAC[0], MAC[1], vlan=1))


@pytest.mark.parametrize(("links", "size", "code", "limit"), [
    (None, 103, "frame-too-small", "103"),
    (LEFT_TAGGED, 107, "frame-too-small", "107"),
    (None, 1519, "frame-too-long", "1518"),
    (Links(right=Link(MAC[2], MAC[3], mtu=1000)), 1518, "frame-too-long", "1478"),
])  # fmt: skip
def test_frame_pair_outside_the_limits_is_refused(links, size, code, limit):
    with expect_error(code, mentions=limit):
        relay(links).frame_pair(size)


def test_intent_contains_rules_routes_and_neighbors():
    plugin = relay(**FIGURE_8, domains=[SECOND])
    intent = plugin.dut_intent()
    assert intent.technology == "mape-br"
    configuration = intent.configuration.to_json()
    assert [tuple(rule.values()) for rule in configuration["rules"]] == [
        ("2001:db8:ce::/51", "192.0.2.0/24", 13, 0, 5, "rfc7597"),
        ("2001:db8:100::/40", "198.18.0.0/16", 20, 6, 4, "rfc7597"),
    ]
    assert configuration["br_address"] == "2001:db8:6::1"
    tester = IPv6Address("2001:db8:6::2")
    routes = {str(net): address for net, address in intent.left.routes.items()}
    assert routes == {"2001:db8:ce::/51": tester, "2001:db8:100::/40": tester}
    assert intent.left.neighbors == {tester: plugin.links.left.tester_mac}
    assert set(map(str, intent.right.neighbors)) == {"203.0.113.56", "2001:db8:7::2"}
