"""Stateless IP/ICMP translation (RFC 7915): SIIT, and the CLAT of 464XLAT (RFC 6877)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cached_property, partial
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    summarize_address_range,
)
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import InvalidValue, UsageError
from v6t.intent.device import Address, LinkIntent
from v6t.intent.families import ClatConfig, SiitConfig
from v6t.packets.arrays import U8, Mask
from v6t.packets.bit_layout import BitCopy, BitLayout
from v6t.packets.direction import Direction
from v6t.packets.headers import DONT_FRAGMENT, HOP_LIMIT_FIELD, IP, IPV6, to_octets, view
from v6t.packets.reference import EXHAUSTED, DropReason
from v6t.plugins import audit_views as views
from v6t.plugins import translation
from v6t.plugins.base import DeviceIntent, EmbeddedIpv4, PluginParams, StatelessTechnology
from v6t.plugins.frame_sizes import IPV6_SIZES, LOWEST_IPV6_MTU, LowestIpv6Mtu, check_unfragmented
from v6t.plugins.params import LinkParams, address, negative_share
from v6t.plugins.ports import VARIABLE_KINDS, Policy
from v6t.plugins.prefixes import refuse_unforwardable
from v6t.plugins.reference_device import Checks, Outcome, ReferenceDevice
from v6t.plugins.traffic import change_header, combine, make_foreground, make_ipv4, make_ipv6
from v6t.plugins.translation import WELL_KNOWN, Mapping, Mappings, parse_mappings, read_eam_file
from v6t.plugins.tunnels import match_address
from v6t.profiles.compiler.instructions import MAX_LIST
from v6t.profiles.model import Expression, FramePair, Kind, Traffic, Variable, list_ipv6_addresses

_T = TypeVar("_T")

MAX_HOSTS = 1 << 20  # of a range in several mappings; each host is mapped by itself
MAX_COVER_RATIO = 4  # of addresses that a route covers to hosts that need it


class HostRange(PluginParams):
    """Hosts from ``first`` to ``last``, given by IPv4 addresses on both sides of the translator."""

    first: IPv4Address
    last: IPv4Address | None = Field(None, description="none: one host only")
    policy: Policy = "random"
    only_mapped: bool = Field(False, description="leave out hosts without a mapping")

    @model_validator(mode="after")
    def _check_order(self) -> HostRange:
        if self.last is not None and self.last < self.first:
            problem = f"the last host {self.last} comes before the first {self.first}"
            raise InvalidValue(problem, code="conflict")
        for network in self.list_networks():
            refuse_unforwardable(network, refuse_overlaps=True)
        return self

    @property
    def last_host(self) -> IPv4Address:
        return self.first if self.policy == "fixed" or self.last is None else self.last

    @property
    def count(self) -> int:
        return int(self.last_host) - int(self.first) + 1

    def list_networks(self) -> list[IPv4Network]:
        return list(summarize_address_range(self.first, self.last_host))


class Host(NamedTuple):
    """One end of the test traffic, described by its first host."""

    ipv4: IPv4Address
    ipv6: IPv6Address
    values: dict[int, object]  # address fields of all hosts, by IP version


def describe_host(name: str, hosts: HostRange, mappings: Mappings, seed: int) -> Host:
    """Describe a range of hosts: by varying bits within one mapping, else by lists of addresses."""
    first, last = hosts.first, hosts.last_host
    mapping = mappings.find_common_mapping(first, last)
    if mapping is None and first != last:
        return _describe_listed_hosts(name, hosts, mappings, seed)
    ipv6 = mappings.to_ipv6(first)
    if ipv6 is None or mappings.to_ipv4(ipv6) != first:
        problem = f"the test host {first} does not have an IPv6 address that maps back to it"
        hint = "add an explicit address mapping that holds it, or choose another host"
        raise UsageError(problem, hint, code="not-enough-addresses")
    if mapping is None or first == last:
        return Host(first, ipv6, {4: str(first), 6: str(ipv6)})
    bits = (int(first) ^ int(last)).bit_length()
    low, high = (int(end) & (1 << bits) - 1 for end in (first, last))
    variable = {name: Variable(name, bits, VARIABLE_KINDS[hosts.policy], low=low, high=high)}
    copy = BitCopy(name, 32 - bits, bits)
    in_ipv4 = BitLayout(32, {name: bits}, (copy,), int(first) >> bits << bits)
    in_ipv6 = mapping.layout.compose(ipv4=in_ipv4)
    value4 = Expression.from_layout(in_ipv4, str(first), **variable)
    return Host(first, ipv6, {4: value4, 6: Expression.from_layout(in_ipv6, str(ipv6), **variable)})


def _describe_listed_hosts(name: str, hosts: HostRange, mappings: Mappings, seed: int) -> Host:
    span, code = f"{hosts.first} to {hosts.last_host}", "not-enough-addresses"
    if hosts.count > MAX_HOSTS:
        problem = f"{span} are {hosts.count} addresses of several mappings, more than {MAX_HOSTS}"
        raise UsageError(problem, "choose a range within one mapping, or a shorter one", code=code)
    numbers = np.arange(int(hosts.first), int(hosts.last_host) + 1, dtype=np.uint64)
    table, octets = translation.MappingsArray(mappings), to_octets(numbers, 4)
    ipv6, mapped = table.to_ipv6(octets)
    back, mapped_back = table.to_ipv4(ipv6)
    reversible = mapped & mapped_back & (back == octets).all(axis=1)
    chosen = np.flatnonzero(reversible).tolist()
    if not chosen or (len(chosen) < hosts.count and not hosts.only_mapped):
        lacking = IPv4Address(int(numbers[int(np.argmin(reversible))]))
        problem = f"not all hosts {span} are mapped there and back: {lacking} is not"
        hint = "choose hosts that are mapped, add mappings, or set only_mapped of the range"
        raise UsageError(problem, hint, code=code)
    if len(chosen) > MAX_LIST:
        problem = f"{len(chosen)} of the hosts {span} are mapped, of several mappings at most {MAX_LIST} fit"
        raise UsageError(problem, "choose another range, or one within one mapping", code=code)
    if hosts.policy == "random":
        random.Random(f"{seed}/{name}").shuffle(chosen)  # noqa: S311
    elif hosts.policy == "dec":
        chosen.reverse()
    packed = [ipv6[row].tobytes() for row in chosen]
    variables, in_ipv6 = list_ipv6_addresses(name, packed)
    in_order = Variable(name, 32, Kind.LIST, values=tuple(numbers[chosen].tolist()))
    ipv4, first6 = IPv4Address(in_order.first), IPv6Address(packed[0])
    value6 = Expression.from_layout(in_ipv6, str(first6), **{v.name: v for v in variables})
    return Host(ipv4, first6, {4: in_order.place(0, str(ipv4)), 6: value6})


def list_ipv6_networks(hosts: HostRange, mappings: Mappings, peers: HostRange) -> list[IPv6Network]:
    """Return IPv6 networks that cover all hosts of a range, but no host of ``peers``."""
    networks: list[IPv6Network] = []
    others = [_find_cover(*run) for run in _split_range(peers, mappings)]
    for mapping, first, last in _split_range(hosts, mappings):
        ends, bits = [(first, last)], (int(first) ^ int(last)).bit_length()
        large = 1 << bits > MAX_COVER_RATIO * (int(last) - int(first) + 1)
        if large or any(map(_find_cover(mapping, first, last).overlaps, others)):
            ends = [(net[0], net[-1]) for net in summarize_address_range(first, last)]
        networks += [_find_cover(mapping, *both) for both in ends]
    return networks


def _find_cover(mapping: Mapping, first: IPv4Address, last: IPv4Address) -> IPv6Network:
    """Return the smallest IPv6 network of the hosts from ``first`` to ``last``."""
    low, high = int(mapping.to_ipv6(first)), int(mapping.to_ipv6(last))
    bits = (low ^ high).bit_length()
    return IPv6Network((low >> bits << bits, 128 - bits))


def _split_range(
    hosts: HostRange, mappings: Mappings
) -> Iterator[tuple[Mapping, IPv4Address, IPv4Address]]:
    """Yield each mapping of a range with the first and the last host that it maps."""
    first, end, eams = int(hosts.first), int(hosts.last_host) + 1, mappings.eams
    edges = {int(e.ipv4[0]) for e in eams} | {int(e.ipv4[-1]) + 1 for e in eams}
    starts = np.array([first, *sorted(edge for edge in edges if first < edge < end)])
    rows = translation.LongestMatch([e.ipv4 for e in eams]).find(to_octets(starts, 4))
    for start, following, row in zip(starts, [*starts[1:], end], rows, strict=True):
        mapping = mappings.prefix if row < 0 else eams[row]
        if mapping is not None:
            yield mapping, IPv4Address(int(start)), IPv4Address(int(following) - 1)


class TranslatorDrop(DropReason):
    """Why a stateless translator drops a frame."""

    NO_MAPPING = "no mapping for an address"
    TOO_BIG = "too big, and not to be fragmented"
    UNTRANSLATABLE = "not a whole UDP datagram with a checksum"
    FRAGMENTS = "leaves as fragments"


def _declare_hosts(first: str, description: str) -> Any:
    return Field(HostRange(first=IPv4Address(first)), description=description)


class TranslatorParams(LinkParams):
    """Parameters of a stateless translator: hosts on both sides, link addresses, negative traffic."""

    display_name: ClassVar[str] = "translation"
    prefix_parameter: ClassVar[str] = "prefix"  # for addresses without an explicit mapping

    ipv6_hosts: HostRange = _declare_hosts("198.18.0.2", "hosts beyond the IPv6 link (as IPv4)")
    ipv4_hosts: HostRange = _declare_hosts("198.19.0.2", "hosts beyond the IPv4 link")
    bg_ipv6_side: IPv6Address = address("2001:2::2", "background address beyond the IPv6 link")
    bg_ipv4_side: IPv6Address = address("2001:2:0:8000::2", "background beyond the IPv4 link")
    dut_ipv4: IPv4Interface = address("192.168.19.1/30", "the device's address on the IPv4 link")
    tester_ipv4: IPv4Address = address("192.168.19.2", "tester's address on the IPv4 link")
    lowest_ipv6_mtu: LowestIpv6Mtu = LOWEST_IPV6_MTU
    negative_percent: int = negative_share("share of frames whose source is not mapped [%]")

    @cached_property
    def mappings(self) -> Mappings:
        raise NotImplementedError

    @property
    def rfc6052_prefix(self) -> IPv6Network | None:
        return None if self.mappings.prefix is None else self.mappings.prefix.ipv6

    @property
    def embedded_addresses(self) -> EmbeddedIpv4:
        table, hosts = self.mappings, (self.ipv6_hosts, self.ipv4_hosts)
        if table.prefix is None:
            return {}
        ends = [end for each in hosts for end in (each.first, each.last_host)]
        behind = [end for end in ends if table.find_by_ipv4(end) is table.prefix]
        return {self.prefix_parameter: (table.prefix.ipv6, behind)}

    @model_validator(mode="after")
    def _check_hosts(self) -> TranslatorParams:
        if self.mappings.to_ipv4(self.bg_ipv4_side) is not None:
            problem = f"the background address {self.bg_ipv4_side} lies within a mapping"
            hint = "choose a bg_ipv4_side outside all mappings"
            raise UsageError(problem, hint, code="address-conflict")
        six, four = self.ipv6_hosts, self.ipv4_hosts
        if six.first <= four.last_host and four.first <= six.last_host:
            problem = "ipv6_hosts and ipv4_hosts overlap"
            raise UsageError(problem, "choose disjoint ranges", code="address-conflict")
        self.describe_hosts(seed=1)
        return self

    def describe_hosts(self, seed: int) -> tuple[Host, Host]:
        six = describe_host("ipv6_host", self.ipv6_hosts, self.mappings, seed)
        return six, describe_host("ipv4_host", self.ipv4_hosts, self.mappings, seed)

    def find_unmapped(self, address: Address) -> Address | None:
        """Return an unmapped address that differs from ``address`` in one bit, or None."""
        find: Any = getattr(self.mappings, f"find_by_ipv{address.version}")
        bits = range(31, -1, -1) if address.version == 4 else range(127, 63, -1)
        near = (type(address)(int(address) ^ 1 << bit) for bit in bits)
        return next((each for each in near if find(each) is None), None)


class StatelessTranslator(StatelessTechnology):
    """A stateless translator (RFC 7915) with the address mappings of its parameters."""

    overhead = 20
    drops = TranslatorDrop
    rfc_frame_sizes = IPV6_SIZES
    prefix_side: ClassVar[Literal["ipv6", "ipv4"]] = "ipv4"  # hosts behind the RFC 6052 prefix
    config_model: ClassVar[type[SiitConfig]] = SiitConfig
    params: TranslatorParams

    def _order_by_link(self, six: _T, four: _T) -> tuple[_T, _T]:
        """Order the IPv6 and the IPv4 side's value by link: left first."""
        return (six, four) if self.ip_versions[0] == 6 else (four, six)

    def build_traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        p = self.params
        six, four = p.describe_hosts(seed)
        source: Address = six.ipv6
        if direction == self._order_by_link("forward", "reverse")[0]:
            header = make_ipv6(p, six.values[6], four.values[6])
        else:
            link = self._order_by_link(self.links.left, self.links.right)[0]
            check_unfragmented(p.df, sizes.ipv6, link, p.lowest_ipv6_mtu)
            header, source = make_ipv4(p, four.values[4], six.values[4]), p.ipv4_hosts.first
        traffic = make_foreground(self, direction, sizes, header)
        negative = []
        unmapped = p.find_unmapped(source) if p.negative_percent else None
        if unmapped is not None:
            negative = [change_header(traffic, "unmapped", header.name, src=str(unmapped))]
        ends = self._order_by_link(p.bg_ipv6_side, p.bg_ipv4_side)
        return combine(self, traffic, negative, direction, sizes, seed, ends)

    def build_reference_device(self) -> ReferenceDevice:
        from_six = {6: partial(self._translate, 6)}
        from_four = {4: partial(self._translate, 4), 6: self._route}
        return ReferenceDevice(self.links, *self._order_by_link(from_six, from_four))

    @cached_property
    def _table(self) -> translation.MappingsArray:
        return translation.MappingsArray(self.params.mappings)

    def _translate(self, version: int, packets: U8) -> Outcome:
        header, octets = view(packets, IP[version]), packets.shape[1]
        find = self._table.to_ipv6 if version == 4 else self._table.to_ipv4
        source, known = find(header["src_octets"])
        destination, mapped = find(header["dst_octets"])
        six, four = self._order_by_link(self.links.left, self.links.right)
        size_checks: Checks
        if version == 4:
            native, plain = None, translation.select_plain_udp(packets, 4)
            convert = translation.build_ipv6
            df, largest = header["flags_frag"] & DONT_FRAGMENT != 0, self.params.lowest_ipv6_mtu
            size_checks = [
                (TranslatorDrop.TOO_BIG, df & (octets + 20 > six.mtu)),
                (TranslatorDrop.FRAGMENTS, ~df & (octets + 20 > min(largest, six.mtu))),
            ]
        else:
            native = match_address(header["dst_octets"], self.params.bg_ipv4_side) & ~mapped
            convert, plain = translation.build_ipv4, translation.select_plain_udp(packets, 6)
            size_checks = [(TranslatorDrop.TOO_BIG, octets - 20 > four.mtu)]

        def build_packets(rows: Mask) -> U8:
            return convert(*translation.select_rows(rows, packets, source, destination))

        checks = [
            (EXHAUSTED, header[HOP_LIMIT_FIELD[version]] <= 1),
            (TranslatorDrop.NO_MAPPING, ~(known & mapped)),
            (TranslatorDrop.UNTRANSLATABLE, ~plain),
        ]
        return Outcome([*checks, *size_checks], build_packets, version=10 - version, native=native)

    def _route(self, packets: U8) -> Outcome:
        """Route background packets to the IPv6 side, and drop others."""
        native = match_address(view(packets, IPV6)["dst_octets"], self.params.bg_ipv6_side)
        return Outcome([(TranslatorDrop.NO_MAPPING, True)], native=native)

    def make_dut_intent(self) -> DeviceIntent:
        p, links = self.params, self._order_by_link(self.links.left, self.links.right)
        sides = self._order_by_link("left", "right")
        (device6, tester6), (native, via) = (
            [getattr(p, f"{who}_{side}_ipv6") for who in ("dut", "tester")] for side in sides
        )
        networks = [*list_ipv6_networks(p.ipv6_hosts, p.mappings, p.ipv4_hosts), p.bg_ipv6_side]
        six = LinkIntent.describe(links[0], [device6], [tester6], dict.fromkeys(networks, tester6))
        routes = {**dict.fromkeys(p.ipv4_hosts.list_networks(), p.tester_ipv4), p.bg_ipv4_side: via}
        devices, testers = [p.dut_ipv4, native], [p.tester_ipv4, via]
        four = LinkIntent.describe(links[1], devices, testers, routes)
        table: Any = {"eam": self._eam_pairs, "prefix": p.rfc6052_prefix, "ipv6_side": sides[0]}
        configuration = self.config_model(**table, lowest_ipv6_mtu=p.lowest_ipv6_mtu)
        return DeviceIntent(self.name, configuration, self.links, *self._order_by_link(six, four))

    @property
    def _eam_pairs(self) -> Any:
        return tuple((e.ipv4, e.ipv6) for e in self.params.mappings.eams)

    def list_audit_views(self) -> tuple[views.AuditView, ...]:
        p = self.params
        six, four = p.describe_hosts(seed=1)
        side: views.SideName = "left" if self.ip_versions[0] == 6 else "right"
        ends = six.ipv6, (six.ipv4,), 40123, four.ipv4, four.ipv6, 443
        table = views.AddressTable(self._eam_pairs, p.rfc6052_prefix)
        return (views.Translator(side, *ends, p.lowest_ipv6_mtu, table, self.prefix_side),)


class EamEntry(PluginParams):
    """One explicit address mapping (RFC 7757)."""

    ipv4: str
    ipv6: str

    @model_validator(mode="before")
    @classmethod
    def _split_pair(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        four, equals, six = (part.strip() for part in value.partition("="))
        if not equals:
            problem = "an explicit address mapping is IPV4 = IPV6, as 198.18.0.0/24 = 2001:2::/120"
            raise InvalidValue(problem, code="wrong-form")
        return {"ipv4": four, "ipv6": six}

    def __str__(self) -> str:
        return f"{self.ipv4} = {self.ipv6}"

    __repr__ = __str__


# Mappings of the test bed of Lencse and Shima (2020), from the README of siitperf.
SIITPERF_MAPPINGS = (
    EamEntry(ipv4="198.18.0.0/24", ipv6="2001:2::/120"),
    EamEntry(ipv4="198.19.0.0/24", ipv6="2001:2:0:1000::/120"),
)


class SiitParams(TranslatorParams):
    """Parameters of ``siit``."""

    orientation: Literal["nat64", "nat46"] = Field(
        "nat64", description="nat64: IPv6 on the left link; nat46: IPv4 on the left link"
    )
    eam: tuple[EamEntry, ...] = Field(SIITPERF_MAPPINGS, description="explicit mappings (RFC 7757)")
    eam_file: Path | None = Field(None, description="file with further mappings, one per line")
    prefix: str | None = Field(None, description="RFC 6052 prefix for all other addresses")

    @cached_property
    def mappings(self) -> Mappings:
        pairs = [(e.ipv4, e.ipv6) for e in self.eam]
        if self.eam_file is not None:
            pairs += read_eam_file(self.eam_file)
        return parse_mappings(pairs, self.prefix)


class Siit(StatelessTranslator):
    """A SIIT translator between an IPv6-only and an IPv4-only network."""

    name = "siit"
    title = "SIIT: stateless IPv4/IPv6 translation by address mappings or prefix, both directions"
    rfcs = ("RFC 7915 sections 4 and 5", "RFC 7757 section 3", "RFC 6052 section 2")
    params_model = SiitParams
    varying_params: ClassVar[dict[str, Any]] = {
        "ipv6_hosts": {"first": "198.18.0.2", "last": "198.18.0.254"},
        "ipv4_hosts": {"first": "198.19.0.2", "last": "198.19.0.254"},
    }
    params: SiitParams

    @property
    def ip_versions(self) -> tuple[Literal[4, 6], Literal[4, 6]]:
        return (6, 4) if self.params.orientation == "nat64" else (4, 6)

    def list_audit_variants(self) -> dict[str, dict[str, Any]]:
        mapped, server, random = str(views.MAPPED_HOST), "198.19.0.2", {"policy": "random"}
        # hosts that the tables map, not those of the user
        hosts = {
            "ipv6_hosts": {"first": str(views.MAPPED_HOST - 1), "last": mapped, **random},
            "ipv4_hosts": {"first": server, "last": server, **random},
            "eam_file": None,
        }
        plain, servers = "198.18.0.0/24 = 2001:2::/120", "198.19.0.0/24 = 2001:2:0:1::/120"
        longer, unlike = "198.18.0.64/26 = 2001:2:0:64::/122", "198.18.0.0/24 = 2001:2:0:64::/64"
        prefix = views.PREFIXES[96]
        far = dict.fromkeys(("first", "last"), views.GLOBAL_HOST)
        well_known = {"prefix": str(WELL_KNOWN), "ipv4_hosts": far}
        return {
            views.RAISED_MTU: {"lowest_ipv6_mtu": 1400},
            **views.make_prefix_variants("prefix", eam=[], eam_file=None),
            views.OVERLAPPING_MAPPINGS: {**hosts, "eam": [plain, longer, servers]},
            views.UNEQUAL_MAPPINGS: {**hosts, "eam": [unlike, servers]},
            views.PREFIX_AND_MAPPINGS: {**hosts, "eam": [plain, servers], "prefix": prefix},
            views.WELL_KNOWN_PREFIX: {**hosts, "eam": [plain], **well_known},
        }


class ClatParams(TranslatorParams):
    """Parameters of ``clat``, as in Lencse and Bazsó (2024) except for the PLAT's prefix (RFC 6052)."""

    prefix_parameter: ClassVar[str] = "plat_prefix"

    clat_ipv4: str = Field("198.18.0.0/24", description="IPv4 network of the customer")
    clat_ipv6: str = Field("2001:2:0:2::/120", description="IPv6 prefix that represents it")
    plat_prefix: str = Field("2001:db8:64::/96", description="RFC 6052 prefix of the PLAT")
    ipv6_hosts: HostRange = _declare_hosts("198.19.0.2", "servers beyond the PLAT")
    ipv4_hosts: HostRange = _declare_hosts("198.18.0.2", "hosts of the customer")
    bg_ipv6_side: IPv6Address = address("2001:2:0:3::2", "background address beyond the IPv6 link")

    @cached_property
    def mappings(self) -> Mappings:
        return parse_mappings([(self.clat_ipv4, self.clat_ipv6)], self.plat_prefix)

    @model_validator(mode="after")
    def _check_sides(self) -> ClatParams:
        own = self.mappings.eams[0].ipv4
        if self.ipv4_hosts.first not in own or self.ipv4_hosts.last_host not in own:
            problem = f"the customer's hosts are not within clat_ipv4 {own}"
            raise UsageError(problem, "choose ipv4_hosts within it", code="outside-prefix")
        if any(net.overlaps(own) for net in self.ipv6_hosts.list_networks()):
            problem = f"the servers beyond the PLAT lie within clat_ipv4 {own}"
            raise UsageError(problem, "choose ipv6_hosts outside it", code="address-conflict")
        return self


class Clat(StatelessTranslator):
    """A CLAT between a customer's IPv4 network on the right and a PLAT on the left."""

    name = "clat"
    title = "CLAT of 464XLAT: the customer's IPv4 translated statelessly towards a PLAT"
    rfcs = ("RFC 6877 section 6", "RFC 7915 sections 4 and 5", "RFC 6052 section 2")
    params_model = ClatParams
    ip_versions = (6, 4)
    sides = ("PLAT", "customer")
    prefix_side = "ipv6"
    config_model = ClatConfig
    params: ClatParams

    def suggest_audit_params(self) -> dict[str, Any]:
        """Return a PLAT prefix that allows benchmark addresses, unlike the well-known prefix."""
        return {"plat_prefix": views.PREFIXES[96]}

    def list_audit_variants(self) -> dict[str, dict[str, Any]]:
        hosts = dict.fromkeys(("first", "last"), views.GLOBAL_HOST)
        return {
            views.RAISED_MTU: {"lowest_ipv6_mtu": 1400},
            **views.make_prefix_variants("plat_prefix"),
            views.WELL_KNOWN_PREFIX: {"plat_prefix": str(WELL_KNOWN), "ipv6_hosts": hosts},
        }
