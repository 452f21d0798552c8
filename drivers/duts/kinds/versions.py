"""Versions of implementations, for comparisons."""

from __future__ import annotations

import re


def parse_version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version, such as (0, 9, 6, 16) for ``v0.9.6-16-g8a028c7``; () if none."""
    match = re.search(r"\d+(?:\.\d+)+(?:-\d+)?", text)
    return tuple(map(int, re.findall(r"\d+", match[0]))) if match else ()
