"""Technology plugins by name or alias."""

from __future__ import annotations

from typing import TYPE_CHECKING

from v6t.base.entry_points import Extensions

if TYPE_CHECKING:
    from v6t.plugins.base import Technology

ENTRY_POINT_GROUP = "v6t.plugins"
TECHNOLOGIES: Extensions[Technology] = Extensions(
    ENTRY_POINT_GROUP, "v6t.plugins.base:Technology", "plugin"
)
# Plugin names by alias in lower case.
ALIASES = {
    "464xlat": "clat",
    "4in6": "dslite-aftr",
    "aftr": "dslite-aftr",
    "b4": "lwb4",
    "cgn": "nat44",
    "cgnat": "nat44",
    "ds-lite": "dslite-aftr",
    "dslite": "dslite-aftr",
    "eam": "siit",
    "lw4o6": "lwaftr",
    "lw406": "lwaftr",
    "lightweight-4over6": "lwaftr",
    "map-e": "mape-br",
    "map-e-br": "mape-br",
    "map-e-ce": "mape-ce",
    "map-t": "mapt-br",
    "map-t-br": "mapt-br",
    "map-t-ce": "mapt-ce",
    "mape": "mape-br",
    "mapt": "mapt-br",
    "nat444": "nat44",
    "siit-dc": "siit",
    "xlat464": "clat",
}
list_names = TECHNOLOGIES.names
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
