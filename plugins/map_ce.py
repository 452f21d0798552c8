"""The customer's side of MAP-E, MAP-T and lightweight 4over6: one device, many hosts and ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
from v6t.packets.bit_layout import BitCopy, BitLayout, variable_layout
from v6t.packets.direction import Direction
from v6t.packets.headers import DONT_FRAGMENT, IPV4, IPV6, UDP, to_octets, view
from v6t.packets.reference import EXHAUSTED, NOT_FORWARDED, DropReason, list_drop_reasons
from v6t.plugins import address_mappings
from v6t.plugins.audit_views import (
    RAISED_MTU,
    Translator,
    TunnelEnd,
    prefix_variants,
)
from v6t.plugins.audit_views import (
    CustomerEdge as CustomerEdgeView,
)
from v6t.plugins.base import DeviceIntent, Links, StatelessTechnology
from v6t.plugins.frame_sizes import IPV6_SIZES, TUNNEL_SIZES, check_whole
from v6t.plugins.map_domains import DmrParams, RuleParams, rule_config
from v6t.plugins.map_rules import DEFAULT_PSID_OFFSET, MapRule, RuleArray
from v6t.plugins.params import Mixture, address, device, negative_share, tester
from v6t.plugins.ports import (
    DestinationPorts,
    Policy,
    PortSet,
    SourcePorts,
    Varying,
    choose_ce_port,
    destination_range,
    source_range,
    vary_ce_port,
    vary_peer_port,
)
from v6t.plugins.reference_device import (
    Handled,
    ReferenceDevice,
    answer,
    answer_or_route,
    choose_reasons,
    dropped,
    route_all,
)
from v6t.plugins.traffic import background_of, ethernet, ipv4, ipv6, mixed, negative_like, replaced
from v6t.plugins.translation import Rfc6052Array, four_to_six, plain_ipv4, plain_ipv6, six_to_four
from v6t.plugins.tunnels import (
    UNMARKABLE,
    carries_udp,
    decapsulate,
    encapsulate,
    is_udp,
    unmarkable,
)
from v6t.profiles.model import (
    FramePair,
    Layer,
    Role,
    Traffic,
    TrafficClass,
    Variable,
    bind_layout,
)

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, U64, Mask, Reasons
    from v6t.plugins.audit_views import AuditView
    from v6t.plugins.reference_device import ReferenceDevice


class CustomerDrop(DropReason):
    """Why a CE or lwB4 drops a frame."""

    WRONG_ADDRESS = "an address is not the customer's"
    BAD_PORT = "port outside the customer's port set"
    WRONG_RELAY = "does not come from the relay"
    TOO_BIG = "too big, or to be fragmented"
    UNMARKED = UNMARKABLE


DROP_REASONS = list_drop_reasons(CustomerDrop)


@dataclass(frozen=True)
class Tunnel:
    """IPv4 in IPv6 between two addresses.

    Attributes:
        local, remote: its ends.
        uniform: DSCPs are carried over both ways (RFC 2983 section 3).
    """

    local: IPv6Address
    remote: IPv6Address
    uniform: bool = False


@dataclass(frozen=True)
class Translation:
    """MAP-T: the customer's hosts by a rule, everybody else by the DMR.

    Attributes:
        rule, dmr, psid: of the customer.
        lowest_ipv6_mtu: longest IPv6 packet made of IPv4 without DF [octets].
    """

    rule: MapRule
    dmr: IPv6Network
    psid: int
    lowest_ipv6_mtu: int

    def ipv6(self, host: IPv4Address) -> IPv6Address:
        """Compute the IPv6 address of a host of the customer."""
        return self.rule.map_address(host, self.psid, whole_host=True)

    def peer(self, ipv4: IPv4Address) -> IPv6Address:
        """IPv6 address of everybody else."""
        return address_mappings.embed(self.dmr, ipv4)


@dataclass(frozen=True)
class Customer:
    """What the device gives its customer, and how packets cross the IPv6 network."""

    ipv4: IPv4Network
    ports: PortSet
    way: Tunnel | Translation

    @property
    def host_bits(self) -> int:
        """Bits of the IPv4 address left to the customer's hosts."""
        return 32 - self.ipv4.prefixlen


def checked_ports(psid_offset: int, psid_len: int, psid: int) -> PortSet:
    """Return a port set with at least one port that a test frame may use.

    Raises:
        UsageError: there is none, or no such PSID.
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


DEFAULT_PSID = 9


class CustomerParams(Mixture):
    """What all customers' devices can be told; left is the IPv6 link, right the IPv4 one."""

    server_ipv4: IPv4Address = address("203.0.113.56", "the IPv4 host beyond the relay")
    dut_left_ipv6: IPv6Interface = Field(
        IPv6Interface("2001:db8:6::9/64"), description="the device's address on the IPv6 link"
    )
    tester_left_ipv6: IPv6Address = tester("2001:db8:6::1", "left")
    dut_right_ipv4: IPv4Interface = Field(
        IPv4Interface("192.168.19.1/30"), description="the device's address on the IPv4 link"
    )
    tester_right_ipv4: IPv4Address = Field(
        IPv4Address("192.168.19.2"),
        description="tester's IPv4 address on the right link; the customer's hosts are behind it",
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

    @property
    def customer(self) -> Customer:
        """The customer."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _server(self) -> CustomerParams:
        if self.server_ipv4 in self.customer.ipv4:
            raise UsageError(
                "server_ipv4 is the customer's own address",
                "choose one beyond the relay",
                code="address-conflict",
            )
        return self


class MapCeParams(CustomerParams, RuleParams):
    """A CE of a MAP domain."""

    ce_ipv4: IPv4Address = Field(
        IPv4Address("192.0.2.189"), description="the CE's IPv4 address, or the first of its prefix"
    )
    ce_psid: int = Field(
        DEFAULT_PSID,
        ge=0,
        description="the CE's PSID; by default the highest one, if that is lower",
    )

    @model_validator(mode="before")
    @classmethod
    def _fitting_psid(cls, given: Any) -> Any:
        """Choose a PSID that fits the rule, unless one is given."""
        if not isinstance(given, Mapping) or "ce_psid" in given:
            return given
        rule = RuleParams(**{k: v for k, v in given.items() if k in RuleParams.model_fields}).rule
        return {**given, "ce_psid": min(DEFAULT_PSID, rule.sharing_ratio - 1)}

    @property
    def only_psid(self) -> int:
        """Return the CE's PSID."""
        return self.ce_psid

    @property
    def ipv4(self) -> IPv4Network:
        """The CE's address or prefix."""
        rule: MapRule = self.rule
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

    def _customer(self, way: Tunnel | Translation) -> Customer:
        rule = self.rule
        return Customer(
            self.ipv4, checked_ports(rule.psid_offset, rule.psid_len, self.ce_psid), way
        )


class MapECeParams(MapCeParams):
    """Everything ``mape-ce`` can be told."""

    measured: ClassVar[str] = "MAP-E"

    br_address: IPv6Address = Field(IPv6Address("2001:db8:6::1"), description="the BR's address")

    @property
    def customer(self) -> Customer:
        self.rule.port_set(self.ce_psid)
        local = self.rule.map_address(self.ipv4.network_address, self.ce_psid)
        return self._customer(Tunnel(local, self.br_address))


class MapTCeParams(DmrParams, MapCeParams):
    """Everything ``mapt-ce`` can be told."""

    measured: ClassVar[str] = "MAP-T"

    @property
    def way(self) -> Translation:
        """How packets cross the IPv6 network."""
        return Translation(self.rule, self.dmr_prefix, self.ce_psid, self.lowest_ipv6_mtu)

    @property
    def customer(self) -> Customer:
        self.rule.port_set(self.ce_psid)
        return self._customer(self.way)

    @model_validator(mode="after")
    def _dmr(self) -> MapTCeParams:
        self.refuse_overlap(self)
        if self.tester_left_ipv6 in self.dmr_prefix:
            raise UsageError(
                "tester_left_ipv6 lies within the DMR prefix",
                "choose one outside",
                code="outside-prefix",
            )
        return self


class LwB4Params(CustomerParams):
    """Everything ``lwb4`` can be told."""

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
    def _fitting_psid(cls, given: Any) -> Any:
        """Choose a PSID that fits its length, unless one is given."""
        if not isinstance(given, Mapping) or "psid" in given:
            return given
        length = str(given.get("psid_len", cls.model_fields["psid_len"].default))
        if not length.isdecimal() or int(length) > 16:
            return given  # which is refused
        return {**given, "psid": min(DEFAULT_PSID, (1 << int(length)) - 1)}

    @property
    def customer(self) -> Customer:
        return Customer(
            IPv4Network(self.ipv4_address),
            checked_ports(self.psid_offset, self.psid_len, self.psid),
            Tunnel(self.b4_address, self.br_address),
        )


def customer_sides(
    params: CustomerParams, links: Links, remote: IPv6Network | IPv6Address
) -> tuple[LinkIntent, LinkIntent]:
    """Describe left and right link of a customer's device.

    Args:
        params: of the device.
        links: both cables.
        remote: IPv6 prefix or address of the relay's side.
    """
    p = params
    left = LinkIntent.describe(
        links.left, [p.dut_left_ipv6], [p.tester_left_ipv6], {remote: p.tester_left_ipv6}
    )
    right = LinkIntent.describe(
        links.right,
        [p.dut_right_ipv4, p.dut_right_ipv6],
        [p.tester_right_ipv4, p.tester_right_ipv6],
        {p.customer.ipv4: p.tester_right_ipv4},
    )
    return left, right


_ADDRESS = variable_layout("ipv4", 32)


def customer_traffic(
    params: CustomerParams, links: Links, direction: Direction, sizes: FramePair, seed: int
) -> Traffic:
    """All classes of one direction, with those that are none of the customer's."""
    make = _forward if direction == "forward" else _reverse
    foreground = make(params, links, sizes)
    ends = (params.tester_left_ipv6, params.tester_right_ipv6)
    behind = background_of(params, links, direction, sizes, ends, links.left)
    strays = _strays(params.customer, foreground, direction) if params.negative_percent else []
    return mixed(
        params, direction, [(foreground, 1)], behind, strays, params.negative_percent, seed
    )


def _forward(params: CustomerParams, links: Links, sizes: FramePair) -> TrafficClass:
    customer = params.customer
    host = customer.ipv4.network_address
    headers: tuple[Layer, ...]
    if isinstance(customer.way, Translation):
        way = customer.way
        headers = (ipv6(params, way.peer(params.server_ipv4), way.ipv6(host)),)
        variables, bindings = _vary_host(customer, "IPv6.dst", way.rule.host_address_layout)
    else:
        headers = (
            ipv6(params, customer.way.remote, customer.way.local),
            ipv4(params, params.server_ipv4, host),
        )
        variables, bindings = _vary_host(customer, "IP.dst")
    own, more = _own_port(customer, params.fw_dport, "UDP.dport")
    peer, peers = vary_peer_port(params.fw_sport, "UDP.sport")
    ports = {"sport": params.fw_sport.min, "dport": choose_ce_port(customer.ports, source=False)}
    return TrafficClass(
        "fg",
        Role.FOREGROUND,
        (*ethernet(links, "forward"), *headers, Layer("UDP", ports)),
        sizes.ipv6,
        (*variables, *own, *peer),
        (*bindings, *more, *peers),
    )


def _reverse(params: CustomerParams, links: Links, sizes: FramePair) -> TrafficClass:
    customer = params.customer
    variables, bindings = _vary_host(customer, "IP.src")
    own, more = _own_port(customer, params.rv_sport, "UDP.sport")
    peer, peers = vary_peer_port(params.rv_dport, "UDP.dport")
    ports = {"sport": choose_ce_port(customer.ports, source=True), "dport": params.rv_dport.min}
    header = ipv4(params, customer.ipv4.network_address, params.server_ipv4)
    return TrafficClass(
        "fg",
        Role.FOREGROUND,
        (*ethernet(links, "reverse"), header, Layer("UDP", ports)),
        sizes.ipv4,
        (*variables, *own, *peer),
        (*bindings, *more, *peers),
    )


def _own_port(customer: Customer, policy: Policy, field: str) -> Varying:
    return vary_ce_port(customer.ports, policy, field, psid=customer.ports.psid)


def _vary_host(customer: Customer, field: str, address: BitLayout = _ADDRESS) -> Varying:
    """Vary the hosts of a customer with an IPv4 prefix.

    Args:
        customer: the customer.
        field: of the address.
        address: how the field holds the host's IPv4 address.
    """
    bits = customer.host_bits
    if not bits:
        return [], []
    host = BitLayout(32, {HOST: bits}, (BitCopy(HOST, 32 - bits, bits),))
    return [Variable(HOST, bits)], bind_layout(address.compose(ipv4=host), field)


def _strays(customer: Customer, good: TrafficClass, direction: Direction) -> list[TrafficClass]:
    """Frames like the foreground's for a neighbour: of another port set, of another address."""
    forward = direction == "forward"
    strays = []
    if customer.ports.psid_len:
        name = "dport" if forward else "sport"
        udp = next(layer for layer in good.layers if layer.name == "UDP")
        port = int(str(udp.fields[name])) ^ 1 << customer.ports.low_bits
        strays.append(
            negative_like(good, "stray-port", layers=replaced(good, "UDP", **{name: port}))
        )
    if any(layer.name == "IP" for layer in good.layers):
        other = IPv4Address(int(customer.ipv4.network_address) ^ 1 << customer.host_bits)
        fields = {"dst" if forward else "src": str(other)}
        strays.append(negative_like(good, "stray-address", layers=replaced(good, "IP", **fields)))
    return strays


def customer_device(customer: Customer, links: Links) -> ReferenceDevice:
    """Build the reference device of a customer.

    Args:
        customer: addresses and ports.
        links: both cables.
    """
    way = customer.way
    device: _Tunnelled | _Translated = (
        _Translated(customer, way, links)
        if isinstance(way, Translation)
        else _Tunnelled(customer, way, links)
    )
    return ReferenceDevice(links, {6: device.from_ipv6}, {4: device.from_ipv4, 6: route_all(6)})


class _Own:
    """Which addresses and ports are the customer's."""

    def __init__(self, customer: Customer) -> None:
        self._ports = customer.ports
        self._mask = np.uint64(int(customer.ipv4.netmask))
        self._net = np.uint64(int(customer.ipv4.network_address))

    def verdict(self, ipv4: U64, port: U64) -> Reasons:
        """Return 0 for the customer's, else the reason to drop."""
        psid, owned = self._ports.find_psids(port)
        return choose_reasons(
            len(ipv4),
            (CustomerDrop.WRONG_ADDRESS, (ipv4 & self._mask) != self._net),
            (CustomerDrop.BAD_PORT, ~owned | (psid != self._ports.psid)),
        )


class _Tunnelled:
    """MAP-E CE and lwB4."""

    def __init__(self, customer: Customer, way: Tunnel, links: Links) -> None:
        self._own = _Own(customer)
        self._local = np.frombuffer(way.local.packed, dtype=np.uint8)
        self._remote = np.frombuffer(way.remote.packed, dtype=np.uint8)
        self._uniform = way.uniform
        self._mtu = links.left.mtu

    def from_ipv6(self, packets: U8) -> Handled:
        """For the customer if addressed to the tunnel's end."""
        outer = view(packets, IPV6)
        ours: Mask = (outer["dst_octets"] == self._local).all(axis=1)
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        if packets.shape[1] >= 68:
            inner, udp = view(packets, IPV4, 40), view(packets, UDP, 60)
            foreign = self._own.verdict(
                inner["dst"].astype(np.uint64), udp["dport"].astype(np.uint64)
            )
            reason = choose_reasons(
                len(packets),
                (NOT_FORWARDED, ~carries_udp(packets)),
                (CustomerDrop.WRONG_RELAY, (outer["src_octets"] != self._remote).any(axis=1)),
                (foreign, foreign != 0),
                (EXHAUSTED, inner["ttl"] <= 1),
                (CustomerDrop.UNMARKED, unmarkable(packets)),
            )
        return answer_or_route(
            packets, ours, reason, lambda rows: decapsulate(packets[rows], uniform=self._uniform)
        )

    def from_ipv4(self, packets: U8) -> Handled:
        """From the customer if address and port are his."""
        if packets.shape[1] < 28:
            return dropped(len(packets), NOT_FORWARDED)
        header, udp = view(packets, IPV4), view(packets, UDP, 20)
        foreign = self._own.verdict(header["src"].astype(np.uint64), udp["sport"].astype(np.uint64))
        reason = choose_reasons(
            len(packets),
            (NOT_FORWARDED, ~is_udp(packets)),
            (foreign, foreign != 0),
            (EXHAUSTED, header["ttl"] <= 1),
            (CustomerDrop.TOO_BIG, packets.shape[1] + 40 > self._mtu),
        )
        return answer(reason, lambda rows: encapsulate(packets[rows], self._local, self._remote), 6)


class _Translated:
    """MAP-T CE."""

    def __init__(self, customer: Customer, way: Translation, links: Links) -> None:
        self._own = _Own(customer)
        self._rule = RuleArray(way.rule, whole_host=True)
        self._port = np.uint64(customer.ports.ranges[0][0])
        self._dmr = Rfc6052Array(way.dmr)
        prefix = way.rule.end_user_prefix(customer.ipv4.network_address, way.psid)
        self._mask = np.uint64(int(prefix.netmask) >> 64)
        self._net = np.uint64(int(prefix.network_address) >> 64)
        self._ipv6_mtu, self._ipv4_mtu = links.left.mtu, links.right.mtu
        self._lowest = way.lowest_ipv6_mtu

    def from_ipv6(self, packets: U8) -> Handled:
        """For the customer if addressed to his end-user prefix and from behind the DMR."""
        header = view(packets, IPV6)
        high, low = header["dst_high"].astype(np.uint64), header["dst_low"].astype(np.uint64)
        server, from_relay = self._dmr.to_ipv4(header["src_octets"])
        ours = ((high & self._mask) == self._net) & from_relay
        host, _, consistent = self._rule.decode_address(high, low)
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        if packets.shape[1] >= 48:
            foreign = self._own.verdict(host, view(packets, UDP, 40)["dport"].astype(np.uint64))
            reason = choose_reasons(
                len(packets),
                (NOT_FORWARDED, ~plain_ipv6(packets)),
                (CustomerDrop.WRONG_ADDRESS, ~consistent),
                (foreign, foreign != 0),
                (EXHAUSTED, header["hlim"] <= 1),
                (CustomerDrop.TOO_BIG, packets.shape[1] - 20 > self._ipv4_mtu),
            )

        def build(rows: Mask) -> U8:
            return six_to_four(packets[rows], server[rows], to_octets(host[rows], 4))

        return answer_or_route(packets, ours, reason, build)

    def from_ipv4(self, packets: U8) -> Handled:
        """From the customer if address and port are his."""
        plain = plain_ipv4(packets)
        if not plain.any():
            return dropped(len(packets), NOT_FORWARDED)
        header = view(packets, IPV4)
        ipv4 = header["src"].astype(np.uint64)
        foreign = self._own.verdict(ipv4, view(packets, UDP, 20)["sport"].astype(np.uint64))
        df = header["flags_frag"] & DONT_FRAGMENT != 0
        limit = np.where(df, self._ipv6_mtu, self._lowest)
        reason = choose_reasons(
            len(packets),
            (NOT_FORWARDED, ~plain),
            (foreign, foreign != 0),
            (EXHAUSTED, header["ttl"] <= 1),
            (CustomerDrop.TOO_BIG, packets.shape[1] + 20 > limit),
        )

        def build(rows: Mask) -> U8:
            high, low, _ = self._rule.map_address(ipv4[rows], np.full(int(rows.sum()), self._port))
            source = np.concatenate([to_octets(high, 8), to_octets(low, 8)], axis=1)
            server, _ = self._dmr.to_ipv6(packets[rows, 16:20])
            return four_to_six(packets[rows], source, server)

        return answer(reason, build, 6)


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
