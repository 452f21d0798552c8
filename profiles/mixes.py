"""Mixed frame sizes: an Internet mix (IMIX, RFC 6985)."""

import math
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from v6t.base.errors import UsageError
from v6t.base.ethernet import MIN_FRAME_OCTETS
from v6t.profiles.compiler.schedule import list_classes
from v6t.profiles.model import FramePair

MIX_PREFIX = "imix"  # the first word of a mix
NAMED_MIXES = {"csit": "64x28,570x16,1518x4", "snabb": "64x5,594x3,1500x1"}
"""FD.io CSIT's IMIX_v4_1 (7:4:1), the default, and the one that Snabb's lwAFTR is tested with."""
MAX_SIZES = 16  # of a mix
MAX_ROUND_FRAMES = 10_000  # frames after which a mix repeats
MAX_GENOME_FRAMES = 99  # of a sequence that is spelled out (RFC 6985, section 3)
_SIZE_RE = re.compile(r"\s*(\d{1,5})\s*x\s*(\d{1,5})\s*")


@dataclass(frozen=True)
class FrameMix:
    """Sizes on both sides of the device, FCS included, each with its number of frames in a round."""

    pair_counts: tuple[tuple[FramePair, int], ...]

    @property
    def frames(self) -> int:
        return sum(count for _, count in self.pair_counts)

    @property
    def ipv6(self) -> float:
        """Mean size on the IPv6 side, to a thousandth of an octet."""
        return round(self._means[0], 3)

    @property
    def ipv4(self) -> float:
        return round(self._means[1], 3)

    @property
    def longest(self) -> float:
        """Mean size on the side where it is larger, which limits the frame rate on a medium."""
        return max(self._means)

    @property
    def mix(self) -> str:
        """``"84/64x28,570/550x16,1518x4"``: the IPv6 frame first, or one size where both are equal."""
        labels = ((p.label if p.ipv6 != p.ipv4 else p.ipv6, n) for p, n in self.pair_counts)
        return ",".join(f"{label}x{count}" for label, count in labels)

    @property
    def label(self) -> str:
        return format_mix(self.mix)

    @property
    def _means(self) -> list[float]:
        counts = self.pair_counts
        sums = (sum(p.ipv6 * n for p, n in counts), sum(p.ipv4 * n for p, n in counts))
        return [float(Fraction(octets, self.frames)) for octets in sums]


Sizes = FramePair | FrameMix  # frame sizes of a point


def sizes_to_json(sizes: Sizes) -> dict[str, Any]:
    """Convert sizes to the form in records: octets on both sides, and the mix if it is one."""
    fields: dict[str, Any] = {"ipv6": sizes.ipv6, "ipv4": sizes.ipv4}
    return fields if sizes.mix is None else {**fields, "mix": sizes.mix}


def format_sizes(fields: Mapping[str, Any]) -> str:
    """Format the output of :func:`sizes_to_json`: ``"104/64"``, or the mix."""
    mix = fields.get("mix")
    return format_mix(mix) if mix else f"{fields['ipv6']}/{fields['ipv4']}"


def describe_sequence(mix: str) -> str:
    """Describe the order of a mix within one class as in RFC 6985, sections 5 and 6.3."""
    sizes, _, counts_text = zip(*(part.rpartition("x") for part in mix.split(",")), strict=True)
    counts, letters = list(map(int, counts_text)), string.ascii_uppercase[: len(sizes)]
    table = ", ".join(map(" = ".join, zip(letters, sizes, strict=True)))
    frames = sum(counts) // math.gcd(*counts)
    rule = (
        "the k-th of n frames of a size is at (k - 1/2)/n of a round; of two at one place, the "
        "size written first leads"
    )
    if frames > MAX_GENOME_FRAMES:
        return f"{table} octets; {rule} (RFC 6985 section 6.3)"
    genome = "".join(letters[which] for which in list_classes(counts, 0, frames))
    return f"CUSTOM IMIX - {genome} ({table} octets; {rule}; RFC 6985 section 5)"


def format_mix(mix: str) -> str:
    """Format :attr:`FrameMix.mix` for display."""
    return f"{MIX_PREFIX} {mix.replace(',', ' ')}"


def is_mix(text: str) -> bool:
    """Return whether a text is a mix and not a number of octets."""
    return text.strip().lower().startswith(MIX_PREFIX)


def normalize_mix(text: str) -> str:
    """Return the full form of a mix: ``"imix:64x28,570x16,1518x4"``."""
    return f"{MIX_PREFIX}:{','.join(f'{size}x{count}' for size, count in parse_mix(text))}"


def parse_mix(text: str) -> tuple[tuple[int, int], ...]:
    """Parse ``imix``, ``imix:NAME`` or ``imix:OCTETSxFRAMES,...``; return (octets, frames) pairs."""
    word, _, spec = text.strip().lower().partition(":")
    spec = "csit" if word == text.strip().lower() == MIX_PREFIX else spec
    matches = [_SIZE_RE.fullmatch(part) for part in NAMED_MIXES.get(spec.strip(), spec).split(",")]
    entries = tuple((int(m[1]), int(m[2])) for m in matches if m)
    sizes, counts = [size for size, _ in entries], [count for _, count in entries]
    if len(entries) < len(matches) or 0 in counts:
        problem, code = "is not a mix of frame sizes", "invalid-frame-size-mix"
    elif min(sizes) < MIN_FRAME_OCTETS:
        problem = f"has frames of {min(sizes)} octets, too few for Ethernet"
        code = "frame-too-small"
    elif len(set(sizes)) < len(sizes):
        problem, code = "has a size twice", "duplicate"
    elif not 2 <= len(entries) <= MAX_SIZES:
        problem, code = f"has {len(entries)} sizes, not 2 to {MAX_SIZES}", "wrong-length"
    elif sum(counts) > MAX_ROUND_FRAMES * math.gcd(*counts):
        problem, code = f"has more than {MAX_ROUND_FRAMES:,} frames in a round", "out-of-range"
    else:
        return entries
    hint = "write imix, imix:snabb or for example imix:64x28,570x16,1518x4 (octets x frames)"
    raise UsageError(f"mix '{text:.60}' {problem}", hint, code=code)
