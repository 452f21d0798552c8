"""Parameters that all stateless translators share (SIIT, CLAT)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import InvalidValue, UsageError
from v6t.intent.device import LinkIntent
from v6t.intent.families import ClatConfig, SiitConfig
from v6t.packets.direction import Direction
from v6t.packets.headers import IPV6, view
from v6t.packets.reference import EXHAUSTED, FORWARDED, DropReason, list_drop_reasons
from v6t.plugins.address_mappings import (
    WELL_KNOWN,
    Mappings,
    Rfc6052,
    mappings_from_text,
    read_pairs,
)
from v6t.plugins.audit_views import (
    GLOBAL_HOST,
    MAPPED_HOST,
    OVERLAPPING_MAPPINGS,
    PREFIX_BESIDE_MAPPINGS,
    RAISED_MTU,
    UNLIKE_MAPPINGS,
    WELL_KNOWN_PREFIX,
    AddressTable,
    AuditView,
    Translator,
    prefix_variants,
    variant_prefix,
)
from v6t.plugins.base import DeviceIntent, Embedded, Link, Links, PluginParams, StatelessTechnology
from v6t.plugins.frame_sizes import IPV6_SIZES, check_whole
from v6t.plugins.host_ranges import Host, HostRange, host, ipv6_networks, outside
from v6t.plugins.params import LinkParams, address, negative_share
from v6t.plugins.prefixes import LongestMatch
from v6t.plugins.reference_device import (
    Handled,
    Handler,
    Leaving,
    ReferenceDevice,
    choose_reasons,
    route,
)
from v6t.plugins.traffic import background_of, ethernet, ipv4, ipv6, mixed, negative_like, replaced
from v6t.plugins.translation import MappingsArray, four_to_six, plain_ipv4, plain_ipv6, six_to_four
from v6t.profiles.model import FramePair, Role, Traffic, TrafficClass

if TYPE_CHECKING:
    from v6t.packets.arrays import U8

LOWEST_IPV6_MTU = 1280


class TranslatorDrop(DropReason):
    """Why a stateless translator drops a frame."""

    NO_MAPPING = "no mapping for an address"
    TOO_BIG = "too big, and not to be fragmented"
    UNTRANSLATABLE = "not a whole UDP datagram with a checksum"
    FRAGMENTS = "leaves as fragments"


class TranslatorParams(LinkParams):
    """Hosts on both sides, link addresses, negative traffic."""

    measured: ClassVar[str] = "translation"
    prefix_parameter: ClassVar[str] = "prefix"
    """The parameter that names the prefix for addresses without an explicit mapping."""

    ipv6_hosts: HostRange = Field(
        HostRange(first=IPv4Address("198.18.0.2")),
        description="hosts beyond the IPv6 link, named by their IPv4 addresses",
    )
    ipv4_hosts: HostRange = Field(
        HostRange(first=IPv4Address("198.19.0.2")), description="hosts beyond the IPv4 link"
    )
    bg_ipv6_side: IPv6Address = address("2001:2::2", "background address beyond the IPv6 link")
    bg_ipv4_side: IPv6Address = Field(
        IPv6Address("2001:2:0:8000::2"), description="background address beyond the IPv4 link"
    )
    dut_ipv4: IPv4Interface = address("192.168.19.1/30", "the device's address on the IPv4 link")
    tester_ipv4: IPv4Address = address("192.168.19.2", "tester's address on the IPv4 link")
    lowest_ipv6_mtu: int = Field(
        LOWEST_IPV6_MTU,
        ge=1280,
        description="IPv4 packets without DF are fragmented to this (RFC 7915 section 4)",
    )
    negative_percent: int = negative_share(
        "share of frames the translator must drop: no mapping holds their source [%]"
    )

    @cached_property
    def mappings(self) -> Mappings:
        """The checked address table."""
        raise NotImplementedError

    @property
    def embedded_addresses(self) -> Embedded:
        """Return the ends of host ranges that no explicit mapping holds."""
        mappings = self.mappings
        if mappings.prefix is None:
            return {}
        ends = [
            end for hosts in (self.ipv6_hosts, self.ipv4_hosts) for end in (hosts.first, hosts.top)
        ]
        behind = [end for end in ends if isinstance(mappings.of_ipv4(end), Rfc6052)]
        return {self.prefix_parameter: (mappings.prefix.ipv6, behind)}

    @model_validator(mode="after")
    def _hosts(self) -> TranslatorParams:
        mappings = self.mappings
        if mappings.to_ipv4(self.bg_ipv4_side) is not None:
            raise UsageError(
                f"the background address {self.bg_ipv4_side} lies within a mapping, so it would "
                "be translated",
                "choose a bg_ipv4_side outside all mappings",
                code="address-conflict",
            )
        ends = (self.ipv6_hosts, self.ipv4_hosts)
        if ends[0].first <= ends[1].top and ends[1].first <= ends[0].top:
            raise UsageError(
                "ipv6_hosts and ipv4_hosts overlap",
                "choose disjoint ranges",
                code="address-conflict",
            )
        host("ipv6_host", self.ipv6_hosts, mappings, 1)
        host("ipv4_host", self.ipv4_hosts, mappings, 1)
        return self


class StatelessTranslator(StatelessTechnology):
    """Translates headers by RFC 7915; addresses by mappings that the parameters give."""

    overhead = 20
    drop_reasons: ClassVar[tuple[str, ...]] = list_drop_reasons(TranslatorDrop)
    rfc_frame_sizes = IPV6_SIZES
    prefix_side: ClassVar[Literal["six", "four"]] = "four"
    """The link whose hosts are behind the RFC 6052 prefix."""
    family: ClassVar[type[SiitConfig]] = SiitConfig
    params: TranslatorParams

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """One foreground class, background, and frames with unmapped addresses."""
        p = self.params
        ends = (p.bg_ipv6_side, p.bg_ipv4_side)
        behind = background_of(
            p,
            self.links,
            direction,
            sizes,
            ends if self.ipv6_is_left else ends[::-1],
            self._ipv6_link,
        )
        foreground = self._foreground(direction, sizes, seed)
        negative = self._unmapped(foreground) if p.negative_percent else []
        return mixed(p, direction, [(foreground, 1)], behind, negative, p.negative_percent, seed)

    def dut_intent(self) -> DeviceIntent:
        """The address table, both links, static neighbours and routes to all test hosts."""
        p = self.params
        prefix = p.mappings.prefix
        sides: dict[str, LinkIntent] = {}
        for side, is_ipv6 in (("left", self.ipv6_is_left), ("right", not self.ipv6_is_left)):
            addresses = None if is_ipv6 else (p.dut_ipv4, p.tester_ipv4)
            via6 = getattr(p, f"tester_{side}_ipv6")
            if is_ipv6:
                networks = ipv6_networks(p.ipv6_hosts, p.mappings, p.ipv4_hosts)
                hosts = {**dict.fromkeys(networks, via6), p.bg_ipv6_side: via6}
            else:
                to_ipv4 = dict.fromkeys(p.ipv4_hosts.networks(), p.tester_ipv4)
                hosts = {**to_ipv4, p.bg_ipv4_side: via6}
            sides[side] = p.link_intent(side, getattr(self.links, side), addresses, hosts)
        return DeviceIntent(
            technology=self.name,
            configuration=self.family(
                eam=tuple((e.ipv4, e.ipv6) for e in p.mappings.eams),
                prefix=None if prefix is None else prefix.ipv6,
                ipv6_side="left" if self.ipv6_is_left else "right",
                lowest_ipv6_mtu=p.lowest_ipv6_mtu,
            ),
            links=self.links,
            left=sides["left"],
            right=sides["right"],
        )

    @property
    def ipv6_is_left(self) -> bool:
        """Whether the left link carries IPv6."""
        return self.ip_versions[0] == 6

    @property
    def _ipv6_link(self) -> Link:
        return self.links.left if self.ipv6_is_left else self.links.right

    def audit_views(self) -> tuple[AuditView, ...]:
        p, mappings = self.params, self.params.mappings
        six = host("ipv6_host", p.ipv6_hosts, mappings, 1)
        four = host("ipv4_host", p.ipv4_hosts, mappings, 1)
        prefix = None if mappings.prefix is None else mappings.prefix.ipv6
        return (
            Translator(
                six_side="left" if self.ipv6_is_left else "right",
                six=six.ipv6,
                six4=(six.ipv4,),
                port=40123,
                four=four.ipv4,
                four6=four.ipv6,
                server_port=443,
                lowest_ipv6_mtu=p.lowest_ipv6_mtu,
                table=AddressTable(tuple((e.ipv4, e.ipv6) for e in mappings.eams), prefix),
                prefix_side=self.prefix_side,
            ),
        )

    def _version(self, direction: Direction) -> int:
        """IP version of what is sent in a direction."""
        return 6 if (direction == "forward") == self.ipv6_is_left else 4

    def _ends(self, seed: int) -> tuple[Host, Host]:
        p = self.params
        return (
            host("ipv6_host", p.ipv6_hosts, p.mappings, seed),
            host("ipv4_host", p.ipv4_hosts, p.mappings, seed),
        )

    def _foreground(self, direction: Direction, sizes: FramePair, seed: int) -> TrafficClass:
        p = self.params
        six, four = self._ends(seed)
        version = self._version(direction)
        if version == 6:
            name, header, size = "IPv6", ipv6(p, six.ipv6, four.ipv6), sizes.ipv6
            source, destination = six, four
        else:
            check_whole(p.df, sizes.ipv6, self._ipv6_link, p.lowest_ipv6_mtu)
            name, header, size = "IP", ipv4(p, four.ipv4, six.ipv4), sizes.ipv4
            source, destination = four, six
        sources, at_source = source.vary(version, f"{name}.src")
        destinations, at_destination = destination.vary(version, f"{name}.dst")
        udp, ports, at_ports = p.udp(direction)
        return TrafficClass(
            "fg",
            Role.FOREGROUND,
            (*ethernet(self.links, direction), header, udp),
            size,
            (*sources, *destinations, *ports),
            (*at_source, *at_destination, *at_ports),
        )

    def _unmapped(self, traffic_class: TrafficClass) -> list[TrafficClass]:
        """Frames like the foreground's whose source no mapping holds."""
        mappings = self.params.mappings
        name = next(layer.name for layer in traffic_class.layers if layer.name in {"IP", "IPv6"})
        source: Any
        if name == "IPv6":
            nets = [e.ipv6 for e in mappings.eams]
            nets += [mappings.prefix.ipv6] if mappings.prefix else []
            source = outside(nets, _template_source(nets, traffic_class))
        else:
            source = _unmapped_ipv4(self.params)
        if source is None:
            return []
        bindings = tuple(b for b in traffic_class.bindings if b.field != f"{name}.src")
        layers = replaced(traffic_class, name, src=str(source))
        return [negative_like(traffic_class, "unmapped", layers=layers, bindings=bindings)]

    def reference_device(self) -> ReferenceDevice:
        p = self.params
        return translator_device(
            p.mappings,
            self.links,
            ipv6_is_left=self.ipv6_is_left,
            lowest_ipv6_mtu=p.lowest_ipv6_mtu,
            native=_native_networks(p),
        )


def _template_source(nets: Sequence[IPv6Network], traffic_class: TrafficClass) -> Any:
    from ipaddress import IPv6Address

    layer = next(each for each in traffic_class.layers if each.name == "IPv6")
    return IPv6Address(str(layer.fields["src"]))


def _unmapped_ipv4(params: TranslatorParams) -> IPv4Address | None:
    """An IPv4 address near the hosts' without a mapping."""
    for bit in range(31, -1, -1):
        near = IPv4Address(int(params.ipv4_hosts.first) ^ 1 << bit)
        if params.mappings.to_ipv6(near) is None:
            return near
    return None


def _native_networks(params: TranslatorParams) -> dict[str, tuple[IPv6Network, ...]]:
    """Networks of IPv6 that is not translated, by the kind of link they are behind."""
    return {
        "ipv6": (IPv6Network(params.bg_ipv6_side),),
        "ipv4": (IPv6Network(params.bg_ipv4_side),),
    }


def translator_device(
    mappings: Mappings,
    links: Links,
    *,
    ipv6_is_left: bool,
    lowest_ipv6_mtu: int,
    native: Mapping[str, Sequence[IPv6Network]],
) -> ReferenceDevice:
    """Return a translator between two links.

    Args:
        mappings: its address table.
        links: MAC addresses, VLANs, MTUs.
        ipv6_is_left: which link carries IPv6.
        lowest_ipv6_mtu: IPv4 packets without DF become IPv6 packets of at most this size.
        native: untranslated IPv6 networks behind the ``ipv6`` and behind the ``ipv4`` link.
    """
    six, four = (links.left, links.right) if ipv6_is_left else (links.right, links.left)
    both = _Translation(MappingsArray(mappings), six.mtu, four.mtu, lowest_ipv6_mtu)
    from_ipv6: dict[int, Handler] = {6: both.from_ipv6(LongestMatch(native["ipv4"]))}
    from_ipv4: dict[int, Handler] = {4: both.from_ipv4, 6: _native(LongestMatch(native["ipv6"]))}
    forward, reverse = (from_ipv6, from_ipv4) if ipv6_is_left else (from_ipv4, from_ipv6)
    return ReferenceDevice(links, forward, reverse)


@dataclass(frozen=True)
class _Translation:
    """Translation in both directions by one table."""

    table: MappingsArray
    ipv6_mtu: int
    ipv4_mtu: int
    lowest_ipv6_mtu: int

    def from_ipv4(self, packets: U8) -> Handled:
        """Translate IPv4 packets."""
        source, known = self.table.to_ipv6(packets[:, 12:16])
        destination, mapped = self.table.to_ipv6(packets[:, 16:20])
        octets, df = packets.shape[1] + 20, packets[:, 6] & 0x40 != 0
        reason = np.where(plain_ipv4(packets), FORWARDED, TranslatorDrop.UNTRANSLATABLE).astype(
            np.uint8
        )
        if octets > self.ipv6_mtu:
            reason[df & (reason == FORWARDED)] = TranslatorDrop.TOO_BIG
        if octets > min(self.lowest_ipv6_mtu, self.ipv6_mtu):
            reason[~df & (reason == FORWARDED)] = TranslatorDrop.FRAGMENTS
        reason[~(known & mapped)] = TranslatorDrop.NO_MAPPING
        reason[packets[:, 8] <= 1] = EXHAUSTED
        rows = reason == FORWARDED
        if not rows.any():
            return Handled(reason, ())
        outgoing = four_to_six(packets[rows], source[rows], destination[rows])
        return Handled(reason, (Leaving(rows, outgoing, 6),))

    def from_ipv6(self, native: LongestMatch) -> Handler:
        """Return what translates IPv6 packets whose destination has a mapping, and routes others."""

        def handler(packets: U8) -> Handled:
            source, known = self.table.to_ipv4(packets[:, 8:24])
            destination, mapped = self.table.to_ipv4(packets[:, 24:40])
            routed = (native.find(packets[:, 24:40]) >= 0) & ~mapped
            reason = np.where(plain_ipv6(packets), FORWARDED, TranslatorDrop.UNTRANSLATABLE).astype(
                np.uint8
            )
            if packets.shape[1] - 20 > self.ipv4_mtu:
                reason[reason == FORWARDED] = TranslatorDrop.TOO_BIG
            reason[~(known & mapped)] = TranslatorDrop.NO_MAPPING
            reason[packets[:, 7] <= 1] = EXHAUSTED
            rows = (reason == FORWARDED) & ~routed
            leaving: tuple[Leaving, ...] = ()
            if rows.any():
                outgoing = six_to_four(packets[rows], source[rows], destination[rows])
                leaving = (Leaving(rows, outgoing, 4),)
            if routed.any():
                natively = route(
                    packets, 6, np.where(routed, FORWARDED, TranslatorDrop.NO_MAPPING).astype("u1")
                )
                reason = np.where(routed, natively.reason, reason).astype(np.uint8)
                leaving += natively.leaving
            return Handled(reason, leaving)

        return handler


def _native(networks: LongestMatch) -> Handler:
    def handler(packets: U8) -> Handled:
        unknown = networks.find(view(packets, IPV6)["dst_octets"]) < 0
        reason = choose_reasons(len(packets), (TranslatorDrop.NO_MAPPING, unknown))
        return route(packets, 6, reason)

    return handler


class EamEntry(PluginParams):
    """One explicit address mapping (RFC 7757)."""

    ipv4: str
    ipv6: str

    @model_validator(mode="before")
    @classmethod
    def _pair(cls, value: Any) -> Any:
        """Accept ``IPV4 = IPV6``, as it is printed."""
        if not isinstance(value, str):
            return value
        four, equals, six = (part.strip() for part in value.partition("="))
        if not equals:
            raise InvalidValue("an IPv4 and an IPv6 prefix are wanted, for example "
                             "198.18.0.0/24 = 2001:2::/120", code="wrong-form")  # fmt: skip
        return {"ipv4": four, "ipv6": six}

    def __str__(self) -> str:
        return f"{self.ipv4} = {self.ipv6}"

    __repr__ = __str__


PAPER = (
    EamEntry(ipv4="198.18.0.0/24", ipv6="2001:2::/120"),
    EamEntry(ipv4="198.19.0.0/24", ipv6="2001:2:0:1000::/120"),
)
"""Test bed of Lencse and Shima (2020), as the README of siitperf has it."""


class SiitParams(TranslatorParams):
    """Everything ``siit`` can be told."""

    orientation: Literal["nat64", "nat46"] = Field(
        "nat64", description="nat64: IPv6 on the left link; nat46: IPv4 on the left link"
    )
    eam: tuple[EamEntry, ...] = Field(PAPER, description="explicit address mappings (RFC 7757)")
    eam_file: Path | None = Field(
        None, description="file with further mappings, an IPv4 and an IPv6 prefix per line"
    )
    prefix: str | None = Field(
        None, description="RFC 6052 prefix for addresses without explicit mapping"
    )

    @cached_property
    def mappings(self) -> Mappings:
        pairs = [(e.ipv4, e.ipv6) for e in self.eam]
        if self.eam_file is not None:
            pairs += read_pairs(self.eam_file)
        return mappings_from_text(pairs, self.prefix)


class Siit(StatelessTranslator):
    """Translates between an IPv6-only and an IPv4-only network; stateless."""

    name = "siit"
    title = "SIIT: stateless IPv4/IPv6 translation by address mappings or prefix, either way round"
    rfcs = ("RFC 7915 sections 4 and 5", "RFC 7757 section 3", "RFC 6052 section 2")
    params_model = SiitParams
    spread: ClassVar[dict[str, Any]] = {
        "ipv6_hosts": {"first": "198.18.0.2", "last": "198.18.0.254"},
        "ipv4_hosts": {"first": "198.19.0.2", "last": "198.19.0.254"},
    }
    params: SiitParams

    @property
    def ip_versions(self) -> tuple[Literal[4, 6], Literal[4, 6]]:
        """By the orientation."""
        return (6, 4) if self.params.orientation == "nat64" else (4, 6)

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        tables = {
            OVERLAPPING_MAPPINGS: (_PLAIN, ("198.18.0.64/26", "2001:2:0:64::/122")),
            UNLIKE_MAPPINGS: (("198.18.0.0/24", "2001:2:0:64::/64"),),
        }
        return {
            RAISED_MTU: {"lowest_ipv6_mtu": 1400},
            **prefix_variants("prefix", eam=[], eam_file=None),
            **{
                name: {"eam_file": None, "eam": _table(*rows, _SERVERS), **_HOSTS}
                for name, rows in tables.items()
            },
            PREFIX_BESIDE_MAPPINGS: {
                "eam_file": None,
                "prefix": variant_prefix(96),
                "eam": _table(_PLAIN, _SERVERS),
                **_HOSTS,
            },
            WELL_KNOWN_PREFIX: {
                "prefix": str(WELL_KNOWN),
                **_HOSTS,
                "ipv4_hosts": {"first": GLOBAL_HOST, "last": GLOBAL_HOST},
                "eam": _table(_PLAIN),
                "eam_file": None,
            },
        }


_PLAIN = ("198.18.0.0/24", "2001:2::/120")
_SERVERS = ("198.19.0.0/24", "2001:2:0:1::/120")
_HOSTS = {
    "ipv6_hosts": {
        "first": str(MAPPED_HOST - 1),
        "last": str(MAPPED_HOST),
        "policy": "random",
    },
    "ipv4_hosts": {"first": "198.19.0.2", "last": "198.19.0.2", "policy": "random"},
}
"""Hosts that the tables of audits map, whatever hosts the user chose."""


def _table(*rows: tuple[str, str]) -> list[dict[str, str]]:
    return [{"ipv4": four, "ipv6": six} for four, six in rows]


class ClatParams(TranslatorParams):
    """Everything ``clat`` can be told; the defaults are those of Lencse and Bazsó (2024).

    Their PLAT has the well-known prefix, which must not stand for the addresses of RFC 2544 that
    they use (RFC 6052, section 3.1): here it has the prefix of ``nat64``.
    """

    prefix_parameter: ClassVar[str] = "plat_prefix"

    clat_ipv4: str = Field("198.18.0.0/24", description="IPv4 network of the customer")
    clat_ipv6: str = Field(
        "2001:2:0:2::/120", description="IPv6 prefix that stands for it (RFC 6877 section 6)"
    )
    plat_prefix: str = Field(
        "2001:db8:64::/96", description="RFC 6052 prefix of the PLAT, for all other IPv4 addresses"
    )
    ipv6_hosts: HostRange = Field(
        HostRange(first=IPv4Address("198.19.0.2")), description="servers beyond the PLAT"
    )
    ipv4_hosts: HostRange = Field(
        HostRange(first=IPv4Address("198.18.0.2")), description="hosts of the customer"
    )
    bg_ipv6_side: IPv6Address = address("2001:2:0:3::2", "background address beyond the IPv6 link")

    @cached_property
    def mappings(self) -> Mappings:
        return mappings_from_text([(self.clat_ipv4, self.clat_ipv6)], self.plat_prefix)

    @model_validator(mode="after")
    def _sides(self) -> ClatParams:
        own = self.mappings.eams[0].ipv4
        if self.ipv4_hosts.first not in own or self.ipv4_hosts.top not in own:
            raise UsageError(
                f"the customer's hosts are not within clat_ipv4 {own}",
                "choose ipv4_hosts within it",
                code="outside-prefix",
            )
        if any(net.overlaps(own) for net in self.ipv6_hosts.networks()):
            raise UsageError(
                f"the servers beyond the PLAT lie within clat_ipv4 {own}",
                "choose ipv6_hosts outside it",
                code="address-conflict",
            )
        return self


class Clat(StatelessTranslator):
    """Left is IPv6 towards the PLAT, right the customer's IPv4; stateless."""

    name = "clat"
    title = "CLAT of 464XLAT: the customer's IPv4 translated statelessly towards a PLAT"
    rfcs = ("RFC 6877 section 6", "RFC 7915 sections 4 and 5", "RFC 6052 section 2")
    params_model = ClatParams
    ip_versions = (6, 4)
    sides = ("PLAT", "customer")
    prefix_side = "six"
    family = ClatConfig
    params: ClatParams

    def audit_params(self) -> dict[str, Any]:
        """Return another prefix than the well-known one, behind which benchmark addresses are refused."""
        return {"plat_prefix": variant_prefix(96)}

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        return {
            RAISED_MTU: {"lowest_ipv6_mtu": 1400},
            **prefix_variants("plat_prefix"),
            WELL_KNOWN_PREFIX: {
                "plat_prefix": str(WELL_KNOWN),
                "ipv6_hosts": {"first": GLOBAL_HOST, "last": GLOBAL_HOST},
            },
        }
