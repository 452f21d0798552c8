"""The parts of a chain: what each must be, its driver, and what they do to a packet together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from v6t.drivers.duts.driver import Driver
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.intent.device import DeviceIntent
from v6t.packets.direction import Direction
from v6t.packets.header_policy import HeaderPolicy

_ZEROES: tuple[Literal["always", "ipv6", "never"], ...] = ("always", "ipv6", "never")
"""Values of :attr:`HeaderPolicy.zero_checksum`, the strictest last."""


@dataclass(frozen=True)
class Part:
    """A part of a chain.

    Attributes:
        name: of the part.
        device: of the device it belongs to, for example ``CE``.
        stateful: whether it keeps the connections.
        intent: what it must be.
        driver: of its own.
        to_ipv4: direction in which it translates IPv6 to IPv4; None: in neither.
    """

    name: str
    device: str
    stateful: bool
    intent: DeviceIntent
    driver: Driver
    to_ipv4: Direction | None = None


def further_hops(parts: tuple[Part, ...]) -> int:
    """Return the hops inside the chain beyond one for each device."""
    devices = len({part.device for part in parts})
    taken = sum(1 + part.driver.profile(part.intent).further_hops for part in parts)
    return taken - devices


def hops_on_way(parts: tuple[Part, ...], direction: Direction) -> int:
    """Return the further hops of inner IPv4 packets in a direction: some tunnel ends decrement no TTL."""
    hops = further_hops(parts)
    for part in parts:
        profile = part.driver.profile(part.intent)
        side = getattr(part.intent.configuration, "ipv6_side", "left")
        leaves = "reverse" if side == "right" else "forward"
        hops -= profile.exit_keeps_ttl if leaves == direction else profile.tunnel_keeps_ttl
    return hops


def policy_of(parts: tuple[Part, ...], last: Mapping[Direction, ExpectProfile]) -> HeaderPolicy:
    """Return what the parts do to UDP checksums and DF that is visible behind the last one."""
    profiles = [part.driver.profile(part.intent) for part in parts]
    zero = next(value for value in _ZEROES if any(p.zero_checksum == value for p in profiles))
    either = [way for way, own in last.items() if own.dont_fragment == "either"]
    return HeaderPolicy(
        absent_checksum=any(p.absent_checksum for p in profiles),
        zero_checksum=zero,
        dont_fragment="either" if len(either) > 1 else either[0] if either else "exact",
    )


def last_to_ipv4(parts: tuple[Part, ...], direction: Direction) -> ExpectProfile:
    """Return the profile of a direction's last translator to IPv4, else the reference's."""
    from_its_end = parts if direction == "reverse" else parts[::-1]
    translators = (p for p in from_its_end if p.to_ipv4 == direction)
    return next((p.driver.profile(p.intent) for p in translators), ExpectProfile())
