"""Customers' devices of MAP-E, MAP-T and lw4o6 (CE, lwB4): one device, many hosts and ports.

The device is measured without its NAPT: the hosts behind it use the public address and ports themselves. NAPT
in front of it is a stateful technology. The left link carries the operator's IPv6, the right link the
customer's IPv4.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.device import LinkIntent
from v6t.intent.families import CustomerConfig, LwB4Config, MapECeConfig, MapTCeConfig
from v6t.packets.address_layouts import HOST
from v6t.packets.direction import Direction
from v6t.packets.headers import DONT_FRAGMENT, IPV4, IPV6, UDP, to_octets, view
from v6t.packets.reference import EXHAUSTED, NOT_FORWARDED, DropReason
from v6t.plugins import audit_views
from v6t.plugins.address_mappings import embed
from v6t.plugins.audit_views import RAISED_MTU, Translator, TunnelEnd, prefix_variants
from v6t.plugins.base import DeviceIntent, StatelessTechnology
from v6t.plugins.frame_sizes import IPV6_SIZES, TUNNEL_SIZES, check_whole
from v6t.plugins.map_domains import DmrParams, RuleParams, rule_config
from v6t.plugins.map_rules import DEFAULT_PSID_OFFSET, RuleArray, join_halves
from v6t.plugins.params import Mixture, address, describe_link, device, negative_share, tester
from v6t.plugins.ports import (
    DestinationPorts,
    Policy,
    PortSet,
    SourcePorts,
    customer_port,
    destination_range,
    source_range,
)
from v6t.plugins.reference_device import DROP_ALL, Answer, Checks
from v6t.plugins.traffic import (
    background_of,
    customer_class,
    ethernet,
    ipv4,
    ipv6,
    mixed,
    negative_like,
)
from v6t.plugins.translation import (
    Rfc6052Array,
    four_to_six,
    plain_ipv4,
    plain_ipv6,
    six_to_four,
)
from v6t.plugins.tunnels import (
    UNMARKABLE,
    carries_udp,
    decapsulate,
    encapsulate,
    is_udp,
    unmarkable,
)
from v6t.profiles.model import Expression, FramePair, Layer, Traffic, TrafficClass, Variable

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask
    from v6t.plugins.audit_views import AuditView

DEFAULT_PSID = 9


class CustomerDrop(DropReason):
    """Why a CE or lwB4 drops a frame."""

    WRONG_ADDRESS = "an address is not the customer's"
    BAD_PORT = "port outside the customer's port set"
    WRONG_RELAY = "does not come from the relay"
    TOO_BIG = "too big, or to be fragmented"
    UNMARKED = UNMARKABLE


def check_ports(psid_offset: int, psid_len: int, psid: int) -> PortSet:
    """Return a port set with at least one port that a test frame may use.

    Raises:
        UsageError: it has none, or the PSID is too large.
    """
    if psid_len and psid_offset + psid_len > 16:
        raise UsageError(
            f"psid_offset {psid_offset} plus PSID length {psid_len} is more than the 16 bits of a "
            "port",
            f"set psid_offset to at most {16 - psid_len}",
            code="out-of-range",
        )
    if not 0 <= psid < 1 << psid_len:
        raise UsageError(f"PSID {psid} does not fit {psid_len} bits", code="out-of-range")
    if psid_len == 16 and not psid:
        raise UsageError(
            "PSID 0 of 16 bits has only port 0",
            "choose another PSID",
            code="not-enough-addresses",
        )
    return PortSet(psid_offset, psid_len, psid)


class CustomerParams(Mixture):
    """Parameters of a customer's device."""

    server_ipv4: IPv4Address = address("203.0.113.56", "the IPv4 host beyond the relay")
    dut_left_ipv6: IPv6Interface = address(
        "2001:db8:6::9/64", "the device's address on the IPv6 link"
    )
    tester_left_ipv6: IPv6Address = tester("2001:db8:6::1", "left")
    dut_right_ipv4: IPv4Interface = address(
        "192.168.19.1/30", "the device's address on the IPv4 link"
    )
    tester_right_ipv4: IPv4Address = address(
        "192.168.19.2",
        "tester's IPv4 address on the right link; the customer's hosts are behind it",
    )
    dut_right_ipv6: IPv6Interface = device("2001:db8:7::1/64", "right")
    tester_right_ipv6: IPv6Address = tester("2001:db8:7::2", "right")
    fw_sport: SourcePorts = Field(default_factory=source_range, description="forward source ports")
    fw_dport: Policy = Field(
        "random", description="forward destination ports, within the customer's port set"
    )
    rv_sport: Policy = Field(
        "random", description="reverse source ports, within the customer's port set"
    )
    rv_dport: DestinationPorts = Field(
        default_factory=destination_range, description="reverse destination ports"
    )
    negative_percent: int = negative_share(
        "share of frames the device must drop: they are none of the customer's [%]"
    )

    @cached_property
    def ipv4(self) -> IPv4Network:
        """The customer's IPv4 address or prefix."""
        raise NotImplementedError

    @cached_property
    def ports(self) -> PortSet:
        """The customer's ports."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _check_customer(self) -> CustomerParams:
        _ = self.ports  # raises an error for impossible ports
        if self.server_ipv4 in self.ipv4:
            raise UsageError(
                "server_ipv4 is the customer's own address",
                "choose one beyond the relay",
                code="address-conflict",
            )
        return self


class MapCeParams(CustomerParams, RuleParams):
    """Parameters of a CE of a MAP domain."""

    ce_ipv4: IPv4Address = address(
        "192.0.2.189", "the CE's IPv4 address, or the first of its prefix"
    )
    ce_psid: int = Field(
        DEFAULT_PSID,
        ge=0,
        description="the CE's PSID; by default the highest one, if that is lower",
    )

    @model_validator(mode="before")
    @classmethod
    def _choose_psid(cls, given: Any) -> Any:
        """Choose a PSID that fits the rule, unless one is given."""
        if not isinstance(given, Mapping) or "ce_psid" in given:
            return given
        rule = RuleParams(**{k: v for k, v in given.items() if k in RuleParams.model_fields}).rule
        return {**given, "ce_psid": min(DEFAULT_PSID, rule.sharing_ratio - 1)}

    @property
    def only_psid(self) -> int:
        return self.ce_psid

    @cached_property
    def ports(self) -> PortSet:
        self.rule.port_set(self.ce_psid)
        return check_ports(self.rule.psid_offset, self.rule.psid_len, self.ce_psid)

    @cached_property
    def ipv4(self) -> IPv4Network:
        rule = self.rule
        if self.ce_ipv4 not in rule.ipv4_prefix:
            raise UsageError(
                f"ce_ipv4 {self.ce_ipv4} is outside the rule's IPv4 prefix {rule.ipv4_prefix}",
                code="outside-prefix",
            )
        network = IPv4Network((int(self.ce_ipv4), rule.ce_prefix_len), strict=False)
        if network.network_address != self.ce_ipv4:
            raise UsageError(
                f"ce_ipv4 {self.ce_ipv4} is not the first address of the CE's prefix",
                f"write {network.network_address}",
                code="conflict",
            )
        return network


class MapECeParams(MapCeParams):
    """Parameters of ``mape-ce``."""

    measured: ClassVar[str] = "MAP-E"

    br_address: IPv6Address = address("2001:db8:6::1", "the BR's address")


class MapTCeParams(DmrParams, MapCeParams):
    """Parameters of ``mapt-ce``."""

    measured: ClassVar[str] = "MAP-T"

    @model_validator(mode="after")
    def _check_dmr(self) -> MapTCeParams:
        self.refuse_overlap(self)
        if self.tester_left_ipv6 in self.dmr_prefix:
            raise UsageError(
                "tester_left_ipv6 lies within the DMR prefix",
                "choose one outside",
                code="outside-prefix",
            )
        return self


class LwB4Params(CustomerParams):
    """Parameters of ``lwb4``."""

    measured: ClassVar[str] = "lw4o6"

    b4_address: IPv6Address = address("2001:db8:b4:1:0:c612:1:9", "the lwB4's tunnel address")
    br_address: IPv6Address = address("2001:db8:6::1", "the lwAFTR's address")
    ipv4_address: IPv4Address = address("198.18.0.1", "the lwB4's IPv4 address")
    psid: int = Field(
        DEFAULT_PSID, ge=0, description="PSID; by default the highest one, if that is lower"
    )
    psid_len: int = Field(6, ge=0, le=16, description="PSID length; 0: the whole address")
    psid_offset: int = Field(DEFAULT_PSID_OFFSET, ge=0, le=16, description="PSID offset")

    @model_validator(mode="before")
    @classmethod
    def _choose_psid(cls, given: Any) -> Any:
        """Choose a PSID that fits its length, unless one is given."""
        if not isinstance(given, Mapping) or "psid" in given:
            return given
        length = str(given.get("psid_len", cls.model_fields["psid_len"].default))
        if not length.isdecimal() or int(length) > 16:
            return given  # which is refused
        return {**given, "psid": min(DEFAULT_PSID, (1 << int(length)) - 1)}

    @cached_property
    def ipv4(self) -> IPv4Network:
        return IPv4Network(self.ipv4_address)

    @cached_property
    def ports(self) -> PortSet:
        return check_ports(self.psid_offset, self.psid_len, self.psid)


def check_owner(customer: IPv4Network, ports: PortSet, ipv4: Any, port: Any) -> Checks:
    """Return the drop reasons for addresses and ports that are not the customer's."""
    netmask, network = int(customer.netmask), int(customer.network_address)
    return [
        (CustomerDrop.WRONG_ADDRESS, (ipv4 & np.uint32(netmask)) != network),
        (CustomerDrop.BAD_PORT, ~ports.have(port)),
    ]


class CustomerEdge(StatelessTechnology):
    """A customer's device without its NAPT; stateless."""

    ip_versions = (6, 4)
    sides = ("relay", "customer")
    drops = CustomerDrop
    kind: ClassVar[Literal["MAP-E", "MAP-T", "lw4o6"]]
    params: CustomerParams

    @abstractmethod
    def relay_headers(self, host: Expression) -> tuple[Layer, ...]:
        """Return the IP headers of frames from the relay to the customer's hosts."""

    @property
    @abstractmethod
    def remote(self) -> IPv6Network | IPv6Address:
        """IPv6 prefix or address of the relay's side."""

    @abstractmethod
    def configuration(self) -> CustomerConfig:
        """Return address, ports and the path to the relay."""

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        p, links, forward = self.params, self.links, direction == "forward"
        bits, base = 32 - p.ipv4.prefixlen, str(p.ipv4.network_address)
        host = Variable(HOST, bits).at(32 - bits, base) if bits else Expression(base, ())
        policy, peer = (p.fw_dport, p.fw_sport) if forward else (p.rv_sport, p.rv_dport)
        foreground = customer_class(
            "fg",
            ethernet(links, direction),
            self.relay_headers(host) if forward else (ipv4(p, host, p.server_ipv4),),
            (customer_port(p.ports, policy, source=not forward), peer),
            sizes.ipv6 if forward else sizes.ipv4,
            (HOST,),
            from_customer=not forward,
        )
        ends = (p.tester_left_ipv6, p.tester_right_ipv6)
        return mixed(
            p,
            direction,
            [(foreground, 1)],
            background_of(p, links, direction, sizes, ends, links.left),
            self._stray_classes(foreground, direction) if p.negative_percent else [],
            p.negative_percent,
            seed,
        )

    def _stray_classes(self, good: TrafficClass, direction: Direction) -> list[TrafficClass]:
        """Return frames for a neighbor: with a port of another set, with another address."""
        p = self.params
        changes = {}
        name = "dport" if direction == "forward" else "sport"
        port: Any = good.layer("UDP").fields[name]
        if p.ports.psid_len:
            stray = replace(port, base=port.base ^ 1 << p.ports.low_bits)
            changes["port"] = good.replace_fields("UDP", **{name: stray})
        if any(layer.name == "IP" for layer in good.layers):
            name = "dst" if direction == "forward" else "src"
            host: Any = good.layer("IP").fields[name]
            neighbor = IPv4Address(int(p.ipv4.network_address) ^ p.ipv4.num_addresses)
            stray = replace(host, base=str(neighbor))
            changes["address"] = good.replace_fields("IP", **{name: stray})
        return [
            negative_like(good, f"stray-{kind}", layers=layers) for kind, layers in changes.items()
        ]

    def dut_intent(self) -> DeviceIntent:
        p, links = self.params, self.links
        left = LinkIntent.describe(
            links.left,
            [p.dut_left_ipv6],
            [p.tester_left_ipv6],
            {self.remote: p.tester_left_ipv6},
        )
        right = describe_link(p, links, "right", [p.ipv4])
        return DeviceIntent(self.name, self.configuration(), links, left, right)

    def _config_values(self) -> dict[str, Any]:
        p, ports = self.params, self.params.ports
        values: dict[str, Any] = {
            "ipv4": p.ipv4,
            "psid": ports.psid,
            "psid_len": ports.psid_len,
            "psid_offset": ports.psid_offset,
        }
        if isinstance(p, MapCeParams):
            values["rule"] = rule_config(p.rule)
            values["end_user_prefix"] = p.rule.end_user_prefix(p.ce_ipv4, p.ce_psid)
        return values

    @property
    def _audited_port(self) -> int:
        """A port in the middle of the customer's last range; never 0."""
        ports = self.params.ports
        low, high = ports.ranges[-1]
        return ((low + high) // 2 or high) if ports.psid_len else 443


@dataclass(frozen=True)
class CustomerTunnel:
    """A customer's end of an IPv4 in IPv6 tunnel.

    Attributes:
        ipv4, ports: of the customer.
        local, remote: ends of the tunnel.
        mtu: of the IPv6 link.
        uniform: DSCPs are copied both ways (RFC 2983, section 3).
    """

    ipv4: IPv4Network
    ports: PortSet
    local: IPv6Address
    remote: IPv6Address
    mtu: int
    uniform: bool = False

    def forward(self, packets: U8) -> Answer:
        """Decapsulate packets of the relay for the customer's address and ports."""
        outer = view(packets, IPV6)
        native = (outer["dst_octets"] != list(self.local.packed)).any(axis=1)
        if packets.shape[1] < 68:
            return Answer(DROP_ALL.drops, native=native)
        inner, udp = view(packets, IPV4, 40), view(packets, UDP, 60)
        foreign = (outer["src_octets"] != list(self.remote.packed)).any(axis=1)
        return Answer(
            [
                (NOT_FORWARDED, ~carries_udp(packets)),
                (CustomerDrop.WRONG_RELAY, foreign),
                *check_owner(self.ipv4, self.ports, inner["dst"], udp["dport"]),
                (EXHAUSTED, inner["ttl"] <= 1),
                (CustomerDrop.UNMARKED, unmarkable(packets)),
            ],
            lambda rows: decapsulate(packets[rows], uniform=self.uniform),
            version=4,
            native=native,
        )

    def reverse(self, packets: U8) -> Answer:
        """Encapsulate packets from the customer's address and ports."""
        if packets.shape[1] < 28:
            return DROP_ALL
        header, udp = view(packets, IPV4), view(packets, UDP, 20)
        local, remote = (
            np.frombuffer(end.packed, dtype=np.uint8) for end in (self.local, self.remote)
        )
        return Answer(
            [
                (NOT_FORWARDED, ~is_udp(packets)),
                *check_owner(self.ipv4, self.ports, header["src"], udp["sport"]),
                (EXHAUSTED, header["ttl"] <= 1),
                (CustomerDrop.TOO_BIG, packets.shape[1] + 40 > self.mtu),
            ],
            lambda rows: encapsulate(packets[rows], local, remote),
        )


class TunnelEdge(CustomerEdge):
    """A customer's device that encapsulates."""

    overhead = 40
    rfc_frame_sizes = TUNNEL_SIZES
    params: MapECeParams | LwB4Params

    @property
    @abstractmethod
    def local(self) -> IPv6Address:
        """The device's tunnel address."""

    @property
    def remote(self) -> IPv6Address:
        return self.params.br_address

    @cached_property
    def tunnel(self) -> CustomerTunnel:
        """The device's end of the tunnel."""
        p = self.params
        return CustomerTunnel(p.ipv4, p.ports, self.local, self.remote, self.links.left.mtu)

    def relay_headers(self, host: Expression) -> tuple[Layer, ...]:
        p = self.params
        return ipv6(p, self.remote, self.local), ipv4(p, p.server_ipv4, host)

    def forward(self, packets: U8) -> Answer:
        return self.tunnel.forward(packets)

    def reverse(self, packets: U8) -> Answer:
        return self.tunnel.reverse(packets)

    def audit_views(self) -> tuple[AuditView, ...]:
        p = self.params
        edge = audit_views.CustomerEdge(
            self.kind, p.ipv4, p.ports, p.server_ipv4, self.local, self.remote
        )
        tunnel = TunnelEnd(
            side="left",
            local=self.local,
            remote=self.remote,
            inner=(p.server_ipv4, 443),
            outer=(p.server_ipv4, 443),
            host=(p.ipv4.network_address, self._audited_port),
            shared=p.ports.psid_len > 0,
        )
        return edge, tunnel


class MapECe(TunnelEdge):
    """MAP-E CE without its NAPT."""

    name = "mape-ce"
    kind = "MAP-E"
    title = "MAP-E CE, single device: encapsulates a customer's IPv4, NAPT left out"
    rfcs = ("RFC 7597 sections 5, 6 and 8",)
    params_model = MapECeParams
    params: MapECeParams

    @property
    def local(self) -> IPv6Address:
        p = self.params
        return p.rule.map_address(p.ce_ipv4, p.ce_psid)

    def configuration(self) -> CustomerConfig:
        return MapECeConfig(
            **self._config_values(), tunnel_local=self.local, tunnel_remote=self.remote
        )


class LwB4(TunnelEdge):
    """Lightweight B4 without its NAPT."""

    name = "lwb4"
    kind = "lw4o6"
    title = "lwB4 of lightweight 4over6, single device: encapsulates IPv4, NAPT left out"
    rfcs = ("RFC 7596 sections 5 and 6",)
    params_model = LwB4Params
    params: LwB4Params

    @property
    def local(self) -> IPv6Address:
        return self.params.b4_address

    def configuration(self) -> CustomerConfig:
        return LwB4Config(
            **self._config_values(), tunnel_local=self.local, tunnel_remote=self.remote
        )


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

    @property
    def remote(self) -> IPv6Network:
        return self.params.dmr_prefix

    @property
    def local(self) -> IPv6Address:
        """The IPv6 address of the customer's first host."""
        p = self.params
        return p.rule.map_address(p.ce_ipv4, p.ce_psid, whole_host=True)

    def relay_headers(self, host: Expression) -> tuple[Layer, ...]:
        p = self.params
        layout = p.rule.host_address_layout
        destination = Expression.from_layout(layout, str(self.local), ipv4=host)
        return (ipv6(p, embed(p.dmr_prefix, p.server_ipv4), destination),)

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        p = self.params
        if direction == "reverse":
            check_whole(p.df, sizes.ipv6, self.links.left, p.lowest_ipv6_mtu)
        return super().traffic(direction, sizes, seed)

    @cached_property
    def _addresses(self) -> tuple[RuleArray, Rfc6052Array, tuple[np.uint64, np.uint64]]:
        """The rule for the customer's hosts, the DMR for all others, mask and value of the CE's prefix."""
        p = self.params
        prefix = p.rule.end_user_prefix(p.ce_ipv4, p.ce_psid)
        mask, value = (np.uint64(int(a) >> 64) for a in (prefix.netmask, prefix.network_address))
        return RuleArray(p.rule, whole_host=True), Rfc6052Array(p.dmr_prefix), (mask, value)

    def forward(self, packets: U8) -> Answer:
        """Translate packets from behind the DMR for the end-user prefix."""
        p, (rule, dmr, (mask, prefix)) = self.params, self._addresses
        header = view(packets, IPV6)
        high, low = header["dst_high"].astype(np.uint64), header["dst_low"].astype(np.uint64)
        server, from_relay = dmr.to_ipv4(header["src_octets"])
        native = ((high & mask) != prefix) | ~from_relay
        if packets.shape[1] < 48:
            return Answer(DROP_ALL.drops, native=native)
        host, _, consistent = rule.decode_address(high, low)
        return Answer(
            [
                (NOT_FORWARDED, ~plain_ipv6(packets)),
                (CustomerDrop.WRONG_ADDRESS, ~consistent),
                *check_owner(
                    p.ipv4, p.ports, host.astype(np.uint32), view(packets, UDP, 40)["dport"]
                ),
                (EXHAUSTED, header["hlim"] <= 1),
                (CustomerDrop.TOO_BIG, packets.shape[1] - 20 > self.links.right.mtu),
            ],
            lambda rows: six_to_four(packets[rows], server[rows], to_octets(host[rows], 4)),
            version=4,
            native=native,
        )

    def reverse(self, packets: U8) -> Answer:
        """Translate packets from the customer's address and ports."""
        plain = plain_ipv4(packets)
        if not plain.any():
            return DROP_ALL
        p, (rule, dmr, _) = self.params, self._addresses
        header, udp = view(packets, IPV4), view(packets, UDP, 20)
        df = header["flags_frag"] & DONT_FRAGMENT != 0
        mtu = np.where(df, self.links.left.mtu, p.lowest_ipv6_mtu)

        def build(rows: Mask) -> U8:
            hosts = header["src"][rows].astype(np.uint64)
            port = np.full(len(hosts), p.ports.ranges[0][0], dtype=np.uint64)
            high, low, _ = rule.map_address(hosts, port)
            server, _ = dmr.to_ipv6(packets[rows, 16:20])
            return four_to_six(packets[rows], join_halves(high, low), server)

        return Answer(
            [
                (NOT_FORWARDED, ~plain),
                *check_owner(p.ipv4, p.ports, header["src"], udp["sport"]),
                (EXHAUSTED, header["ttl"] <= 1),
                (CustomerDrop.TOO_BIG, packets.shape[1] + 20 > mtu),
            ],
            build,
        )

    def configuration(self) -> CustomerConfig:
        p = self.params
        return MapTCeConfig(
            **self._config_values(), dmr=p.dmr_prefix, lowest_ipv6_mtu=p.lowest_ipv6_mtu
        )

    def audit_views(self) -> tuple[AuditView, ...]:
        p, shared, port = self.params, self.params.ports.psid_len > 0, self._audited_port
        edge = audit_views.CustomerEdge(
            self.kind,
            p.ipv4,
            p.ports,
            p.server_ipv4,
            self.local,
            rule=p.rule,
            psid=p.ce_psid,
            dmr=p.dmr_prefix,
            lowest_ipv6_mtu=p.lowest_ipv6_mtu,
        )
        translator = Translator(
            six_side="left",
            six=embed(p.dmr_prefix, p.server_ipv4),
            six4=(p.server_ipv4,),
            port=port if shared else 40123,
            four=p.ipv4.network_address,
            four6=self.local,
            server_port=port,
            lowest_ipv6_mtu=p.lowest_ipv6_mtu,
            uses_ports=shared,
            may_reassemble=shared,
        )
        return edge, translator

    def audit_params(self) -> dict[str, Any]:
        """Return the length of the EA bits with which the CE does not share its address."""
        return {"ea_len": self.params.rule.suffix_len}

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        return {RAISED_MTU: {"lowest_ipv6_mtu": 1400}, **prefix_variants("dmr")}
