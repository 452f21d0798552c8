"""IPv6-to-IPv6 network prefix translation (RFC 6296), /48 to /48; stateless."""

from __future__ import annotations

from functools import cached_property
from ipaddress import IPv6Address, IPv6Network

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import NptConfig
from v6t.packets.arrays import U8, U64, Mask
from v6t.packets.checksum import sum_words
from v6t.packets.direction import Direction
from v6t.packets.headers import IPV6, decrement_hops, view
from v6t.packets.reference import EXHAUSTED
from v6t.plugins.audit_views import PrefixTranslator
from v6t.plugins.base import DeviceIntent, StatelessTechnology
from v6t.plugins.frame_sizes import IPV6_SIZES
from v6t.plugins.params import LinkParams, address, describe_link, negative_share
from v6t.plugins.prefixes import parse_ipv6_network
from v6t.plugins.reference_device import Outcome
from v6t.plugins.router import HostBits, RouterDrop
from v6t.plugins.traffic import change_header, combine, make_foreground, make_ipv6
from v6t.plugins.translation import select_within
from v6t.plugins.tunnels import match_address
from v6t.profiles.model import FramePair, Traffic

PREFIX_LEN = 48  # of both prefixes


class Nptv6Params(LinkParams):
    """Parameters of ``nptv6``."""

    internal: str = Field("fd01:203:405::/48", description="prefix of the inside, on the left")
    external: str = Field("2001:db8:1::/48", description="prefix of the outside, on the right")
    hosts: HostBits = Field(
        HostBits(policy="random", offset=14),
        description="inside hosts (16 bits), in subnet 0 of the prefix; fixed: host 2",
    )
    server: IPv6Address = address("2001:2:0:8000::2", "the host on the outside")
    negative_percent: int = negative_share("share of frames whose hop limit expires [%]")

    @cached_property
    def internal_prefix(self) -> IPv6Network:
        return parse_ipv6_network(self.internal, "internal")

    @cached_property
    def external_prefix(self) -> IPv6Network:
        return parse_ipv6_network(self.external, "external")

    @model_validator(mode="after")
    def _check_lengths(self) -> Nptv6Params:
        if {self.internal_prefix.prefixlen, self.external_prefix.prefixlen} != {PREFIX_LEN}:
            prefixes = f"{self.internal_prefix} and {self.external_prefix}"
            problem = f"{prefixes} cannot be translated, only /{PREFIX_LEN}"
            raise UsageError(problem, f"choose prefixes of /{PREFIX_LEN}", code="not-a-prefix")
        if self.hosts.policy != "fixed" and not 8 <= self.hosts.offset <= 14:
            problem = f"hosts.offset {self.hosts.offset} is not behind prefix and subnet"
            raise UsageError(problem, "choose 8 to 14", code="out-of-range")
        return self

    @property
    def first_host(self) -> IPv6Address:
        return self.internal_prefix.network_address + 2

    @property
    def adjustment(self) -> int:
        """Number added to outbound subnet words to keep checksums valid (RFC 6296, section 3.1)."""
        networks = self.internal_prefix, self.external_prefix
        inside, outside = (sum_words(net.network_address.packed[:6]) for net in networks)
        return (inside - outside) % 0xFFFF

    def translate_prefix(self, high: U64, *, inbound: bool = False) -> U64:
        """Translate the prefix in the upper halves of addresses, outbound or ``inbound``."""
        old, new, adjustment = self.internal_prefix, self.external_prefix, self.adjustment
        if inbound:
            old, new, adjustment = new, old, -adjustment % 0xFFFF
        # one's complement has two zeros: 0xFFFF is written as 0
        subnet = ((high & np.uint64(0xFFFF)) + np.uint64(adjustment)) % np.uint64(0xFFFF)
        translated = np.uint64(int(new.network_address) >> 64) | subnet
        return np.where(select_within(high, old, 64), translated, high)


class Nptv6(StatelessTechnology):
    """An NPTv6 translator with the internal network on its left link."""

    name = "nptv6"
    title = "NPTv6: a site's IPv6 prefix translated statelessly to a provider's"
    rfcs = ("RFC 6296",)
    params_model = Nptv6Params
    overhead = 0
    ip_versions = (6, 6)
    sides = ("inside", "outside")
    drops = RouterDrop
    rfc_frame_sizes = IPV6_SIZES
    params: Nptv6Params

    def build_traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        p, host = self.params, self.params.first_host
        if direction == "forward":
            header = make_ipv6(p, p.hosts.vary("host", host), p.server)
        else:
            header = make_ipv6(p, p.server, p.hosts.vary("host", self.find_external_address(host)))
        traffic = make_foreground(self, direction, sizes, header, draw_order=("sport", "dport"))
        expired = change_header(traffic, "expired", "IPv6", hlim=1)
        return combine(self, traffic, [expired], direction, sizes, seed)

    def translate_forward(self, packets: U8) -> Outcome:
        p, header = self.params, view(packets, IPV6)
        known = match_address(header["dst_octets"], p.server)
        known |= match_address(header["dst_octets"], p.tester_right_ipv6)
        return self._translate(packets, known, "src_high")

    def translate_reverse(self, packets: U8) -> Outcome:
        p, header = self.params, view(packets, IPV6)
        known = match_address(header["dst_octets"], p.tester_left_ipv6)
        known |= select_within(header["dst_high"], p.external_prefix, 64)
        return self._translate(packets, known, "dst_high")

    def _translate(self, packets: U8, routed: Mask, field: str) -> Outcome:
        """Drop packets without a route, and replace the prefix in one address field of the others."""

        def build_packets(rows: Mask) -> U8:
            out = packets[rows]
            decrement_hops(out, 6)
            header, inbound = view(out, IPV6), field == "dst_high"
            high = header[field].astype(np.uint64)
            header[field] = self.params.translate_prefix(high, inbound=inbound)
            return out

        drops = [(RouterDrop.NO_ROUTE, ~routed), (EXHAUSTED, view(packets, IPV6)["hlim"] <= 1)]
        return Outcome(drops, build_packets)

    def find_external_address(self, host: IPv6Address) -> IPv6Address:
        high, low = divmod(int(host), 1 << 64)
        (high,) = self.params.translate_prefix(np.array([high], np.uint64))
        return IPv6Address(int(high) << 64 | low)

    def make_dut_intent(self) -> DeviceIntent:
        p, links = self.params, self.links
        left = describe_link(p, links, "left", [p.internal_prefix])
        right = describe_link(p, links, "right", [p.server])
        prefixes = NptConfig(internal=p.internal_prefix, external=p.external_prefix)
        return DeviceIntent(self.name, prefixes, links, left, right)

    def list_audit_views(self) -> tuple[PrefixTranslator]:
        p = self.params
        return (PrefixTranslator(p.internal_prefix, p.external_prefix, p.first_host, p.server),)
