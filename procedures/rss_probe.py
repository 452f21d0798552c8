"""Which entropy does this device need?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

Case = Literal["fixed", "ports", "addresses", "both"]
CASES: tuple[Case, ...] = ("fixed", "ports", "addresses", "both")

BENCHMARK = "rss-probe"

MIN_GAIN = 1.25
"""A rate this much higher is taken for more cores at work; less may be chance."""


@dataclass(frozen=True)
class Advice:
    """Header fields that the probe recommends varying.

    Attributes:
        rates_fps: throughput per direction and case.
        use: the case whose entropy suffices; None: nothing is known about the device.
        why: reason for the advice, in one sentence.
    """

    rates_fps: Mapping[Case, float]
    use: Case | None
    why: str


def find_held_fields(case: Case) -> tuple[bool, bool]:
    """Return whether a case fixes the ports, and whether it fixes the addresses."""
    return case in ("fixed", "addresses"), case in ("fixed", "ports")


def recommend_fields(rates_fps: Mapping[Case, float], limited: Collection[Case] = ()) -> Advice:
    """Recommend the header fields to vary, from the measured rates.

    Args:
        limited: cases in which the tester and not the device was the limit: the device's own
            rate is higher.
    """
    fixed, ports = rates_fps["fixed"], rates_fps["ports"]
    addresses, both = rates_fps["addresses"], rates_fps["both"]
    best = max(ports, addresses, both)
    if not max(fixed, best):
        return Advice(rates_fps, None, "no rate passed")
    if "fixed" in limited:
        return Advice(
            rates_fps,
            None,
            "the tester is the limit even with fixed headers: nothing is known about the device's "
            "hash; a faster tester, or fewer cores in the device, would tell",
        )
    if best < MIN_GAIN * fixed:
        held = [case for case in ("ports", "addresses", "both") if case in limited]
        why = (
            "no entropy helps: the device forwards on one core, or spreads frames by something "
            "else; pseudorandom ports are what RFC 4814 asks for"
        )
        if held:
            why += f" (the tester was the limit with {' and '.join(held)})"
        return Advice(rates_fps, "ports", why)
    if ports * MIN_GAIN > best or "ports" in limited:
        return Advice(rates_fps, "ports", "the device's hash sees ports: addresses may stay fixed")
    if addresses * MIN_GAIN > best:
        return Advice(
            rates_fps,
            "addresses",
            "the device's hash ignores ports: only pseudorandom addresses reach its cores",
        )
    return Advice(
        rates_fps, "both", "the device's hash needs pseudorandom addresses and ports together"
    )
