"""Foreground and background of every stateless technology: GEN-14, MIX-01, acceptance test A26."""

import pytest
from v6t.core.config.bound import bind
from v6t.core.config.plugins import load_plugin
from v6t.core.config.presets import caveats
from v6t.core.config.resolve import Flags, resolve
from v6t.plugins.nat.nat64 import Nat64Params
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.compiler.schedule import counts
from v6t.profiles.errors import UsageError
from v6t.profiles.expand import Expander
from v6t.profiles.model import DIRECTIONS, Kind

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
        for stream, share in zip(streams, counts([s.weight for s in streams], 10**6), strict=True):
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
        assert {v.kind for v in behind.variables} == {Kind.UNIFORM}
        assert {b.field for b in behind.bindings} == {"UDP.sport", "UDP.dport"}
        assert behind.layers[-2].name == "IPv6"


def test_the_reference_without_foreground_is_named():
    run = resolve(flags=Flags(plugin="siit", tester="sim", params={"n": "1", "m": "0"}))
    assert any("0 % foreground" in said for said in caveats(bind(run)))
    run = resolve(flags=Flags(plugin="siit", tester="sim"))
    assert not any("foreground" in said for said in caveats(bind(run)))


def test_connections_are_foreground():
    with pytest.raises(UsageError, match="without foreground"):
        Nat64Params(n=1, m=0)
