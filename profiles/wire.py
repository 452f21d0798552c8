"""Rates on the wire: the most a line carries, and rates as users write them."""

from __future__ import annotations

import re
from fractions import Fraction

from v6t.base.errors import UsageError

FCS_OCTETS = 4
"""Frame check sequence: counted in every frame size here, absent from TRex's packets."""
MIN_FRAME_OCTETS = 64
"""Smallest Ethernet frame, FCS included (IEEE 802.3)."""
GAP_OCTETS = 20
"""Preamble, start delimiter and interframe gap: 7 + 1 + 12 octets per frame (IEEE 802.3)."""
MAX_RATE = 1e15
"""Bits per second; nothing is faster, and all arithmetic stays exact enough."""
_SCALE = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_NUMBER = r"(\d{1,20}(?:\.\d{1,20})?(?:[eE]\+?\d{1,2})?)"
_LINE = re.compile(
    _NUMBER
    + r"\s*([kKmMgGtT]?)(?:b(?:ps|/s)?|[bB][iI][tT][sS]?(?:ps|/s)?|(?<=[kKmMgGtT])[bB]?[eE])?"
)
_OCTETS = re.compile(_NUMBER + r"\s*([kKmMgGtT]?)(?:B|[bB][yY][tT][eE][sS]?)(?:ps|PS|/s|/S)?")


def max_frame_rate_fps(line_rate_bps: float, frame_size: float, overhead: int = 0) -> int:
    """Return the whole frames per second that a line carries (RFC 8219, appendix A).

    Args:
        line_rate_bps: bits per second of the medium.
        frame_size: octets with FCS; of a mix of sizes their mean.
        overhead: octets the frame grows on its way to this line; 0 if ``frame_size`` is the size
            on this line.

    Raises:
        UsageError: an impossible size or rate.
    """
    if line_rate_bps <= 0:
        raise UsageError(
            f"a line rate of {line_rate_bps} bit/s is not positive", code="out-of-range"
        )
    if frame_size < MIN_FRAME_OCTETS or overhead < 0:
        raise UsageError(
            f"frame size {frame_size} plus {overhead} octets is below the Ethernet minimum",
            f"the smallest frame has {MIN_FRAME_OCTETS} octets, FCS included",
            code="out-of-range",
        )
    return int(Fraction(line_rate_bps) // (8 * (Fraction(frame_size) + overhead + GAP_OCTETS)))


def frame_rate_fps(rate_bps: float, octets: float) -> float:
    """Return the frames per second of a rate that counts preamble and gap."""
    return rate_bps / (8 * (octets + GAP_OCTETS))


def bit_rate_bps(rate_fps: float, octets: float) -> float:
    """Return the bits per second of frames, preamble and gap included."""
    return rate_fps * (octets + GAP_OCTETS) * 8


def parse_line_rate(text: str) -> float:
    """Return the bits per second of ``"10G"``, ``"25Gbps"``, ``"10 gbit"``, ``"40GE"`` or ``"1e9"``.

    Raises:
        UsageError: not such a rate, or zero.
    """
    if octets := _OCTETS.fullmatch(text.strip()):
        raise UsageError(
            f"'{text:.40}' is not a line rate: B stands for bytes",
            f"write {octets[1]}{octets[2]} or {octets[1]}{octets[2]}bit/s if bits are meant",
            code="not-a-number",
        )
    match = _LINE.fullmatch(text.strip())
    value = float(Fraction(match[1]) * _SCALE[match[2].lower()]) if match else 0.0
    if not 0 < value <= MAX_RATE:
        raise UsageError(
            f"'{text:.40}' is not a line rate",
            "write for example 10G, 2.5Gbps or 100M",
            code="not-a-number",
        )
    return value
