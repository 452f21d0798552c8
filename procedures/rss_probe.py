"""Which entropy does this device need?

GEN-12, with the four cases of the paper on pseudorandom IP addresses.

A device with several cores spreads flows by a hash of headers. If that hash leaves ports out,
frames between one pair of addresses all meet one core, however random their ports, and the result
describes that core. The probe measures the throughput with fixed headers, with pseudorandom
ports, with pseudorandom addresses, and with both. Random addresses cost the tester time and fill
the device's neighbour table, so they are recommended only where ports do not help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Case = Literal["fixed", "ports", "addresses", "both"]
CASES: tuple[Case, ...] = ("fixed", "ports", "addresses", "both")

GAIN = 1.25
"""A rate this much higher is taken for more cores at work; less may be chance."""


@dataclass(frozen=True)
class Advice:
    """What the probe found.

    Attributes:
        rates_fps: throughput per direction and case.
        use: the case whose entropy suffices.
        why: one sentence.
    """

    rates_fps: Mapping[Case, float]
    use: Case
    why: str


def rss_probe(throughput: Callable[[Case], float]) -> Advice:
    """Measure the four cases and recommend one.

    Args:
        throughput: measures the throughput [fps per direction] with one case's traffic.
    """
    return advise({case: throughput(case) for case in CASES})


def advise(rates_fps: Mapping[Case, float]) -> Advice:
    """Recommend from measured rates."""
    fixed, ports = rates_fps["fixed"], rates_fps["ports"]
    addresses, both = rates_fps["addresses"], rates_fps["both"]
    best = max(ports, addresses, both)
    if best < GAIN * fixed:
        return Advice(
            rates_fps,
            "ports",
            "no entropy helps: the device forwards on one core, or spreads frames by something "
            "else; pseudorandom ports are what RFC 4814 asks for",
        )
    if ports * GAIN > best:
        return Advice(rates_fps, "ports", "the device's hash sees ports: addresses may stay fixed")
    if addresses * GAIN > best:
        return Advice(
            rates_fps,
            "addresses",
            "the device's hash ignores ports: only pseudorandom addresses reach its cores",
        )
    return Advice(
        rates_fps, "both", "the device's hash needs pseudorandom addresses and ports together"
    )
