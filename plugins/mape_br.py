"""MAP-E border relay (RFC 7597): the CEs' IPv4 packets arrive in IPv6, the server's leave in it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from v6t.plugins.base import DutIntent, Expected, Link, Links, Technology
from v6t.plugins.mape_params import DROP_REASONS, MapEParams
from v6t.plugins.mape_traffic import mape_traffic
from v6t.profiles.errors import UsageError
from v6t.profiles.model import Direction, FramePair, Traffic
from v6t.profiles.wire import FCS_OCTETS, MIN_FRAME_OCTETS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from v6t.plugins.mape_expect import BorderRelay

ETHERNET_OCTETS = 14
TAG_OCTETS = 4


class MapEBorderRelay(Technology):
    """Decapsulates forward, encapsulates in reverse; stateless."""

    name = "mape-br"
    title = "MAP-E border relay: IPv4 of many CEs in IPv6, decapsulated and encapsulated"
    rfcs = ("RFC 7597",)
    params_model = MapEParams
    overhead = 40
    drop_reasons: ClassVar[tuple[str, ...]] = DROP_REASONS
    default_frame_sizes = (104,)
    rfc_frame_sizes = (104, 168, 296, 552, 808, 1064, 1320, 1518)

    def __init__(self, params: MapEParams | None = None, links: Links | None = None) -> None:
        super().__init__(params or MapEParams(), links)
        self.params: MapEParams

    def frame_pair(self, ipv6_frame_size: int) -> FramePair:
        """Both sizes, FCS and VLAN tags included; see the base class."""
        left, right = self.links.left, self.links.right
        ipv4 = ipv6_frame_size - self.overhead - _tag(left) + _tag(right)
        smallest = MIN_FRAME_OCTETS + self.overhead + _tag(left)
        if ipv4 < MIN_FRAME_OCTETS + _tag(right):
            raise UsageError(
                f"an IPv6 frame of {ipv6_frame_size} octets holds no IPv4 frame of at least "
                f"{MIN_FRAME_OCTETS} octets: MAP-E adds {self.overhead}",
                f"the smallest is {smallest}; sizes are those of the IPv6 frame, FCS included",
            )
        for size, link, version in ((ipv6_frame_size, left, "IPv6"), (ipv4, right, "IPv4")):
            largest = link.mtu + ETHERNET_OCTETS + _tag(link) + FCS_OCTETS
            if size > largest:
                raise UsageError(
                    f"an {version} frame of {size} octets does not fit a link with an MTU of "
                    f"{link.mtu}: {largest} octets at most, FCS included",
                    "choose a smaller frame size or raise the link's mtu in the testbed file",
                )
        return FramePair(ipv6_frame_size, ipv4)

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Foreground per domain, background and spoofed frames as the parameters say."""
        return mape_traffic(self.params, self.links, direction, sizes, seed)

    def expect(self, direction: Direction, frames: NDArray[np.uint8]) -> Expected:
        """The reference translation; see :mod:`v6t.plugins.mape_expect`."""
        return self._relay.expect(direction, frames)

    def dut_intent(self) -> DutIntent:
        """Rules, the BR address, both links with static neighbours and routes to the CEs."""
        p, links = self.params, self.links
        rules: list[dict[str, Any]] = [
            {
                "ipv6_prefix": str(d.rule.ipv6_prefix),
                "ipv4_prefix": str(d.rule.ipv4_prefix),
                "ea_len": d.rule.ea_len,
                "psid_offset": d.rule.psid_offset,
                "psid_len": d.rule.psid_len,
            }
            for d in p.all_domains
        ]
        left_ipv6 = str(p.tester_left_ipv6)
        return DutIntent(
            technology=self.name,
            settings={"rules": rules, "br_address": str(p.br_address), "mtu": links.left.mtu},
            links=links,
            left={
                "addresses": [f"{p.br_address}/64"],
                "neighbours": {left_ipv6: links.left.tester_mac},
                "routes": {str(r["ipv6_prefix"]): left_ipv6 for r in rules},
            },
            right={
                "addresses": [str(p.dut_right_ipv4), str(p.dut_right_ipv6)],
                "neighbours": {
                    str(p.server_ipv4): links.right.tester_mac,
                    str(p.tester_right_ipv6): links.right.tester_mac,
                },
                "routes": {},
            },
        )

    @cached_property
    def _relay(self) -> BorderRelay:
        from v6t.plugins.mape_expect import BorderRelay

        return BorderRelay(self.params, self.links)


def _tag(link: Link) -> int:
    return 0 if link.vlan is None else TAG_OCTETS
