"""IPv6-to-IPv6 network prefix translation (RFC 6296), /48 to /48; stateless."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from ipaddress import IPv6Address, IPv6Network
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import NptConfig
from v6t.packets.checksum import sum_words
from v6t.packets.reference import list_drop_reasons
from v6t.plugins.audit_views import PrefixTranslator
from v6t.plugins.base import DeviceIntent, StatelessTechnology
from v6t.plugins.frame_sizes import IPV6_SIZES, routed_pair
from v6t.plugins.params import LinkParams, negative_share
from v6t.plugins.ports import KINDS
from v6t.plugins.prefixes import network6
from v6t.plugins.reference_device import Handled, Leaving, ReferenceDevice, choose_reasons, route
from v6t.plugins.router import HostBits, RouterDrop
from v6t.plugins.traffic import background_of, ethernet, ipv6, mixed, negative_like, replaced
from v6t.profiles.model import Binding, Role, Traffic, TrafficClass, Variable

if TYPE_CHECKING:
    from v6t.packets.arrays import U8
    from v6t.packets.direction import Direction
    from v6t.profiles.model import FramePair

SOURCE, DESTINATION = 8, 24
"""Octets at which the addresses of an IPv6 header begin."""
LENGTH = 48


class Nptv6Params(LinkParams):
    """Everything ``nptv6`` can be told."""

    internal: str = Field("fd01:203:405::/48", description="prefix of the inside, on the left")
    external: str = Field("2001:db8:1::/48", description="prefix of the outside, on the right")
    hosts: HostBits = Field(
        HostBits(policy="random", offset=14),
        description="inside hosts (16 bits), in subnet 0 of the prefix; fixed: host 2",
    )
    server: IPv6Address = Field(
        IPv6Address("2001:2:0:8000::2"), description="the host on the outside"
    )
    negative_percent: int = negative_share(
        "share of frames the device must drop: their hop limit ends at it [%]"
    )

    @cached_property
    def inside(self) -> IPv6Network:
        """The checked internal prefix."""
        return network6(self.internal, "internal")

    @cached_property
    def outside(self) -> IPv6Network:
        """The checked external prefix."""
        return network6(self.external, "external")

    @model_validator(mode="after")
    def _lengths(self) -> Nptv6Params:
        if {self.inside.prefixlen, self.outside.prefixlen} != {LENGTH}:
            raise UsageError(
                f"{self.inside} and {self.outside} are translated only if both are /{LENGTH}",
                f"choose prefixes of /{LENGTH}",
                code="not-a-prefix",
            )
        if self.hosts.policy != "fixed" and not LENGTH // 8 + 2 <= self.hosts.offset <= 14:
            raise UsageError(
                f"hosts.offset is {self.hosts.offset}: before octet 8 are prefix and subnet, and 16 "
                "bits fit no later than octet 14",
                "choose 8 to 14",
                code="out-of-range",
            )
        return self

    @property
    def adjustment(self) -> int:
        """What is added to the subnet word on the way out, in one's complement (RFC 6296 section 3.1)."""
        return (_sum(self.inside) - _sum(self.outside)) % 0xFFFF


def _sum(net: IPv6Network) -> int:
    return sum_words(net.network_address.packed[: LENGTH // 8])


class Nptv6(StatelessTechnology):
    """Left is the inside; checksums stay right because the subnet word makes up for the prefix."""

    name = "nptv6"
    title = "NPTv6: a site's IPv6 prefix translated statelessly to a provider's"
    rfcs = ("RFC 6296",)
    params_model = Nptv6Params
    overhead = 0
    ip_versions = (6, 6)
    sides = ("inside", "outside")
    drop_reasons = list_drop_reasons(RouterDrop)
    rfc_frame_sizes = IPV6_SIZES
    default_frame_sizes = (84,)
    params: Nptv6Params

    def frame_pair(self, ipv6_frame_size: int) -> FramePair:
        """The same on both sides."""
        return routed_pair(ipv6_frame_size, self.links.left, self.links.right, 6)

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Hosts of the inside and a server: outwards from internal, inwards to external addresses."""
        p = self.params
        forward = direction == "forward"
        inside = IPv6Address(int(p.inside.network_address) | 2)
        host = inside if forward else self._outer(inside)
        src, dst = (host, p.server) if forward else (p.server, host)
        udp, variables, bindings = p.udp(direction)
        if p.hosts.policy != "fixed":
            field, first = "IPv6.src" if forward else "IPv6.dst", 8 * p.hosts.offset
            kind = KINDS[p.hosts.policy]
            variables.append(Variable("host", 16, kind, low=p.hosts.min, high=p.hosts.max))
            bindings.append(Binding("host", field, first, first + 15))
        made = TrafficClass(
            "fg",
            Role.FOREGROUND,
            (*ethernet(self.links, direction), ipv6(p, src, dst), udp),
            sizes.ipv6 if forward else sizes.ipv4,
            tuple(variables),
            tuple(bindings),
        )
        ends = (p.tester_left_ipv6, p.tester_right_ipv6)
        behind = background_of(p, self.links, direction, sizes, ends, self.links.left)
        expired = negative_like(made, "expired", layers=replaced(made, "IPv6", hlim=1))
        return mixed(p, direction, [(made, 1)], behind, [expired], p.negative_percent, seed)

    def dut_intent(self) -> DeviceIntent:
        """Both prefixes, and the ways to the inside and to the server."""
        p = self.params
        to_inside = {p.inside: p.tester_left_ipv6}
        to_server = {p.server: p.tester_right_ipv6}
        return DeviceIntent(
            technology=self.name,
            configuration=NptConfig(internal=p.inside, external=p.outside),
            links=self.links,
            left=p.link_intent("left", self.links.left, None, to_inside),
            right=p.link_intent("right", self.links.right, None, to_server),
        )

    def audit_views(self) -> tuple[PrefixTranslator]:
        p = self.params
        host = IPv6Address(int(p.inside.network_address) | 2)
        return (PrefixTranslator(p.inside, p.outside, host, p.server),)

    def reference_device(self) -> ReferenceDevice:
        """Translates sources on the way out and destinations on the way in; forwards all else."""
        p = self.params
        outwards = _translator(SOURCE, p.inside, p.outside, p.adjustment)
        inwards = _translator(DESTINATION, p.outside, p.inside, -p.adjustment % 0xFFFF)
        to_right = [p.server.packed, p.tester_right_ipv6.packed]
        to_left = [p.outside.network_address.packed[: LENGTH // 8], p.tester_left_ipv6.packed]
        return ReferenceDevice(
            self.links, {6: _handler(outwards, to_right)}, {6: _handler(inwards, to_left)}
        )

    def _outer(self, inside: IPv6Address) -> IPv6Address:
        """The external address of an inside host."""
        packed = np.frombuffer(bytes(SOURCE) + inside.packed, np.uint8)[None, :].copy()
        p = self.params
        _translator(SOURCE, p.inside, p.outside, p.adjustment)(packed)
        return IPv6Address(packed[0, SOURCE:].tobytes())


def _translator(
    at: int, old: IPv6Network, new: IPv6Network, adjustment: int
) -> Callable[[U8], None]:
    """Changes addresses at octet ``at`` that have the old prefix, in place."""
    end = at + LENGTH // 8
    before, after = (
        np.frombuffer(n.network_address.packed[: LENGTH // 8], np.uint8) for n in (old, new)
    )

    def translate(packets: U8) -> None:
        mine = (packets[:, at:end] == before).all(axis=1)
        word = packets[:, end : end + 2].view(">u2")[:, 0]
        # one's complement has two zeros: 0xFFFF is written as 0
        word[mine] = (word[mine].astype(int) + adjustment) % 0xFFFF
        packets[mine, at:end] = after

    return translate


def _handler(translate: Callable[[U8], None], known: list[bytes]) -> Callable[[Any], Handled]:
    """Forwards packets to destinations that begin so, translated."""
    starts = [np.frombuffer(start, np.uint8) for start in known]

    def handler(packets: U8) -> Handled:
        there = np.zeros(len(packets), bool)
        for start in starts:
            to = packets[:, DESTINATION : DESTINATION + len(start)]
            there |= (to == start).all(axis=1)
        handled = route(packets, 6, choose_reasons(len(packets), (RouterDrop.NO_ROUTE, ~there)))
        parts = []
        for part in handled.leaving:
            translate(part.packets)
            parts.append(Leaving(part.rows, part.packets, 6))
        return Handled(handled.reason, tuple(parts))

    return handler
