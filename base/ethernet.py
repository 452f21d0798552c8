"""Rates on an Ethernet line, and line rates as users write them."""

import re
from fractions import Fraction

from v6t.base.errors import UsageError

FCS_OCTETS = 4  # frame check sequence: counted in every frame size here, absent from TRex's packets
MIN_FRAME_OCTETS = 64  # smallest Ethernet frame, FCS included (IEEE 802.3)
GAP_OCTETS = 20
"""Preamble, start delimiter and interframe gap: 7 + 1 + 12 octets per frame (IEEE 802.3)."""
MAX_RATE_BPS = 1e15  # limit for line rates, up to which all arithmetic is exact enough
_SCALES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_NUMBER = r"(\d{1,20}(?:\.\d{1,20})?(?:[eE]\+?\d{1,2})?)\s*([kKmMgGtT]?)"
_LINE_RATE = re.compile(
    _NUMBER + r"(?:b(?:ps|/s)?|[bB][iI][tT][sS]?(?:ps|/s)?|(?<=[kKmMgGtT])[bB]?[eE])?"
)
_OCTET_RATE = re.compile(_NUMBER + r"(?:B|[bB][yY][tT][eE][sS]?)(?:ps|PS|/s|/S)?")


def compute_max_frame_rate_fps(line_rate_bps: float, frame_size: float, overhead: int = 0) -> int:
    """Return the maximum frame rate of a link, rounded down (RFC 8219, appendix A).

    Args:
        line_rate_bps: bits per second of the medium.
        frame_size: octets with FCS; of a mix of sizes their mean.
        overhead: octets that the device adds to ``frame_size`` before this line.

    Raises:
        UsageError: an impossible size or rate.
    """
    problem = hint = ""
    if line_rate_bps <= 0:
        problem = f"a line rate of {line_rate_bps} bit/s is not positive"
    elif frame_size < MIN_FRAME_OCTETS or overhead < 0:
        problem = f"frame size {frame_size} plus {overhead} octets is below the Ethernet minimum"
        hint = f"the smallest frame has {MIN_FRAME_OCTETS} octets, FCS included"
    if problem:
        raise UsageError(problem, hint, code="out-of-range")
    return int(Fraction(line_rate_bps) // (8 * (Fraction(frame_size) + overhead + GAP_OCTETS)))


def compute_frame_rate_fps(rate_bps: float, octets: float) -> float:
    """Return the frame rate of a bit rate that includes preamble and interframe gap."""
    return rate_bps / (8 * (octets + GAP_OCTETS))


def parse_line_rate(text: str) -> float:
    """Return the bits per second of ``"10G"``, ``"25Gbps"``, ``"10 gbit"``, ``"40GE"`` or ``"1e9"``.

    Raises:
        UsageError: not a line rate.
    """
    problem, hint = "is not a line rate", "write for example 10G, 2.5Gbps or 100M"
    if octets := _OCTET_RATE.fullmatch(text.strip()):
        number = f"{octets[1]}{octets[2]}"
        problem += ": B stands for bytes"
        hint = f"write {number} or {number}bit/s if bits are meant"
    elif match := _LINE_RATE.fullmatch(text.strip()):
        value = float(Fraction(match[1]) * _SCALES[match[2].lower()])
        if 0 < value <= MAX_RATE_BPS:
            return value
    raise UsageError(f"'{text:.40}' {problem}", hint, code="not-a-number")
