"""IPv4 as a service with two devices, CE and PE: together they are a stateful NAT44 (DD-01).

The tester sends IPv4 on both sides (Lencse and Bazsó 2024). Sizes are those of the IPv6 frame on
the link between the devices, so the medium's rate is that link's (DD-02).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from v6t.base.errors import UsageError
from v6t.intent.device import PartIntent
from v6t.packets.header_policy import HeaderPolicy
from v6t.packets.headers import DONT_FRAGMENT, IPV4, view
from v6t.plugins.base import DeviceIntent, DeviceRole, Link, Links, Part
from v6t.plugins.chain import CHAIN, chain_intent
from v6t.plugins.ipv4aas.params import HEADROOM, Ipv4aasParams
from v6t.plugins.ipv4aas.parts import CE, PE, alternatives_of, parts_of
from v6t.plugins.siit.params import LOWEST_IPV6_MTU
from v6t.plugins.sizes import (
    IPV6_SIZES,
    TUNNEL_SIZES,
    check_whole,
    tag_octets,
    translated_pair,
)
from v6t.plugins.stateful.base import Packets, StatefulTechnology
from v6t.plugins.stateful.params import ConnectionParams
from v6t.plugins.stateful.rewrite import pool_reasons, translated_ends
from v6t.plugins.translation.vectorised import DF_FROM
from v6t.profiles.model import FramePair

if TYPE_CHECKING:
    from v6t.packets.arrays import U8
    from v6t.packets.direction import Direction

_DEVICES = 2


class Ipv4aas(StatefulTechnology):
    """CE and PE of one of five technologies, measured together."""

    name = "ipv4aas"
    title = "IPv4 as a service, CE and PE together: 464XLAT, DS-Lite, lw4o6, MAP-E, MAP-T; stateful"
    rfcs = (
        *("RFC 9693", "RFC 8219 section 4.2", "RFC 9313", "RFC 6877"),
        *("RFC 6333", "RFC 7596", "RFC 7597", "RFC 7599"),
    )
    params_model = Ipv4aasParams
    overhead = 20
    ip_versions = (4, 4)
    default_driver = CHAIN
    mapping = "the stateful device's: RFC 4787 and RFC 6146 ask for endpoint-independent mapping"
    rfc_frame_sizes: ClassVar[tuple[int, ...]] = IPV6_SIZES
    params: Ipv4aasParams

    def __new__(cls, params: Ipv4aasParams | None = None, links: Links | None = None) -> Ipv4aas:
        """Variants that encapsulate are a class of their own."""
        tunnels = params is not None and params.variant in ("ds-lite", "lw4o6", "map-e")
        return object.__new__(Ipv4aasTunnelled if tunnels and cls is Ipv4aas else cls)

    def __init__(self, params: Ipv4aasParams | None = None, links: Links | None = None) -> None:
        super().__init__(params, links)
        self._refuse_unused()

    def _refuse_unused(self) -> None:
        """Refuse parameters of other variants: what changes no part of either device has no effect.

        Raises:
            UsageError: naming the parameter.
        """
        p = self.params
        given = {name: getattr(p, name) for name in p.model_fields_set}
        own = None
        for name in given.keys() - ConnectionParams.model_fields.keys() - {"variant"}:
            if given[name] == type(p).model_fields[name].get_default(call_default_factory=True):
                continue
            own = own or self._parts_of(p)
            rest = {n: value for n, value in given.items() if n != name}
            changed = [rest]
            if isinstance(given[name], (IPv4Address, IPv6Address)):
                # the value may be the one that the variant takes anyway
                changed.append({**rest, name: given[name] + 1})
            try:
                alike = all(self._parts_of(type(p)(**params)) == own for params in changed)
            except (UsageError, ValueError):
                continue  # other parameters depend on it
            if alike:
                raise UsageError(
                    f"{name} {given[name]} has no effect on the variant {p.variant}",
                    f"leave {name} out, or set variant",
                    code="setting-without-effect",
                )

    def _parts_of(self, params: Ipv4aasParams) -> list[PartIntent]:
        parts = parts_of(params, self.links)
        every = (*parts, *alternatives_of(params, parts, self.links))
        return [part.part_intent for part in every]

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The devices' parts from left to right."""
        return parts_of(self.params, self.links)

    @property
    def roles(self) -> tuple[DeviceRole, ...]:
        """Which of both is stateful (DD-04)."""
        ce, variant = self.params.ce_stateful, self.params.variant
        return DeviceRole(CE, ce, variant), DeviceRole(PE, not ce, variant)

    @property
    def hops(self) -> int:
        """One for each device."""
        return _DEVICES

    @property
    def header_policy(self) -> HeaderPolicy:
        """Both devices translate."""
        return HeaderPolicy(retranslated=True)

    @property
    def cautions(self) -> tuple[str, ...]:
        """What must be said beside the results (DD-03, DD-04)."""
        p, cautions = self.params, []
        if p.used_ports > HEADROOM:
            cautions.append(
                f"the Initiator's {p.endpoints} source ports take {p.used_ports:.0%} of the CE's "
                f"port set of {p.outside.count}: above {HEADROOM:.0%} a NAPT was seen to slow "
                "down"
            )
        ranges = len(p.port_set.ranges) if p.ce_stateful else 1
        if ranges > 1:
            cautions.append(
                f"the CE's NAPT takes the first of its {ranges} ranges of ports, {p.outside.min} to "
                f"{p.outside.max}"
            )
        cautions.append(
            f"CE and PE together, the {CE if p.ce_stateful else PE} is stateful: neither device's "
            "own rate follows, and the latency of each is lower"
        )
        return tuple(cautions)

    def side_sizes(self, sizes: FramePair) -> tuple[int, int]:
        """IPv4 on both links, with their VLAN tags."""
        return (
            sizes.ipv4 + tag_octets(self.links.left),
            sizes.ipv4 + tag_octets(self.links.right),
        )

    def frame_pair(self, ipv6_frame_size: int) -> FramePair:
        """The frame between the devices, and the tester's own without VLAN tag."""
        middle = Link("", "", mtu=self.params.middle_mtu)
        for link in (self.links.left, self.links.right):
            plain = replace(link, vlan=None)
            pair = translated_pair(
                ipv6_frame_size, self.overhead, middle, plain, self.params.variant
            )
        return pair

    def translate(self, direction: Direction, packets: U8, initial: U8, learned: U8) -> Packets:
        """See the base class; a hop for each device, DF as two translators leave it."""
        out = translated_ends(direction, self._crossed(packets), initial, learned, hops=_DEVICES)
        return Packets(out, 4, pool_reasons(self.params.public, learned))

    def dut_intent(self) -> DeviceIntent:
        """Both devices, part by part."""
        alternatives = alternatives_of(self.params, self.parts, self.links)
        return chain_intent(self.name, self.parts, self.links, alternatives)

    def check_traffic(self, direction: Direction, sizes: FramePair) -> None:
        """Whole on the middle link; see the base class."""
        middle = Link("", "", mtu=self.params.middle_mtu)
        check_whole(self.params.df, sizes.ipv6, middle, LOWEST_IPV6_MTU)

    def _crossed(self, packets: U8) -> U8:
        """Translation to IPv6 and back loses identification and DF (RFC 7915 section 5.1)."""
        out = packets.copy()
        header = view(out, IPV4)
        header["id"] = 0
        header["flags_frag"] = DONT_FRAGMENT if packets.shape[1] >= DF_FROM else 0
        return out


class Ipv4aasTunnelled(Ipv4aas):
    """Variants whose packets cross the middle link within IPv6."""

    overhead = 40
    rfc_frame_sizes = TUNNEL_SIZES

    @property
    def header_policy(self) -> HeaderPolicy:
        """What was put in is taken out again."""
        return HeaderPolicy()

    def check_traffic(self, direction: Direction, sizes: FramePair) -> None:
        """Nothing is fragmented: the sizes fit the middle link."""

    def _crossed(self, packets: U8) -> U8:
        """A tunnel changes nothing."""
        return np.asarray(packets)
