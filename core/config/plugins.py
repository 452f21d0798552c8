"""Technology plugins by name or alias, and modifiers by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from v6t.base.entry_points import Extensions

if TYPE_CHECKING:
    from v6t.core.modifiers.base import Modifier
    from v6t.plugins.base import Technology

ENTRY_POINT_GROUP = "v6t.plugins"
TECHNOLOGIES: Extensions[Technology] = Extensions(
    ENTRY_POINT_GROUP, "v6t.plugins.base:Technology", "plugin"
)
MODIFIERS: Extensions[Modifier] = Extensions(
    "v6t.modifiers", "v6t.core.modifiers.base:Modifier", "modifier"
)
ALIASES = {  # plugin names by alias in lower case
    alias: name
    for name, aliases in (
        ("clat", "464xlat xlat464"),
        ("dslite-aftr", "4in6 aftr ds-lite dslite"),
        ("lwaftr", "lightweight-4over6 lw406 lw4o6"),
        ("lwb4", "b4"),
        ("mape-br", "map-e map-e-br mape"),
        ("mape-ce", "map-e-ce"),
        ("mapt-br", "map-t map-t-br mapt"),
        ("mapt-ce", "map-t-ce"),
        ("nat44", "cgn cgnat nat444"),
        ("siit", "eam siit-dc"),
    )
    for alias in aliases.split()
}
list_names = TECHNOLOGIES.list_names
list_rows = TECHNOLOGIES.list_rows


def resolve_alias(name: str) -> str:
    """Return the plugin name for an alias, and any other name unchanged."""
    return name if name in list_names() else ALIASES.get(name.lower(), name)


def is_technology(name: str) -> bool:
    """Return whether a technology has this name or alias."""
    return resolve_alias(name) in list_names()


def load_technology_type(name: str) -> type[Technology]:
    """Return the class of a technology by its name or alias."""
    return TECHNOLOGIES.load(resolve_alias(name))
