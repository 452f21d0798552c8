"""Benchmarks by name, found through the entry point group ``v6t.benchmarks``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from v6t.core.benchmarks.settings import Frozen
from v6t.profiles.errors import UsageError

if TYPE_CHECKING:
    from v6t.core.benchmarks.base import Benchmark
    from v6t.core.config.bound import BoundRun

GROUP = "v6t.benchmarks"


def names() -> list[str]:
    """Names of all benchmarks; none is imported."""
    return sorted({e.name for e in _entries(tuple(sys.path))})


def load(name: str) -> Benchmark[Any]:
    """A benchmark.

    Raises:
        UsageError: there is none of this name, or it cannot be loaded.
    """
    return _load(name, tuple(sys.path))


def installed() -> list[Benchmark[Any]]:
    """Every benchmark that can be loaded, in the order they are measured."""
    found = []
    for name in names():
        try:
            found.append(load(name))
        except UsageError:
            continue
    return _in_order(found)


def wanted(bound: BoundRun) -> list[Benchmark[Any]]:
    """A run's benchmarks in order, with those that others need."""
    names = list(bound.settings.benchmarks)
    for name in names:  # grows while it is walked
        names += [other for other in load(name).follows(bound) if other not in names]
    return _in_order(map(load, names))


def sections() -> dict[str, type[Frozen]]:
    """Settings of the installed benchmarks by their key below ``procedure``."""
    return {b.section: b.model for b in installed() if b.section and b.model}


def quick() -> dict[str, Any]:
    """What the preset ``quick`` makes of them."""
    return {
        b.section: b.quick.model_dump(exclude_unset=True)
        for b in installed()
        if b.section and b.quick
    }


def _in_order(found: Iterable[Benchmark[Any]]) -> list[Benchmark[Any]]:
    return sorted(found, key=lambda b: (b.phase, b.order, b.name))


@lru_cache(maxsize=4)
def _entries(_path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    return tuple({(e.name, e.value): e for e in entry_points(group=GROUP)}.values())


@lru_cache(maxsize=64)
def _load(name: str, path: tuple[str, ...]) -> Benchmark[Any]:
    from v6t.core.benchmarks.base import Benchmark

    found = [e for e in _entries(path) if e.name == name]
    if not found:
        raise UsageError(f"there is no benchmark '{name}'", "known: " + ", ".join(names()))
    if len(found) > 1:
        raise UsageError(f"two benchmarks are called '{name}'", "uninstall one")
    try:
        kind = found[0].load()
    except Exception as exc:  # a foreign module may raise anything
        raise UsageError(
            f"the benchmark '{name}' cannot be loaded: {type(exc).__name__}: {exc}"
        ) from exc
    if not (isinstance(kind, type) and issubclass(kind, Benchmark)):
        raise UsageError(f"the benchmark '{name}' is no Benchmark class")
    made: Benchmark[Any] = kind()
    return made
