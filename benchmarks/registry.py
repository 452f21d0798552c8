"""Benchmarks of a run, and how all of them are shown."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, cast

from v6t.benchmarks import kinds

if TYPE_CHECKING:
    from v6t.analysis.presentation import Presentations
    from v6t.benchmarks.base import Benchmark
    from v6t.benchmarks.context import RunContext, TechnologyClass

ALL = "all"
"""Stands for every benchmark that suits the technology."""


def load(name: str) -> Benchmark[Any, Any]:
    """A benchmark.

    Raises:
        UsageError: there is none of this name.
        ExtensionError: it cannot be loaded.
    """
    return cast("Benchmark[Any, Any]", kinds.load(name))


def everything(
    plugin: TechnologyClass, named: Collection[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What ``all`` means for a technology on this machine, and what it leaves out, in sentences.

    Args:
        plugin: of the technology.
        named: beside ``all``: what these lack is said when they are to be measured.
    """
    unfit = "never" if plugin.stateful else "only"
    fit = (b for b in kinds.installed() if b.exchange == plugin.exchange and b.connections != unfit)
    names: list[str] = []
    left_out: list[str] = []
    for benchmark in fit:
        if benchmark.in_all:
            missing = None if benchmark.name in named else benchmark.lacks()
            if missing is None:
                names.append(benchmark.name)
            else:
                left_out.append(f"left out of '{ALL}': {missing[0]} ({missing[1]})")
    return tuple(names), tuple(left_out)


def wanted(bound: RunContext) -> list[Benchmark[Any, Any]]:
    """A run's benchmarks in order, with those that others need."""
    names = list(bound.settings.benchmarks)
    for name in names:  # grows while it is walked
        names += [other for other in load(name).follows(bound) if other not in names]
    return kinds.in_order(map(load, names))


def presentations() -> Presentations:
    """How the records of every installed benchmark are shown."""
    from v6t.analysis.presentation import Presentations

    return Presentations(kinds.installed())


def results_schema() -> dict[str, Any]:
    """The JSON schema of ``results.json``, with the records of every installed benchmark."""
    from v6t.analysis import results_schema as results

    return results.results_schema({b.name: b.record for b in kinds.installed()})
