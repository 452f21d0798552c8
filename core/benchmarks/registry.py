"""Benchmarks by name, found through the entry point group ``v6t.benchmarks``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from v6t.profiles.extensions import Extensions

if TYPE_CHECKING:
    from v6t.analysis.presentation import Presentations
    from v6t.core.benchmarks.base import Benchmark
    from v6t.core.config.bound import BoundRun
    from v6t.profiles.strict_model import StrictModel

BENCHMARKS: Extensions[Benchmark[Any, Any]] = Extensions(
    "v6t.benchmarks", "v6t.core.benchmarks.base:Benchmark", "benchmark"
)
names = BENCHMARKS.names


def load(name: str) -> Benchmark[Any, Any]:
    """A benchmark.

    Raises:
        UsageError: there is none of this name.
        ExtensionError: it cannot be loaded.
    """
    return BENCHMARKS.load(name)()


def installed() -> list[Benchmark[Any, Any]]:
    """Every benchmark that can be loaded, in the order they are measured."""
    return _in_order(row.kind() for row in BENCHMARKS.listing() if row.kind is not None)


def wanted(bound: BoundRun) -> list[Benchmark[Any, Any]]:
    """A run's benchmarks in order, with those that others need."""
    names = list(bound.settings.benchmarks)
    for name in names:  # grows while it is walked
        names += [other for other in load(name).follows(bound) if other not in names]
    return _in_order(map(load, names))


def sections() -> dict[str, type[StrictModel]]:
    """Settings of the installed benchmarks by their key below ``procedure``."""
    return {b.section: b.model for b in installed() if b.section and b.model}


def quick() -> dict[str, Any]:
    """What the preset ``quick`` makes of them."""
    return {
        b.section: b.quick.model_dump(exclude_unset=True)
        for b in installed()
        if b.section and b.quick
    }


def presentations() -> Presentations:
    """How the records of every installed benchmark are shown."""
    from v6t.analysis.presentation import Presentations

    return Presentations(installed())


def results_schema() -> dict[str, Any]:
    """The JSON schema of ``results.json``, with the records of every installed benchmark."""
    from v6t.analysis.records import results

    return results.results_schema({b.name: b.record for b in installed()})


def _in_order(found: Iterable[Benchmark[Any, Any]]) -> list[Benchmark[Any, Any]]:
    return sorted(found, key=lambda b: (b.phase, b.order, b.name))
