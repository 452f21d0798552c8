"""AFTR of Dual-Stack Lite (RFC 6333): B4s' IPv4 in IPv6 left, public IPv4 right; stateful.

A connection is a softwire, the B4's IPv6 address, and an inner four-tuple (ST-18). All B4s here
have customers with the same IPv4 address, so the inner four-tuples of two B4s are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.device import LinkIntent
from v6t.intent.families import AftrTunnelConfig, DsLiteAftrConfig
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.header_policy import HeaderPolicy
from v6t.packets.headers import IPV4, IPV6, read_hops, to_octets, view
from v6t.packets.reference import EXHAUSTED, NOT_FORWARDED, DropReason, ReferenceTranslation
from v6t.packets.walker import locate_endpoints
from v6t.plugins.audit_views import Nat, TunnelEnd, first_hosts
from v6t.plugins.base import DeviceIntent, Links, Part
from v6t.plugins.chain import CHAIN, between, chain_intent, part_params, without_ipv6
from v6t.plugins.four_tuples import TupleField, consecutive
from v6t.plugins.frame_sizes import TUNNEL_SIZES
from v6t.plugins.map_ce import Customer, Tunnel
from v6t.plugins.nat44 import Nat44, Nat44Params
from v6t.plugins.params import address, device, tester
from v6t.plugins.ports import PortSet
from v6t.plugins.reference_device import Handled, Leaving, ReferenceDevice, route_all
from v6t.plugins.stateful import (
    Enumeration,
    Packets,
    PoolParams,
    Ports,
    StatefulDrop,
    StatefulTechnology,
    learned_source,
    networks,
    pool_reasons,
    rewritten,
    source_of,
    span,
)
from v6t.plugins.traffic import ipv4, ipv6
from v6t.plugins.tunnels import (
    PORTED,
    UNMARKABLE,
    carries_ports,
    decapsulate,
    encapsulate,
    has_ports,
    unmarkable,
)
from v6t.profiles.model import Layer

if TYPE_CHECKING:
    from v6t.packets.arrays import U8
    from v6t.packets.direction import Direction
    from v6t.packets.reference import Expected
    from v6t.plugins.audit_views import AuditView


class SoftwireDrop(DropReason):
    """Why the end of a softwire drops a frame."""

    UNMARKED = UNMARKABLE


_ANY = IPv4Network("0.0.0.0/0")


@dataclass(frozen=True)
class B4(ReferenceTranslation):
    """A B4 of DS-Lite; left is its IPv6, right the customer's IPv4."""

    local: IPv6Address
    aftr: IPv6Address
    links: Links

    def expect(self, direction: Direction, frames: U8) -> Expected:
        """See :meth:`v6t.plugins.base.Technology.expect`."""
        return self._device.expect(direction, frames)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.local, self.aftr, self.links)

    @cached_property
    def _device(self) -> ReferenceDevice:
        from v6t.plugins.map_ce import customer_device

        customer = Customer(_ANY, PortSet(0, 0, 0), Tunnel(self.local, self.aftr, uniform=True))
        return customer_device(customer, self.links)


@dataclass(frozen=True)
class SoftwireEnd(ReferenceTranslation):
    """An AFTR without its NAT; left are the B4s, right is the NAT.

    Attributes:
        aftr: its tunnel address.
        first_b4, count: consecutive addresses of the B4s.
        inner: the customers' address, the same behind each B4.
        first_own: consecutive addresses that stand for the B4s on the right.
        links: both cables.
    """

    aftr: IPv6Address
    first_b4: IPv6Address
    count: int
    inner: IPv4Address
    first_own: IPv4Address
    links: Links

    def expect(self, direction: Direction, frames: U8) -> Expected:
        """See :meth:`v6t.plugins.base.Technology.expect`."""
        return self._device.expect(direction, frames)

    def __reduce__(self) -> tuple[object, ...]:
        arguments = (self.aftr, self.first_b4, self.count, self.inner, self.first_own, self.links)
        return type(self), arguments

    @cached_property
    def _device(self) -> ReferenceDevice:
        return ReferenceDevice(
            self.links, {6: self._from_ipv6}, {4: self._from_ipv4, 6: route_all(6)}
        )

    def _from_ipv6(self, packets: U8) -> Handled:
        outer = view(packets, IPV6)
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        good = (outer["dst_octets"] == _octets(self.aftr)).all(axis=1) & carries_ports(packets)
        first = int(self.first_b4)
        number = outer["src_low"].astype(np.uint64) - np.uint64(first & (1 << 64) - 1)
        good &= (outer["src_high"] == np.uint64(first >> 64)) & (number < np.uint64(self.count))
        if packets.shape[1] >= 60:
            inner = view(packets, IPV4, 40)
            reason[good] = 0
            reason[good & (inner["ttl"] <= 1)] = EXHAUSTED
            reason[good & unmarkable(packets)] = SoftwireDrop.UNMARKED
            if self.count > 1:
                reason[good & (inner["src"] != int(self.inner))] = NOT_FORWARDED
        good = reason == 0
        if not good.any():
            return Handled(reason, ())
        out = decapsulate(packets[good], uniform=True)
        if self.count > 1:
            view(out, IPV4)["src"] = number[good] + np.uint64(int(self.first_own))
            _write_checksums(out)
        return Handled(reason, (Leaving(good, out, 4),))

    def _from_ipv4(self, packets: U8) -> Handled:
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        if packets.shape[1] < 28 or packets.shape[1] + 40 > self.links.left.mtu:
            return Handled(reason, ())
        good = has_ports(packets)
        number = np.zeros(len(packets), dtype=np.uint64)
        if self.count > 1:
            number = view(packets, IPV4)["dst"].astype(np.uint64) - np.uint64(int(self.first_own))
            good &= number < np.uint64(self.count)
        reason[good] = 0
        reason[good & (read_hops(packets, 4) <= 1)] = EXHAUSTED
        good = reason == 0
        if not good.any():
            return Handled(reason, ())
        passing = packets[good]
        if self.count > 1:
            view(passing, IPV4)["dst"] = int(self.inner)
            _write_checksums(passing)
        b4 = np.empty((len(passing), 16), dtype=np.uint8)
        b4[:] = _octets(self.first_b4)
        low = np.uint64(int(self.first_b4) & (1 << 64) - 1) + number[good]
        b4[:, 8:] = to_octets(low, 8)
        return Handled(reason, (Leaving(good, encapsulate(passing, _octets(self.aftr), b4), 6),))


def _octets(address: IPv6Address) -> U8:
    return np.frombuffer(address.packed, dtype=np.uint8)


def _write_checksums(packets: U8) -> None:
    write_ipv4_checksum(packets)
    for protocol in PORTED:
        rows = view(packets, IPV4)["proto"] == protocol
        if rows.any():
            part = packets[rows]
            locate_endpoints(part[0], "IPv4").write_checksum(part)
            packets[rows] = part


_MACS = ("02:00:00:00:04:01", "02:00:00:00:04:02")
_HERE, _THERE = "192.168.20.1/30", "192.168.20.2/30"
_BEHIND_IPV6 = slice(40, None)


class DsLiteParams(PoolParams):
    """Everything ``dslite-aftr`` can be told."""

    measured: ClassVar[str] = "DS-Lite"
    ranges: ClassVar[Mapping[str, str]] = {
        **PoolParams.ranges,
        "b4_ipv6": "initiator_count",
        "internal_ipv4": "initiator_count",
    }

    initiator_ports: Ports = Field(
        Ports(min=4096, max=5119), description="inner source ports of the Initiator"
    )
    responder_ports: Ports = Field(
        Ports(min=1, max=125), description="destination ports, those of the Responder"
    )
    initiator_count: int = Field(16, ge=1, le=65536, description="B4s, a softwire each")
    responder_count: int = Field(2, ge=1, le=65536, description="addresses of the Responder")
    enumerate_ips: Enumeration = Field(
        3, description="addresses take all values: 0 not at all, 1 up, 2 down, 3 pseudorandom"
    )
    initiator_ipv4: IPv4Address = Field(
        IPv4Address("192.168.1.2"), description="the customer's address, the same behind each B4"
    )
    b4_ipv6: IPv6Address = address("2001:db8:b4::1:0", "first address of the B4s")
    aftr_ipv6: IPv6Interface = address("2001:db8:6::1/64", "the AFTR's address on the left link")
    tester_left_ipv6: IPv6Address = tester("2001:db8:6::2", "left")
    dut_right_ipv4: IPv4Interface = device("192.168.19.1/30", "right")
    tester_right_ipv4: IPv4Address = tester("192.168.19.2", "right")
    internal_ipv4: IPv4Address = Field(
        IPv4Address("10.0.0.0"),
        description="where a NAT44 of its own is behind the tunnels: stands for the first B4",
    )

    @model_validator(mode="after")
    def _softwires(self) -> DsLiteParams:
        if self.n != self.m:
            raise UsageError(
                "background traffic is impossible: native IPv6 does not cross an AFTR to an IPv4 network",
                "set n = m",
                code="no-background",
            )
        b4s = span(self.b4_ipv6, self.initiator_count, "b4_ipv6")
        if self.aftr_ipv6.ip in b4s or self.tester_left_ipv6 in b4s:
            raise UsageError(
                f"the AFTR or the tester has an address of the B4s {b4s}",
                "choose another b4_ipv6",
                code="address-conflict",
            )
        return self


class DsLiteAftr(StatefulTechnology):
    """Decapsulates and translates forward, translates and encapsulates in reverse."""

    name = "dslite-aftr"
    title = "DS-Lite AFTR: IPv4 of many B4s from their tunnels to public IPv4, stateful"
    rfcs = ("RFC 9693", "RFC 6333", "RFC 2473")
    params_model = DsLiteParams
    overhead = 40
    ip_versions = (6, 4)
    default_driver = CHAIN
    mapping = "RFC 6333 section 6.6: by softwire and inner source; RFC 4787 for the rest"
    rfc_frame_sizes = TUNNEL_SIZES
    params: DsLiteParams

    @property
    def header_policy(self) -> HeaderPolicy:
        """DSCPs must be carried over either way (RFC 6333 section 7.1)."""
        return HeaderPolicy(outer_dscp="copied", inner_dscp="copied")

    def address_fields(self) -> list[TupleField]:
        """List the Responder's inner and the B4s' outer addresses."""
        p = self.params
        return [
            consecutive("responders", "IP.dst", p.responder_ipv4, p.responder_count),
            consecutive("initiators", "IPv6.src", p.b4_ipv6, p.initiator_count),
        ]

    def client_layers(self) -> tuple[Layer, ...]:
        """Build the tunnel's header and the customer's header inside it."""
        p = self.params
        return (
            ipv6(p, p.b4_ipv6, p.aftr_ipv6.ip),
            ipv4(p, p.initiator_ipv4, p.responder_ipv4),
        )

    def translate(self, direction: Direction, packets: U8, initial: U8, learned: U8) -> Packets:
        """See the base class; a connection's B4 is the outer source of its first packet."""
        reason = pool_reasons(self.params.public, learned)
        if direction == "forward":
            reason[(reason == 0) & unmarkable(packets)] = StatefulDrop.UNMARKED
            inner = decapsulate(packets, uniform=True)
            outgoing = rewritten(inner, source=learned_source(learned), hops=0)
            return Packets(outgoing, 4, reason)
        customer = source_of(initial[:, _BEHIND_IPV6])
        inner = rewritten(packets, destination=customer, hops=0)
        aftr = np.frombuffer(self.params.aftr_ipv6.ip.packed, dtype=np.uint8)
        return Packets(encapsulate(inner, aftr, view(initial, IPV6)["src_octets"]), 6, reason)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The tunnels' end, and a NAT44 behind it."""
        p, links = self.params, self.links
        here, there = between(*_MACS, links.right.mtu)
        own = Links(links.left, here)
        several = p.initiator_count > 1
        first = p.internal_ipv4 if several else p.initiator_ipv4
        b4s = span(p.b4_ipv6, p.initiator_count, "b4_ipv6")
        tunnels = DeviceIntent(
            "softwire",
            AftrTunnelConfig(
                aftr=p.aftr_ipv6.ip,
                first_b4=p.b4_ipv6,
                b4_count=p.initiator_count,
                customer=p.initiator_ipv4,
                internal=first,
            ),
            own,
            LinkIntent.describe(
                links.left, [p.aftr_ipv6], [p.tester_left_ipv6], {b4s: p.tester_left_ipv6}
            ),
            LinkIntent.describe(here, [_HERE], []),
        )
        end = SoftwireEnd(
            p.aftr_ipv6.ip, p.b4_ipv6, p.initiator_count, p.initiator_ipv4, first, own
        )
        nat = part_params(
            Nat44Params,
            p,
            initiator_ipv4=first,
            dut_left_ipv4=_THERE,
            tester_left_ipv4=_HERE.partition("/")[0],
        )
        intent = without_ipv6(Nat44(nat, Links(there, links.right)).dut_intent())
        return (
            Part("softwire", self.name, tunnels, reference=end),
            Part("nat", self.name, intent, "nftables", stateful=True),
        )

    def audit_views(self) -> tuple[AuditView, ...]:
        p = self.params
        nat = Nat(
            hosts=first_hosts(p.b4_ipv6, p.initiator_count),
            servers=first_hosts(p.responder_ipv4, p.responder_count),
            pool=p.pool,
            customer=p.initiator_ipv4,
            aftr=p.aftr_ipv6.ip,
            **p.audit_limits,
        )
        tunnel = TunnelEnd(
            side="left",
            local=p.aftr_ipv6.ip,
            remote=p.b4_ipv6,
            inner=(p.initiator_ipv4, p.initiator_ports.min + 7),
            outer=None,
            host=(p.responder_ipv4, 5),
            copies_dscp=True,
        )
        return nat, tunnel

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        return self.params.audit_variants()

    def dut_intent(self) -> DeviceIntent:
        """Tunnels, public addresses and ports; as a whole for one device, and part by part."""
        p = self.params
        configuration = DsLiteAftrConfig(
            aftr=p.aftr_ipv6.ip,
            first_b4=p.b4_ipv6,
            b4_count=p.initiator_count,
            inside4=tuple(networks(p.initiator_ipv4, 1)),
            pool4=p.pool,
            ports=p.public.span,
            **p.limits,
        )
        return chain_intent(self.name, self.parts, self.links, configuration=configuration)
