"""The reference relay against the packet-level device."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from v6t.plugins.base import Link, Links
from v6t.tests.profiles.vm import ones_sum

from .support import (
    FIGURE_8,
    MapeDrop,
    forwarded_frame,
    packet_device,
    relay,
    stream_frames,
)

CONFIGURATIONS = {
    "figure 8": FIGURE_8,
    "offset 6": {**FIGURE_8, "psid_offset": 6},
    "offset 4, draft": {"rule_ipv6": "2001:db8:1000::/40", "rule_ipv4": "192.168.0.0/16",
        "ea_len": 20, "psid_offset": 4, "iid_format": "draft"},
    "nothing shared": {"rule_ipv6": "2001:db8:1000::/40", "rule_ipv4": "20.0.0.0/8", "ea_len": 24},
    "prefixes": {"rule_ipv6": "2001:db8:1000::/40", "rule_ipv4": "198.18.0.0/16", "ea_len": 11},
    "no EA bits": {"rule_ipv6": "2001:db8:12:3400::/56", "rule_ipv4": "192.0.2.18/32", "ea_len": 0,
        "psid_len": 8, "psid": 52, "ces": 1},
    "one prefix": {"rule_ipv6": "2001:db8:12:3400::/56", "rule_ipv4": "192.0.2.0/28", "ea_len": 0,
        "ces": 1},
    "every port counts": {"rule_ipv6": "2001:db8:1000::/44", "rule_ipv4": "192.0.2.240/28",
        "ea_len": 14, "psid_offset": 6},
    "domains, nested": {**FIGURE_8, "ces": 5000,
        "domains": [{"rule_ipv6": "2001:db8:ce:1000::/56", "rule_ipv4": "192.0.2.64/26",
        "ea_len": 8, "psid_offset": 3, "ces": "all"},
        {"rule_ipv6": "2001:db8:2000::/36", "rule_ipv4": "10.0.0.0/8", "ea_len": 28,
        "ces": "all"}]},
}  # fmt: skip
TAGGED = Links(
    Link("02:00:00:00:01:02", "02:00:00:00:01:01", vlan=42),
    Link("02:00:00:00:02:02", "02:00:00:00:02:01", vlan=4094),
)
LINKS = {"untagged": None, "tagged": TAGGED}
COUNT = 400


def made(name, links=None):
    given = {"ces": "all", **CONFIGURATIONS[name], "n": 3, "m": 2}
    return relay(links, **given)


def relay_device(plugin):
    """The packet-level device; it routes all native IPv6 across, as the reference relay does."""
    device = packet_device(plugin)

    def route(side, packet):
        return [("right" if side == "left" else "left", device.decrement(packet))]

    device.route = route
    return device


def compared(plugin, direction, frames):
    """Both relays on a batch; reasons counted. They must agree octet by octet."""
    device = relay_device(plugin)
    answer = plugin.expect(direction, frames)
    assert len(answer.frames) == len(answer.length) == len(answer.reason) == len(frames)
    seen: Counter[MapeDrop] = Counter()
    for row, frame in enumerate(frames):
        expected = forwarded_frame(device, direction, frame.tobytes())
        reason = MapeDrop(answer.reason[row])
        if reason is MapeDrop.NO_TUNNEL:  # the reference relay forwards whole UDP only
            assert not answer.length[row]
        else:
            got = answer.frames[row, : answer.length[row]].tobytes()
            assert got == expected, (frame.tobytes().hex(), reason)
            assert (reason is MapeDrop.FORWARDED) == bool(expected)
        seen[reason] += 1
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_every_frame_of_the_tester_is_translated_as_scapy_would(name, direction, links):
    plugin = made(name, LINKS[links])
    for frames in stream_frames(plugin, direction, COUNT // 4, size=108).values():
        assert compared(plugin, direction, frames) == {MapeDrop.FORWARDED: len(frames)}


def repair(frame: np.ndarray, at: int) -> None:
    """A right IPv4 header checksum after the header was changed."""
    frame[at + 10 : at + 12] = 0
    checksum = 0xFFFF ^ ones_sum(frame[at : at + 20].tobytes())
    frame[at + 10 : at + 12] = (checksum >> 8, checksum & 255)


def mutants(plugin, direction, frames, count, seed):
    """Frames with one or two bits flipped, or with an old packet, where a relay looks."""
    rng = random.Random(seed)
    tag = 0 if plugin.links.left.vlan is None else 4
    l3 = 14 + tag
    inner = l3 + 40 if direction == "forward" else l3
    addresses = range(inner + 12, inner + 20)
    places = [range(6), range(12, 14), range(12 + tag, 14 + tag), (inner + 9,), addresses]
    places += [addresses, range(inner + 20, inner + 24), range(inner + 20, inner + 22)]
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
        repair(frame, inner)
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_damaged_frames_are_judged_alike(name, direction, links):
    plugin = made(name, LINKS[links])
    classes = stream_frames(plugin, direction, 50, size=108)
    frames = np.concatenate([f for n, f in classes.items() if n.startswith("fg")])
    seen = compared(plugin, direction, mutants(plugin, direction, frames, COUNT, name))
    fates = {MapeDrop.NOT_OURS, MapeDrop.NO_TUNNEL, MapeDrop.TTL, MapeDrop.FORWARDED}
    if direction == "forward":
        fates |= {MapeDrop.NO_RULE, MapeDrop.BAD_IID, MapeDrop.BAD_SOURCE}
    else:
        fates |= {MapeDrop.NO_DESTINATION}
    assert fates <= set(seen)


def first_frame(name="offset 6", direction="forward", kind="fg"):
    """A plugin and one frame, to be spoilt."""
    plugin = made(name)
    return plugin, stream_frames(plugin, direction, 1)[kind].copy()


def reason(plugin, direction, frame):
    """The reason to drop a frame; the packet-level device drops it, too, unless it is not whole UDP."""
    answer = plugin.expect(direction, frame)
    assert answer.length[0] == 0
    found = MapeDrop(answer.reason[0])
    is_sent = forwarded_frame(relay_device(plugin), direction, frame.tobytes())
    assert not is_sent or found is MapeDrop.NO_TUNNEL
    return found


def spoil(at, value):
    def change(frame):
        frame[0, at] ^= value
        repair(frame[0], 54)

    return change


FORWARD_FAULTS = {
    "another station's MAC": (spoil(5, 1), MapeDrop.NOT_OURS),
    "ARP": (spoil(13, 0xDD ^ 0x06), MapeDrop.NO_TUNNEL),
    "a native UDP datagram for the BR": (spoil(20, 4 ^ 17), MapeDrop.NO_TUNNEL),
    "TCP inside": (spoil(63, 17 ^ 6), MapeDrop.NO_TUNNEL),
    "outside the rule prefix": (spoil(25, 1), MapeDrop.NO_RULE),
    "another CE's EA bits": (spoil(29, 4), MapeDrop.BAD_IID),
    "IPv4 address in the identifier": (spoil(34, 1), MapeDrop.BAD_IID),
    "PSID in the identifier": (spoil(37, 1), MapeDrop.BAD_IID),
    "PSID longer than it can be": (spoil(36, 1), MapeDrop.BAD_IID),
    "first 16 bits of the identifier": (spoil(30, 128), MapeDrop.BAD_IID),
    "inner address of another CE": (spoil(69, 1), MapeDrop.BAD_SOURCE),
    "inner address outside the rule": (spoil(66, 1), MapeDrop.BAD_SOURCE),
    "port of another CE": (spoil(75, 32), MapeDrop.BAD_PORT),
    "TTL": (spoil(62, 64 ^ 1), MapeDrop.TTL),
    "a first fragment inside": (spoil(60, 0x20), MapeDrop.NO_TUNNEL),
    "a later fragment inside": (spoil(61, 1), MapeDrop.NO_TUNNEL),
    "options inside": (spoil(54, 0x45 ^ 0x46), MapeDrop.NO_TUNNEL),
    "a short total length inside": (spoil(57, 46 ^ 20), MapeDrop.NO_TUNNEL),
    "a short payload length": (spoil(19, 1), MapeDrop.NO_TUNNEL),
    "CE around Not-ECT": (spoil(15, 0x30), MapeDrop.UNMARKABLE),
}


@pytest.mark.parametrize("name", FORWARD_FAULTS)
def test_each_reason_to_drop_forward(name):
    change, wanted = FORWARD_FAULTS[name]
    plugin, frame = first_frame()
    change(frame)
    assert reason(plugin, "forward", frame) == wanted


def test_ports_below_the_excluded_ones_have_no_owner():
    plugin, frame = first_frame()
    frame[0, 74] &= 0x03  # A = 0, the PSID stays
    assert reason(plugin, "forward", frame) == MapeDrop.BAD_PORT
    plugin, frame = first_frame(direction="reverse")
    frame[0, 36] &= 0x03
    assert reason(plugin, "reverse", frame) == MapeDrop.NO_PORT


def test_without_psid_offset_no_port_is_excluded():
    plugin, frame = first_frame("figure 8", "reverse")
    frame[0, 36:38] = 0
    answer = plugin.expect("reverse", frame)
    assert answer.length[0] == 100
    assert answer.frames[0].tobytes() == forwarded_frame(
        relay_device(plugin), "reverse", frame.tobytes()
    )
    assert answer.frames[0, 52:54].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("at", "value", "wanted"),
    [
        (5, 1, MapeDrop.NOT_OURS),
        (13, 6, MapeDrop.NO_TUNNEL),
        (23, 17 ^ 6, MapeDrop.NO_TUNNEL),
        (31, 1, MapeDrop.NO_DESTINATION),
        (22, 64 ^ 1, MapeDrop.TTL),
        (22, 64, MapeDrop.TTL),
        (20, 0x20, MapeDrop.NO_TUNNEL),
        (21, 1, MapeDrop.NO_TUNNEL),
        (14, 0x45 ^ 0x46, MapeDrop.NO_TUNNEL),
        (17, 46 ^ 20, MapeDrop.NO_TUNNEL),
    ],
)
def test_each_reason_to_drop_in_reverse(at, value, wanted):
    plugin, frame = first_frame(direction="reverse")
    frame[0, at] ^= value
    repair(frame[0], 14)
    assert reason(plugin, "reverse", frame) == wanted


@pytest.mark.parametrize("outer", range(0, 256, 23))
@pytest.mark.parametrize("inner", [0, 1, 2, 3, 0xB8, 0xBB])
def test_traffic_classes_are_those_of_the_device(outer, inner):
    plugin, frame = first_frame()
    frame[0, 14], frame[0, 15], frame[0, 55] = 0x60 | outer >> 4, outer << 4 & 0xF0, inner
    repair(frame[0], 54)
    assert compared(plugin, "forward", frame)
    plugin, frame = first_frame(direction="reverse")
    frame[0, 15] = inner
    repair(frame[0], 14)
    assert compared(plugin, "reverse", frame) == {MapeDrop.FORWARDED: 1}


@pytest.mark.parametrize(("mtu", "forwarded"), [(86, True), (85, False)])
def test_what_is_too_big_for_the_tunnel_is_dropped(mtu, forwarded):
    links = Links(Link("02:00:00:00:01:02", "02:00:00:00:01:01", mtu=mtu))
    sent, frame = first_frame(direction="reverse")
    plugin = type(sent)(sent.params, links)
    if forwarded:
        assert compared(plugin, "reverse", frame) == {MapeDrop.FORWARDED: 1}
    else:
        assert reason(plugin, "reverse", frame) == MapeDrop.TOO_BIG


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_background_loses_one_hop(direction):
    plugin, frame = first_frame(direction=direction, kind="bg")
    for hops in (64, 255, 2):
        frame[0, 21] = hops
        out = plugin.expect(direction, frame)
        assert out.frames[0, 21] == hops - 1
        assert out.frames[0, : out.length[0]].tobytes() == forwarded_frame(
            relay_device(plugin), direction, frame.tobytes()
        )
    for hops in (0, 1):
        frame[0, 21] = hops
        assert reason(plugin, direction, frame) == MapeDrop.TTL


def test_mixed_batches_are_judged_row_by_row():
    plugin = made("domains, nested")
    frames = np.concatenate(list(stream_frames(plugin, "forward", 40).values()))
    mixed = frames[np.random.default_rng(3).permutation(len(frames))]
    mixed[::7, 66] ^= 255  # inner source address, or payload of the background
    seen = compared(plugin, "forward", mixed)
    assert seen[MapeDrop.FORWARDED] > 100
    lengths = plugin.expect("forward", mixed).length
    assert set(lengths.tolist()) == {0, 60, 100}


def test_the_checksum_follows_the_ttl_through_every_carry():
    plugin, frame = first_frame(direction="reverse")
    many = np.repeat(frame, 1 << 16, axis=0)
    many[:, 18] = np.arange(1 << 16) >> 8  # identification
    many[:, 19] = np.arange(1 << 16) & 255
    for row in (many[k] for k in range(0, 1 << 16, 37)):
        repair(row, 14)
    some = many[::37]
    out = plugin.expect("reverse", some).frames[:, 54:]
    for packet in out:
        assert ones_sum(packet[:20].tobytes()) == 0xFFFF
        assert packet[10:12].tolist() != [255, 255]


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_no_frames_and_short_frames(direction):
    plugin = made("offset 6")
    none = plugin.expect(direction, np.zeros((0, 100), np.uint8))
    assert len(none.length) == len(none.reason) == 0
    short = plugin.expect(direction, np.zeros((3, 30), np.uint8))
    assert short.length.tolist() == [0, 0, 0]
    assert (short.reason > 0).all()


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_judging_changes_no_frame_and_does_not_depend_on_the_batch(direction):
    plugin = made("offset 6")
    frames = stream_frames(plugin, direction, 100)["fg"]
    before = frames.copy()
    whole = plugin.expect(direction, frames)
    assert (frames == before).all()
    frames.setflags(write=False)
    for k in range(0, 100, 9):
        alone = plugin.expect(direction, frames[k : k + 1])
        assert (alone.frames[0] == whole.frames[k]).all()


def test_a_wrong_bit_in_a_rule_shows():
    good, bad = relay(**FIGURE_8), relay(**{**FIGURE_8, "rule_ipv6": "2001:db8:cf::/51"})
    frames = stream_frames(good, "reverse", 50)["fg"]
    right, wrong = good.expect("reverse", frames), bad.expect("reverse", frames)
    assert (right.frames != wrong.frames).any(axis=1).all()
    frames = stream_frames(good, "forward", 50)["fg"]
    dropped = bad.expect("forward", frames)
    assert set(dropped.reason.tolist()) == {MapeDrop.NO_RULE}
