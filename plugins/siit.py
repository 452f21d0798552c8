"""Stateless IP/ICMP translation (RFC 7915): SIIT, and the CLAT of 464XLAT (RFC 6877)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import InvalidValue, UsageError
from v6t.intent.device import Address, LinkIntent
from v6t.intent.families import ClatConfig, SiitConfig
from v6t.packets.direction import Direction
from v6t.packets.headers import DONT_FRAGMENT, IPV4, IPV6, view
from v6t.packets.reference import EXHAUSTED, DropReason
from v6t.plugins import audit_views as views
from v6t.plugins.address_mappings import WELL_KNOWN, Mappings, mappings_from_text, read_pairs
from v6t.plugins.base import DeviceIntent, Embedded, Link, PluginParams, StatelessTechnology
from v6t.plugins.frame_sizes import IPV6_SIZES, LOWEST_IPV6_MTU, check_whole
from v6t.plugins.host_ranges import Host, HostRange, describe_host, ipv6_networks
from v6t.plugins.params import LinkParams, address, negative_share
from v6t.plugins.reference_device import Answer, Handler, ReferenceDevice
from v6t.plugins.traffic import change_header, combine, foreground, ipv4, ipv6
from v6t.plugins.translation import (
    MappingsArray,
    four_to_six,
    plain_ipv4,
    plain_ipv6,
    six_to_four,
)
from v6t.profiles.model import FramePair, Traffic

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask

_T = TypeVar("_T")


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
    def prefix6(self) -> IPv6Network | None:
        """The checked prefix for addresses without an explicit mapping."""
        return None if self.mappings.prefix is None else self.mappings.prefix.ipv6

    @property
    def embedded_addresses(self) -> Embedded:
        prefix, six, four = self.mappings.prefix, self.ipv6_hosts, self.ipv4_hosts
        if prefix is None:
            return {}
        ends = (six.first, six.last_host, four.first, four.last_host)
        behind = [end for end in ends if self.mappings.of_ipv4(end) is prefix]
        return {self.prefix_parameter: (prefix.ipv6, behind)}

    @model_validator(mode="after")
    def _hosts(self) -> TranslatorParams:
        if self.mappings.to_ipv4(self.bg_ipv4_side) is not None:
            raise UsageError(
                f"the background address {self.bg_ipv4_side} lies within a mapping, so it would "
                "be translated",
                "choose a bg_ipv4_side outside all mappings",
                code="address-conflict",
            )
        six, four = self.ipv6_hosts, self.ipv4_hosts
        if six.first <= four.last_host and four.first <= six.last_host:
            raise UsageError(
                "ipv6_hosts and ipv4_hosts overlap",
                "choose disjoint ranges",
                code="address-conflict",
            )
        self.describe_hosts(seed=1)
        return self

    def describe_hosts(self, seed: int) -> tuple[Host, Host]:
        """Describe the hosts beyond the IPv6 and beyond the IPv4 link."""
        return (
            describe_host("ipv6_host", self.ipv6_hosts, self.mappings, seed),
            describe_host("ipv4_host", self.ipv4_hosts, self.mappings, seed),
        )

    def find_unmapped(self, address: Address) -> Address | None:
        """Return an address without a mapping that differs from this one in one bit of its network."""
        find: Any = self.mappings.of_ipv4 if address.version == 4 else self.mappings.of_ipv6
        lowest = 0 if address.version == 4 else 64
        bits = range(address.max_prefixlen - 1, lowest - 1, -1)
        near = (type(address)(int(address) ^ 1 << bit) for bit in bits)
        return next((each for each in near if find(each) is None), None)


class StatelessTranslator(StatelessTechnology):
    """Translates headers by RFC 7915, and addresses by the mappings of the parameters."""

    overhead = 20
    drops = TranslatorDrop
    rfc_frame_sizes = IPV6_SIZES
    prefix_side: ClassVar[Literal["six", "four"]] = "four"
    """The link whose hosts are behind the RFC 6052 prefix."""
    family: ClassVar[type[SiitConfig]] = SiitConfig
    params: TranslatorParams

    @property
    def ipv6_is_left(self) -> bool:
        """Whether the left link carries IPv6."""
        return self.ip_versions[0] == 6

    def _order(self, six: _T, four: _T) -> tuple[_T, _T]:
        """Return the left and the right one, or the other way round."""
        return (six, four) if self.ipv6_is_left else (four, six)

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Describe one foreground class, background, and frames with unmapped addresses."""
        p = self.params
        six, four = p.describe_hosts(seed)
        source: Address = six.ipv6
        if (direction == "forward") == self.ipv6_is_left:
            header = ipv6(p, six.values[6], four.values[6])
        else:
            check_whole(p.df, sizes.ipv6, self._ends[0], p.lowest_ipv6_mtu)
            header, source = ipv4(p, four.values[4], six.values[4]), p.ipv4_hosts.first
        made = foreground(self, direction, sizes, header)
        negative = []
        unmapped = p.find_unmapped(source) if p.negative_percent else None
        if unmapped is not None:
            negative = [change_header(made, "unmapped", header.name, src=str(unmapped))]
        ends = self._order(p.bg_ipv6_side, p.bg_ipv4_side)
        return combine(self, made, negative, direction, sizes, seed, ends)

    def reference_device(self) -> ReferenceDevice:
        from_six: dict[int, Handler] = {6: self._from_ipv6}
        from_four: dict[int, Handler] = {4: self._from_ipv4, 6: self._route}
        return ReferenceDevice(self.links, *self._order(from_six, from_four))

    @property
    def _ends(self) -> tuple[Link, Link]:
        """The IPv6 and the IPv4 link."""
        return self._order(self.links.left, self.links.right)

    @cached_property
    def _table(self) -> MappingsArray:
        return MappingsArray(self.params.mappings)

    def _from_ipv4(self, packets: U8) -> Answer:
        header, octets = view(packets, IPV4), packets.shape[1] + 20
        source, known = self._table.to_ipv6(header["src_octets"])
        destination, mapped = self._table.to_ipv6(header["dst_octets"])
        df, mtu = header["flags_frag"] & DONT_FRAGMENT != 0, self._ends[0].mtu
        return Answer(
            [
                (EXHAUSTED, header["ttl"] <= 1),
                (TranslatorDrop.NO_MAPPING, ~(known & mapped)),
                (TranslatorDrop.UNTRANSLATABLE, ~plain_ipv4(packets)),
                (TranslatorDrop.TOO_BIG, df & (octets > mtu)),
                (TranslatorDrop.FRAGMENTS, ~df & (octets > min(self.params.lowest_ipv6_mtu, mtu))),
            ],
            partial(_translate, four_to_six, (packets, source, destination)),
        )

    def _from_ipv6(self, packets: U8) -> Answer:
        """Translate packets whose destination has a mapping, and route background."""
        header = view(packets, IPV6)
        source, known = self._table.to_ipv4(header["src_octets"])
        destination, mapped = self._table.to_ipv4(header["dst_octets"])
        beyond_four = np.frombuffer(self.params.bg_ipv4_side.packed, dtype=np.uint8)
        return Answer(
            [
                (EXHAUSTED, header["hlim"] <= 1),
                (TranslatorDrop.NO_MAPPING, ~(known & mapped)),
                (TranslatorDrop.UNTRANSLATABLE, ~plain_ipv6(packets)),
                (TranslatorDrop.TOO_BIG, packets.shape[1] - 20 > self._ends[1].mtu),
            ],
            partial(_translate, six_to_four, (packets, source, destination)),
            version=4,
            native=(header["dst_octets"] == beyond_four).all(axis=1) & ~mapped,
        )

    def _route(self, packets: U8) -> Answer:
        """Route background from the IPv4 link."""
        beyond_six = np.frombuffer(self.params.bg_ipv6_side.packed, dtype=np.uint8)
        native = (view(packets, IPV6)["dst_octets"] == beyond_six).all(axis=1)
        return Answer([(TranslatorDrop.NO_MAPPING, True)], native=native)

    def dut_intent(self) -> DeviceIntent:
        """Describe the address table, both links, static neighbors and routes to all test hosts."""
        p = self.params
        side6, side4 = self._order("left", "right")
        device6, tester6, native, via = (
            getattr(p, f"{who}_{side}_ipv6") for side in (side6, side4) for who in ("dut", "tester")
        )
        networks = ipv6_networks(p.ipv6_hosts, p.mappings, p.ipv4_hosts)
        six = LinkIntent.describe(
            self._ends[0], [device6], [tester6], dict.fromkeys([*networks, p.bg_ipv6_side], tester6)
        )
        to_four = dict.fromkeys(p.ipv4_hosts.networks(), p.tester_ipv4)
        four = LinkIntent.describe(
            self._ends[1],
            [p.dut_ipv4, native],
            [p.tester_ipv4, via],
            {**to_four, p.bg_ipv4_side: via},
        )
        table: dict[str, Any] = {"eam": self._eam, "prefix": p.prefix6, "ipv6_side": side6}
        configuration = self.family(**table, lowest_ipv6_mtu=p.lowest_ipv6_mtu)
        return DeviceIntent(self.name, configuration, self.links, *self._order(six, four))

    @property
    def _eam(self) -> tuple[tuple[IPv4Network, IPv6Network], ...]:
        return tuple((e.ipv4, e.ipv6) for e in self.params.mappings.eams)

    def audit_views(self) -> tuple[views.AuditView, ...]:
        p = self.params
        six, four = p.describe_hosts(seed=1)
        return (
            views.Translator(
                six_side="left" if self.ipv6_is_left else "right",
                six=six.ipv6,
                six4=(six.ipv4,),
                port=40123,
                four=four.ipv4,
                four6=four.ipv6,
                server_port=443,
                lowest_ipv6_mtu=p.lowest_ipv6_mtu,
                table=views.AddressTable(self._eam, p.prefix6),
                prefix_side=self.prefix_side,
            ),
        )


def _translate(translate: Callable[..., U8], columns: Iterable[U8], rows: Mask) -> U8:
    return translate(*(columns if rows.all() else (column[rows] for column in columns)))


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
            raise InvalidValue(
                "an explicit address mapping must be an IPv4 and an IPv6 prefix, for example "
                "198.18.0.0/24 = 2001:2::/120",
                code="wrong-form",
            )
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
    """Parameters of ``siit``."""

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
        return (6, 4) if self.params.orientation == "nat64" else (4, 6)

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        mapped, server, random = str(views.MAPPED_HOST), "198.19.0.2", {"policy": "random"}
        # hosts that the tables map, whatever hosts the user chose
        hosts = {
            "ipv6_hosts": {"first": str(views.MAPPED_HOST - 1), "last": mapped, **random},
            "ipv4_hosts": {"first": server, "last": server, **random},
            "eam_file": None,
        }
        plain, servers = "198.18.0.0/24 = 2001:2::/120", "198.19.0.0/24 = 2001:2:0:1::/120"
        longer, unlike = "198.18.0.64/26 = 2001:2:0:64::/122", "198.18.0.0/24 = 2001:2:0:64::/64"
        prefix = views.variant_prefix(96)
        return {
            views.RAISED_MTU: {"lowest_ipv6_mtu": 1400},
            **views.prefix_variants("prefix", eam=[], eam_file=None),
            views.OVERLAPPING_MAPPINGS: {**hosts, "eam": [plain, longer, servers]},
            views.UNLIKE_MAPPINGS: {**hosts, "eam": [unlike, servers]},
            views.PREFIX_BESIDE_MAPPINGS: {**hosts, "eam": [plain, servers], "prefix": prefix},
            views.WELL_KNOWN_PREFIX: {
                **hosts,
                "eam": [plain],
                "prefix": str(WELL_KNOWN),
                "ipv4_hosts": {"first": views.GLOBAL_HOST, "last": views.GLOBAL_HOST},
            },
        }


class ClatParams(TranslatorParams):
    """Parameters of ``clat``; the defaults are those of Lencse and Bazsó (2024).

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
        if self.ipv4_hosts.first not in own or self.ipv4_hosts.last_host not in own:
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
        """Return a prefix behind which benchmark addresses are allowed, as the well-known one has none."""
        return {"plat_prefix": views.variant_prefix(96)}

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        return {
            views.RAISED_MTU: {"lowest_ipv6_mtu": 1400},
            **views.prefix_variants("plat_prefix"),
            views.WELL_KNOWN_PREFIX: {
                "plat_prefix": str(WELL_KNOWN),
                "ipv6_hosts": {"first": views.GLOBAL_HOST, "last": views.GLOBAL_HOST},
            },
        }
