"""Numbers with units, as people write them: 60s, 10k, 1.5Mpps, 5%."""

from __future__ import annotations

import re
from fractions import Fraction

_NUMBER = r"\s*([+-]?\d{1,20}(?:\.\d{1,20})?)\s*"
_SECONDS = {
    **{"ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "µs": Fraction(1, 10**6)},
    **{"ms": Fraction(1, 1000), "s": Fraction(1), "min": Fraction(60), "h": Fraction(3600)},
}
_SCALES = {
    "": Fraction(1),
    **dict.fromkeys("kK", Fraction(1000)),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
}
_MINUTES = {**_SECONDS, "m": Fraction(60)}
"""Where nobody would mean a thousandth of a second."""
_TIME = re.compile(_NUMBER + rf"({'|'.join(_SECONDS)})")
_LONG_TIME = re.compile(_NUMBER + rf"({'|'.join(_MINUTES)})")
_COUNT = re.compile(_NUMBER + r"([kKMG]?)")
_FRAMES = re.compile(_NUMBER + r"([kKMG]?)(?:fps|pps|cps|/s)?")
_PERCENT = re.compile(_NUMBER + "()%")
_BITS = re.compile(_NUMBER + r"([kKMG]?)(?:bps|[bB]its?(?:ps|/s)?|b/s)")
_WANTED = {
    "fps": "frames a second, for example 10k, 250000 or 1.5Mpps",
    "cps": "connections a second, for example 10k, 2500 or 10kcps",
    "bps": "bits a second, for example 100Mbps or 1Gbit/s",
    "percent": "per cent, for example 0.5 or 0.5%",
}
_UNITS = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"}


def in_unit_of(name: str, text: str) -> str:
    """Convert a text to a number in the unit of a setting, or return it unchanged.

    Args:
        name: of the setting; its ending is its unit: ``_s``, ``_us``, ``_fps``, ``_bps``,
            ``_percent``; without one of these it is a count.
        text: a number with its unit, for example ``1.5Mpps`` for ``rate_fps``.
    """
    ending = name.rpartition("_")[2]
    if name.endswith("duration_s"):
        return _as_number(_LONG_TIME, text, _MINUTES)
    if ending in _UNITS:
        return _as_number(_TIME, text, _SECONDS, _SECONDS[ending])
    if ending == "bps":
        return _as_number(_BITS, text, _SCALES)
    if ending == "percent":
        return _as_number(_PERCENT, text, _SCALES)
    return _as_number(_FRAMES if ending in ("fps", "cps") else _COUNT, text, _SCALES)


def accepted(name: str, text: str, *, whole: bool) -> str:
    """Describe valid values of a setting; empty for any number.

    Args:
        name: of the setting.
        text: what was written.
        whole: whether the number must be a whole one.
    """
    ending = name.rpartition("_")[2]
    if ending in _UNITS:
        known = ", ".join(_MINUTES if name.endswith("duration_s") else _SECONDS)
        return f"write {_UNITS[ending]}, or a number with one unit of {known}: 90s, 1.5min"
    if ending in _WANTED:
        return f"write {_WANTED[ending]}"
    if not whole and (share := _PERCENT.fullmatch(text)):
        return f"write a share of 1: {float(Fraction(share[1]) / 100):g} for {text.strip()}"
    return "k, M or G may stand after a number: 10k" if text.strip()[:1].isdigit() else ""


def is_bit_rate(text: str) -> bool:
    """Whether somebody wrote bits, not frames, per second."""
    return _BITS.fullmatch(text) is not None


def _as_number(
    pattern: re.Pattern[str], text: str, scales: dict[str, Fraction], unit: Fraction = _SCALES[""]
) -> str:
    match = pattern.fullmatch(text)
    if match is None:
        return text
    value = Fraction(match[1]) * scales[match[2]] / unit
    return str(value.numerator) if value.denominator == 1 else repr(float(value))
