"""The customer's side of MAP-E, MAP-T and lightweight 4over6: one device, many hosts and ports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from v6t.intent.families import CustomerConfig, LwB4Config, MapECeConfig, MapTCeConfig
from v6t.packets.direction import Direction
from v6t.plugins.audit_views import (
    RAISED_MTU,
    Translator,
    TunnelEnd,
    prefix_variants,
)
from v6t.plugins.audit_views import (
    CustomerEdge as CustomerEdgeView,
)
from v6t.plugins.base import DeviceIntent
from v6t.plugins.common.stateless import StatelessTechnology
from v6t.plugins.customer_edge.customer import DROP_REASONS, Translation, Tunnel
from v6t.plugins.customer_edge.params import (
    CustomerParams,
    LwB4Params,
    MapCeParams,
    MapECeParams,
    MapTCeParams,
    customer_sides,
)
from v6t.plugins.customer_edge.traffic import customer_traffic
from v6t.plugins.frame_sizes import IPV6_SIZES, TUNNEL_SIZES, check_whole
from v6t.plugins.map.intent import rule_config
from v6t.profiles.model import FramePair, Traffic

if TYPE_CHECKING:
    from v6t.plugins.audit_views import AuditView
    from v6t.plugins.common.reference_device import ReferenceDevice


class CustomerEdge(StatelessTechnology):
    """Left is the operator's IPv6, right the customer's IPv4; stateless, NAPT left out."""

    ip_versions = (6, 4)
    sides = ("relay", "customer")
    drop_reasons: ClassVar[tuple[str, ...]] = DROP_REASONS
    kind: ClassVar[Literal["MAP-E", "MAP-T", "lw4o6"]]
    params: CustomerParams

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Foreground, background and stray frames as the parameters say."""
        p = self.params
        way = p.customer.way
        if direction == "reverse" and isinstance(way, Translation):
            check_whole(p.df, sizes.ipv6, self.links.left, way.lowest_ipv6_mtu)
        return customer_traffic(p, self.links, direction, sizes, seed)

    def dut_intent(self) -> DeviceIntent:
        """Describe address, ports, the path to the relay and both links, without NAPT."""
        way = self.params.customer.way
        remote = way.dmr if isinstance(way, Translation) else way.remote
        left, right = customer_sides(self.params, self.links, remote)
        return DeviceIntent(self.name, self._configuration(way), self.links, left, right)

    def audit_views(self) -> tuple[AuditView, ...]:
        p = self.params
        customer = p.customer
        way, ports = customer.way, customer.ports
        host = customer.ipv4.network_address
        low, high = ports.ranges[-1]
        port = ((low + high) // 2 or high) if ports.psid_len else 443
        if isinstance(way, Tunnel):
            edge = CustomerEdgeView(
                self.kind, customer.ipv4, ports, p.server_ipv4, way.local, way.remote
            )
            tunnel = TunnelEnd(
                side="left",
                local=way.local,
                remote=way.remote,
                inner=(p.server_ipv4, 443),
                outer=(p.server_ipv4, 443),
                host=(host, port),
                copies_dscp=way.uniform,
                shared=ports.psid_len > 0,
            )
            return edge, tunnel
        edge = CustomerEdgeView(
            self.kind,
            customer.ipv4,
            ports,
            p.server_ipv4,
            way.ipv6(host),
            rule=way.rule,
            psid=way.psid,
            dmr=way.dmr,
            lowest_ipv6_mtu=way.lowest_ipv6_mtu,
        )
        translator = Translator(
            six_side="left",
            six=way.peer(p.server_ipv4),
            six4=(p.server_ipv4,),
            port=port if ports.psid_len else 40123,
            four=host,
            four6=way.ipv6(host),
            server_port=port,
            lowest_ipv6_mtu=way.lowest_ipv6_mtu,
            uses_ports=ports.psid_len > 0,
            may_reassemble=ports.psid_len > 0,
        )
        return edge, translator

    def _configuration(self, way: Tunnel | Translation) -> CustomerConfig:
        p, customer = self.params, self.params.customer
        ports = customer.ports
        values: dict[str, Any] = {
            "ipv4": customer.ipv4,
            "psid": ports.psid,
            "psid_len": ports.psid_len,
            "psid_offset": ports.psid_offset,
        }
        if isinstance(p, MapCeParams):
            values["rule"] = rule_config(p.rule)
            values["end_user_prefix"] = p.rule.end_user_prefix(p.ce_ipv4, p.ce_psid)
        if isinstance(way, Translation):
            return MapTCeConfig(**values, dmr=way.dmr, lowest_ipv6_mtu=way.lowest_ipv6_mtu)
        kind = MapECeConfig if "rule" in values else LwB4Config
        return kind(**values, tunnel_local=way.local, tunnel_remote=way.remote)

    def reference_device(self) -> ReferenceDevice:
        from v6t.plugins.customer_edge.reference import customer_device

        return customer_device(self.params.customer, self.links)


class MapECe(CustomerEdge):
    """MAP-E CE without its NAPT."""

    name = "mape-ce"
    kind = "MAP-E"
    title = "MAP-E CE, single device: encapsulates a customer's IPv4, NAPT left out"
    rfcs = ("RFC 7597 sections 5, 6 and 8",)
    params_model = MapECeParams
    overhead = 40
    rfc_frame_sizes = TUNNEL_SIZES


class MapTCe(CustomerEdge):
    """MAP-T CE without its NAPT."""

    name = "mapt-ce"
    kind = "MAP-T"
    title = "MAP-T CE, single device: translates a customer's IPv4, NAPT left out"
    rfcs = (
        "RFC 7599",
        "RFC 7597 sections 5 and 6",
        "RFC 7915 sections 4 and 5",
        "RFC 6052 section 2",
    )
    params_model = MapTCeParams
    overhead = 20
    rfc_frame_sizes = IPV6_SIZES
    params: MapTCeParams

    def audit_params(self) -> dict[str, Any]:
        """Return the length of the EA bits with which the CE does not share its address."""
        return {"ea_len": self.params.rule.suffix_len}

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        return {RAISED_MTU: {"lowest_ipv6_mtu": 1400}, **prefix_variants("dmr")}


class LwB4(CustomerEdge):
    """Lightweight B4 without its NAPT."""

    name = "lwb4"
    kind = "lw4o6"
    title = "lwB4 of lightweight 4over6, single device: encapsulates IPv4, NAPT left out"
    rfcs = ("RFC 7596 sections 5 and 6",)
    params_model = LwB4Params
    overhead = 40
    rfc_frame_sizes = TUNNEL_SIZES
