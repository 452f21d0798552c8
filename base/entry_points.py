"""What is added by entry points: found, loaded by name, listed when broken, blamed for its errors.

One mechanism for technologies, device drivers, testers and benchmarks, v6t's own included.
"""

from __future__ import annotations

import difflib
import inspect
import pkgutil
import sys
import traceback
from abc import ABCMeta
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, distributions
from typing import Generic, NamedTuple, TypeVar

from v6t.base.errors import ExtensionError, UsageError, V6tError

T = TypeVar("T")
OWN = "v6t"
"""The distribution, and the package, whose errors are its own."""
BLAMED = "a defect of that extension, not of v6t; `v6t --debug ...` shows the traceback"


@dataclass(frozen=True)
class Listed(Generic[T]):
    """One extension; ``error`` says why it cannot be used."""

    name: str
    distribution: str
    kind: type[T] | None = None
    error: str = ""


class _Point(NamedTuple):
    """An entry point and whose it is; asking its distribution again means parsing its metadata."""

    entry: EntryPoint
    owner: str

    @property
    def name(self) -> str:
        """Of the extension."""
        return self.entry.name

    @property
    def root(self) -> str:
        """Package or module it is in."""
        return _root(self.entry.value)


class Extensions(Generic[T]):
    """All extensions of one kind. Each is imported when it is asked for."""

    def __init__(self, group: str, base: str, what: str) -> None:
        """Remember; nothing is imported.

        Args:
            group: of the entry points.
            base: ``module:Class`` that every one of them inherits from.
            what: it is, in messages.
        """
        self.group = group
        self.what = what
        self._base = base
        self._loaded: dict[tuple[str, ...], type[T]] = {}

    def names(self) -> list[str]:
        """All names; none is imported."""
        return sorted(self._entries())

    def load(self, name: str) -> type[T]:
        """Load the class of this name.

        Raises:
            UsageError: there is none, or there are two.
            ExtensionError: it cannot be imported, or is incomplete.
        """
        entries = self._entries().get(name, ())
        if not entries:
            raise UsageError(
                f"unknown {self.what} '{name}'",
                nearest(name, self.names(), "installed"),
                code="unknown-name",
            )
        if len(entries) > 1:
            owners = " and ".join(e.owner for e in entries)
            raise UsageError(
                f"two {self.what}s are called '{name}': from {owners}",
                "uninstall one",
                code="duplicate",
            )
        return self._load(entries[0])

    def listing(self, *, foreign: bool = False) -> list[Listed[T]]:
        """All of them, or other distributions' only; broken ones are rows, not failures."""
        rows = []
        for entry in (e for _, points in sorted(self._entries().items()) for e in points):
            if foreign and entry.owner == OWN:
                continue
            try:
                rows.append(Listed(entry.name, entry.owner, self.load(entry.name)))
            except V6tError as exc:
                rows.append(Listed(entry.name, entry.owner, error=exc.message))
        return rows

    def _entries(self) -> Mapping[str, Sequence[_Point]]:
        return _of_group(self.group, tuple(sys.path))

    def _load(self, point: _Point) -> type[T]:
        key = (point.name, point.entry.value, point.owner, *sys.path)
        if key not in self._loaded:
            self._loaded[key] = self._checked(point)
        return self._loaded[key]

    def _checked(self, point: _Point) -> type[T]:
        subject = f"the {self.what} '{point.name}' of {point.owner}"
        try:
            kind = point.entry.load()
        except (Exception, SystemExit) as exc:  # a foreign module may raise anything
            raise ExtensionError(
                f"{subject} cannot be loaded: {_words(exc)}{_place(exc, point)}",
                code="extension-broken",
            ) from exc
        base: type[T] = pkgutil.resolve_name(self._base)
        if not (isinstance(kind, type) and issubclass(kind, base)):
            raise ExtensionError(
                f"{subject} is not a subclass of {base.__name__}", code="extension-broken"
            )
        lacking = sorted({*_abstract(kind), *_unset(base, kind)})
        if lacking:
            raise ExtensionError(f"{subject} lacks {', '.join(lacking)}", code="extension-broken")
        return kind


@contextmanager
def blaming() -> Iterator[None]:
    """Errors out of an extension's own code name its distribution, file and line.

    So do those that v6t's code raises for what an extension asked of it.
    """
    try:
        yield
    except (ExtensionError, BrokenPipeError):
        raise
    except UsageError as exc:
        blamed = _blamed(exc)
        if blamed is None or blamed.itself:
            raise
        error = UsageError(exc.message, exc.hint, path=exc.path, located=exc.located, code=exc.code)
        error.advise(f"{blamed.subject} caused it ({blamed.where})")
        raise error from exc
    except V6tError:
        raise
    except Exception as exc:
        message = blame(exc)
        if message is None:
            raise
        raise ExtensionError(message, BLAMED, code="extension-broken") from exc


class _Blamed(NamedTuple):
    """The last line of an extension on the way to an error; ``itself``: the error arose in it."""

    subject: str
    where: str
    itself: bool


def _blamed(exc: BaseException) -> _Blamed | None:
    for depth, (frame, line) in enumerate(reversed(list(traceback.walk_tb(exc.__traceback__)))):
        points = _foreign().get(_root(frame.f_globals.get("__name__", "")))
        if points:
            owner = points[0].owner
            subject = f"'{points[0].name}' of {owner}" if len(points) == 1 else f"code of {owner}"
            return _Blamed(subject, f"{frame.f_code.co_filename}, line {line}", depth == 0)
    return None


def blame(exc: BaseException) -> str | None:
    """Which extension's code an error comes from, with file and line; None: no extension's."""
    blamed = _blamed(exc)
    if blamed is None:
        return None
    return f"{blamed.subject} failed: {_words(exc)} ({blamed.where})"


def nearest(name: str, known: Iterable[str], word: str = "known") -> str:
    """Return a hint at similar known names, or at all of them."""
    known = list(known)
    return meant(name, known) or f"{word}: {', '.join(known)}"


def meant(name: str, known: Iterable[str]) -> str:
    """Return a hint at similar known names, or an empty string."""
    near = near_names(name, known)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else ""


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Those that begin with it, or the one that is most alike."""
    known = list(known)
    begun = [k for k in known if name and k.startswith(name)]
    return begun or difflib.get_close_matches(name, known, 1)


@lru_cache(maxsize=4)
def _installed(_path: tuple[str, ...]) -> tuple[_Point, ...]:
    """Find the installed entry points along a search path; reading takes long."""
    points: dict[tuple[str, str, str, str], _Point] = {}
    for distribution in distributions():
        if f"[{OWN}." in (distribution.read_text("entry_points.txt") or ""):
            owner = distribution.name
            for entry in distribution.entry_points:
                point = _Point(entry, owner)
                points.setdefault((entry.group, entry.name, entry.value, owner), point)
    return tuple(points.values())


@lru_cache(maxsize=32)
def _of_group(group: str, path: tuple[str, ...]) -> dict[str, list[_Point]]:
    """List the installed entry points of a group by name; names may repeat."""
    by_name: dict[str, list[_Point]] = {}
    for point in _installed(path):
        if point.entry.group == group:
            by_name.setdefault(point.name, []).append(point)
    return by_name


def _foreign() -> dict[str, list[_Point]]:
    """List other distributions' extensions by the package they are in."""
    by_root: dict[str, list[_Point]] = {}
    for point in _installed(tuple(sys.path)):
        if point.root != OWN:
            by_root.setdefault(point.root, []).append(point)
    return by_root


def _root(module: str) -> str:
    return module.partition(":")[0].partition(".")[0]


def _words(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {exc}"


def _place(exc: BaseException, point: _Point) -> str:
    """File and line of the extension's own code where loading failed, if it came so far."""
    if isinstance(exc, SyntaxError) and exc.filename:
        return ""  # its words say so
    own = [
        f" ({frame.f_code.co_filename}, line {line})"
        for frame, line in traceback.walk_tb(exc.__traceback__)
        if _root(frame.f_globals.get("__name__", "")) == point.root
    ]
    return own[-1] if own else ""


def _abstract(kind: type) -> frozenset[str]:
    return kind.__abstractmethods__ if isinstance(kind, ABCMeta) else frozenset()


def _unset(base: type, kind: type) -> Iterator[str]:
    """Class attributes that the base only announces, and the class does not have."""
    for part in base.__mro__:
        for name, annotation in inspect.get_annotations(part).items():
            if str(annotation).startswith("ClassVar") and not hasattr(kind, name):
                yield name
