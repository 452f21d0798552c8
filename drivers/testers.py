"""Kinds of testers by name, found through the entry point group ``v6t.testers``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from v6t.base.entry_points import Extensions

if TYPE_CHECKING:
    from v6t.drivers.tester_kind import TesterKind

ENTRY_POINT_GROUP = "v6t.testers"
TESTERS: Extensions[TesterKind] = Extensions(
    ENTRY_POINT_GROUP, "v6t.drivers.tester_kind:TesterKind", "tester"
)
AUTOMATIC, DEFAULT = "auto", "embedded"
"""What a file may say instead of a name, and the tester it then gets."""


def load_kind(name: str, options: Mapping[str, Any]) -> TesterKind:
    """Load a kind of tester with its options.

    Raises:
        UsageError: there is none of this name, or an option is wrong.
    """
    return TESTERS.load(name)(options)
