"""The device's configuration as it was applied, and what it said of itself: one thing a line."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from v6t.analysis.blocks import Collapsible, Listing

LISTED = {"facts": "before the first change", "while_measured": "while it was measured"}
"""Texts that a device printed, and when."""


def as_applied(device: Mapping[str, Any], name: str) -> Iterator[Collapsible]:
    """Commands in their order, and what the device printed of itself; one click away."""
    commands: Sequence[str] = device.get("commands", ())
    if commands:
        text = "\n".join(line for command in commands for line in command_lines(command))
        summary = f"{name}: configuration as it was applied, {len(commands)} commands"
        yield Collapsible(summary, [Listing(text)], brief=True)
    for key, when in LISTED.items():
        parts: Mapping[str, str] = device.get(key) or {}
        texts = [part for part in parts.items() if part[1].strip()]
        if texts:
            text = "\n\n".join(
                "\n  ".join([f"{what}:", *_lines(text.strip())]) for what, text in texts
            )
            yield Collapsible(f"{name}: what it said {when}", [Listing(text)])


def command_lines(command: str) -> list[str]:
    """Write a command as one would type it, with its standard input below it."""
    line, fed, text = command.partition(" <<< ")
    if not fed:
        return [command]
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return [command]
    if not isinstance(value, str):
        return [command]
    return [f"{line} <<'END'", *value.splitlines(), "END"]


def _lines(text: str) -> list[str]:
    """Lines of a text; JSON with an entry a line."""
    if text[:1] in "[{":
        try:
            document = json.loads(text)
        except ValueError:
            return text.splitlines()
        entries = document if isinstance(document, list) else [document]
        return [json.dumps(entry) for entry in entries] or [text]
    return text.splitlines()
