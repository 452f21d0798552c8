"""What PF's ``pfctl`` prints, read: rules, states, limits and reasons for loss."""

from __future__ import annotations

import re
from collections.abc import Mapping

from v6t.drivers.duts.commands import Lost

AUTOMATIC = re.compile(r"<__automatic_\w+>")
"""A table that pfctl made of a list; its name holds a number drawn for each loading."""


LOSSES = {
    **dict.fromkeys(("memory", "state_limit", "src_limit", "translate"), Lost.ROOM),
    "state_insert": Lost.ENTRY,
    "congestion": Lost.QUEUE,
    **dict.fromkeys(
        ("bad_offset", "fragment", "short", "normalize", "bad_timestamp", "ip_option", "proto_cksum",
         "state_mismatch", "no_route"), Lost.RULE),
}  # fmt: skip
"""PF's reasons (``PFRES_NAMES`` of pfvar.h) for which it drops; ``translate``: it found no port."""
_INFO = {"current entries": "sessions", **{name.replace("_", "-"): name for name in LOSSES}}


def info(text: str) -> Mapping[str, float]:
    """``pfctl -si``: states, and reasons for loss."""
    counters: dict[str, float] = {}
    for line in text.splitlines():
        match = re.match(r"\s+([a-z][a-z -]*?)\s{2,}(\d+)", line)
        if match and match.group(1) in _INFO:
            counters[_INFO[match.group(1)]] = float(match.group(2))
    return counters


def translated(text: str) -> float | None:
    """Count the states of all translating rules in the output of ``pfctl -vsr``.

    The count includes states that are marked but not freed yet. Returns None without such a rule.
    """
    found = re.findall(
        r"^\S.* (?:nat-to|af-to) .*\n\s+\[ Evaluations: .* States: (\d+)", text, re.MULTILINE
    )
    return float(sum(int(n) for n in found)) if found else None


def limits(text: str) -> Mapping[str, float]:
    """``pfctl -sm``: what the table of states holds."""
    match = re.search(r"^states\s+hard limit\s+(\d+)", text, re.MULTILINE)
    return {"states": float(match.group(1))} if match else {}


def rules(text: str, tables: str) -> list[str]:
    """Parse rules alone, without their numbers: ``-nvf`` prints options and macros, too.

    Args:
        text: of ``pfctl -sr`` or ``-nvf``; what other files hold is loaded into anchors, and
            printed by ``-nvf`` alone.
        tables: lines that say what is in those that were made of lists.
    """
    held = {
        name: "{ " + " ".join(sorted(words.split())) + " }"
        for name, words in re.findall(r"^table (<__automatic_\w+>) const \{(.*)\}", tables, re.M)
    }
    own = re.split(r"^Loading anchor ", text, maxsplit=1, flags=re.MULTILINE)[0]
    lines = (" ".join(re.sub(r"^@\d+ ", "", line).split()) for line in own.splitlines())
    return [
        AUTOMATIC.sub(lambda match: held.get(match.group(), "<a table>"), line)
        for line in lines
        if line.split(" ")[0] in ("pass", "block", "match", "anchor")
    ]
