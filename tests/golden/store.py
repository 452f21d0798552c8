"""Stored results: a token for each line that a case computes, in a JSON file for each family of cases."""

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

Parts = dict[str, list[str]]
"""Results of a case: lines of text by the name of the part."""

DIRECTORY = Path(__file__).parent / "stored"
LONGEST_VERBATIM_LINE = 12
DIGEST_DIGITS = 8
SHOWN_LINES = 8
SHOWN_COLUMNS = 200


def make_token(line: str) -> str:
    """Return a short line unchanged, and the digest of any other line."""
    if 0 < len(line) <= LONGEST_VERBATIM_LINE and line.isprintable() and " " not in line:
        return line
    return "#" + hashlib.sha256(line.encode()).hexdigest()[:DIGEST_DIGITS]


def tokenize(parts: Parts) -> dict[str, str]:
    """Return the tokens of each part, separated by spaces; parts without lines are omitted."""
    return {part: " ".join(map(make_token, x)) for part, x in sorted(parts.items()) if x}


def load(family: str) -> dict[str, dict[str, str]]:
    """Return the stored tokens of all cases of a family by case and part."""
    path = DIRECTORY / f"{family}.json"
    cases: dict[str, dict[str, str]] = json.loads(path.read_text()) if path.exists() else {}
    return cases


def save(family: str, cases: Mapping[str, Mapping[str, str]]) -> None:
    """Store all cases of a family, one line for each part."""
    DIRECTORY.mkdir(exist_ok=True)
    text = json.dumps(cases, indent=0, sort_keys=True, ensure_ascii=True)
    (DIRECTORY / f"{family}.json").write_text(text + "\n")


def list_differences(stored: Mapping[str, str], parts: Parts) -> list[str]:
    """Return a message for each part that differs, with added lines as text and lost lines as tokens."""
    messages = []
    for part in sorted(stored.keys() | parts.keys()):
        lines = parts.get(part, [])
        before, after = stored.get(part, "").split(), [make_token(line) for line in lines]
        if before == after:
            continue
        matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
        changes: list[str] = []
        for operation, low, high, new_low, new_high in matcher.get_opcodes():
            if operation != "equal":
                changes += [f"- {lost}" for lost in before[low:high]]
                changes += [f"+ {line[:SHOWN_COLUMNS]}" for line in lines[new_low:new_high]]
        messages.append(f"{part}: {len(changes)} lines differ\n{_shown(changes)}")
    return messages


def _shown(changes: Iterable[str]) -> str:
    lines = [f"    {change}" for change in changes]
    rest = len(lines) - SHOWN_LINES
    return "\n".join(lines[:SHOWN_LINES] + ([f"    ... and {rest} more"] if rest > 0 else []))
