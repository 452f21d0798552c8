"""The MAP-E border relay: its translation compared with the packet-level device, and its parameters."""

import random
from collections import Counter

import numpy as np
import pytest
from v6t.packets.checksum import write_ipv4_checksum
from v6t.plugins.base import Links
from v6t.plugins.mape_br import MapEParams
from v6t.tests.profiles.vm import sum_ones_complement

from .support import (
    TAGGED,
    MapeDrop,
    forward_frames,
    list_emitted,
    load_vectors,
    make_device,
    make_mape_br,
    read_addresses,
    stream_frames,
)

CONFIGURATIONS = load_vectors("configurations")["relays"]
FAULTS = load_vectors("faults")


def make_relay(name="offset 6", links=None):
    return make_mape_br(links, **{"ces": "all", **CONFIGURATIONS[name], "n": 3, "m": 2})


def compare(plugin, direction, frames):
    """Compare the frames of both relays and return the number of frames for each drop reason."""
    answer = plugin.expect(direction, frames)
    assert len(answer.frames) == len(answer.length) == len(answer.reason) == len(frames)
    device = make_device(plugin)

    def route(side, packet):
        return [("right" if side == "left" else "left", device.decrement(packet))]

    device.route = route  # of all native IPv6, as the reference translation does
    expected = forward_frames(device, direction, frames)
    reasons: Counter[MapeDrop] = Counter()
    for code, octets, forwarded in zip(answer.reason, list_emitted(answer), expected, strict=True):
        reason = MapeDrop(code)
        # the reference translation forwards unfragmented UDP only
        assert octets == (b"" if reason is MapeDrop.NO_TUNNEL else forwarded), reason
        assert (reason is MapeDrop.FORWARDED) == bool(octets)
        reasons[reason] += 1
    return reasons


def damage(plugin, direction, frames, count, seed):
    """Return frames with one or two bits flipped in fields that a relay checks, or with a low TTL."""
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
    counted = compare(plugin, direction, damage(plugin, direction, foreground, 300, name))
    reasons = {MapeDrop.NOT_OURS, MapeDrop.NO_TUNNEL, MapeDrop.TTL, MapeDrop.FORWARDED}
    if direction == "forward":
        reasons |= {MapeDrop.NO_RULE, MapeDrop.BAD_IID, MapeDrop.BAD_SOURCE}
    else:
        reasons |= {MapeDrop.NO_DESTINATION}
    assert reasons <= set(counted)


def first_frame(name="offset 6", direction="forward", kind="fg"):
    plugin = make_relay(name)
    return plugin, stream_frames(plugin, direction, 1)[kind].copy()


def find_drop_reason(plugin, direction, frame):
    """Return the drop reason of a frame, which the packet-level device also drops."""
    (reason,) = compare(plugin, direction, frame)
    assert reason is not MapeDrop.FORWARDED
    return reason


@pytest.mark.parametrize(
    ("direction", "fault", "at", "bits", "reason"),
    [(d, name, *fault) for d, faults in FAULTS.items() for name, fault in faults.items()],
)
def test_faulty_frame_is_dropped_for_its_reason(direction, fault, at, bits, reason):
    plugin, frame = first_frame(direction=direction)
    frame[0, at] ^= bits
    header = 54 if direction == "forward" else 14
    frame[0, header + 10 : header + 12] = 0
    total = 0xFFFF ^ sum_ones_complement(frame[0, header : header + 20].tobytes())
    frame[0, header + 10 : header + 12] = total >> 8, total & 255
    assert find_drop_reason(plugin, direction, frame) == MapeDrop[reason], fault


@pytest.mark.parametrize(("direction", "at", "reason"), [
    ("forward", 74, MapeDrop.BAD_PORT), ("reverse", 36, MapeDrop.NO_PORT),
])  # fmt: skip
def test_port_with_zero_offset_bits_is_dropped(direction, at, reason):
    plugin, frame = first_frame(direction=direction)
    frame[0, at] &= 0x03  # A = 0 with the same PSID
    assert find_drop_reason(plugin, direction, frame) == reason


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
    plugin = type(sender)(sender.params, Links(Links().left.model_copy(update={"mtu": mtu})))
    assert compare(plugin, "reverse", frame) == {reason: 1}


def test_mixed_batch_is_translated_frame_by_frame():
    plugin = make_relay("domains, nested")
    frames = np.concatenate(list(stream_frames(plugin, "forward", 40).values()))
    mixed = frames[np.random.default_rng(3).permutation(len(frames))]
    mixed[::7, 66] ^= 255  # inner source address of foreground frames, payload of background frames
    assert compare(plugin, "forward", mixed)[MapeDrop.FORWARDED] > 100
    assert set(plugin.expect("forward", mixed).length.tolist()) == {0, 60, 100}


def test_default_ports_are_those_of_rfc_4814():
    p = MapEParams()
    assert (p.fw_dport.min, p.fw_dport.max) == (p.bg_dport.min, p.bg_dport.max) == (1, 49151)
    assert (p.rv_sport.min, p.rv_sport.max) == (p.bg_sport.min, p.bg_sport.max) == (1024, 65535)
    policies = {p.fw_sport, p.rv_dport, p.fw_dport.policy, p.rv_sport.policy, p.bg_sport.policy}
    assert policies == {"random"}
    assert p.psid_offset == 6


@pytest.mark.parametrize(("params", "kind", "direction", "at"), [
    ({"tester_left_ipv6": "3fff::a"}, "bg", "forward", 22),
    ({"tester_left_ipv6": "3fff::a"}, "bg", "reverse", 38),
    ({"tester_right_ipv6": "3fff::b"}, "bg", "forward", 38),
    ({"tester_right_ipv6": "3fff::b"}, "bg", "reverse", 22),
    ({"server_ipv4": "198.51.100.9"}, "fg", "forward", 70),
    ({"server_ipv4": "198.51.100.9"}, "fg", "reverse", 26),
    ({"br_address": "3fff::c"}, "fg", "forward", 38),
])  # fmt: skip
def test_address_parameter_is_in_the_frames(params, kind, direction, at):
    (address,) = params.values()
    frames = stream_frames(make_mape_br(**params, n=2, m=1), direction, 4)[kind]
    assert read_addresses(frames, at, 16 if ":" in address else 4) == {address}
