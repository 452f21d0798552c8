"""NAT44 and NAT64 against the packet-level device."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.direction import DIRECTIONS
from v6t.packets.walker import locate_headers
from v6t.plugins.address_mappings import WELL_KNOWN
from v6t.plugins.base import Link, Links
from v6t.plugins.nat44 import Nat44, Nat44Params
from v6t.plugins.nat64 import TIMERS_S, Nat64, Nat64Params
from v6t.plugins.stateful import StatefulDrop
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify

from .support import forwarded_frame, packet_device

pytestmark = pytest.mark.slow

FRAMES = 48
TAGGED = Links(
    Link("02:00:00:00:01:02", "02:00:00:00:01:01", vlan=7),
    Link("02:00:00:00:02:02", "02:00:00:00:02:01", mtu=2000),
)


CASES = {
    "nat44": (Nat44, Nat44Params, {}),
    "nat44 hosts": (
        Nat44,
        Nat44Params,
        {"initiator_count": 16, "responder_count": 3, "enumerate_ips": 3, "pool_count": 5,
         "responder_ipv4": "198.19.1.0", "initiator_ports": {"min": 1024, "max": 2047}},
    ),
    "nat44 upwards": (
        Nat44, Nat44Params,
        {"enumerate_ports": 1, "initiator_ports": {"min": 2048, "max": 4095}, "n": 2, "m": 1},
    ),
    "nat64": (Nat64, Nat64Params, {}),
    "nat64 wkp": (Nat64, Nat64Params, {"prefix": "wkp", "n": 10, "m": 9}),
    "nat64 hosts": (
        Nat64, Nat64Params,
        {"initiator_count": 64, "responder_count": 64, "enumerate_ips": 3,
         "responder_ipv4": "198.19.64.0", "pool_count": 2,
         "initiator_ports": {"min": 4096, "max": 5119}},
    ),
    **{f"nat64 {p}": (Nat64, Nat64Params, {"prefix": p})
       for p in ("2001:db9::/32", "2001:db8:100::/40", "2001:db8:122::/48",
                 "2001:db8:122:300::/56", "2001:db8:122:344::/64")},
}  # fmt: skip


def made(case, links=None):
    plugin_type, params, given = CASES[case]
    plugin = plugin_type(params(**given), links)
    return plugin, packet_device(plugin)


def streams(plugin, direction, size=None):
    sizes = plugin.frame_pair(size or 104)
    return compile_traffic(plugin.traffic(direction, sizes, 1)).streams


def established(plugin, device, size=None):
    """First frames of the connections, what leaves the device, and the tester's table."""
    stream = streams(plugin, "forward", size)[0]
    assert stream.role is Role.FOREGROUND
    frames = Expander(stream).frames(0, FRAMES)
    out = [forwarded_frame(device, "forward", f.tobytes()) for f in frames]
    assert all(out)
    at = 30 if plugin.links.right.vlan else 26
    return frames, out, np.array([list(o[at : at + 12]) for o in out], dtype=np.uint8)


@pytest.mark.parametrize("links", [None, TAGGED], ids=["plain", "tagged"])
@pytest.mark.parametrize("case", CASES)
def test_frames_of_connections_are_what_a_device_emits(case, links):
    plugin, device = made(case, links)
    frames, out, learned = established(plugin, device)
    assert verify(frames).all()
    answer = plugin.connected("forward", frames, frames, learned)
    assert not answer.reason.any()
    assert [answer.frames[i, : answer.length[i]].tobytes() for i in range(FRAMES)] == out
    # the Responder answers to where it learned
    (template,) = [s for s in streams(plugin, "reverse") if s.role is Role.FOREGROUND]
    back = np.repeat(Expander(template).frames(0, 1), FRAMES, axis=0)
    at = 30 if plugin.links.right.vlan else 26
    back[:, at : at + 12] = learned[:, [4, 5, 6, 7, 0, 1, 2, 3, 10, 11, 8, 9]]
    write_ipv4_checksum(back, at - 12)
    locate_headers(back[0]).write_checksum(back)
    answer = plugin.connected("reverse", back, frames, learned)
    assert not answer.reason.any()
    for row in range(FRAMES):
        wanted = forwarded_frame(device, "reverse", back[row].tobytes())
        assert answer.frames[row, : answer.length[row]].tobytes() == wanted


@pytest.mark.parametrize("case", CASES)
def test_all_connections_of_phase_one_are_different(case):
    plugin, device = made(case)
    frames, _, learned = established(plugin, device)
    assert len(np.unique(learned, axis=0)) == FRAMES
    where = slice(26, 38) if frames[0, 12] == 8 else slice(22, 58)
    assert len(np.unique(frames[:, where], axis=0)) == FRAMES


@pytest.mark.parametrize("case", [c for c in CASES if "m" in CASES[c][2]])
def test_background_needs_no_connection(case):
    plugin, device = made(case)
    for direction in DIRECTIONS:
        (bg,) = [s for s in streams(plugin, direction) if s.role is Role.BACKGROUND]
        frames = Expander(bg).frames(0, 50)
        answer = plugin.expect(direction, frames)
        for row, frame in enumerate(frames):
            wanted = forwarded_frame(device, direction, frame.tobytes())
            assert wanted
            assert answer.frames[row, : answer.length[row]].tobytes() == wanted


@pytest.mark.parametrize("case", ["nat44", "nat64"])
def test_without_a_connection_nothing_is_forwarded(case):
    plugin, _ = made(case)
    for direction in DIRECTIONS:
        frames = Expander(streams(plugin, direction)[0]).frames(0, 5)
        answer = plugin.expect(direction, frames)
        if direction == "reverse" or plugin.name == "nat44":
            assert not answer.length.any()
    assert plugin.drops.describe(StatefulDrop.NO_CONNECTION)


@pytest.mark.parametrize("case", ["nat44", "nat64"])
def test_a_public_endpoint_outside_the_pool_is_a_drop(case):
    plugin, device = made(case)
    frames, _, learned = established(plugin, device)
    learned = learned.copy()
    learned[0, 3] ^= 8  # another address
    learned[1, 8:10] = (0, 80)  # a port below the pool
    reason = plugin.connected("forward", frames, frames, learned).reason
    assert reason[:2].tolist() == [StatefulDrop.OUTSIDE_POOL, StatefulDrop.OUTSIDE_POOL]
    assert not reason[2:].any()


@pytest.mark.parametrize("case", ["nat44", "nat64"])
def test_every_listed_size(case):
    plugin, device = made(case)
    for size in plugin.rfc_frame_sizes:
        sizes = plugin.frame_pair(size)
        assert sizes.ipv6 - sizes.ipv4 == plugin.overhead
        frames, out, _ = established(plugin, device, size)
        assert (frames.shape[1] + 4, len(out[0]) + 4) == (sizes.ipv6, sizes.ipv4)


@pytest.mark.parametrize("case", CASES)
def test_a_plugin_is_pickled_without_what_it_prepared(case):
    plugin, device = made(case)
    frames, _, learned = established(plugin, device)
    wanted = plugin.connected("forward", frames, frames, learned)
    assert len(pickle.dumps(plugin)) < 10_000
    again = pickle.loads(pickle.dumps(plugin))  # noqa: S301
    assert (again.connected("forward", frames, frames, learned).frames == wanted.frames).all()


@pytest.mark.parametrize("case", ["nat44", "nat64"])
def test_the_device_knows_clients_pool_and_all_hosts(case):
    plugin, _ = made(f"{case} hosts")
    intent = plugin.dut_intent()
    p = plugin.params
    configuration = intent.configuration
    assert configuration.pool4 == tuple(p.pool_first + k for k in range(p.pool_count))
    assert configuration.ports == (1024, 65535)
    responders = {str(p.responder_ipv4 + k) for k in range(p.responder_count)}
    routed_to = {str(a) for net in intent.right.routes for a in net}
    assert routed_to == responders
    inside = configuration.inside4 if case == "nat44" else configuration.inside6
    first = p.initiator_ipv4 if case == "nat44" else p.initiator_ipv6
    assert all(any(first + k in net for net in inside) for k in range(p.initiator_count))
    if case == "nat64":
        assert configuration.clients == 64


def test_the_well_known_prefix_has_a_short_name():
    assert str(Nat64Params(prefix="wkp").servers) == str(WELL_KNOWN)
    assert Nat64Params(prefix="well-known").servers == Nat64Params(prefix=str(WELL_KNOWN)).servers


REFUSED = {
    "mixed enumeration modes": ({"enumerate_ports": 3, "enumerate_ips": 1, "initiator_count": 2,
                                 "responder_count": 2}, "conflict"),
    "addresses without enumeration": ({"initiator_count": 2}, "conflict"),
    "enumeration of one address": ({"enumerate_ips": 3}, "conflict"),
    "no enumeration": ({"enumerate_ports": 0}, "conflict"),
    "low ports": ({"initiator_ports": {"min": 1, "max": 40000}}, "out-of-range"),
    "ports upside down": ({"responder_ports": {"min": 9, "max": 3}}, "empty-range"),
    "responder in the pool": ({"responder_ipv4": "198.19.0.1"}, "address-conflict"),
    "pool too small": ({"initiator_ports": {"min": 1024, "max": 65535}, "responder_ports":
                        {"min": 1, "max": 1}, "pool_ports": {"min": 1024, "max": 2047}},
                       "not-enough-addresses"),
}  # fmt: skip


@pytest.mark.parametrize("model", [Nat44Params, Nat64Params])
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_enumerated_is_refused_in_a_sentence(case, model):
    given, code = REFUSED[case]
    with expect_error(code):
        model(**given)


def test_low_ports_may_be_meant():
    assert Nat64Params(initiator_ports={"min": 1, "max": 40_000}, low_ports=True).combinations == (
        4_000_000
    )


def test_addresses_that_would_be_translated_are_no_clients():
    with expect_error("address-conflict"):
        Nat64Params(initiator_ipv6="2001:db8:64::5")
    with expect_error("not-enough-addresses"):
        Nat64Params(
            prefix="2001:db8:100::/40", responder_ipv4="198.18.255.0", responder_count=65536,
            initiator_count=2, enumerate_ips=3, pool_first="203.0.113.1",
            initiator_ports={"min": 1024, "max": 1024},
        )  # fmt: skip


def test_bib_entries_and_sessions_of_the_defaults():
    plugin = Nat64()
    assert (plugin.endpoints, plugin.combinations) == (40_000, 4_000_000)
    assert plugin.usual_timeout_s == TIMERS_S["UDP_DEFAULT"] == 300
