"""Numbers with units, as people write them: 60s, 10k, 1.5Mpps, 5%."""

import re
from fractions import Fraction

_NUMBER = r"\s*([+-]?\d{1,20}(?:\.\d{1,20})?)\s*"
_SECONDS = {
    **{"ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "µs": Fraction(1, 10**6)},
    **{"ms": Fraction(1, 1000), "s": Fraction(1), "min": Fraction(60), "h": Fraction(3600)},
}
_SCALES = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
_PERCENT = re.compile(_NUMBER + "()%")
_RATES = {
    "fps": (r"([kKMG]?)(?:fps|pps|cps|/s)?", "frames a second, for example 10k, 250000 or 1.5Mpps"),
    "cps": (r"([kKMG]?)(?:fps|pps|cps|/s)?", "connections a second, for example 10k or 10kcps"),
    "bps": (r"([kKMG]?)(?:bps|[bB]its?(?:ps|/s)?|b/s)", "bits a second, for example 100Mbps"),
    "percent": ("()%", "per cent, for example 0.5 or 0.5%"),
}
"""Unit and description of valid values, by the ending of a setting's name."""
_UNITS = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"}


def convert_quantity(name: str, text: str) -> str:
    """Convert a text to a number in the unit of a setting, or return it unchanged.

    Args:
        name: of the setting; its ending is its unit: ``_s``, ``_us``, ``_fps``, ``_bps``,
            ``_percent``; without one of these it is a count or a share of 1.
        text: a number with its unit, for example ``1.5Mpps`` for ``rate_fps``, or ``0.1%`` for a share.
    """
    ending = name.rpartition("_")[2]
    scales, unit = _SCALES, Fraction(1)
    pattern, _ = _RATES.get(ending, (r"([kKMG]?)", ""))
    if ending in _UNITS:
        scales, unit = _list_time_units(name), _SECONDS[ending]
        pattern = f"({'|'.join(scales)})"
    match = re.fullmatch(_NUMBER + pattern, text)
    if match is None:
        share = _PERCENT.fullmatch(text)
        return (
            text
            if share is None or ending in {*_RATES, *_UNITS}
            else repr(float(Fraction(share[1]) / 100))
        )
    value = Fraction(match[1]) * scales[match[2]] / unit
    return str(value.numerator) if value.denominator == 1 else repr(float(value))


def describe_quantity(name: str, text: str) -> str:
    """Return a hint about valid values of a setting that was given as text; may be empty."""
    ending = name.rpartition("_")[2]
    if ending in _UNITS:
        known = ", ".join(_list_time_units(name))
        return f"write {_UNITS[ending]}, or a number with one unit of {known}: 90s, 1.5min"
    if ending in _RATES:
        return f"write {_RATES[ending][1]}"
    return "k, M or G may stand after a number: 10k" if text.strip()[:1].isdigit() else ""


def is_bit_rate(text: str) -> bool:
    """Return whether a text is a rate in bits, not frames, per second."""
    return re.fullmatch(_NUMBER + _RATES["bps"][0], text) is not None


def _list_time_units(name: str) -> dict[str, Fraction]:
    """Return the units of a duration; ``m`` cannot mean milliseconds in that of a trial."""
    return {**_SECONDS, "m": Fraction(60)} if name.endswith("duration_s") else _SECONDS
