"""Benchmarks by name, found through the entry point group ``v6t.benchmarks``."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from v6t.profiles.errors import ExtensionError
from v6t.profiles.extensions import OWN, Extensions, Listed

if TYPE_CHECKING:
    from v6t.analysis.presentation import Presentations
    from v6t.core.benchmarks.base import Benchmark
    from v6t.core.config.bound import BoundRun
    from v6t.plugins.base import Technology
    from v6t.profiles.strict_model import StrictModel

BENCHMARKS: Extensions[Benchmark[Any, Any]] = Extensions(
    "v6t.benchmarks", "v6t.core.benchmarks.base:Benchmark", "benchmark"
)
names = BENCHMARKS.names
ALL = "all"
"""Stands for every benchmark that suits the technology."""


def load(name: str) -> Benchmark[Any, Any]:
    """A benchmark.

    Raises:
        UsageError: there is none of this name.
        ExtensionError: it cannot be loaded.
    """
    kind = BENCHMARKS.load(name)
    for row in listing() if kind.sections() else ():
        if row.name == name and row.kind is None:
            raise ExtensionError(row.error, "its author must choose another section")
    return kind()


def listing() -> list[Listed[Benchmark[Any, Any]]]:
    """All of them; an added one whose settings stand where another's do is broken."""
    rows = BENCHMARKS.listing()
    return [replace(row, kind=None, error=e) if (e := _clash(row, rows)) else row for row in rows]


def _clash(row: Listed[Benchmark[Any, Any]], rows: Iterable[Listed[Benchmark[Any, Any]]]) -> str:
    """Whose settings stand where those of an added benchmark do, in a sentence; empty: nobody's."""
    mine = row.kind.sections() if row.kind and row.distribution != OWN else {}
    for other in rows if mine else ():
        theirs = other.kind.sections() if other.kind else {}
        for key in mine.keys() & theirs.keys():
            if mine[key] is not theirs[key]:
                return (
                    f"the settings of the benchmark '{row.name}' of {row.distribution} stand below "
                    f"procedure.{key}, where those of '{other.name}' of {other.distribution} are"
                )
    return ""


def installed() -> list[Benchmark[Any, Any]]:
    """Every benchmark that can be loaded, in the order they are measured."""
    return _in_order(row.kind() for row in listing() if row.kind is not None)


def everything(
    plugin: type[Technology], named: Collection[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What ``all`` means for a technology on this machine, and what it leaves out, in sentences.

    Args:
        plugin: of the technology.
        named: beside ``all``: what these lack is said when they are to be measured.
    """
    unfit = "never" if plugin.stateful else "only"
    fit = (b for b in installed() if b.exchange == plugin.exchange and b.connections != unfit)
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


def wanted(bound: BoundRun) -> list[Benchmark[Any, Any]]:
    """A run's benchmarks in order, with those that others need."""
    names = list(bound.settings.benchmarks)
    for name in names:  # grows while it is walked
        names += [other for other in load(name).follows(bound) if other not in names]
    return _in_order(map(load, names))


def sections() -> dict[str, type[StrictModel]]:
    """Settings of the installed benchmarks by their key below ``procedure``."""
    return {key: model for b in installed() for key, model in b.sections().items()}


def flags() -> dict[str, list[str]]:
    """Flags of the command line that benchmarks ask for, with the settings each stands for."""
    from v6t.core.benchmarks.settings import flags_in

    by_flag: dict[str, list[str]] = {}
    for section, model in sections().items():
        for flag, name in flags_in(model, f"{section}."):
            by_flag.setdefault(flag, []).append(name)
    return by_flag


def of_section(key: str) -> list[str]:
    """Whose settings stand below a key of ``procedure``."""
    return [b.name for b in installed() if key in b.sections()]


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


def _in_order(benchmarks: Iterable[Benchmark[Any, Any]]) -> list[Benchmark[Any, Any]]:
    return sorted(benchmarks, key=lambda b: (b.phase, b.order, b.name))
