"""NAT66 and NAT46 against devices written with scapy that choose their own public ports."""

from __future__ import annotations

import pickle
from ipaddress import IPv6Address

import numpy as np
import pytest
from v6t.audit.packet_device.device import DeviceLinks
from v6t.audit.packet_device.nat import NatTable
from v6t.audit.packet_device.translator import StatelessTranslatingDevice
from v6t.drivers.duts.registry import make_driver
from v6t.packets.walker import locate_headers
from v6t.plugins.audit_views import AddressTable, Nat
from v6t.plugins.base import Link, Links
from v6t.plugins.nat46 import Nat46, Nat46Params
from v6t.plugins.nat66 import Nat66, Nat66Params
from v6t.plugins.stateful import Pool6Params, StatefulDrop
from v6t.profiles.expand import Expander
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify

from .support import forwarded_frame, packet_device
from .test_nat import FRAMES, streams

pytestmark = pytest.mark.slow

TAGGED = Links(
    Link("02:00:00:00:01:02", "02:00:00:00:01:01", vlan=7),
    Link("02:00:00:00:02:02", "02:00:00:00:02:01", mtu=2000),
)


class Nat46Device(StatelessTranslatingDevice):
    """Clients of IPv4 behind public IPv6 addresses: an address table, then mappings."""

    def __init__(self, plugin):
        p = plugin.params
        table = AddressTable(((p.mapping.ipv4, p.mapping.ipv6),), p.prefix)
        super().__init__(DeviceLinks.from_technology(plugin), "right", 1500, table)
        self.mappings = NatTable(Nat((), (), p.pool, public=p.public.span))

    def is_ipv4_destination(self, destination):
        return destination in self.mappings.pool

    def forward_ipv4(self, packet):
        for _, translated in super().forward_ipv4(packet):
            yield from ((side, p) for side, p, _ in self.mappings.send_out(translated))

    def forward_ipv6(self, packet):
        for _, translated, _ in self.mappings.send_in(packet):
            yield from super().forward_ipv6(translated)


HOSTS = {
    "initiator_count": 8,
    "responder_count": 4,
    "enumerate_ips": 3,
    "pool_count": 3,
    "initiator_ports": {"min": 4096, "max": 5119},
}
CASES = {
    "nat66": (Nat66, Nat66Params, {}),
    "nat66 hosts": (Nat66, Nat66Params, {**HOSTS, "responder_ipv6": "2001:2:0:1::c0"}),
    "nat66 upwards": (
        Nat66, Nat66Params,
        {"enumerate_ports": 1, "initiator_ports": {"min": 2048, "max": 4095}},
    ),
    "nat46": (Nat46, Nat46Params, {}),
    "nat46 hosts": (
        Nat46, Nat46Params,
        {**HOSTS, "responder_ipv6": "2001:2:0:1::5:40", "responder_ipv4": "198.19.3.192"},
    ),
}  # fmt: skip


def made(case, links=None):
    plugin_type, params, given = CASES[case]
    plugin = plugin_type(params(**given), links)
    return plugin, Nat46Device(plugin) if plugin.name == "nat46" else packet_device(plugin)


def established(plugin, device, size=104):
    """First frames of the connections, what leaves the device, and the tester's table."""
    frames = Expander(streams(plugin, "forward", size)[0]).frames(0, FRAMES)
    out = [forwarded_frame(device, "forward", f.tobytes()) for f in frames]
    assert all(out)
    return frames, out, np.array([list(o[22:58]) for o in out], dtype=np.uint8)


def rows_of(answer):
    return [answer.frames[i, : answer.length[i]].tobytes() for i in range(len(answer.length))]


@pytest.mark.parametrize("links", [None, TAGGED], ids=["plain", "tagged"])
@pytest.mark.parametrize("size", [108, 1518])
@pytest.mark.parametrize("case", CASES)
def test_frames_of_connections_are_what_a_device_emits(case, size, links):
    plugin, device = made(case, links)
    frames, out, learned = established(plugin, device, size)
    assert verify(frames).all()
    assert len(np.unique(learned, axis=0)) == FRAMES
    answer = plugin.connected("forward", frames, frames, learned)
    assert not answer.reason.any()
    assert rows_of(answer) == out
    back = np.repeat(Expander(streams(plugin, "reverse", size)[0]).frames(0, 1), FRAMES, axis=0)
    swapped = [*range(16, 32), *range(16), 34, 35, 32, 33]
    back[:, 22:58] = learned[:, swapped]
    locate_headers(back[0]).write_checksum(back)
    answer = plugin.connected("reverse", back, frames, learned)
    assert rows_of(answer) == [forwarded_frame(device, "reverse", f.tobytes()) for f in back]


@pytest.mark.parametrize("case", CASES)
def test_a_public_endpoint_outside_the_pool_is_a_drop(case):
    plugin, device = made(case)
    frames, _, learned = established(plugin, device)
    learned = learned.copy()
    learned[0, 15] ^= 8  # another address
    learned[1, 3] ^= 1  # another network
    learned[2, 32:34] = (0, 80)  # a port below the pool
    reason = plugin.connected("forward", frames, frames, learned).reason
    assert reason[:3].tolist() == [StatefulDrop.OUTSIDE_POOL] * 3
    assert not reason[3:].any()


@pytest.mark.parametrize("case", ["nat66", "nat46"])
def test_every_listed_size(case):
    plugin, device = made(case)
    for size in plugin.rfc_frame_sizes:
        frames, out, _ = established(plugin, device, size)
        other = size - plugin.overhead
        assert (frames.shape[1] + 4, len(out[0]) + 4) == (other, size)


@pytest.mark.parametrize("case", CASES)
def test_a_plugin_is_pickled_without_what_it_prepared(case):
    plugin, device = made(case)
    frames, out, learned = established(plugin, device)
    assert len(pickle.dumps(plugin)) < 10_000
    again = pickle.loads(pickle.dumps(plugin))  # noqa: S301
    assert rows_of(again.connected("forward", frames, frames, learned)) == out


@pytest.mark.parametrize("case", ["nat66 hosts", "nat46 hosts"])
def test_the_device_knows_clients_pool_and_all_hosts(case):
    plugin, _ = made(case)
    p = plugin.params
    intent = plugin.dut_intent()
    configuration = intent.configuration
    if case.startswith("nat46"):
        siit, nat = plugin.parts
        ((four, six),) = siit.intent.configuration.eam
        assert (str(four), str(six)) == ("198.19.3.192/30", "2001:2:0:1::5:40/126")
        configuration = nat.intent.configuration
    assert configuration.pool6 == tuple(p.pool_first + k for k in range(3))
    (right,) = intent.right.routes
    assert all(p.responder_ipv6 + k in right for k in range(4))
    first = p.initiator_ipv6 if case.startswith("nat66") else IPv6Address("2001:db8:46::c612:2")
    assert all(any(first + k in net for net in configuration.inside6) for k in range(8))


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


REFUSED = {
    "background": ({"n": 2, "m": 1}, "no-background"),
    "responder is public": ({"pool_first": "2001:2:0:1::2"}, "address-conflict"),
    "scattered responders": (
        {"responder_ipv6": "2001:2::ffff:fffe", "responder_count": 4, "initiator_count": 2,
         "enumerate_ips": 3},
        "out-of-range",
    ),
    "pool too small": (
        {"pool_ports": {"min": 1024, "max": 2047}}, "not-enough-addresses",
    ),
}  # fmt: skip


@pytest.mark.parametrize("model", [Nat66Params, Nat46Params])
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_a_sentence(case, model):
    given, code = REFUSED[case]
    assert issubclass(model, Pool6Params)
    with expect_error(code):
        model(**given)


def test_servers_that_are_not_mapped_by_prefixes():
    with expect_error("not-enough-addresses"):
        Nat46Params(**HOSTS, responder_ipv4="198.19.0.3", responder_ipv6="2001:2:0:1::4")
    with expect_error("not-a-prefix", mentions="96"):
        Nat46Params(clients_prefix="2001:db8::/64")
