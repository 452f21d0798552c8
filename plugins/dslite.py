"""AFTR of Dual-Stack Lite (RFC 6333): B4s' IPv4 in IPv6 left, public IPv4 right; stateful.

A connection is a softwire, the B4's IPv6 address, and an inner four-tuple. All B4s here have
customers with the same IPv4 address, so the inner four-tuples of two B4s are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
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
from v6t.plugins.map_ce import CustomerTunnel
from v6t.plugins.nat44 import Nat44, Nat44Params
from v6t.plugins.params import address, device, tester
from v6t.plugins.ports import PortSet
from v6t.plugins.reference_device import DROP_ALL, Answer, ReferenceDevice, route_all
from v6t.plugins.stateful import (
    Enumeration,
    NatPackets,
    PoolParams,
    Ports,
    StatefulDrop,
    StatefulTechnology,
    learned_source,
    networks,
    rewrite,
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
    from v6t.packets.arrays import U8, Mask
    from v6t.packets.direction import Direction
    from v6t.packets.reference import Expected
    from v6t.plugins.audit_views import AuditView

_MACS = ("02:00:00:00:04:01", "02:00:00:00:04:02")
_TUNNELS, _NAT = "192.168.20.1/30", "192.168.20.2/30"
"""Addresses of both parts on the link between them."""


class SoftwireDrop(DropReason):
    """Why the end of a softwire drops a frame."""

    UNMARKED = UNMARKABLE


class SoftwireReference(ReferenceTranslation):
    """Reference translation of a part that ends softwires; left is IPv6, right is IPv4."""

    def expect(self, direction: Direction, frames: U8) -> Expected:
        return self._device.expect(direction, frames)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]

    @cached_property
    def _device(self) -> ReferenceDevice:
        raise NotImplementedError


@dataclass(frozen=True)
class B4(SoftwireReference):
    """A B4 of DS-Lite; its customer is on the right."""

    local: IPv6Address
    aftr: IPv6Address
    links: Links

    @cached_property
    def _device(self) -> ReferenceDevice:
        everybody, ports = IPv4Network("0.0.0.0/0"), PortSet(0, 0, 0)
        tunnel = CustomerTunnel(
            everybody, ports, self.local, self.aftr, self.links.left.mtu, uniform=True
        )
        return ReferenceDevice(
            self.links, {6: tunnel.forward}, {4: tunnel.reverse, 6: route_all(6)}
        )


@dataclass(frozen=True)
class SoftwireEnd(SoftwireReference):
    """An AFTR without its NAT, which is on the right.

    An AFTR distinguishes equal inner four-tuples of several B4s (RFC 6333, section 6.6). As the NAT has IPv4
    only, each of several B4s gets an IPv4 address; with a single B4 the inner addresses stay.

    Attributes:
        aftr: its tunnel address.
        first_b4, count: consecutive addresses of the B4s.
        inner: the customers' address, the same behind each B4.
        first_internal: consecutive addresses that stand for the B4s on the right.
        links: both cables.
    """

    aftr: IPv6Address
    first_b4: IPv6Address
    count: int
    inner: IPv4Address
    first_internal: IPv4Address
    links: Links

    @cached_property
    def _device(self) -> ReferenceDevice:
        return ReferenceDevice(
            self.links, {6: self._from_ipv6}, {4: self._from_ipv4, 6: route_all(6)}
        )

    def _from_ipv6(self, packets: U8) -> Answer:
        if packets.shape[1] < 60:
            return DROP_ALL
        outer, inner = view(packets, IPV6), view(packets, IPV4, 40)
        first = int(self.first_b4)
        number = outer["src_low"].astype(np.uint64) - np.uint64(first & (1 << 64) - 1)
        known = (outer["dst_octets"] == _octets(self.aftr)).all(axis=1) & carries_ports(packets)
        known &= (outer["src_high"] == np.uint64(first >> 64)) & (number < np.uint64(self.count))
        if self.count > 1:
            known &= inner["src"] == int(self.inner)
        drops = [
            (NOT_FORWARDED, ~known),
            (SoftwireDrop.UNMARKED, unmarkable(packets)),
            (EXHAUSTED, inner["ttl"] <= 1),
        ]

        def build(rows: Mask) -> U8:
            out = decapsulate(packets[rows], uniform=True)
            if self.count > 1:
                view(out, IPV4)["src"] = number[rows] + np.uint64(int(self.first_internal))
                _write_checksums(out)
            return out

        return Answer(drops, build, version=4)

    def _from_ipv4(self, packets: U8) -> Answer:
        if packets.shape[1] < 28 or packets.shape[1] + 40 > self.links.left.mtu:
            return DROP_ALL
        number = np.zeros(len(packets), dtype=np.uint64)
        if self.count > 1:
            first = np.uint64(int(self.first_internal))
            number = view(packets, IPV4)["dst"].astype(np.uint64) - first
        drops = [
            (NOT_FORWARDED, ~has_ports(packets) | (number >= np.uint64(self.count))),
            (EXHAUSTED, read_hops(packets, 4) <= 1),
        ]

        def build(rows: Mask) -> U8:
            inner = packets[rows]
            if self.count > 1:
                view(inner, IPV4)["dst"] = int(self.inner)
                _write_checksums(inner)
            b4 = np.empty((len(inner), 16), dtype=np.uint8)
            b4[:] = _octets(self.first_b4)
            low = np.uint64(int(self.first_b4) & (1 << 64) - 1) + number[rows]
            b4[:, 8:] = to_octets(low, 8)
            return encapsulate(inner, _octets(self.aftr), b4)

        return Answer(drops, build)


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


class DsLiteParams(PoolParams):
    """Parameters of ``dslite-aftr``."""

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
    initiator_ipv4: IPv4Address = address(
        "192.168.1.2", "the customer's address, the same behind each B4"
    )
    b4_ipv6: IPv6Address = address("2001:db8:b4::1:0", "first address of the B4s")
    aftr_ipv6: IPv6Interface = address("2001:db8:6::1/64", "the AFTR's address on the left link")
    tester_left_ipv6: IPv6Address = tester("2001:db8:6::2", "left")
    dut_right_ipv4: IPv4Interface = device("192.168.19.1/30", "right")
    tester_right_ipv4: IPv4Address = tester("192.168.19.2", "right")
    internal_ipv4: IPv4Address = address(
        "10.0.0.0",
        "where a NAT44 of its own is behind the tunnels: stands for the first B4",
    )

    @property
    def b4_network(self) -> IPv6Network:
        """The smallest network of all B4s."""
        return span(self.b4_ipv6, self.initiator_count, "b4_ipv6")

    @model_validator(mode="after")
    def _softwires(self) -> DsLiteParams:
        if self.n != self.m:
            raise UsageError(
                "background traffic is impossible: native IPv6 does not cross an AFTR to an IPv4 network",
                "set n = m",
                code="no-background",
            )
        if self.aftr_ipv6.ip in self.b4_network or self.tester_left_ipv6 in self.b4_network:
            raise UsageError(
                f"the AFTR or the tester has an address of the B4s {self.b4_network}",
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
        """DSCPs must be copied in both directions (RFC 6333, section 7.1)."""
        return HeaderPolicy(outer_dscp="copied", inner_dscp="copied")

    def address_fields(self) -> list[TupleField]:
        """Return the Responder's inner and the B4s' outer addresses."""
        p = self.params
        return [
            consecutive("responders", "IP.dst", p.responder_ipv4, p.responder_count),
            consecutive("initiators", "IPv6.src", p.b4_ipv6, p.initiator_count),
        ]

    def client_layers(self) -> tuple[Layer, ...]:
        """Return the tunnel's header and the customer's header inside it."""
        p = self.params
        return (
            ipv6(p, p.b4_ipv6, p.aftr_ipv6.ip),
            ipv4(p, p.initiator_ipv4, p.responder_ipv4),
        )

    def translate(self, direction: Direction, packets: U8, initial: U8, learned: U8) -> NatPackets:
        """Translate packets of connections, whose B4 is the outer source of the first packet."""
        if direction == "forward":
            inner = decapsulate(packets, uniform=True)
            outgoing = rewrite(inner, source=learned_source(learned), hops=0)
            return NatPackets(outgoing, 4, [(StatefulDrop.UNMARKED, unmarkable(packets))])
        inner = rewrite(packets, destination=source_of(initial[:, 40:]), hops=0)
        aftr, b4 = _octets(self.params.aftr_ipv6.ip), view(initial, IPV6)["src_octets"]
        return NatPackets(encapsulate(inner, aftr, b4), 6)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The tunnels' end, and a NAT44 behind it."""
        p, links = self.params, self.links
        near, far = between(*_MACS, links.right.mtu)
        own = Links(links.left, near)
        first = p.internal_ipv4 if p.initiator_count > 1 else p.initiator_ipv4
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
                links.left, [p.aftr_ipv6], [p.tester_left_ipv6], {p.b4_network: p.tester_left_ipv6}
            ),
            LinkIntent.describe(near, [_TUNNELS], []),
        )
        end = SoftwireEnd(
            p.aftr_ipv6.ip, p.b4_ipv6, p.initiator_count, p.initiator_ipv4, first, own
        )
        nat = part_params(
            Nat44Params,
            p,
            initiator_ipv4=first,
            dut_left_ipv4=_NAT,
            tester_left_ipv4=_TUNNELS.partition("/")[0],
        )
        intent = without_ipv6(Nat44(nat, Links(far, links.right)).dut_intent())
        return (
            Part("softwire", self.name, tunnels, reference=end),
            Part("nat", self.name, intent, "nftables", stateful=True),
        )

    def dut_intent(self) -> DeviceIntent:
        """Describe tunnels, public addresses and ports: as a whole for one device, and part by part."""
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

    def audit_views(self) -> tuple[AuditView, ...]:
        p = self.params
        nat = Nat(
            first_hosts(p.b4_ipv6, p.initiator_count),
            first_hosts(p.responder_ipv4, p.responder_count),
            p.pool,
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
