"""Customer devices of MAP-E, MAP-T and lw4o6 (CE, lwB4) without their NAPT; IPv6 is on the left link."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import CustomerConfig, LwB4Config, MapECeConfig, MapTCeConfig
from v6t.packets.address_layouts import HOST
from v6t.packets.arrays import Mask
from v6t.packets.direction import Direction
from v6t.packets.reference import DropReason
from v6t.plugins import audit_views, map_rules
from v6t.plugins.base import DeviceIntent
from v6t.plugins.customers import CustomerFlow, CustomerTechnology
from v6t.plugins.map_domains import RuleParams, make_rule_config
from v6t.plugins.mapt_br import DmrParams, DmrTranslator
from v6t.plugins.params import (
    Mixture,
    RightIpv4Link,
    address,
    describe_link,
    device_address,
    negative_share,
    tester_address,
)
from v6t.plugins.ports import DestinationPorts, Policy, PortSet, SourcePorts, customer_policy
from v6t.plugins.reference_device import Checks
from v6t.plugins.translation import select_within
from v6t.plugins.tunnels import ECN_DROP, TunnelDevice, match_address, pack_address
from v6t.profiles.model import Expression, Layer, TrafficClass, Variable

DEFAULT_PSID = 9  # of the customer; the highest one if PSIDs are shorter


class CustomerDrop(DropReason):
    """Why a CE or lwB4 drops a frame."""

    WRONG_ADDRESS = "an address is not the customer's"
    BAD_PORT = "port outside the customer's port set"
    WRONG_RELAY = "does not come from the relay"
    TOO_BIG = "too big, or to be fragmented"
    NOT_ECN_CAPABLE = ECN_DROP


class CustomerAddresses(NamedTuple):
    """A customer's IPv6 address, IPv4 address or prefix, and port set."""

    ipv6: IPv6Address
    ipv4: IPv4Network
    ports: PortSet


class CustomerParams(RightIpv4Link, Mixture):
    """Parameters of a customer device."""

    server_ipv4: IPv4Address = address("203.0.113.56", "the IPv4 host beyond the relay")
    dut_left_ipv6: IPv6Interface = device_address("2001:db8:6::9/64", "left")
    tester_left_ipv6: IPv6Address = tester_address("2001:db8:6::1", "left")
    dut_right_ipv6: IPv6Interface = device_address("2001:db8:7::1/64", "right")
    tester_right_ipv6: IPv6Address = tester_address("2001:db8:7::2", "right")
    fw_sport: SourcePorts = Field(SourcePorts(), description="forward source ports")
    fw_dport: Policy = customer_policy("forward destination")
    rv_sport: Policy = customer_policy("reverse source")
    rv_dport: DestinationPorts = Field(DestinationPorts(), description="reverse destination ports")
    negative_percent: int = negative_share("share of frames that are not the customer's [%]")

    psid_parameter: ClassVar[str] = "psid"  # name of the parameter with the PSID
    if TYPE_CHECKING:
        br_address: IPv6Address

    @property
    def relay_address(self) -> IPv6Address:
        """Remote end of the tunnel, or the server's address behind the DMR."""
        return self.br_address

    @cached_property
    def customer(self) -> CustomerAddresses:
        raise NotImplementedError

    def count_psid_bits(self) -> int:
        raise NotImplementedError

    @property
    def config_values(self) -> dict[str, Any]:
        _, ipv4, ports = self.customer
        shares = {name: getattr(ports, name) for name in ("psid", "psid_len", "psid_offset")}
        return {"ipv4": ipv4, **shares}

    @model_validator(mode="after")
    def _check_customer(self) -> CustomerParams:
        if self.psid_parameter not in self.model_fields_set:  # the default is for long PSIDs
            psid = min(DEFAULT_PSID, (1 << self.count_psid_bits()) - 1)
            object.__setattr__(self, self.psid_parameter, psid)
        _, ipv4, ports = self.customer
        if ports.psid_len == 16 and not ports.psid:
            problem = "PSID 0 of 16 bits has only port 0"
            raise UsageError(problem, "choose another PSID", code="not-enough-addresses")
        self.refuse_addresses_within(ipv4, "the customer's network", "server_ipv4")
        return self


class MapCeParams(CustomerParams, RuleParams):
    """Parameters of a CE of a MAP domain."""

    ce_ipv4: IPv4Address = address("192.0.2.189", "the CE's address, or the first one")
    ce_psid: int = Field(DEFAULT_PSID, ge=0, description="PSID; by default at most the highest one")

    psid_parameter: ClassVar[str] = "ce_psid"
    embeds_host: ClassVar[bool] = False  # in the interface identifier, as in MAP-T

    def count_psid_bits(self) -> int:
        return self.make_rule(None).psid_len

    @property
    def rules(self) -> tuple[map_rules.MapRule, ...]:
        return (self.rule,)

    @property
    def config_values(self) -> dict[str, Any]:
        rule, prefix = make_rule_config(self.rule), self.end_user_prefix
        return {**super().config_values, "rule": rule, "end_user_prefix": prefix}

    @cached_property
    def end_user_prefix(self) -> IPv6Network:
        return self.rule.compute_end_user_prefix(self.ce_ipv4, self.ce_psid)

    @cached_property
    def customer(self) -> CustomerAddresses:
        rule, ports = self.rule, self.rule.make_port_set(self.ce_psid)
        if self.ce_ipv4 not in rule.ipv4_prefix:
            problem = f"ce_ipv4 {self.ce_ipv4} is outside the rule's IPv4 prefix {rule.ipv4_prefix}"
            raise UsageError(problem, code="outside-prefix")
        ipv4 = IPv4Network((int(self.ce_ipv4), 32 - rule.host_bits), strict=False)
        if ipv4.network_address != self.ce_ipv4:
            problem = f"ce_ipv4 {self.ce_ipv4} is not the first address of the CE's prefix"
            raise UsageError(problem, f"write {ipv4.network_address}", code="conflict")
        ipv6 = rule.map_address(self.ce_ipv4, self.ce_psid, embeds_host=self.embeds_host)
        return CustomerAddresses(ipv6, ipv4, ports)


class MapECeParams(MapCeParams):
    """Parameters of ``mape-ce``."""

    display_name: ClassVar[str] = "MAP-E"

    br_address: IPv6Address = address("2001:db8:6::1", "the BR's address")


class MapTCeParams(DmrParams, MapCeParams):
    """Parameters of ``mapt-ce``."""

    display_name: ClassVar[str] = "MAP-T"
    embeds_host: ClassVar[bool] = True

    @model_validator(mode="after")
    def _check_dmr(self) -> MapTCeParams:
        self.refuse_dmr_overlap(self)
        if self.tester_left_ipv6 in self.dmr_prefix:
            problem = "tester_left_ipv6 lies within the DMR prefix"
            raise UsageError(problem, "choose one outside", code="outside-prefix")
        return self


class LwB4Params(CustomerParams):
    """Parameters of ``lwb4``."""

    display_name: ClassVar[str] = "lw4o6"

    b4_address: IPv6Address = address("2001:db8:b4:1:0:c612:1:9", "the lwB4's tunnel address")
    br_address: IPv6Address = address("2001:db8:6::1", "the lwAFTR's address")
    ipv4_address: IPv4Address = address("198.18.0.1", "the lwB4's IPv4 address")
    psid: int = Field(DEFAULT_PSID, ge=0, description="PSID; by default at most the highest one")
    psid_len: int = Field(6, ge=0, le=16, description="PSID length; 0: the whole address")
    psid_offset: int = Field(map_rules.DEFAULT_PSID_OFFSET, ge=0, le=16, description="PSID offset")

    def count_psid_bits(self) -> int:
        return self.psid_len

    @cached_property
    def customer(self) -> CustomerAddresses:
        ports = PortSet(self.psid_offset, self.psid_len, self.psid)
        return CustomerAddresses(self.b4_address, IPv4Network(self.ipv4_address), ports)


class CustomerEdgeTechnology(CustomerTechnology):
    """A stateless customer device, without its NAPT."""

    sides = ("relay", "customer")
    drops = CustomerDrop
    customer_direction = "reverse"
    params: CustomerParams

    @property
    def relay_network(self) -> IPv6Address | IPv6Network:
        """Destination of the customer's packets on the IPv6 link."""
        return self.params.relay_address

    def simulate_customers(self, direction: Direction, seed: int) -> list[CustomerFlow]:
        ipv6, ipv4, ports = self.params.customer
        bits, base = 32 - ipv4.prefixlen, str(ipv4.network_address)
        host = Variable(HOST, bits).place(32 - bits, base) if bits else Expression(base, ())
        return [CustomerFlow(ipv6, host, self.params.relay_address, ports, None, (HOST,))]

    def make_negative_layers(
        self, flow: CustomerFlow, valid: TrafficClass, direction: Direction
    ) -> dict[str, tuple[Layer, ...]]:
        """Return layers with the port, and with the address, of another customer."""
        (_, ipv4, ports), changed = self.params.customer, {}
        end = "dst" if direction == "forward" else "src"
        if ports.psid_len:
            name = f"{end[0]}port"
            port: Any = valid.find_layer("UDP").fields[name]
            stray = replace(port, base=port.base ^ 1 << ports.low_bits)
            changed["stray-port"] = valid.replace_fields("UDP", **{name: stray})
        if any(layer.name == "IP" for layer in valid.layers):
            neighbor = IPv4Address(int(ipv4.network_address) ^ ipv4.num_addresses)
            stray = replace(flow.ipv4, base=str(neighbor))
            changed["stray-address"] = valid.replace_fields("IP", **{end: stray})
        return changed

    def check_owner(self, addresses: Any, port: Any) -> Checks:
        """Return drop reasons of packets whose address or port is not the customer's."""
        _, ipv4, ports = self.params.customer
        foreign = addresses & np.uint32(int(ipv4.netmask)) != int(ipv4.network_address)
        stray = ~ports.select_ports(port)
        return [(CustomerDrop.WRONG_ADDRESS, foreign), (CustomerDrop.BAD_PORT, stray)]

    def make_dut_intent(self) -> DeviceIntent:
        p, links = self.params, self.links
        near = describe_link(p, links, "left", [self.relay_network])
        far = describe_link(p, links, "right", [p.customer.ipv4])
        return DeviceIntent(self.name, self.make_configuration(), links, near, far)

    def make_edge_view(self, **fields: Any) -> audit_views.CustomerEdge:
        p, (ipv6, ipv4, ports) = self.params, self.params.customer
        return audit_views.CustomerEdge(p.display_name, ipv4, ports, p.server_ipv4, ipv6, **fields)

    @property
    def audit_endpoint(self) -> tuple[IPv4Address, int]:
        """Address and port of a customer's host, for audits."""
        _, ipv4, ports = self.params.customer
        return ipv4.network_address, ports.middle_port if ports.psid_len else 443


class TunnelEdge(TunnelDevice, CustomerEdgeTechnology):
    """A customer device that encapsulates IPv4 in IPv6."""

    config_model: ClassVar[type[LwB4Config]] = LwB4Config

    def select_tunnel_packets(self, outer: Any) -> Mask:
        return match_address(outer["dst_octets"], self.params.customer.ipv6)

    def check_source(self, outer: Any, inner: Any, udp: Any) -> Checks:
        from_relay = match_address(outer["src_octets"], self.params.relay_address)
        owner = self.check_owner(inner["dst"], udp["dport"])
        return [(CustomerDrop.WRONG_RELAY, ~from_relay), *owner]

    def choose_tunnel(self, header: Any, udp: Any) -> tuple[Checks, Callable[[Mask], Any]]:
        p = self.params
        ends = pack_address(p.customer.ipv6), pack_address(p.relay_address)
        return self.check_owner(header["src"], udp["sport"]), lambda _: ends

    def make_configuration(self) -> CustomerConfig:
        p = self.params
        ends = {"tunnel_local": p.customer.ipv6, "tunnel_remote": p.relay_address}
        return self.config_model(**p.config_values, **ends)

    def list_audit_views(self) -> tuple[audit_views.AuditView, ...]:
        p, server = self.params, (self.params.server_ipv4, 443)
        ends, shared = (p.customer.ipv6, p.relay_address), p.customer.ports.psid_len > 0
        hosts = server, server, self.audit_endpoint
        tunnel = audit_views.TunnelEnd("left", *ends, *hosts, self.copies_dscp, shared)
        return self.make_edge_view(relay=p.relay_address), tunnel


class MapECe(TunnelEdge):
    """MAP-E CE without its NAPT."""

    name = "mape-ce"
    title = "MAP-E CE, single device: encapsulates a customer's IPv4, without NAPT"
    rfcs = ("RFC 7597 sections 5, 6 and 8",)
    params_model = MapECeParams
    config_model = MapECeConfig


class LwB4(TunnelEdge):
    """Lightweight B4 without its NAPT."""

    name = "lwb4"
    title = "lwB4 of lightweight 4over6, single device: encapsulates IPv4, without NAPT"
    rfcs = ("RFC 7596 sections 5 and 6",)
    params_model = LwB4Params
    copies_dscp = True


class MapTCe(DmrTranslator, CustomerEdgeTechnology):
    """MAP-T CE without its NAPT."""

    name = "mapt-ce"
    title = "MAP-T CE, single device: translates a customer's IPv4, without NAPT"
    params_model = MapTCeParams
    params: MapTCeParams

    @property
    def relay_network(self) -> IPv6Network:
        return self.params.dmr_prefix

    def simulate_customers(self, direction: Direction, seed: int) -> list[CustomerFlow]:
        (flow,) = super().simulate_customers(direction, seed)
        layout = self.params.rule.host_address_layout
        return [replace(flow, ipv6=Expression.from_layout(layout, str(flow.ipv6), ipv4=flow.ipv4))]

    def select_translated(self, header: Any, behind_dmr: Mask) -> Mask:
        return behind_dmr & select_within(header["dst_high"], self.params.end_user_prefix, 64)

    def check_sender(self, ce: map_rules.MapSources, port: Any) -> Checks:
        owner = self.check_owner(ce.ipv4.astype(np.uint32), port)
        return [(CustomerDrop.WRONG_ADDRESS, ~ce.consistent), *owner]

    def check_receiver(self, ce: map_rules.MapDestinations, ipv4: Any, port: Any) -> Checks:
        return self.check_owner(ipv4, port)

    def make_configuration(self) -> CustomerConfig:
        return MapTCeConfig(**self.params.config_values, **self.params.dmr_config_values)

    def list_audit_views(self) -> tuple[audit_views.AuditView, ...]:
        p, (host, port) = self.params, self.audit_endpoint
        shared = p.customer.ports.psid_len > 0
        edge = self.make_edge_view(rule=p.rule, psid=p.ce_psid, **p.dmr_config_values)
        server = p.relay_address, (p.server_ipv4,), port if shared else 40123
        customer = host, p.customer.ipv6, port
        ports = {"uses_ports": shared, "may_reassemble": shared}
        return edge, audit_views.Translator("left", *server, *customer, p.lowest_ipv6_mtu, **ports)

    def suggest_audit_params(self) -> dict[str, Any]:
        """Return an EA length with which the CE does not share its address."""
        return {"ea_len": self.params.rule.suffix_len}
