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
"""Value that selects a tester automatically, and the tester that is selected."""


def load_kind(name: str, options: Mapping[str, Any]) -> TesterKind:
    """Load a kind of tester with its options; raise UsageError if the kind or an option is wrong."""
    return TESTERS.load(name)(options)
