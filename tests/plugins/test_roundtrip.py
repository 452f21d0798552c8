"""Every plugin's frames, by the ten thousand, through ``expect()``; a sample through the packet-level device."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from importlib.metadata import entry_points
from ipaddress import IPv6Address, IPv6Network

import numpy as np
import pytest
from v6t.core.config.plugins import load_plugin
from v6t.packets.direction import DIRECTIONS
from v6t.packets.reference import NOT_OURS
from v6t.plugins.base import Link, Links
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role
from v6t.tests.packets.oracle import verify

from .support import forwarded_frame, packet_device

pytestmark = pytest.mark.slow

FRAMES = 20_000
SAMPLE = 60


def many_eams():
    """Mappings of every IPv4 length that do not overlap, each with another IPv6 length."""
    return [
        (f"10.{length}.0.0/{length}", f"2001:db8:{length:x}00::/{128 - (32 - length) - shift}")
        for length, shift in zip(range(16, 33), [0, 7, 64, 30, 33] * 4, strict=False)
    ]


BOTH = {"ipv6_hosts": {"first": "198.18.0.2", "last": "198.18.0.254"},
        "ipv4_hosts": {"first": "198.19.0.2", "last": "198.19.0.254"}}  # fmt: skip
EAMS = [{"ipv4": four, "ipv6": six} for four, six in many_eams()]
PREFIXES = ["2001:db8::/32", "2001:db8:100::/40", "2001:db8:122::/48", "2001:db8:122:300::/56",
            "2001:db8:122:344::/64", "64:ff9b::/96"]  # fmt: skip

CASES = {
    "ipv4-router": ("ipv4-router", {"negative_percent": 5}),
    "ipv4-router networks": (
        "ipv4-router", {"left_networks": 256, "right_networks": 3, "n": 2, "m": 1},
    ),
    "ipv4-router hosts": (
        "ipv4-router",
        {"left_hosts": {"policy": "random"}, "right_hosts": {"policy": "inc"}},
    ),
    "ipv6-router": ("ipv6-router", {"negative_percent": 5, "n": 10, "m": 9}),
    "ipv6-router networks": (
        "ipv6-router", {"left_networks": 16, "right_networks": 256},
    ),
    "ipv6-router hosts": (
        "ipv6-router",
        {"left_hosts": {"policy": "random"}, "right_hosts": {"policy": "dec", "offset": 14}},
    ),
    "nptv6": ("nptv6", {"negative_percent": 5, "n": 2, "m": 1}),
    "nptv6 hosts": (
        "nptv6",
        {"internal": "fd00:ffff:ffff::/48", "external": "2001:db8:ffff::/48",
         "hosts": {"policy": "random", "offset": 8}},
    ),
    "siit": ("siit", {"n": 2, "m": 1}),
    "siit hosts": ("siit", {**BOTH, "negative_percent": 5}),
    "siit nat46": ("siit", {**BOTH, "orientation": "nat46", "negative_percent": 5}),
    "siit many": (
        "siit",
        {"eam": [*EAMS, {"ipv4": "198.19.0.0/24", "ipv6": "2001:2:0:1000::/120"}],
         "ipv6_hosts": {"first": "10.24.0.0", "last": "10.31.0.255", "only_mapped": True}},
    ),
    "mapt-br": ("mapt-br", {"negative_percent": 5, "n": 2, "m": 1}),
    "mapt-br paper": (
        "mapt-br",
        {"rule_ipv6": "2001:db8:ce::/53", "ea_len": 11, "psid_offset": 0, "ces": "all",
         "dmr": "64:ff9b::/96", "negative_percent": 10},
    ),
    "mapt-br prefix": (
        "mapt-br", {"rule_ipv6": "2001:db8::/40", "ea_len": 4, "ces": 16, "negative_percent": 5},
    ),
    "mapt-br domains": (
        "mapt-br",
        {"domains": [{"rule_ipv6": "2001:db9::/32", "rule_ipv4": "10.0.0.0/12", "ea_len": 28,
                      "ces": "all", "share": 3, "iid_format": "draft"}]},
    ),
    "lwaftr": ("lwaftr", {"negative_percent": 5, "n": 2, "m": 1}),
    "lwaftr 1:1": ("lwaftr", {"psid_len": 0, "softwires": 700}),
    "lwaftr large": ("lwaftr", {"softwires": 70_000, "psid_offset": 0}),
    "clat": ("clat", {"negative_percent": 5, "n": 2, "m": 1}),
    "clat hosts": (
        "clat",
        {"ipv4_hosts": {"first": "198.18.0.1", "last": "198.18.0.254", "policy": "inc"},
         "ipv6_hosts": {"first": "203.0.113.0", "last": "203.0.113.255"}},
    ),
    "mape-ce": ("mape-ce", {"negative_percent": 5, "n": 2, "m": 1}),
    "mape-ce prefix": (
        "mape-ce",
        {"rule_ipv6": "2001:db8::/40", "ea_len": 4, "ce_ipv4": "192.0.2.48", "ce_psid": 0,
         "negative_percent": 5},
    ),
    "mapt-ce": ("mapt-ce", {"negative_percent": 5, "n": 2, "m": 1}),
    "mapt-ce prefix": (
        "mapt-ce",
        {"rule_ipv6": "2001:db8::/40", "ea_len": 4, "ce_ipv4": "192.0.2.48", "ce_psid": 0,
         "iid_format": "draft", "dmr": "64:ff9b::/96"},
    ),
    "lwb4": ("lwb4", {"negative_percent": 5, "n": 2, "m": 1}),
    "lwb4 alone": ("lwb4", {"psid_len": 0, "psid": 0}),
}  # fmt: skip
for _prefix in PREFIXES:
    CASES[f"siit {_prefix}"] = ("siit", {
        "eam": [], "prefix": _prefix, "negative_percent": 5,
        "ipv6_hosts": {"first": "10.1.0.0", "last": "10.2.255.255"},
        "ipv4_hosts": {"first": "192.0.0.0", "last": "192.3.255.255"},
    })  # fmt: skip
    if IPv6Address("2001:db8:ce::") not in IPv6Network(_prefix):
        CASES[f"mapt-br {_prefix}"] = ("mapt-br", {"dmr": _prefix})

TAGGED = Links(
    replace(Links().left, vlan=7), Link("02:00:00:00:02:02", "02:00:00:00:02:01", mtu=2000)
)


def made(name, given, links=None):
    plugin = load_plugin(name)
    return plugin(plugin.params_model.model_validate(given), links)


def streams(plugin, direction, size=None, seed=1):
    # no smaller frame can be background
    sizes = plugin.frame_pair(size or max(84, plugin.default_frame_sizes[0]))
    return compile_traffic(plugin.traffic(direction, sizes, seed)).streams


def check(plugin, device, direction, stream, count):
    """All frames through ``expect()``, a sample through the packet-level device."""
    expander = Expander(stream)
    chance = random.Random(f"{stream.name}/{direction}")
    for first in range(0, count, 20_000):
        frames = expander.frames(first, min(20_000, count - first))
        assert verify(frames).all()
        answer = plugin.expect(direction, frames)
        assert len(answer.length) == len(answer.reason) == len(answer.frames) == len(frames)
        assert ((answer.length > 0) == (answer.reason == 0)).all()
        if stream.role is Role.NEGATIVE:
            assert not answer.length.any()
        else:
            assert set(answer.length.tolist()) == {answer.frames.shape[1]}
            assert verify(answer.frames).all()
        for row in chance.sample(range(len(frames)), SAMPLE * len(frames) // count):
            wanted = forwarded_frame(device, direction, frames[row].tobytes())
            assert answer.frames[row, : answer.length[row]].tobytes() == wanted


@pytest.mark.parametrize("case", CASES)
def test_frames_are_what_the_device_takes(case):
    name, given = CASES[case]
    plugin = made(name, given)
    device = packet_device(plugin)
    for direction in DIRECTIONS:
        for stream in streams(plugin, direction):
            count = FRAMES if stream.role is Role.FOREGROUND else FRAMES // 10
            check(plugin, device, direction, stream, count)


@pytest.mark.parametrize("case", [c for c in CASES if c == CASES[c][0]])
def test_links_with_and_without_vlan(case):
    name, given = CASES[case]
    plugin = made(name, given, TAGGED)
    for direction in DIRECTIONS:
        for stream in streams(plugin, direction, max(84, plugin.default_frame_sizes[0]) + 4):
            check(plugin, packet_device(plugin), direction, stream, 1000)


@pytest.mark.parametrize("case", [c for c in CASES if c == CASES[c][0]])
def test_every_listed_size_is_forwarded_at_its_other_size(case):
    name, given = CASES[case]
    plugin = made(name, {k: v for k, v in given.items() if not k.endswith("_percent")})
    for size in plugin.rfc_frame_sizes:
        sizes = plugin.frame_pair(size)
        assert sizes.ipv6 - sizes.ipv4 == plugin.overhead
        for direction in DIRECTIONS:
            for stream in streams(plugin, direction, size):
                frames = Expander(stream).frames(0, 50)
                answer = plugin.expect(direction, frames)
                assert not answer.reason.any()
                if stream.role is Role.FOREGROUND:
                    both = {frames.shape[1] + 4, int(answer.length[0]) + 4}
                    assert both == {sizes.ipv6, sizes.ipv4}
                else:
                    assert frames.shape[1] + 4 == int(answer.length[0]) + 4 == sizes.ipv6


def test_all_plugins_are_tried():
    tried = {name for name, _ in CASES.values()}
    own = {e.name for e in entry_points(group="v6t.plugins") if e.value.startswith("v6t.plugins.")}
    forwarding = {n for n in own if load_plugin(n).exchange == "frames"}
    assert {n for n in forwarding if not load_plugin(n).stateful} == tried | {"mape-br"}


@pytest.mark.parametrize("case", [c for c in CASES if c == CASES[c][0]])
def test_a_plugin_is_pickled_without_what_it_prepared(case):
    name, given = CASES[case]
    plugin = made(name, given)
    stream = streams(plugin, "forward")[0]
    frames = Expander(stream).frames(0, 100)
    answer = plugin.expect("forward", frames)
    assert len(pickle.dumps(plugin)) < 10_000
    copied = pickle.loads(pickle.dumps(plugin))  # noqa: S301
    again = copied.expect("forward", frames)
    assert (again.frames == answer.frames).all()


@pytest.mark.parametrize("case", [c for c in CASES if c == CASES[c][0]])
def test_frames_that_are_none_of_the_devices_business(case):
    name, given = CASES[case]
    plugin = made(name, given)
    for direction in DIRECTIONS:
        frames = Expander(streams(plugin, direction)[0]).frames(0, 6)
        frames[0, 0] ^= 0xFE  # other destination
        frames[1, 12:14] = (8, 6)  # ARP
        frames[2, 14] = 0  # IP version 0
        frames[3, 20 if frames[3, 12] == 0x86 else 23] = 6  # TCP, wherever the next header is
        answer = plugin.expect(direction, frames)
        assert answer.reason[0] == NOT_OURS
        assert (answer.reason[1:3] == 2).all()
        assert (answer.reason[4:] == 0).all()
        if plugin.overhead == 40 and direction == "forward":
            assert answer.length[3] == 0
        for short in (frames[:, :14], frames[:, :20], frames[:0]):
            silent = plugin.expect(direction, short)
            assert len(silent.length) == len(short)
            assert not silent.length.any()


def test_negative_shares_and_mixtures_are_the_ones_asked_for():
    plugin = made("lwaftr", {"negative_percent": 10, "n": 10, "m": 9})
    weights = {s.name: s.weight for s in streams(plugin, "forward")}
    total = sum(weights.values())
    spoofed = sum(w for n, w in weights.items() if n.startswith("spoof"))
    assert spoofed / total == pytest.approx(0.1)
    assert weights["bg"] / (total - spoofed) == pytest.approx(0.1)
    assert np.isclose(weights["fg"] / (total - spoofed), 0.9)
