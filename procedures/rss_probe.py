"""Probe of the header fields that must vary to use all cores of a device (RFC 4814)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

ProbeCase = Literal["fixed", "ports", "addresses", "both"]  # the fields that vary
PROBE_CASES: tuple[ProbeCase, ...] = ("fixed", "ports", "addresses", "both")

BENCHMARK = "rss-probe"

MIN_GAIN = 1.25  # smallest ratio of two rates that shows more busy cores; less may be chance


@dataclass(frozen=True)
class Advice:
    """Header fields that the probe recommends varying."""

    use: ProbeCase | None  # case whose fields suffice; None: unknown
    why: str  # reason for the advice, in one sentence


def recommend_fields(
    rates_fps: Mapping[ProbeCase, float], limited: Collection[ProbeCase] = ()
) -> Advice:
    """Recommend the header fields to vary.

    Args:
        rates_fps: measured throughput per direction, by case.
        limited: cases in which the tester or the medium, not the device, limited the rate.
    """
    fixed, ports = rates_fps["fixed"], rates_fps["ports"]
    addresses, both = rates_fps["addresses"], rates_fps["both"]
    best = max(ports, addresses, both)
    if not max(fixed, best):
        return Advice(None, "no rate passed")
    if "fixed" in limited:
        return Advice(
            None,
            "the tester or the medium is the limit even with fixed headers, which shows nothing "
            "about the device's hash: use a faster one, or fewer cores in the device",
        )
    if best < MIN_GAIN * fixed:
        limiting = [case for case in ("ports", "addresses", "both") if case in limited]
        why = (
            "no variation raises the rate: the device forwards on one core, or distributes frames "
            "by other fields; RFC 4814 requires pseudorandom ports"
        )
        if limiting:
            why += f" (the tester or the medium was the limit with {' and '.join(limiting)})"
        return Advice("ports", why)
    if ports * MIN_GAIN > best or "ports" in limited:
        return Advice("ports", "the device's hash includes ports: addresses may stay fixed")
    if addresses * MIN_GAIN > best:
        return Advice(
            "addresses",
            "the device's hash ignores ports: only pseudorandom addresses use all its cores",
        )
    return Advice("both", "the device's hash needs pseudorandom addresses and ports together")
