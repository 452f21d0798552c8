"""Technology plugins, found through the entry point group ``v6t.plugins`` and loaded by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from v6t.base.entry_points import Extensions

if TYPE_CHECKING:
    from v6t.plugins.base import Technology

GROUP = "v6t.plugins"
TECHNOLOGIES: Extensions[Technology] = Extensions(GROUP, "v6t.plugins.base:Technology", "plugin")
names = TECHNOLOGIES.names
load_plugin = TECHNOLOGIES.load
listing = TECHNOLOGIES.list_rows
