"""Summarize why trials were invalid; reasons that differ only in numbers or direction are merged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from v6t.analysis.record import InvalidTrial

_DIRECTION = re.compile(r"^(forward|reverse): ")
_TOO_LONG = re.compile(r"^(.+?) took .* allowed .*$")
_TOO_FEW = re.compile(r"^the tester sent \d+ of \d+ frames")
_NUMBER = re.compile(r"\d[\d.,]*")


def why_invalid(trials: Sequence[InvalidTrial]) -> str:
    """Return reasons with counts, the most frequent first.

    A trial with several reasons stands with each of them.

    Args:
        trials: invalid ones.

    Returns:
        Nothing if there are none.
    """
    counts = Counter(kind for t in trials for kind in dict.fromkeys(map(_kind, t.reasons)))
    return ", ".join(f"{count:,} because {kind}" for kind, count in counts.most_common())


def _kind(reason: str) -> str:
    plain = _DIRECTION.sub("", reason)
    long = _TOO_LONG.match(plain)
    if long:
        return f"{long[1]} took longer than allowed"
    return "frames were not sent" if _TOO_FEW.match(plain) else _NUMBER.sub("N", plain)
