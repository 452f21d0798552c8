"""The parts of a chain: what each must be, its driver, and what they do to a packet together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from v6t.drivers.duts.driver import Driver

TO_IPV4: Mapping[str, Literal["forward", "reverse"]] = {
    "siit": "forward", "nat64": "forward", "mapt-br": "forward",
    "clat": "reverse", "mapt-ce": "reverse",
}  # fmt: skip
"""Direction in which a translator of a technology makes IPv4 of IPv6; none for all others."""


@dataclass(frozen=True)
class PartLink:
    """See :class:`v6t.drivers.duts.plan.LinkLike`."""

    tester_mac: str
    dut_mac: str
    vlan: int | None = None
    mtu: int = 1500


@dataclass(frozen=True)
class PartLinks:
    """See :class:`v6t.drivers.duts.plan.LinksLike`."""

    left: PartLink
    right: PartLink


@dataclass(frozen=True)
class PartIntent:
    """What one part must be; see :class:`v6t.drivers.duts.plan.Intent`."""

    technology: str
    settings: Mapping[str, Any]
    links: PartLinks
    left: Mapping[str, Any]
    right: Mapping[str, Any]


@dataclass(frozen=True)
class Part:
    """One part.

    Attributes:
        name: of the part.
        device: of the device it belongs to, for example ``CE``.
        stateful: whether it keeps the connections.
        intent: what it must be.
        driver: of its own.
    """

    name: str
    device: str
    stateful: bool
    intent: PartIntent
    driver: Driver


def further_hops(parts: tuple[Part, ...]) -> int:
    """Hops inside the chain beyond one for each device."""
    devices = len({part.device for part in parts})
    taken = sum(1 + part.driver.profile(part.intent).further_hops for part in parts)
    return taken - devices


def df_after(parts: tuple[Part, ...], direction: str = "forward") -> str:
    """Don't Fragment after the last translator from IPv6 to IPv4 on the way through the parts."""
    said = "reference"
    for part in parts:
        way = TO_IPV4.get(part.intent.technology)
        if part.intent.settings.get("ipv6_side") == "right":
            way = "reverse"
        if way == direction:
            said = part.driver.profile(part.intent).df
    return said
