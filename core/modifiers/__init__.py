"""Modifiers of RFC 2544 section 11: classes found through the entry points ``v6t.modifiers``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from v6t.base.entry_points import Extensions

if TYPE_CHECKING:
    from v6t.core.modifiers.base import Modifier

MODIFIERS: Extensions[Modifier] = Extensions(
    "v6t.modifiers", "v6t.core.modifiers.base:Modifier", "modifier"
)
