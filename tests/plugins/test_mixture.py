"""Foreground and background of every stateless technology: GEN-14, MIX-01, acceptance test A26."""

from dataclasses import replace

import numpy as np
import pytest
from v6t.core.config.bound import bind
from v6t.core.config.plugins import load_plugin
from v6t.core.config.presets import caveats
from v6t.core.config.resolve import Flags, resolve
from v6t.intent.device import BackgroundVlan, Links
from v6t.packets.direction import DIRECTIONS
from v6t.plugins.nat64 import Nat64Params
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.compiler.schedule import count_frames
from v6t.profiles.expand import Expander
from v6t.profiles.model import Kind
from v6t.tests.expect import expect_error

STATELESS = (
    "clat", "ipv4-router", "ipv6-router", "lwaftr", "lwb4",
    "mape-br", "mape-ce", "mapt-br", "mapt-ce", "siit",
)  # fmt: skip
SIZE = 128
PROPORTIONS = {100: (1, 1), 90: (10, 9), 75: (4, 3), 50: (2, 1), 25: (4, 1), 10: (10, 1), 0: (1, 0)}


def traffic_of(name, direction, **params):
    plugin = load_plugin(name)
    plugin = plugin(plugin.params_model(**params))
    return plugin, plugin.traffic(direction, plugin.frame_pair(SIZE), 1)


@pytest.mark.parametrize("name", STATELESS)
@pytest.mark.parametrize("percent", PROPORTIONS)
def test_a26_every_proportion_of_every_technology(name, percent):
    n, m = PROPORTIONS[percent]
    for direction in DIRECTIONS:
        plugin, traffic = traffic_of(name, direction, n=n, m=m)
        streams = compile_traffic(traffic).streams
        shares = dict.fromkeys(("foreground", "background"), 0)
        for stream, share in zip(
            streams, count_frames([s.weight for s in streams], 10**6), strict=True
        ):
            shares[stream.role.value] += share
            frames = Expander(stream).frames(0, 50)
            assert (plugin.expect(direction, frames).length > 0).all()
        assert shares == {"foreground": 10_000 * percent, "background": 10**6 - 10_000 * percent}


@pytest.mark.parametrize("name", STATELESS)
def test_a26_background_is_never_enumerated(name):
    """RFC 4814 ports between two fixed addresses, drawn and never counted through."""
    for direction in DIRECTIONS:
        _, traffic = traffic_of(name, direction, n=10, m=9)
        (behind,) = (c for c in traffic.classes if c.role.value == "background")
        assert {v.kind for v in behind.drawn_variables()} == {Kind.UNIFORM}
        assert {path for path, _ in behind.copied_bits()} == {"UDP.sport", "UDP.dport"}
        assert behind.layers[-2].name == "IPv6"


ASIDE = Links(
    replace(Links().left, vlan=100, background=BackgroundVlan.with_default_addresses("left", 200)),
    replace(
        Links().right, vlan=101, background=BackgroundVlan.with_default_addresses("right", 201)
    ),
)


def vlans(frames):
    assert (frames[:, 12:14] == (0x81, 0x00)).all()
    return {int(tag) for tag in frames[:, 14:16].astype(int) @ (256, 1)}


@pytest.mark.parametrize("name", STATELESS)
def test_mix04_the_background_has_vlans_of_its_own(name):
    """Only the background is on them, with the foreground's octets, and comes back on the other."""
    plugin = load_plugin(name)
    plugin = plugin(plugin.params_model(n=2, m=1), ASIDE)
    intent = plugin.dut_intent()
    for side, vlan in (("left", 200), ("right", 201)):
        given = getattr(intent, side)
        assert getattr(intent.links, side).background.vlan == vlan
        assert not {*given.background.neighbors} & {*given.neighbors}
    for direction, at in (("forward", 0), ("reverse", 1)):
        streams = compile_traffic(plugin.traffic(direction, plugin.frame_pair(SIZE), 1)).streams
        made = {s.role.value: Expander(s).frames(0, 20) for s in streams}
        behind = made["background"]
        there = plugin.expect(direction, behind)
        assert (vlans(behind), vlans(there.frames)) == ({(200, 201)[at]}, {(201, 200)[at]})
        kept = np.delete(behind, [*range(12), 14, 15, 25], axis=1)
        assert (np.delete(there.frames, [*range(12), 14, 15, 25], axis=1) == kept).all()
        assert (there.frames[:, 25] == behind[:, 25] - 1).all()
        native = there.frames[0].tobytes()
        if made["foreground"].shape[1] == behind.shape[1]:
            both = np.stack([made["foreground"], behind], axis=1).reshape(40, -1)
            mixed = plugin.expect(direction, both)
            assert (mixed.length > 0).all()
            assert mixed.frames[1, : mixed.length[1]].tobytes() == native
            assert vlans(mixed.frames[::2]) == {(101, 100)[at]}
        strange = behind.copy()
        strange[:, 15] = 77
        assert not plugin.expect(direction, strange).length.any()


def test_the_reference_without_foreground_is_named():
    run = resolve(flags=Flags(plugin="siit", tester="sim", params={"n": "1", "m": "0"}))
    assert any("0 % foreground" in said for said in caveats(bind(run)))
    run = resolve(flags=Flags(plugin="siit", tester="sim"))
    assert not any("foreground" in said for said in caveats(bind(run)))


def test_connections_are_foreground():
    with expect_error("out-of-range"):
        Nat64Params(n=1, m=0)
