"""The installed modifiers, by name; importing this loads none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from v6t.base.entry_points import Extensions

if TYPE_CHECKING:
    from v6t.core.modifiers.base import Modifier

MODIFIERS: Extensions[Modifier] = Extensions(
    "v6t.modifiers", "v6t.core.modifiers.base:Modifier", "modifier"
)
