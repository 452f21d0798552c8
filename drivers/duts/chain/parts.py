"""The parts of a chain: what each must be, its driver, and what they do to a packet together."""

from __future__ import annotations

from dataclasses import dataclass

from v6t.drivers.duts.driver import Driver
from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.profiles.intent import DutIntent
from v6t.profiles.model import Direction


@dataclass(frozen=True)
class Part:
    """One part.

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
    intent: DutIntent
    driver: Driver
    to_ipv4: Direction | None = None


def further_hops(parts: tuple[Part, ...]) -> int:
    """Hops inside the chain beyond one for each device."""
    devices = len({part.device for part in parts})
    taken = sum(1 + part.driver.profile(part.intent).further_hops for part in parts)
    return taken - devices


def last_to_ipv4(parts: tuple[Part, ...], direction: Direction) -> ExpectProfile:
    """Profile of the last translator from IPv6 to IPv4 in a direction; the reference's if there is none."""
    from_its_end = parts if direction == "reverse" else parts[::-1]
    translators = (p for p in from_its_end if p.to_ipv4 == direction)
    return next((p.driver.profile(p.intent) for p in translators), ExpectProfile())
