"""Frame sizes that come mixed, an Internet mix (IMIX, RFC 6985): how one is written, and what it is."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from v6t.base.errors import UsageError
from v6t.profiles.compiler.schedule import order
from v6t.profiles.model import FramePair
from v6t.profiles.wire import MIN_FRAME_OCTETS

WORD = "imix"
"""What the text of a mix begins with, where others have a number."""
NAMED = {"csit": "64x28,570x16,1518x4", "snabb": "64x5,594x3,1500x1"}
"""FD.io CSIT's IMIX_v4_1 (7:4:1, the one most often meant) and the one Snabb's lwAFTR is tested with."""
USUAL = "csit"
MOST_SIZES = 16
MOST_FRAMES = 10_000
_PART = re.compile(r"\s*(\d{1,5})\s*x\s*(\d{1,5})\s*")


LONGEST_GENOME = 99
"""Frames of a sequence that is spelled out (RFC 6985 section 3)."""


@dataclass(frozen=True)
class FrameMix:
    """Several sizes in a proportion; sizes on both sides of the device, FCS included.

    Attributes:
        pairs: the sizes, and how many frames of each there are in one round.
    """

    pairs: tuple[tuple[FramePair, int], ...]

    @property
    def frames(self) -> int:
        """Of one round."""
        return sum(count for _, count in self.pairs)

    @property
    def ipv6(self) -> float:
        """Mean size on the IPv6 side, to a thousandth of an octet."""
        return round(self._mean(6), 3)

    @property
    def ipv4(self) -> float:
        """The same of the IPv4 side."""
        return round(self._mean(4), 3)

    @property
    def longest(self) -> float:
        """Mean size on the side where it is larger: how many frames a medium carries follows from it."""
        return max(self._mean(6), self._mean(4))

    @property
    def mix(self) -> str:
        """``"84/64x28,570/550x16,1518/1498x4"``: the IPv6 frame first, or one size where both are equal."""
        return ",".join(
            f"{p.label if p.ipv6 != p.ipv4 else p.ipv6}x{count}" for p, count in self.pairs
        )

    @property
    def label(self) -> str:
        """For people: ``"imix 84/64x28 570/550x16 1518/1498x4"``."""
        return label_of(self.mix)

    def _mean(self, version: int) -> float:
        octets = sum((p.ipv6 if version == 6 else p.ipv4) * count for p, count in self.pairs)
        return float(Fraction(octets, self.frames))


Sizes = FramePair | FrameMix
"""Of the frames of a point."""


def listed_sizes(sizes: Sizes) -> dict[str, Any]:
    """As records hold them: octets on both sides, of a mix their means and what it is."""
    fields: dict[str, Any] = {"ipv6": sizes.ipv6, "ipv4": sizes.ipv4}
    return fields if sizes.mix is None else {**fields, "mix": sizes.mix}


def sizes_label(listed: Mapping[str, Any]) -> str:
    """Words for what :func:`listed_sizes` returns: ``"104/64"``, or the mix."""
    mix = listed.get("mix")
    return label_of(mix) if mix else f"{listed['ipv6']}/{listed['ipv4']}"


def sequence_of(mix: str) -> str:
    """The order of frame sizes where all frames are of one class, as RFC 6985 sections 5 and 6.3 write it.

    Args:
        mix: see :attr:`FrameMix.mix`.
    """
    listed = [part.rpartition("x") for part in mix.split(",")]
    counts = [int(count) for *_, count in listed]
    letters = string.ascii_uppercase[: len(counts)]
    table = ", ".join(
        f"{letter} = {sizes}" for letter, (sizes, *_) in zip(letters, listed, strict=True)
    )
    frames = sum(counts) // math.gcd(*counts)
    rule = (
        "of n frames of a size in a round the k-th comes at (k - 1/2)/n of it, where two fall "
        "together the one that is written first"
    )
    if frames > LONGEST_GENOME:
        return f"{table} octets; {rule} (RFC 6985 section 6.3)"
    genome = "".join(letters[which] for which in order(counts, 0, frames))
    return f"CUSTOM IMIX - {genome} ({table} octets; {rule}; RFC 6985 section 5)"


def label_of(mix: str) -> str:
    """Words for :attr:`FrameMix.mix`."""
    return f"{WORD} {mix.replace(',', ' ')}"


def is_mix(text: str) -> bool:
    """Whether somebody wrote a mix, not a number of octets."""
    return text.strip().lower().startswith(WORD)


def canonical(text: str) -> str:
    """A mix with its sizes, whatever name it was written with: ``"imix:64x28,570x16,1518x4"``.

    Args:
        text: ``imix``, ``imix:NAME`` or ``imix:OCTETSxFRAMES,...``.

    Raises:
        UsageError: that is none.
    """
    _, _, spec = text.strip().lower().partition(":")
    if text.strip().lower() == WORD:
        spec = USUAL
    return f"{WORD}:{','.join(f'{size}x{count}' for size, count in _parts(spec, text))}"


def parts(text: str) -> tuple[tuple[int, int], ...]:
    """Sizes and frames of each of a mix, as written.

    Raises:
        UsageError: see :func:`canonical`.
    """
    return _parts(canonical(text).partition(":")[2], text)


def _parts(spec: str, text: str) -> tuple[tuple[int, int], ...]:
    hint = (
        "write imix, imix:snabb or for example imix:64x28,570x16,1518x4 (octets x frames, in that "
        "proportion)"
    )
    matches = [_PART.fullmatch(part) for part in NAMED.get(spec.strip(), spec).split(",")]
    parts = tuple((int(m[1]), int(m[2])) for m in matches if m)
    if len(parts) < len(matches) or any(count == 0 for _, count in parts):
        raise UsageError(
            f"'{text:.60}' is not a mix of frame sizes", hint, code="invalid-frame-size-mix"
        )
    sizes = [size for size, _ in parts]
    if min(sizes) < MIN_FRAME_OCTETS:
        raise UsageError(
            f"no Ethernet frame has {min(sizes)} octets, '{text:.60}' has",
            hint,
            code="frame-too-small",
        )
    if len(set(sizes)) < len(sizes):
        raise UsageError(f"'{text:.60}' has a size twice", hint, code="duplicate")
    if not 2 <= len(parts) <= MOST_SIZES:
        raise UsageError(
            f"a mix has 2 to {MOST_SIZES} sizes, '{text:.60}' has {len(parts)}",
            hint,
            code="wrong-length",
        )
    if sum(count for _, count in parts) > MOST_FRAMES * math.gcd(*(count for _, count in parts)):
        raise UsageError(
            f"a round of '{text:.60}' has more than {MOST_FRAMES:,} frames",
            hint,
            code="out-of-range",
        )
    return parts
