"""IPv6-to-IPv6 network prefix translation (RFC 6296), /48 to /48; stateless."""

from __future__ import annotations

from functools import cached_property
from ipaddress import IPv6Address, IPv6Network
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import NptConfig
from v6t.packets.checksum import sum_words
from v6t.packets.headers import IPV6, view
from v6t.plugins.audit_views import PrefixTranslator
from v6t.plugins.base import DeviceIntent, StatelessTechnology
from v6t.plugins.frame_sizes import IPV6_SIZES
from v6t.plugins.params import LinkParams, negative_share
from v6t.plugins.prefixes import network6
from v6t.plugins.reference_device import Handled, ReferenceDevice, choose_reasons, route
from v6t.plugins.router import HostBits, RouterDrop
from v6t.plugins.traffic import change_header, combine, foreground, ipv6
from v6t.profiles.model import Traffic

if TYPE_CHECKING:
    from v6t.packets.arrays import U8
    from v6t.packets.direction import Direction
    from v6t.profiles.model import FramePair

LENGTH = 48
OCTETS = LENGTH // 8


class Nptv6Params(LinkParams):
    """Parameters of ``nptv6``."""

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
        if self.hosts.policy != "fixed" and not OCTETS + 2 <= self.hosts.offset <= 14:
            raise UsageError(
                f"hosts.offset is {self.hosts.offset}: before octet 8 are prefix and subnet, and 16 "
                "bits fit no later than octet 14",
                "choose 8 to 14",
                code="out-of-range",
            )
        return self

    @property
    def first_host(self) -> IPv6Address:
        """The inside host of the template."""
        return self.inside.network_address + 2

    @property
    def adjustment(self) -> int:
        """One's complement number added to the subnet word on the way out (RFC 6296, section 3.1)."""
        inside, outside = (
            sum_words(net.network_address.packed[:OCTETS]) for net in (self.inside, self.outside)
        )
        return (inside - outside) % 0xFFFF


class Nptv6(StatelessTechnology):
    """Left is the inside; the subnet word makes up for the prefix in checksums."""

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

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Describe hosts of the inside and a server: internal addresses forward, external ones in reverse."""
        p = self.params
        if direction == "forward":
            header = ipv6(p, p.hosts.vary("host", p.first_host), p.server)
        else:
            outer = IPv6Address(self._translate_outwards(p.first_host))
            header = ipv6(p, p.server, p.hosts.vary("host", outer))
        made = foreground(self, direction, sizes, header, draw_order=("sport", "dport"))
        expired = change_header(made, "expired", "IPv6", hlim=1)
        return combine(self, made, [expired], direction, sizes, seed)

    def reference_device(self) -> ReferenceDevice:
        """Translate sources on the way out and destinations on the way in; route all other packets."""
        return ReferenceDevice(self.links, {6: self._outwards}, {6: self._inwards})

    def _outwards(self, packets: U8) -> Handled:
        p = self.params
        handled = _route_to(packets, p.server.packed, p.tester_right_ipv6.packed)
        for part in handled.leaving:
            _translate(view(part.packets, IPV6)["src_octets"], p.inside, p.outside, p.adjustment)
        return handled

    def _inwards(self, packets: U8) -> Handled:
        p = self.params
        prefix = p.outside.network_address.packed[:OCTETS]
        handled = _route_to(packets, prefix, p.tester_left_ipv6.packed)
        for part in handled.leaving:
            addresses = view(part.packets, IPV6)["dst_octets"]
            _translate(addresses, p.outside, p.inside, -p.adjustment % 0xFFFF)
        return handled

    def _translate_outwards(self, inside: IPv6Address) -> bytes:
        p = self.params
        address = np.frombuffer(inside.packed, np.uint8)[None].copy()
        _translate(address, p.inside, p.outside, p.adjustment)
        return address.tobytes()

    def dut_intent(self) -> DeviceIntent:
        """Describe both prefixes, and the routes to the inside and to the server."""
        p, links = self.params, self.links
        return DeviceIntent(
            self.name,
            NptConfig(internal=p.inside, external=p.outside),
            links,
            p.link_intent("left", links.left, None, {p.inside: p.tester_left_ipv6}),
            p.link_intent("right", links.right, None, {p.server: p.tester_right_ipv6}),
        )

    def audit_views(self) -> tuple[PrefixTranslator]:
        p = self.params
        return (PrefixTranslator(p.inside, p.outside, p.first_host, p.server),)


def _route_to(packets: U8, *prefixes: bytes) -> Handled:
    """Route packets whose destination begins with one of the prefixes."""
    destinations, known = view(packets, IPV6)["dst_octets"], np.zeros(len(packets), bool)
    for prefix in prefixes:
        known |= (destinations[:, : len(prefix)] == np.frombuffer(prefix, np.uint8)).all(axis=1)
    return route(packets, 6, choose_reasons(len(packets), (RouterDrop.NO_ROUTE, ~known)))


def _translate(addresses: U8, old: IPv6Network, new: IPv6Network, adjustment: int) -> None:
    """Replace the prefix of addresses ``(n, 16)`` in place, where it is the old one."""
    before, after = (
        np.frombuffer(net.network_address.packed[:OCTETS], np.uint8) for net in (old, new)
    )
    mine = (addresses[:, :OCTETS] == before).all(axis=1)
    word = addresses[:, OCTETS : OCTETS + 2].view(">u2")[:, 0]
    # one's complement has two zeros: 0xFFFF is written as 0
    word[mine] = (word[mine].astype(int) + adjustment) % 0xFFFF
    addresses[mine, :OCTETS] = after
