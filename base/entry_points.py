"""Extensions by entry points: load them by name, list broken ones, attribute errors to them.

One mechanism for technologies, device drivers, testers and benchmarks, v6t's own included.
"""

from __future__ import annotations

import copy
import inspect
import pkgutil
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, distributions
from typing import Generic, NamedTuple, TypeVar

from v6t.base.errors import ExtensionError, UsageError, V6tError
from v6t.base.text import suggest_names

T = TypeVar("T")
OWN_PACKAGE = "v6t"  # the distribution, and the package, of v6t itself
DEFECT_HINT = "a defect of that extension, not of v6t; `v6t --debug ...` shows the traceback"


@dataclass(frozen=True)
class ExtensionRow(Generic[T]):
    """One installed extension: its class, or the error for which it cannot be used."""

    name: str
    distribution: str
    kind: type[T] | None = None
    error: str = ""


class Extensions(Generic[T]):
    """All extensions of an entry point group, subclasses of ``base``, each imported when it is loaded.

    ``base`` has the form ``module:Class``; ``noun`` names the kind in messages.
    """

    def __init__(self, group: str, base: str, noun: str) -> None:
        self.group, self.noun, self._base = group, noun, base
        self._loaded: dict[tuple[str, ...], type[T]] = {}

    def list_names(self) -> list[str]:
        """Return all names without importing anything."""
        return sorted({entry.point.name for entry in self._list_entries()})

    def load(self, name: str) -> type[T]:
        """Load the class of this name.

        Raises:
            UsageError: no extension has this name, or several have it.
            ExtensionError: the extension cannot be imported, or is incomplete.
        """
        entries = [entry for entry in self._list_entries() if entry.point.name == name]
        if not entries:
            hint = suggest_names(name, self.list_names(), "installed")
            raise UsageError(f"unknown {self.noun} '{name}'", hint, code="unknown-name")
        if len(entries) > 1:
            owners = " and ".join(entry.owner for entry in entries)
            problem = f"two {self.noun}s are named '{name}': from {owners}"
            raise UsageError(problem, "uninstall one", code="duplicate")
        (entry,) = entries
        key = (name, entry.point.value, entry.owner, *sys.path)
        if key not in self._loaded:
            self._loaded[key] = self._import(entry)
        return self._loaded[key]

    def list_rows(self, *, foreign: bool = False) -> list[ExtensionRow[T]]:
        """Return all extensions, or those of other distributions only, by name."""
        rows = []
        for point, owner in sorted(self._list_entries(), key=lambda entry: entry.point.name):
            if foreign and owner == OWN_PACKAGE:
                continue
            try:
                rows.append(ExtensionRow(point.name, owner, self.load(point.name)))
            except V6tError as exc:
                rows.append(ExtensionRow(point.name, owner, error=exc.message))
        return rows

    def load_all(self) -> list[tuple[str, type[T]]]:
        """Return name and class of each extension that can be used."""
        return [(row.name, row.kind) for row in self.list_rows() if row.kind is not None]

    def _list_entries(self) -> tuple[InstalledEntry, ...]:
        """Return the installed entry points of the group."""
        return _find_in_group(tuple(sys.path), self.group)

    def _import(self, entry: InstalledEntry) -> type[T]:
        """Import the class of an entry point; refuse an incomplete one."""
        subject = f"the {self.noun} '{entry.point.name}' of {entry.owner}"
        try:
            kind: type[T] = entry.point.load()
        except (Exception, SystemExit) as exc:  # a foreign module may raise anything
            places = (at for package, at in _walk_frames(exc) if package == entry.package)
            # a syntax error names its place in its text
            place = "" if isinstance(exc, SyntaxError) and exc.filename else next(places, "")
            problem = f"cannot be loaded: {type(exc).__name__}: {exc}{place and f' ({place})'}"
            raise ExtensionError(f"{subject} {problem}", code="extension-broken") from exc
        if problem := _find_defect(kind, pkgutil.resolve_name(self._base)):
            raise ExtensionError(f"{subject} {problem}", code="extension-broken")
        return kind


def _find_defect(kind: type, base: type) -> str:
    """Return why a class is not a complete extension, or an empty string."""
    if not (isinstance(kind, type) and issubclass(kind, base)):
        return f"is not a subclass of {base.__name__}"
    announced = {
        name
        for part in base.__mro__
        for name, annotation in inspect.get_annotations(part).items()
        if str(annotation).startswith("ClassVar") and not hasattr(kind, name)
    }
    missing = sorted(announced | getattr(kind, "__abstractmethods__", frozenset()))
    return f"lacks {', '.join(missing)}" if missing else ""


@contextmanager
def attribute_errors() -> Iterator[None]:
    """Attribute errors in the context to the extension that raised or caused them."""
    try:
        yield
    except (ExtensionError, BrokenPipeError):
        raise
    except UsageError as exc:
        subject, place, is_origin = _find_culprit(exc)
        if not subject or is_origin:
            raise
        error = copy.copy(exc)
        error.add_hint(f"{subject} caused it ({place})")
        raise error from exc
    except V6tError:
        raise
    except Exception as exc:
        message = describe_culprit(exc)
        if message is None:
            raise
        raise ExtensionError(message, DEFECT_HINT, code="extension-broken") from exc


def describe_culprit(exc: BaseException) -> str | None:
    """Return the extension whose code raised an error, with file and line; None if it was v6t's own."""
    subject, place, _ = _find_culprit(exc)
    return f"{subject} failed: {type(exc).__name__}: {exc} ({place})" if subject else None


def _find_culprit(exc: BaseException) -> tuple[str, str, bool]:
    """Return the extension in a traceback, its innermost line, and whether that line raised the error."""
    for depth, (package, place) in enumerate(_walk_frames(exc)):
        entries = [e for e in _find_installed(tuple(sys.path)) if e.package == package]
        if entries and package != OWN_PACKAGE:
            name = f"'{entries[0].point.name}'" if len(entries) == 1 else "code"
            return f"{name} of {entries[0].owner}", place, depth == 0
    return "", "", False


def _walk_frames(exc: BaseException) -> list[tuple[str, str]]:
    """Return top-level package and place of each frame of a traceback, innermost first."""
    frames = [
        (frame.f_globals.get("__name__", ""), f"{frame.f_code.co_filename}, line {line}")
        for frame, line in traceback.walk_tb(exc.__traceback__)
    ]
    return [(module.partition(".")[0], place) for module, place in reversed(frames)]


class InstalledEntry(NamedTuple):
    """An entry point and the name of its distribution, which is slow to read."""

    point: EntryPoint
    owner: str

    @property
    def package(self) -> str:
        """The top-level package of its module, also of an entry point that cannot be parsed."""
        return self.point.value.partition(":")[0].partition(".")[0].strip()


@lru_cache(maxsize=4)
def _find_installed(_path: tuple[str, ...]) -> tuple[InstalledEntry, ...]:
    """Return the installed entry points along a search path, cached."""
    entries: dict[InstalledEntry, None] = {}
    for distribution in distributions():
        if f"[{OWN_PACKAGE}." in (distribution.read_text("entry_points.txt") or ""):
            owner = distribution.name
            entries |= {InstalledEntry(point, owner): None for point in distribution.entry_points}
    return tuple(entries)


@lru_cache(maxsize=64)
def _find_in_group(path: tuple[str, ...], group: str) -> tuple[InstalledEntry, ...]:
    return tuple(entry for entry in _find_installed(path) if entry.point.group == group)
