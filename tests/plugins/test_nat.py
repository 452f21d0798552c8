"""NAT44, NAT64, NAT66 and NAT46 against packet-level devices that choose their own public ports."""

from __future__ import annotations

import pickle
from ipaddress import IPv6Address

import numpy as np
import pytest
from v6t.audit.packet_device.nat import MappingDevice
from v6t.audit.packet_device.translator import StatelessTranslatingDevice
from v6t.drivers.duts.registry import make_driver
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.direction import DIRECTIONS
from v6t.packets.walker import locate_headers
from v6t.plugins.address_mappings import WELL_KNOWN
from v6t.plugins.audit_views import AddressTable, Nat
from v6t.plugins.base import Link, Links
from v6t.plugins.nat44 import Nat44, Nat44Params
from v6t.plugins.nat46 import Nat46, Nat46Params
from v6t.plugins.nat64 import TIMERS_S, Nat64, Nat64Params
from v6t.plugins.nat66 import Nat66, Nat66Params
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
HOSTS = {
    "initiator_count": 8,
    "responder_count": 4,
    "enumerate_ips": 3,
    "pool_count": 3,
    "initiator_ports": {"min": 4096, "max": 5119},
}
UPWARDS = {"enumerate_ports": 1, "initiator_ports": {"min": 2048, "max": 4095}}
MANY = {**HOSTS, "initiator_count": 64, "responder_count": 64, "pool_count": 2}
CASES = {
    "nat44": (Nat44, {}),
    "nat44 hosts": (
        Nat44,
        {**HOSTS, "initiator_count": 16, "responder_count": 3, "pool_count": 5,
         "responder_ipv4": "198.19.1.0", "initiator_ports": {"min": 1024, "max": 2047}},
    ),
    "nat44 upwards": (Nat44, {**UPWARDS, "n": 2, "m": 1}),
    "nat64": (Nat64, {}),
    "nat64 wkp": (Nat64, {"prefix": "wkp", "n": 10, "m": 9}),
    "nat64 hosts": (Nat64, {**MANY, "responder_ipv4": "198.19.64.0"}),
    **{f"nat64 {p}": (Nat64, {"prefix": p})
       for p in ("2001:db9::/32", "2001:db8:100::/40", "2001:db8:122::/48",
                 "2001:db8:122:300::/56", "2001:db8:122:344::/64")},
    "nat66": (Nat66, {}),
    "nat66 hosts": (Nat66, {**HOSTS, "responder_ipv6": "2001:2:0:1::c0"}),
    "nat66 upwards": (Nat66, UPWARDS),
    "nat46": (Nat46, {}),
    "nat46 hosts": (
        Nat46,
        {**HOSTS, "responder_ipv6": "2001:2:0:1::5:40", "responder_ipv4": "198.19.3.192"},
    ),
}  # fmt: skip
DEFAULTS = ("nat44", "nat64", "nat66", "nat46")


class Nat46Device(MappingDevice, StatelessTranslatingDevice):
    """Clients of IPv4 behind public IPv6 addresses: an address table, then mappings."""

    def __init__(self, plugin):
        p = plugin.params
        table = AddressTable(((p.mapping.ipv4, p.mapping.ipv6),), p.prefix)
        view = Nat((), (), p.pool, public=p.public.span)
        super().__init__(plugin.dut_intent(), view, "right", 1500, table)

    def is_ipv4_destination(self, destination):
        return destination in self.pool

    def forward_ipv4(self, packet):
        for _, translated in super().forward_ipv4(packet):
            yield from ((side, p) for side, p, _ in self.send_out(translated))

    def forward_ipv6(self, packet):
        for _, translated, _ in self.send_in(packet):
            yield from super().forward_ipv6(translated)


def made(case, links=None):
    kind, given = CASES[case]
    plugin = kind(kind.params_model(**given), links)
    return plugin, Nat46Device(plugin) if kind is Nat46 else packet_device(plugin)


def streams(plugin, direction, size=None):
    sizes = plugin.frame_pair(size or 108)
    return compile_traffic(plugin.traffic(direction, sizes, 1)).streams


def table_octets(plugin):
    """Octets of the Responder's frames with addresses and ports, and how they are swapped."""
    if plugin.ip_versions[1] == 6:
        return slice(22, 58), [*range(16, 32), *range(16), 34, 35, 32, 33]
    return slice(26, 38), [4, 5, 6, 7, 0, 1, 2, 3, 10, 11, 8, 9]


def established(plugin, device, size=None):
    """First frames of the connections, what leaves the device, and the tester's table."""
    stream = streams(plugin, "forward", size)[0]
    assert stream.role is Role.FOREGROUND
    frames = Expander(stream).frames(0, FRAMES)
    out = [forwarded_frame(device, "forward", f.tobytes()) for f in frames]
    assert all(out)
    where, _ = table_octets(plugin)
    return frames, out, np.array([list(o[where]) for o in out], dtype=np.uint8)


def emitted(answer):
    return [answer.frames[i, : answer.length[i]].tobytes() for i in range(len(answer.length))]


@pytest.mark.parametrize("links", [None, TAGGED], ids=["plain", "tagged"])
@pytest.mark.parametrize("size", [108, 1518])
@pytest.mark.parametrize("case", CASES)
def test_frames_of_connections_are_what_a_device_emits(case, size, links):
    plugin, device = made(case, links)
    frames, out, learned = established(plugin, device, size)
    assert verify(frames).all()
    answer = plugin.expect_connections("forward", frames, frames, learned)
    assert not answer.reason.any()
    assert emitted(answer) == out
    # the Responder answers to where it learned
    (template,) = [s for s in streams(plugin, "reverse", size) if s.role is Role.FOREGROUND]
    back = np.repeat(Expander(template).frames(0, 1), FRAMES, axis=0)
    where, swapped = table_octets(plugin)
    back[:, where] = learned[:, swapped]
    if plugin.ip_versions[1] == 4:
        write_ipv4_checksum(back, 14)
    locate_headers(back[0]).write_checksum(back)
    answer = plugin.expect_connections("reverse", back, frames, learned)
    assert not answer.reason.any()
    assert emitted(answer) == [forwarded_frame(device, "reverse", f.tobytes()) for f in back]


@pytest.mark.parametrize("case", CASES)
def test_all_connections_of_phase_one_are_different(case):
    plugin, device = made(case)
    frames, _, learned = established(plugin, device)
    assert len(np.unique(learned, axis=0)) == FRAMES
    where = slice(26, 38) if frames[0, 12] == 8 else slice(22, 58)
    assert len(np.unique(frames[:, where], axis=0)) == FRAMES


@pytest.mark.parametrize("case", [c for c in CASES if "m" in CASES[c][1]])
def test_background_needs_no_connection(case):
    plugin, device = made(case)
    for direction in DIRECTIONS:
        (bg,) = [s for s in streams(plugin, direction) if s.role is Role.BACKGROUND]
        frames = Expander(bg).frames(0, 50)
        wanted = [forwarded_frame(device, direction, f.tobytes()) for f in frames]
        assert all(wanted)
        assert emitted(plugin.expect(direction, frames)) == wanted


@pytest.mark.parametrize("case", ["nat44", "nat64"])
def test_without_a_connection_nothing_is_forwarded(case):
    plugin, _ = made(case)
    for direction in DIRECTIONS:
        frames = Expander(streams(plugin, direction)[0]).frames(0, 5)
        answer = plugin.expect(direction, frames)
        if direction == "reverse" or plugin.name == "nat44":
            assert not answer.length.any()


@pytest.mark.parametrize("case", [*DEFAULTS, "nat66 hosts", "nat46 hosts"])
def test_a_public_endpoint_outside_the_pool_is_a_drop(case):
    plugin, device = made(case)
    frames, _, learned = established(plugin, device)
    learned = learned.copy()
    size = (learned.shape[1] - 4) // 2
    learned[0, size - 1] ^= 8  # another address
    learned[1, 3] ^= 8  # of IPv6: another network
    learned[2, -4:-2] = (0, 80)  # a port below the pool
    reason = plugin.expect_connections("forward", frames, frames, learned).reason
    assert reason[:3].tolist() == [StatefulDrop.OUTSIDE_POOL] * 3
    assert not reason[3:].any()


@pytest.mark.parametrize("case", DEFAULTS)
def test_every_listed_size(case):
    plugin, device = made(case)
    for size in plugin.rfc_frame_sizes:
        sizes = plugin.side_sizes(plugin.frame_pair(size))
        frames, out, _ = established(plugin, device, size)
        assert (frames.shape[1] + 4, len(out[0]) + 4) == sizes
        assert abs(sizes[0] - sizes[1]) == plugin.overhead


@pytest.mark.parametrize("case", CASES)
def test_a_plugin_is_pickled_without_what_it_prepared(case):
    plugin, device = made(case)
    frames, out, learned = established(plugin, device)
    assert len(pickle.dumps(plugin)) < 10_000
    again = pickle.loads(pickle.dumps(plugin))  # noqa: S301
    assert emitted(again.expect_connections("forward", frames, frames, learned)) == out


@pytest.mark.parametrize(
    ("name", "inside", "first"),
    [
        ("nat44", "inside4", None),
        ("nat64", "inside6", None),
        ("nat66", "inside6", None),
        ("nat46", "inside6", IPv6Address("2001:db8:46::c612:2")),
    ],
)
def test_the_device_knows_clients_pool_and_all_hosts(name, inside, first):
    plugin, _ = made(f"{name} hosts")
    p, intent = plugin.params, plugin.dut_intent()
    configuration = intent.configuration
    if name == "nat46":
        siit, nat = plugin.parts
        ((four, six),) = siit.intent.configuration.eam
        assert (str(four), str(six)) == ("198.19.3.192/30", "2001:2:0:1::5:40/126")
        configuration = nat.intent.configuration
    pool = configuration.pool4 if plugin.ip_versions[1] == 4 else configuration.pool6
    assert pool == tuple(p.pool_first + k for k in range(p.pool_count))
    assert configuration.ports == (1024, 65535)
    responders = {p.responder + k for k in range(p.responder_count)}
    assert {a for net in intent.right.routes for a in net} == responders
    first, networks = first or p.initiator, getattr(configuration, inside)
    assert all(any(first + k in net for net in networks) for k in range(p.initiator_count))
    if name == "nat64":
        assert configuration.clients == 64


def test_the_rules_name_clients_addresses_and_ports():
    plugin, _ = made("nat66 hosts")
    driver = make_driver("nftables66", {})
    intent = plugin.dut_intent()
    texts = [step.text for step in driver.plan(intent, driver.example(intent)).steps]
    (rules,) = [text for text in texts if "table ip6 v6t" in text]
    assert (
        'ip6 saddr 2001:2::/124 oifname "right" meta l4proto udp counter '
        "snat to [2001:2:0:2::1]-[2001:2:0:2::3]:1024-65535"
    ) in rules


def test_the_well_known_prefix_has_a_short_name():
    assert str(Nat64Params(prefix="wkp").servers) == str(WELL_KNOWN)
    assert Nat64Params(prefix="well-known").servers == Nat64Params(prefix=str(WELL_KNOWN)).servers


SERVERS_SCATTERED = {
    "responder_ipv6": "2001:2::ffff:fffe",
    "responder_count": 4,
    "initiator_count": 2,
    "enumerate_ips": 3,
}
REFUSED = [
    ({"enumerate_ports": 3, "enumerate_ips": 1, "initiator_count": 2, "responder_count": 2}, "conflict"),
    ({"initiator_count": 2}, "conflict"),
    ({"enumerate_ips": 3}, "conflict"),
    ({"enumerate_ports": 0}, "conflict"),
    ({"initiator_ports": {"min": 1, "max": 40000}}, "out-of-range"),
    ({"responder_ports": {"min": 9, "max": 3}}, "empty-range"),
    ({"initiator_ports": {"min": 1024, "max": 65535}, "responder_ports": {"min": 1, "max": 1},
      "pool_ports": {"min": 1024, "max": 2047}}, "not-enough-addresses"),
]  # fmt: skip
REFUSED4 = [({"responder_ipv4": "198.19.0.1"}, "address-conflict")]
REFUSED6 = [
    ({"n": 2, "m": 1}, "no-background"),
    ({"pool_first": "2001:2:0:1::2"}, "address-conflict"),
    (SERVERS_SCATTERED, "out-of-range"),
]


@pytest.mark.parametrize(
    ("model", "given", "code"),
    [
        *((model, *case) for model in (Nat44Params, Nat64Params) for case in REFUSED + REFUSED4),
        *((model, *case) for model in (Nat66Params, Nat46Params) for case in REFUSED + REFUSED6),
    ],
)
def test_what_cannot_be_enumerated_is_refused_in_a_sentence(model, given, code):
    with expect_error(code):
        model(**given)


def test_servers_that_are_not_mapped_by_prefixes():
    with expect_error("not-enough-addresses"):
        Nat46Params(**HOSTS, responder_ipv4="198.19.0.3", responder_ipv6="2001:2:0:1::4")
    with expect_error("not-a-prefix", mentions="96"):
        Nat46Params(clients_prefix="2001:db8::/64")


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
    assert (plugin.params.endpoints, plugin.combinations) == (40_000, 4_000_000)
    assert plugin.usual_timeout_s == TIMERS_S["UDP_DEFAULT"] == 300
