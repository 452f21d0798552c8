"""Stateful technologies compared with packet-level devices, which choose the public ports themselves."""

from ipaddress import IPv6Network
from types import SimpleNamespace

import numpy as np
import pytest
from v6t.audit.packet_device.maps import TableMap
from v6t.audit.packet_device.nat import MappingDevice, NatDevice
from v6t.audit.packet_device.translator import StatelessTranslatingDevice
from v6t.packets.direction import DIRECTIONS
from v6t.plugins.audit_views import AddressTable, Nat
from v6t.plugins.nat64 import SESSION_LIFETIMES_S, Nat64, Nat64Params
from v6t.plugins.stateful import StatefulDrop
from v6t.plugins.translation import WELL_KNOWN
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role
from v6t.tests.packets.oracle import verify

from . import support

VARIANTS = ("464xlat", "ds-lite", "lw4o6", "map-e", "map-t")
TRANSLATING = ("464xlat", "map-t")
DEFAULTS = ("nat44", "nat64", "nat66", "nat46")
ONE_SOFTWIRE = {"initiator_count": 1, "responder_count": 1, "enumerate_ips": 0}
CASES = support.load_vectors("configurations")["connections"]
INSIDE = TableMap(AddressTable(prefix=IPv6Network("2001:db8:46::/96")))
"""Addresses between both translators of a chain, which do not appear in frames outside the chain."""


class Nat46Device(MappingDevice, StatelessTranslatingDevice):
    def __init__(self, plugin):
        p = plugin.params
        table = AddressTable(((p.mapping.ipv4, p.mapping.ipv6),), p.prefix)
        nat = Nat((), (), p.pool, public_ports=p.public_pool.port_bounds, lowest_ipv6_mtu=1500)
        view = SimpleNamespace(**vars(nat), ipv6_side="right", table=table)
        super().__init__(plugin.make_dut_intent(), view)

    def is_ipv4_destination(self, destination):
        return destination in self.pool

    def forward_ipv4(self, packet):
        for _, translated in super().forward_ipv4(packet):
            yield from ((side, p) for side, p, _ in self.translate_outbound(translated))

    def forward_ipv6(self, packet):
        for _, translated, _ in self.translate_inbound(packet):
            yield from super().forward_ipv6(translated)


class DualDevice(NatDevice):
    def __init__(self, plugin):
        p, intent = plugin.params, plugin.make_dut_intent()
        pool = tuple(p.public_pool.first + n for n in range(p.public_pool.count))
        super().__init__(intent, Nat((), (), pool, public_ports=p.public_pool.port_bounds))
        self.is_translating = p.variant in TRANSLATING
        view = SimpleNamespace(lowest_ipv6_mtu=1500, table=AddressTable(prefix=INSIDE.prefix))
        self.hop = StatelessTranslatingDevice(intent, view)

    def decrement(self, packet):
        if not self.is_translating:
            return super().decrement(super().decrement(packet))
        (six,) = self.hop.to_ipv6(packet, INSIDE)
        return self.hop.to_ipv4(six, INSIDE)


def make_case(case, links=None):
    """Make the technology of a case and its packet-level device."""
    name, params = CASES[case]
    plugin = support.make(name, links, **params)
    device = {"nat46": Nat46Device, "ipv4aas": DualDevice}.get(name, support.make_device)
    return plugin, device(plugin)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("links", "size"),
    [(None, 108), (None, 1500), (support.TAGGED, 108)],
    ids=["small", "large", "tagged"],
)
@pytest.mark.parametrize("case", CASES)
def test_connection_frames_equal_those_of_the_packet_level_device(case, links, size):
    plugin, device = make_case(case, links)
    frames, out, learned = support.establish(plugin, device, size)
    assert verify(frames).all()
    assert len(np.unique(frames, axis=0)) == len(np.unique(learned, axis=0)) == support.CONNECTIONS
    answer = plugin.expect_for_connections("forward", frames, frames, learned)
    assert not answer.reason.any()
    assert support.list_emitted(answer) == out
    back = support.make_responses(plugin, learned, size)
    answer = plugin.expect_for_connections("reverse", back, frames, learned)
    assert not answer.reason.any()
    assert support.list_emitted(answer) == support.forward_frames(device, "reverse", back)


@pytest.mark.parametrize("case", ["nat44 upwards", "nat64 wkp"])
def test_background_without_a_connection_is_forwarded(case):
    plugin, device = make_case(case)
    for direction in DIRECTIONS:
        streams = support.compile_streams(plugin, direction, 108)
        (background,) = [s for s in streams if s.role is Role.BACKGROUND]
        frames = Expander(background).compute_frames(0, 50)
        expected = support.forward_frames(device, direction, frames)
        assert all(expected)
        assert support.list_emitted(plugin.expect(direction, frames)) == expected


@pytest.mark.parametrize(
    ("name", "direction"), [("nat44", "forward"), ("nat44", "reverse"), ("nat64", "reverse")]
)
def test_foreground_without_a_connection_is_dropped(name, direction):
    plugin = support.make(name)
    assert not plugin.expect(direction, support.first_frames(plugin, direction, 5)).length.any()


@pytest.mark.parametrize("case", [*DEFAULTS, "nat66 hosts", "nat46 hosts"])
def test_public_endpoint_outside_the_pool_is_dropped(case):
    plugin, device = make_case(case)
    frames, _, learned = support.establish(plugin, device)
    size = (learned.shape[1] - 4) // 2
    learned[0, size - 1] ^= 8  # another address
    learned[1, 3] ^= 8  # another address; of IPv6, another network
    learned[2, -4:-2] = (0, 80)  # a port below the pool
    reason = plugin.expect_for_connections("forward", frames, frames, learned).reason
    assert reason.tolist() == [StatefulDrop.OUTSIDE_POOL] * 3 + [0] * (support.CONNECTIONS - 3)


@pytest.mark.parametrize("case", [*DEFAULTS, *VARIANTS, "dslite-aftr"])
def test_listed_size_leaves_at_the_size_of_the_other_side(case):
    plugin, device = make_case(case)
    for size in plugin.rfc_frame_sizes:
        pair = plugin.make_frame_pair(size)
        sizes = plugin.list_link_sizes(pair)
        frames = support.first_frames(plugin, "forward", 1, size)
        (out,) = support.forward_frames(device, "forward", frames)
        assert (frames.shape[1] + 4, len(out) + 4) == sizes
        assert pair.ipv6 - pair.ipv4 == plugin.overhead


@pytest.mark.parametrize("name", ["wkp", "well-known", str(WELL_KNOWN)])
def test_nat64_prefix_name_is_well_known_prefix(name):
    assert Nat64Params(prefix=name).server_prefix == WELL_KNOWN


def test_nat64_defaults_have_bib_entries_and_sessions_of_rfc_6146():
    plugin = Nat64()
    assert (plugin.params.endpoints, plugin.combinations) == (40_000, 4_000_000)
    assert plugin.usual_timeout_s == SESSION_LIFETIMES_S["UDP_DEFAULT"] == 300
    params = Nat64Params(initiator_ports={"min": 1, "max": 40_000}, low_ports=True)
    assert params.combinations == 4_000_000
