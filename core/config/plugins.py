"""Technology plugins, found through the entry point group ``v6t.plugins`` and loaded by name."""

from __future__ import annotations

import difflib
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from v6t.profiles.errors import UsageError

if TYPE_CHECKING:
    from v6t.plugins.base import Technology

GROUP = "v6t.plugins"


@dataclass(frozen=True)
class Listed:
    """One row of ``v6t plugins``; ``error`` says why a plugin cannot be used."""

    name: str
    distribution: str
    title: str = ""
    rfcs: tuple[str, ...] = ()
    error: str = ""


def names() -> list[str]:
    """Names of all plugins; none is imported."""
    return sorted({e.name for e in _entries()})


def load_plugin(name: str) -> type[Technology]:
    """The plugin's class.

    Raises:
        UsageError: no such plugin, two of that name, or one that cannot be imported.
    """
    found = [e for e in _entries() if e.name == name]
    if not found:
        begun = [n for n in names() if n.startswith(name)]
        near = begun or difflib.get_close_matches(name, names(), 1)
        meant = " or ".join(f"'{n}'" for n in near)
        raise UsageError(
            f"there is no plugin '{name}'",
            f"did you mean {meant}?" if near else "installed: " + ", ".join(names()),
        )
    if len(found) > 1:
        owners = " and ".join(_owner(e) for e in found)
        raise UsageError(f"two plugins are called '{name}': from {owners}", "uninstall one")
    return _load(found[0])


def listing() -> list[Listed]:
    """All plugins; broken ones are rows, not failures."""
    rows = []
    for entry in sorted(_entries(), key=lambda e: e.name):
        try:
            plugin = load_plugin(entry.name)
        except UsageError as exc:
            rows.append(Listed(entry.name, _owner(entry), error=exc.message))
        else:
            rows.append(Listed(entry.name, _owner(entry), plugin.title, plugin.rfcs))
    return rows


def _entries() -> list[EntryPoint]:
    return list(_installed(tuple(sys.path)))


@lru_cache(maxsize=4)
def _installed(_path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """What is installed along a search path; reading it takes long."""
    unique = {(e.name, e.value, _owner(e)): e for e in entry_points(group=GROUP)}
    return tuple(unique.values())


def _owner(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "an unknown distribution"


def _load(entry: EntryPoint) -> type[Technology]:
    from v6t.plugins.base import Technology

    try:
        plugin = entry.load()
    except Exception as exc:  # a foreign module may raise anything
        raise UsageError(
            f"the plugin '{entry.name}' of {_owner(entry)} cannot be loaded: "
            f"{type(exc).__name__}: {exc}"
        ) from exc
    if not (isinstance(plugin, type) and issubclass(plugin, Technology)):
        raise UsageError(f"the plugin '{entry.name}' of {_owner(entry)} is no Technology class")
    return plugin
