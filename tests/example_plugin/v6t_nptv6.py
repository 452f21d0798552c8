"""IPv6-to-IPv6 network prefix translation (RFC 6296), /48 to /48; stateless."""

from __future__ import annotations

from functools import cached_property
from ipaddress import IPv6Address, IPv6Network
from typing import Any

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import NptConfig
from v6t.packets.direction import Direction
from v6t.packets.reference import FORWARDED, DropReason, list_drop_reasons
from v6t.plugins.base import DeviceIntent, Expected, Links, Technology
from v6t.plugins.frame_sizes import routed_pair
from v6t.plugins.params import LinkParams, negative_share
from v6t.plugins.prefixes import network6
from v6t.plugins.reference_device import Handled, Leaving, ReferenceDevice, route
from v6t.plugins.router import HostBits
from v6t.plugins.traffic import background_of, ethernet, ipv6, mixed, negative_like, replaced
from v6t.profiles.model import Binding, FramePair, Role, Traffic, TrafficClass, Variable


class Nptv6Drop(DropReason):
    """Why the translator drops a frame."""

    NOT_INSIDE = "the address is not within the prefix"


class Nptv6Params(LinkParams):
    """Everything ``my-nptv6`` can be told."""

    internal: str = Field("fd01:203:405::/48", description="prefix of the inside, on the left")
    external: str = Field("2001:db8:1::/48", description="prefix of the outside, on the right")
    hosts: HostBits = Field(
        HostBits(policy="random", offset=14), description="inside hosts (low 16 bits)"
    )
    server: IPv6Address = Field(
        IPv6Address("2001:2:0:f001::9"), description="the host on the outside"
    )
    negative_percent: int = negative_share("share of forward frames whose source is not inside [%]")

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
        if {self.inside.prefixlen, self.outside.prefixlen} != {48}:
            raise UsageError(
                "both prefixes must be /48",
                "other lengths adjust other bits",
                code="not-a-prefix",
            )
        return self

    @property
    def adjustment(self) -> int:
        """What is added to the subnet word on the way out (RFC 6296 section 3.1)."""
        return (_sum(self.inside) - _sum(self.outside)) % 0xFFFF


def _sum(net: IPv6Network) -> int:
    packed = net.network_address.packed
    return sum(int.from_bytes(packed[i : i + 2], "big") for i in range(0, 6, 2))


class Nptv6(Technology):
    """Left is the inside; checksums stay right because the subnet word makes up for the prefix."""

    name = "my-nptv6"
    title = "NPTv6: a site's IPv6 prefix translated to a provider's"
    rfcs = ("RFC 6296",)
    params_model = Nptv6Params
    overhead = 0
    ip_versions = (6, 6)
    sides = ("inside", "outside")
    drop_reasons = list_drop_reasons(Nptv6Drop)
    default_frame_sizes = (84,)
    rfc_frame_sizes = (84, 128, 256, 512, 768, 1024, 1280, 1518)
    params: Nptv6Params

    def __init__(self, params: Nptv6Params | None = None, links: Links | None = None) -> None:
        super().__init__(params or Nptv6Params(), links)

    def frame_pair(self, ipv6_frame_size: int) -> FramePair:
        return routed_pair(ipv6_frame_size, self.links.left, self.links.right, 6)

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        p = self.params
        forward = direction == "forward"
        inside = IPv6Address(int(p.inside.network_address) | 2)
        host = inside if forward else self._translated(inside)
        src, dst = (host, p.server) if forward else (p.server, host)
        udp, variables, bindings = p.udp(direction)
        if p.hosts.policy != "fixed":
            field, first = "IPv6.src" if forward else "IPv6.dst", 8 * p.hosts.offset
            variables.append(Variable("host", 16, low=p.hosts.min, high=p.hosts.max))
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
        stranger = str(IPv6Address(int(host) ^ 1 << 80))
        outsider = negative_like(made, "outsider", layers=replaced(made, "IPv6", src=stranger))
        negative = [outsider] if forward else []
        return mixed(p, direction, [(made, 1)], behind, negative, p.negative_percent, seed)

    def expect(self, direction: Direction, frames: Any) -> Expected:
        return self._device.expect(direction, frames)

    def dut_intent(self) -> DeviceIntent:
        p = self.params
        to_inside = {p.inside: p.tester_left_ipv6}
        return DeviceIntent(
            technology=self.name,
            configuration=NptConfig(internal=p.inside, external=p.outside),
            links=self.links,
            left=p.link_intent("left", self.links.left, None, to_inside),
            right=p.link_intent("right", self.links.right, None),
        )

    def _translated(self, inside: IPv6Address) -> IPv6Address:
        value = int(inside)
        word = (value >> 64 & 0xFFFF) + self.params.adjustment
        word = word % 0xFFFF if word != 0xFFFF else 0
        rest = value & (1 << 64) - 1
        return IPv6Address(int(self.params.outside.network_address) | word << 64 | rest)

    @cached_property
    def _device(self) -> ReferenceDevice:
        p = self.params
        out, back = p.adjustment, -p.adjustment % 0xFFFF
        return ReferenceDevice(
            self.links,
            {6: _handler(8, p.inside, p.outside, out, p.tester_right_ipv6)},
            {6: _handler(24, p.outside, p.inside, back, p.tester_left_ipv6)},
        )


def _handler(at: int, old: IPv6Network, new: IPv6Network, adjustment: int, native: IPv6Address):
    """Changes the address at octet ``at`` of packets that have the old prefix there."""
    before, after = (np.frombuffer(n.network_address.packed[:6], np.uint8) for n in (old, new))
    other = np.frombuffer(native.packed, np.uint8)

    def handler(packets: Any) -> Handled:
        known = (packets[:, at : at + 6] == before).all(axis=1)
        known |= (packets[:, 24:40] == other).all(axis=1)
        reason = np.where(known, FORWARDED, Nptv6Drop.NOT_INSIDE).astype(np.uint8)
        handled = route(packets, 6, reason)
        parts = []
        for part in handled.leaving:
            changed = part.packets
            mine = (changed[:, at : at + 6] == before).all(axis=1)
            word = changed[:, at + 6].astype(int) << 8 | changed[:, at + 7]
            word = np.where(mine, (word + adjustment) % 0xFFFF, word)
            changed[mine, at : at + 6] = after
            changed[:, at + 6], changed[:, at + 7] = word >> 8, word & 255
            parts.append(Leaving(part.rows, changed, 6))
        return Handled(handled.reason, tuple(parts))

    return handler
