"""AFTR of Dual-Stack Lite (RFC 6333): IPv4 in IPv6 on the left, public IPv4 on the right; stateful.

All B4s have customers with the same IPv4 address, so the inner four-tuples of two B4s are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Interface
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.device import LinkIntent
from v6t.intent.families import AftrTunnelConfig, DsLiteAftrConfig
from v6t.packets.arrays import U8, Mask
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.direction import Direction
from v6t.packets.header_policy import HeaderPolicy
from v6t.packets.headers import IPV4, IPV6, to_octets, view
from v6t.packets.reference import NOT_FORWARDED, DropReason, Expected, ReferenceTranslation
from v6t.packets.walker import locate_endpoints
from v6t.plugins import base, stateful, tunnels
from v6t.plugins.audit_views import AuditView, TunnelEnd
from v6t.plugins.base import DeviceIntent, Links, Part, PluginParams
from v6t.plugins.four_tuples import TupleField, describe_addresses
from v6t.plugins.frame_sizes import TUNNEL_SIZES
from v6t.plugins.nat44 import Nat44, Nat44Params
from v6t.plugins.params import RightIpv4Link, address, tester_address
from v6t.plugins.ports import Ports
from v6t.plugins.reference_device import Checks, Outcome, ReferenceDevice, route_all
from v6t.plugins.traffic import make_ipv4, make_ipv6
from v6t.plugins.tunnels import ECN_DROP, PORT_TRANSPORTS, TunnelDevice, match_address, pack_address
from v6t.profiles.model import Layer


class SoftwireDrop(DropReason):
    """Why the end of a softwire drops a frame."""

    NOT_ECN_CAPABLE = ECN_DROP
    TOO_BIG = "too big for the IPv6 link"


@dataclass(eq=False)
class SoftwireEnd(TunnelDevice, ReferenceTranslation):
    """Translation of a B4, or of an AFTR without its NAT: IPv6 on the left, IPv4 on the right.

    Several B4s have internal IPv4 addresses, by which the NAT distinguishes them (RFC 6333, section 6.6).
    For a B4, ``config`` has the addresses of B4 and AFTR exchanged.
    """

    drops: ClassVar[type[DropReason]] = SoftwireDrop
    transports = PORT_TRANSPORTS
    copies_dscp = True

    config: AftrTunnelConfig
    links: Links

    def expect(self, direction: Direction, frames: U8) -> Expected:
        return self._device.expect(direction, frames)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.config, self.links)

    @cached_property
    def _device(self) -> ReferenceDevice:
        reverse = {4: self.translate_reverse, 6: route_all(6)}
        return ReferenceDevice(self.links, {6: self.translate_forward}, reverse)

    @property
    def _has_several_b4s(self) -> bool:
        return self.config.b4_count > 1

    def _number_b4s(self, outer: Any) -> Any:
        """Return the number of the B4 that sent each packet, counted from the first B4."""
        return outer["src_low"].astype(np.uint64) - np.uint64(int(self.config.first_b4) % 2**64)

    def select_tunnel_packets(self, outer: Any) -> Mask:
        config = self.config
        tunnelled: Mask = match_address(outer["dst_octets"], config.aftr)
        tunnelled &= outer["src_high"] == np.uint64(int(config.first_b4) >> 64)
        tunnelled &= self._number_b4s(outer) < np.uint64(config.b4_count)
        return tunnelled

    def select_native(self, outer: Any, tunnelled: Mask) -> None:
        """Select nothing: the end of a softwire does not route native IPv6."""

    def check_source(self, outer: Any, inner: Any, udp: Any) -> Checks:
        stranger = inner["src"] != int(self.config.customer)
        return [(NOT_FORWARDED, self._has_several_b4s & stranger)]

    def choose_tunnel(self, header: Any, udp: Any) -> tuple[Checks, Callable[[Mask], Any]]:
        config, number = self.config, np.zeros(len(header), dtype=np.uint64)
        if self._has_several_b4s:
            number = header["dst"].astype(np.uint64) - np.uint64(int(config.internal))

        def choose_addresses(rows: Mask) -> tuple[U8, U8]:
            b4 = np.tile(pack_address(config.first_b4), (int(rows.sum()), 1))
            b4[:, 8:] = to_octets(np.uint64(int(config.first_b4) % 2**64) + number[rows], 8)
            return pack_address(config.aftr), b4

        return [(NOT_FORWARDED, number >= np.uint64(config.b4_count))], choose_addresses

    def translate_forward(self, packets: U8) -> Outcome:
        answer, internal = super().translate_forward(packets), np.uint64(int(self.config.internal))

        def build_packets(rows: Mask) -> U8:
            number = self._number_b4s(view(packets[rows], IPV6))
            return _rewrite_addresses(answer.build(rows), "src", number + internal)

        return replace(answer, build=build_packets) if self._has_several_b4s else answer

    def translate_reverse(self, packets: U8) -> Outcome:
        answer = super().translate_reverse(packets)

        def build_packets(rows: Mask) -> U8:
            out = answer.build(rows)
            _rewrite_addresses(out[:, 40:], "dst", int(self.config.customer))
            return out

        return replace(answer, build=build_packets) if self._has_several_b4s else answer


def build_aftr(
    device: str,
    config: AftrTunnelConfig,
    left: LinkIntent,
    links: Links,
    params: PluginParams,
    servers: Sequence[Any] = (),
    **nat: Any,
) -> tuple[Part, Part]:
    """Build the parts of an AFTR: its tunnel end, and its NAT44 with routes to ``servers``."""
    near, far = base.describe_inner_link(*base.INNER_MACS, links.right.mtu)
    own = Links(links.left, near)
    routes = dict.fromkeys(servers, base.INNER_RIGHT.ip)
    inner = LinkIntent.describe(near, [base.INNER_LEFT], set(routes.values()), routes)
    nat |= {"dut_left_ipv4": base.INNER_RIGHT, "tester_left_ipv4": base.INNER_LEFT.ip}
    nat44 = describe_nat44(params, Links(far, links.right), **nat)
    softwire = DeviceIntent("softwire", config, own, left, inner)
    end = Part("softwire", device, softwire, reference=SoftwireEnd(config, own))
    return end, Part("nat", device, nat44, "nftables", stateful=True)


def merge_aftr(softwire: Part, nat: Part) -> DsLiteAftrConfig:
    """Return the configuration of a single AFTR that replaces both parts."""
    ends: Any = softwire.intent.configuration
    nat44 = nat.intent.configuration
    values = {name: getattr(nat44, name) for name in nat44.model_fields_set}
    values |= {name: getattr(ends, name) for name in ("aftr", "first_b4", "b4_count")}
    if ends.b4_count > 1:
        values["inside4"] = (IPv4Network(ends.customer),)
    return DsLiteAftrConfig(**values)


def describe_nat44(params: PluginParams, links: Links, **fields: Any) -> DeviceIntent:
    """Describe the NAT44 in a device, without IPv6; ``fields`` override the device's parameters."""
    intent = Nat44(base.pick_params(Nat44Params, params, **fields), links).make_dut_intent()
    left, right = intent.left.select_version(4), intent.right.select_version(4)
    return replace(intent, left=left, right=right)


def _rewrite_addresses(packets: U8, field: str, addresses: Any) -> U8:
    """Write addresses and valid checksums into IPv4 packets with ports, and return the packets."""
    header = view(packets, IPV4)
    header[field] = addresses
    write_ipv4_checksum(packets)
    for protocol in PORT_TRANSPORTS:
        rows = header["proto"] == protocol
        if rows.any():
            part = packets[rows]
            locate_endpoints(part[0], "IPv4").write_checksum(part)
            packets[rows] = part
    return packets


class DsLiteParams(RightIpv4Link, stateful.Pool4Params):
    """Parameters of ``dslite-aftr``."""

    display_name: ClassVar[str] = "DS-Lite"

    initiator_ports: Ports = Field(Ports(min=4096, max=5119), description="inner source ports")
    responder_ports: Ports = Field(Ports(min=1, max=125), description="ports of the Responder")
    initiator_count: int = Field(16, ge=1, le=65536, description="B4s, a softwire each")
    responder_count: int = Field(2, ge=1, le=65536, description="addresses of the Responder")
    enumerate_ips: stateful.Enumeration = stateful.declare_enumeration(3, "addresses")
    initiator_ipv4: IPv4Address = address("192.168.1.2", "the customer's address behind each B4")
    b4_ipv6: IPv6Address = address("2001:db8:b4::1:0", "first address of the B4s")
    aftr_ipv6: IPv6Interface = address("2001:db8:6::1/64", "the AFTR's address on the left link")
    tester_left_ipv6: IPv6Address = tester_address("2001:db8:6::2", "left")
    internal_ipv4: IPv4Address = address("10.0.0.0", "address of the first B4 for a NAT44")

    @property
    def range_counters(self) -> dict[str, str]:
        b4s = dict.fromkeys(("b4_ipv6", "internal_ipv4"), "initiator_count")
        names = {**super().range_counters, **b4s}
        del names["initiator_ipv4"]  # all customers have the same address
        return names

    @model_validator(mode="after")
    def _check_softwires(self) -> DsLiteParams:
        self.refuse_background("native IPv6 does not cross an AFTR to an IPv4 network")
        (b4s,) = self.clients
        if self.aftr_ipv6.ip in b4s or self.tester_left_ipv6 in b4s:
            problem = f"the AFTR or the tester has an address of the B4s {b4s}"
            raise UsageError(problem, "choose another b4_ipv6", code="address-conflict")
        return self


class DsLiteAftr(stateful.Napt):
    """An AFTR: the tunnel ends of many B4s, and a NAT44 behind them."""

    name = "dslite-aftr"
    title = "DS-Lite AFTR: IPv4 of many B4s from their tunnels to public IPv4, stateful"
    rfcs = ("RFC 9693", "RFC 6333", "RFC 2473")
    params_model = DsLiteParams
    overhead = 40
    ip_versions = (6, 4)
    default_driver = base.CHAIN_DRIVER
    mapping = "RFC 6333 section 6.6: by softwire and inner source; RFC 4787 for the rest"
    rfc_frame_sizes = TUNNEL_SIZES
    params: DsLiteParams

    @property
    def header_policy(self) -> HeaderPolicy:
        """Header policy with DSCPs copied in both directions (RFC 6333, section 7.1)."""
        return HeaderPolicy(outer_dscp="copied", inner_dscp="copied")

    def list_address_fields(self) -> list[TupleField]:
        p = self.params
        servers = describe_addresses("responders", "IP.dst", p.responder_ipv4, p.responder_count)
        return [servers, describe_addresses("initiators", "IPv6.src", p.b4_ipv6, p.initiator_count)]

    def make_client_layers(self) -> tuple[Layer, ...]:
        p = self.params
        outer, inner = (p.b4_ipv6, p.aftr_ipv6.ip), (p.initiator_ipv4, p.responder_ipv4)
        return make_ipv6(p, *outer), make_ipv4(p, *inner)

    def find_drops(self, direction: Direction, packets: U8) -> Checks:
        marked = direction == "forward" and tunnels.select_ecn_drops(packets)
        return [(stateful.StatefulDrop.NOT_ECN_CAPABLE, marked)]

    def translate(self, direction: Direction, packets: U8, initial: U8, learned: U8) -> U8:
        """Translate packets of connections; the B4 is the outer source of a connection's first packet."""
        if direction == "forward":
            inner = tunnels.decapsulate(packets, copies_dscp=True)
            source = stateful.read_learned_source(learned)
            return stateful.rewrite(inner, source, source=True, hops=0)
        client = stateful.read_source(initial[:, 40:])
        inner = stateful.rewrite(packets, client, source=False, hops=0)
        aftr, b4 = pack_address(self.params.aftr_ipv6.ip), view(initial, IPV6)["src_octets"]
        return tunnels.encapsulate(inner, aftr, b4)

    @cached_property
    def parts(self) -> tuple[Part, Part]:
        p = self.params
        first = p.internal_ipv4 if p.initiator_count > 1 else p.initiator_ipv4
        ends: Any = {"aftr": p.aftr_ipv6.ip, "first_b4": p.b4_ipv6, "b4_count": p.initiator_count}
        tunnels = AftrTunnelConfig(customer=p.initiator_ipv4, internal=first, **ends)
        routes = dict.fromkeys(p.clients, p.tester_left_ipv6)
        left = LinkIntent.describe(self.links.left, [p.aftr_ipv6], [p.tester_left_ipv6], routes)
        return build_aftr(self.name, tunnels, left, self.links, p, initiator_ipv4=first)

    def make_configuration(self) -> DsLiteAftrConfig:
        return merge_aftr(*self.parts)

    def make_dut_intent(self) -> DeviceIntent:
        aftr = self.make_configuration()
        return base.build_chain_intent(self.name, self.parts, self.links, configuration=aftr)

    def suggest_audit_params(self) -> Mapping[str, Any]:
        return {}

    def list_audit_views(self) -> tuple[AuditView, ...]:
        p = self.params
        inner, host = (p.initiator_ipv4, p.initiator_ports.min + 7), (p.responder_ipv4, 5)
        ends = p.aftr_ipv6.ip, p.b4_ipv6
        tunnel = TunnelEnd("left", *ends, inner, outer=None, host=host, copies_dscp=True)
        return self.make_nat_view(customer=p.initiator_ipv4, aftr=ends[0]), tunnel
