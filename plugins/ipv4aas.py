"""IPv4 as a service with two devices, CE and PE: together they are a stateful NAT44.

The tester sends IPv4 on both sides (Lencse and Bazsó 2024). Sizes are those of the IPv6 frame on
the link between the devices, so the medium's rate is that link's.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.device import LinkIntent, PartIntent
from v6t.intent.families import AftrTunnelConfig, B4Config, ClatConfig
from v6t.packets.arrays import U8
from v6t.packets.direction import Direction
from v6t.packets.header_policy import HeaderPolicy
from v6t.packets.headers import DONT_FRAGMENT, IPV4, view
from v6t.plugins import base, dslite, frame_sizes, lwaftr, map_ce, mape_br, mapt_br, stateful
from v6t.plugins.base import DeviceIntent, DeviceRole, EmbeddedIpv4, Link, Links, Part, Technology
from v6t.plugins.customers import ALL_CUSTOMERS
from v6t.plugins.map_domains import RuleParams
from v6t.plugins.nat64 import Nat64, Nat64Params
from v6t.plugins.params import Ipv4Links, address, describe_link
from v6t.plugins.ports import Ports, PortSet
from v6t.plugins.prefixes import parse_ipv6_network
from v6t.plugins.stateful import LOWEST_PORT, ConnectionParams, PublicPool
from v6t.plugins.translation import MIN_DF_OCTETS, embed_network, parse_prefix96
from v6t.profiles.model import FramePair

CE, PE = "CE", "PE"
STATEFUL_CE_VARIANTS = ("lw4o6", "map-e", "map-t")  # in the others, the PE is stateful
TUNNEL_VARIANTS = ("ds-lite", "lw4o6", "map-e")  # with IPv4 in IPv6 on the middle link
MAX_PORT_SHARE = 0.9  # share of a port set in use above which a NAPT was seen to slow down
DEFAULT_PSID_LEN = 3  # with lw4o6


def _declare_mac(default: str, device: str) -> Any:
    description = f"the {device}'s MAC address on the middle link"
    return Field(default, pattern="^([0-9a-f]{2}:){5}[0-9a-f]{2}$", description=description)


class Ipv4aasParams(Ipv4Links, ConnectionParams, RuleParams):
    """Parameters of ``ipv4aas``."""

    variant: Literal["464xlat", "ds-lite", "lw4o6", "map-e", "map-t"] = Field(
        "464xlat", description="464xlat, ds-lite, lw4o6, map-e or map-t"
    )
    initiator_ports: Ports = Field(Ports(min=4096, max=8191), description="the Initiator's ports")
    responder_ports: Ports = Field(Ports(min=1, max=1000), description="ports of the Responder")
    initiator_ipv4: IPv4Address = address("198.18.0.2", "first address of the Initiator")
    responder_ipv4: IPv4Address = address("198.19.0.2", "first address of the Responder")
    public_ipv4: IPv4Address | None = Field(
        None, description="first public address: of the PE (198.19.0.1), or the CE (192.0.2.35)"
    )
    public_count: int = Field(1, ge=1, le=65536, description="public addresses of a stateful PE")
    public_ports: Ports = Field(stateful.PUBLIC_PORTS, description="public ports of a stateful PE")
    prefix: str = Field("2001:db8:64::/96", description="464xlat: RFC 6052 prefix of the PLAT")
    clat_ipv6: str = Field("2001:2:0:2::/96", description="464xlat: prefix of the customer's IPv4")
    rule_ipv6: str = Field("2001:db8:ce::/53", description="map-e, map-t: rule IPv6 prefix")
    rule_ipv4: str = Field("192.0.2.0/24", description="map-e, map-t: rule IPv4 prefix")
    ea_len: int = Field(11, description="map-e, map-t: length of the EA bits")
    psid_offset: int = Field(
        0, ge=0, le=16, description="lw4o6, map-e, map-t: PSID offset; the NAPT has the first ports"
    )
    dmr: str = Field("2001:db8:ffff::/64", description="map-t: default mapping rule")
    b4_prefix: str = Field("2001:db8:b400::/40", description="lw4o6: the lwB4s' prefix, a /64 each")
    psid: int = Field(3, ge=0, description="lw4o6, map-e, map-t: PSID of the CE")
    psid_len: int | None = Field(
        None, ge=0, le=15, description="lw4o6 (3), map-e and map-t without EA bits: PSID length"
    )
    ce_middle_ipv6: IPv6Interface = address("2001:db8:6::9/64", "the CE's middle link address")
    pe_middle_ipv6: IPv6Interface = address("2001:db8:6::1/64", "the PE's middle link address")
    ce_mac: str = _declare_mac("02:00:00:00:03:01", CE)
    pe_mac: str = _declare_mac("02:00:00:00:03:02", PE)
    middle_mtu: int = Field(1500, ge=1280, le=9216, description="MTU of the middle link")

    @property
    def embedded_addresses(self) -> EmbeddedIpv4:
        names = {"464xlat": "prefix", "map-t": "dmr"}
        ends = (self.responder, self.last_responder)
        named = ((n, getattr(self, n)) for v, n in names.items() if v == self.variant)
        return {name: (parse_ipv6_network(prefix, name), ends) for name, prefix in named}

    @property
    def is_ce_stateful(self) -> bool:
        return self.variant in STATEFUL_CE_VARIANTS

    @property
    def public_pool(self) -> PublicPool:
        if not self.is_ce_stateful:
            first = self.public_ipv4 or IPv4Address("198.19.0.1")
            return PublicPool(first, self.public_count, self.public_ports)
        first, (low, high) = self.public_ipv4 or IPv4Address("192.0.2.35"), self.port_set.ranges[0]
        return PublicPool(first, 1, Ports(min=max(low, 1), max=high))  # port 0 is reserved

    @property
    def pool_params(self) -> dict[str, Any]:
        pool = self.public_pool
        return {"pool_first": pool.first, "pool_count": pool.count, "pool_ports": pool.ports}

    @property
    def port_set(self) -> PortSet:
        if self.variant != "lw4o6":
            return self.rule.make_port_set(self.psid)
        bits = DEFAULT_PSID_LEN if self.psid_len is None else self.psid_len
        return PortSet(self.psid_offset, bits, self.psid)

    @cached_property
    def translation_prefixes(self) -> tuple[IPv6Network, IPv6Network]:
        """RFC 6052 prefixes of the PLAT and of the CLAT."""
        plat, clat = (parse_prefix96(getattr(self, name), name) for name in ("prefix", "clat_ipv6"))
        if plat == clat:
            problem = "prefix and clat_ipv6 are the same"
            raise UsageError(problem, "choose two prefixes", code="address-conflict")
        return plat, clat

    @model_validator(mode="after")
    def _check_variant(self) -> Ipv4aasParams:
        reason = "background between two IPv4 networks cannot be distinguished from the foreground"
        self.refuse_background(reason)
        if self.variant == "464xlat":
            _ = self.translation_prefixes  # raises errors
        if self.is_ce_stateful:
            self._check_ports()
        self.check_pool("public_ipv4", "responder_ipv4", "public_count", "devices")
        return self

    def _check_ports(self) -> None:
        if self.variant != "lw4o6":
            rule = self.rule
            if rule.host_bits:
                problem = f"with {self.ea_len} EA bits the CE has a whole IPv4 prefix"
                hint = f"set ea_len to {rule.suffix_len} or more"
                raise UsageError(problem, hint, code="conflict")
            if (first := self.public_pool.first) not in rule.ipv4_prefix:
                problem = f"public_ipv4 {first} is outside the rule {rule.ipv4_prefix}"
                raise UsageError(problem, "choose one within it", code="outside-prefix")
        first, last = self.port_set.ranges[0]
        if first < LOWEST_PORT and not self.low_ports:
            problem = f"the ports {first} to {last} of PSID {self.psid} begin below {LOWEST_PORT}"
            hint = "choose another psid, or set low_ports to true"
            raise UsageError(problem, hint, code="out-of-range")
        ports, ranges = self.public_pool.ports.count, len(self.port_set.ranges)
        if self.endpoints > ports:
            pool = f"first of {ranges} ranges of the CE's ports" if ranges > 1 else "CE's port set"
            problem = f"{self.endpoints} source ports do not fit the {pool} of {ports}"
            hint = "shorten initiator_ports, or change ea_len, psid_len or psid_offset"
            raise UsageError(problem, hint, code="not-enough-addresses")

    @property
    def middle_links(self) -> tuple[Link, Link]:
        """The link between the devices as seen from the CE and from the PE."""
        return base.describe_inner_link(self.ce_mac, self.pe_mac, self.middle_mtu)


def list_parts(params: Ipv4aasParams, links: Links) -> tuple[Part, ...]:
    """Return the parts of both devices from left to right."""
    variants = {"464xlat": _build_464xlat, "ds-lite": _build_ds_lite, "lw4o6": _build_lw4o6}
    return variants.get(params.variant, _build_map_e_or_t)(params, links)


def list_alternatives(
    params: Ipv4aasParams, parts: Sequence[Part], links: Links
) -> tuple[Part, ...]:
    """Return the parts that can replace several others: a single AFTR for tunnel end and NAT."""
    if params.variant != "ds-lite":
        return ()
    _, softwire, nat = parts
    both = Links(params.middle_links[1], links.right)
    config, left, right = dslite.merge_aftr(softwire, nat), softwire.intent.left, nat.intent.right
    intent = DeviceIntent("dslite-aftr", config, both, left, right)
    return (Part("aftr", PE, intent, "vpp", stateful=True, replaces=(softwire.name, nat.name)),)


def _build_stateless_part(
    params: Ipv4aasParams, links: Links, technology: type[Technology], name: str, **fields: Any
) -> Part:
    """Build a stateless CE or PE whose left link is the middle one, with ``fields`` as parameters."""
    model, is_ce = technology.params_model, name == "ce"
    own, peer = params.ce_middle_ipv6, params.pe_middle_ipv6
    if not is_ce:
        own, peer, links = peer, own, Links(params.middle_links[1], links.right)
    ends = {"dut_left_ipv6": own, "tester_left_ipv6": peer.ip, "server_ipv4": params.responder_ipv4}
    plugin = technology(base.pick_params(model, params, **ends, **fields), links)
    intent = plugin.make_dut_intent()
    if not is_ce:
        intent = replace(intent, right=describe_link(params, links, "right", params.servers))
    names = {name: name for name in model.model_fields if name in type(params).model_fields}
    return Part(name, CE if is_ce else PE, intent, reference=plugin, params=names)


def _build_stateful_ce(
    params: Ipv4aasParams, links: Links, technology: type[Technology], **fields: Any
) -> tuple[Part, Part]:
    """Build the CE's NAPT, and the CE without NAPT, whose IPv6 link is on the right."""
    near, _ = params.middle_links
    here, inner = base.describe_inner_link(*base.INNER_MACS, links.left.mtu)
    left, right = base.INNER_LEFT, base.INNER_RIGHT
    ends = {"dut_right_ipv4": left, "tester_right_ipv4": right.ip}
    napt = dslite.describe_nat44(params, Links(links.left, here), **params.pool_params, **ends)
    ends = {"dut_right_ipv4": right, "tester_right_ipv4": left.ip}
    part = _build_stateless_part(params, Links(near, inner), technology, "ce", **ends, **fields)
    single = part.intent
    turned = single.configuration.model_copy(update={"ipv6_side": "right"})
    to_napt = replace(single.right, routes={IPv4Network(params.public_pool.first): left.ip})
    intent = DeviceIntent(single.technology, turned, Links(inner, near), to_napt, single.left)
    ce = replace(part, intent=intent, mirrored=True)
    return Part("napt", CE, napt, "nftables", stateful=True), ce


def _build_map_e_or_t(params: Ipv4aasParams, links: Links) -> tuple[Part, ...]:
    own: dict[str, Any] = {"ce_ipv4": params.public_pool.first, "ce_psid": params.psid}
    relay = {"ces": ALL_CUSTOMERS, "psid": 0 if params.ea_len else params.psid}
    if params.variant == "map-e":
        end = {"br_address": params.pe_middle_ipv6.ip}
        br = _build_stateless_part(params, links, mape_br.MapEBorderRelay, "br", **relay, **end)
        return *_build_stateful_ce(params, links, map_ce.MapECe, **own, **end), br
    br = _build_stateless_part(params, links, mapt_br.MapTBorderRelay, "br", **relay)
    napt, ce = _build_stateful_ce(params, links, map_ce.MapTCe, **own)
    # only the servers behind the DMR: a translator may use the rest itself
    dmr = parse_ipv6_network(params.dmr, "dmr")
    routes = {embed_network(dmr, net): params.pe_middle_ipv6.ip for net in params.servers}
    intent = replace(ce.intent, right=replace(ce.intent.right, routes=routes))
    return napt, replace(ce, intent=intent, to_ipv4="reverse"), replace(br, to_ipv4="forward")


def _build_lw4o6(params: Ipv4aasParams, links: Links) -> tuple[Part, ...]:
    bits = params.port_set.psid_len
    both = {"psid_len": bits, "br_address": params.pe_middle_ipv6.ip}
    pool = f"{params.public_pool.first}/32"
    table = {"softwires": 1 << bits, "simulated": ALL_CUSTOMERS, "ipv4_pool": pool}
    aftr = _build_stateless_part(params, links, lwaftr.LightweightAftr, "lwaftr", **both, **table)
    reference: Any = aftr.reference
    b4 = reference.params.load_table().read_row(params.psid).b4
    own = {"b4_address": b4, "ipv4_address": params.public_pool.first}
    return *_build_stateful_ce(params, links, map_ce.LwB4, **both, **own), aftr


def _build_ds_lite(params: Ipv4aasParams, links: Links) -> tuple[Part, ...]:
    near, far = params.middle_links
    b4, aftr, customer = params.ce_middle_ipv6.ip, params.pe_middle_ipv6.ip, params.initiator_ipv4
    (middle_ce, middle_pe), outer = _describe_middle_link(params), Links(far, links.right)
    customers = describe_link(params, links, "left", params.clients)
    b4_config = B4Config(aftr=aftr, b4=b4, ipv6_side="right")
    intent = DeviceIntent("b4", b4_config, Links(links.left, near), customers, middle_ce)
    ends = {"b4_count": 1, "customer": customer, "internal": customer}
    mirror = AftrTunnelConfig(aftr=b4, first_b4=aftr, **ends)
    reference = dslite.SoftwireEnd(mirror, Links(near, links.left))
    tunnels = AftrTunnelConfig(aftr=aftr, first_b4=b4, **ends)
    pool, servers = params.pool_params, params.servers
    pe = dslite.build_aftr(PE, tunnels, middle_pe, outer, params, servers, **pool)
    return Part("b4", CE, intent, reference=reference, mirrored=True), *pe


def _describe_middle_link(params: Ipv4aasParams) -> tuple[LinkIntent, LinkIntent]:
    ce, pe = params.ce_middle_ipv6, params.pe_middle_ipv6
    near, far = params.middle_links
    return LinkIntent.describe(near, [ce], [pe.ip]), LinkIntent.describe(far, [pe], [ce.ip])


def _build_464xlat(params: Ipv4aasParams, links: Links) -> tuple[Part, ...]:
    near, far = params.middle_links
    plat, clat = params.translation_prefixes
    first = int(params.initiator_ipv4)
    bits = (first ^ first + params.initiator_count - 1).bit_length()
    inside = IPv4Network((first >> bits << bits, 32 - bits))
    clients, mtu = embed_network(clat, inside), frame_sizes.LOWEST_IPV6_MTU
    eam = ((inside, clients),)
    config = ClatConfig(eam=eam, prefix=plat, ipv6_side="right", lowest_ipv6_mtu=mtu)
    to_servers = {embed_network(plat, net): params.pe_middle_ipv6.ip for net in params.servers}
    left = describe_link(params, links, "left", [inside])
    right = replace(_describe_middle_link(params)[0], routes=to_servers)
    ce = DeviceIntent("clat", config, Links(links.left, near), left, right)
    client = clients[first - int(inside.network_address)]
    ends = {"dut_left_ipv6": params.pe_middle_ipv6, "tester_left_ipv6": params.ce_middle_ipv6.ip}
    pool: Any = {**params.pool_params, "initiator_ipv6": client}
    nat64 = base.pick_params(Nat64Params, params, **ends, **pool)
    pe = Nat64(nat64, Links(far, links.right)).make_dut_intent()
    hints: dict[str, Any] = {"options": base.TAYGA_OPTIONS, "params": {"prefix": "prefix"}}
    plat_part = Part("plat", PE, pe, "tayga-nftables", stateful=True, to_ipv4="forward", **hints)
    hints["params"] = {"plat_prefix": "prefix"}
    return Part("clat", CE, ce, "tayga", to_ipv4="reverse", **hints), plat_part


def _list_intents(params: Ipv4aasParams, links: Links) -> list[PartIntent]:
    parts = list_parts(params, links)
    return [part.part_intent for part in (*parts, *list_alternatives(params, parts, links))]


class Ipv4aas(stateful.StatefulTechnology):
    """CE and PE of one of five technologies, measured as one stateful device."""

    name = "ipv4aas"
    title = "IPv4 as a service, CE and PE together: 464XLAT, DS-Lite, lw4o6, MAP-E, MAP-T; stateful"
    rfcs = (
        *("RFC 9693", "RFC 8219 section 4.2", "RFC 9313", "RFC 6877"),
        *("RFC 6333", "RFC 7596", "RFC 7597", "RFC 7599"),
    )
    params_model = Ipv4aasParams
    overhead = 20
    ip_versions = (4, 4)
    hops = 2
    default_driver = base.CHAIN_DRIVER
    mapping = "the stateful device's: RFC 4787 and RFC 6146 require endpoint-independent mapping"
    rfc_frame_sizes: ClassVar[tuple[int, ...]] = frame_sizes.IPV6_SIZES
    params: Ipv4aasParams

    def __init__(self, params: Ipv4aasParams | None = None, links: Links | None = None) -> None:
        super().__init__(params, links)
        self.uses_tunnels = self.params.variant in TUNNEL_VARIANTS
        if self.uses_tunnels:
            sizes = frame_sizes.TUNNEL_SIZES
            vars(self).update(overhead=40, rfc_frame_sizes=sizes, default_frame_sizes=sizes[:1])
        self._refuse_unused()

    def _refuse_unused(self) -> None:
        """Refuse parameters of other variants, which would have no effect on either device."""
        p, links, common = self.params, self.links, {*ConnectionParams.model_fields, "variant"}
        given = {n: getattr(p, n) for n in type(p).model_fields if n in p.model_fields_set}
        for name, value in given.items():
            if name in common or value == type(p).model_fields[name].get_default():
                continue
            changed = [{n: v for n, v in given.items() if n != name}]
            if isinstance(value, (IPv4Address, IPv6Address)):
                # the value may be the one that the variant takes anyway
                changed.append({**changed[0], name: value + 1})
            own, alike = _list_intents(p, links), False
            with suppress(UsageError, ValueError):  # if other parameters depend on it
                alike = all(_list_intents(type(p)(**other), links) == own for other in changed)
            if alike:
                problem = f"{name} {value} has no effect on the variant {p.variant}"
                hint = f"leave {name} out, or set variant"
                raise UsageError(problem, hint, code="setting-without-effect")

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return list_parts(self.params, self.links)

    @property
    def roles(self) -> tuple[DeviceRole, ...]:
        ce, variant = self.params.is_ce_stateful, self.params.variant
        return DeviceRole(CE, ce, variant), DeviceRole(PE, not ce, variant)

    @property
    def header_policy(self) -> HeaderPolicy:
        return HeaderPolicy(retranslated=not self.uses_tunnels)

    @property
    def warnings(self) -> tuple[str, ...]:
        p, warnings = self.params, []
        used = p.endpoints / p.public_pool.ports.count if p.is_ce_stateful else 0.0
        if used > MAX_PORT_SHARE:
            taken = f"{used:.0%} of the CE's port set of {p.public_pool.ports.count}"
            problem = f"above {MAX_PORT_SHARE:.0%} a NAPT was seen to slow down"
            warnings.append(f"the Initiator's {p.endpoints} source ports take {taken}: {problem}")
        ranges = len(p.port_set.ranges) if p.is_ce_stateful else 1
        if ranges > 1:
            taken = f"the first of its {ranges} ranges of ports"
            ports = f"{p.public_pool.ports.min} to {p.public_pool.ports.max}"
            warnings.append(f"the CE's NAPT takes {taken}, {ports}")
        devices = f"CE and PE together, the {CE if p.is_ce_stateful else PE} is stateful"
        consequence = "the rate of each device remains unknown, and its latency is lower"
        return (*warnings, f"{devices}: {consequence}")

    def list_link_sizes(self, sizes: FramePair) -> tuple[int, int]:
        left, right = map(frame_sizes.count_tag_octets, (self.links.left, self.links.right))
        return sizes.ipv4 + left, sizes.ipv4 + right

    def make_frame_pair(self, ipv6_frame_size: int) -> FramePair:
        p, size = self.params, ipv6_frame_size
        for link in (self.links.left, self.links.right):
            sides = p.middle_links[0], link.model_copy(update={"vlan": None})
            pair = frame_sizes.make_translated_pair(size, self.overhead, *sides, p.variant)
        return pair

    def check_traffic(self, direction: Direction, sizes: FramePair) -> None:
        p, lowest = self.params, frame_sizes.LOWEST_IPV6_MTU
        if not self.uses_tunnels:
            frame_sizes.check_unfragmented(p.df, sizes.ipv6, p.middle_links[0], lowest)

    def rewrite(self, packets: U8, endpoint: stateful.Endpoints, *, source: bool) -> U8:
        """Rewrite packets and reset fields that are lost in translation to IPv6 (RFC 7915, section 5.1)."""
        if not self.uses_tunnels:
            packets = packets.copy()
            header = view(packets, IPV4)
            header["id"] = 0
            header["flags_frag"] = DONT_FRAGMENT if packets.shape[1] >= MIN_DF_OCTETS else 0
        return super().rewrite(packets, endpoint, source=source)

    def make_dut_intent(self) -> DeviceIntent:
        alternatives = list_alternatives(self.params, self.parts, self.links)
        return base.build_chain_intent(self.name, self.parts, self.links, alternatives)
