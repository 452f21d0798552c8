"""Registry of the installed benchmarks."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from v6t.base.entry_points import OWN_PACKAGE, ExtensionRow, Extensions
from v6t.base.errors import ExtensionError

if TYPE_CHECKING:
    from v6t.analysis.presentation import Presentations
    from v6t.base.strict_model import StrictModel
    from v6t.benchmarks.base import Benchmark
    from v6t.benchmarks.point import RunContext, TechnologyClass

    Kind = ExtensionRow[Benchmark[Any, Any]]

B = TypeVar("B", bound="Benchmark[Any, Any]")

BENCHMARKS: Extensions[Benchmark[Any, Any]] = Extensions(
    "v6t.benchmarks", "v6t.benchmarks.base:Benchmark", "benchmark"
)

list_names = BENCHMARKS.list_names


def load(name: str) -> Benchmark[Any, Any]:
    """Load a benchmark by name; raise UsageError or ExtensionError if this fails."""
    kind = BENCHMARKS.load(name)
    for row in list_benchmarks() if kind.list_sections() else ():
        if row.name == name and row.kind is None:
            hint = "its author must choose another section"
            raise ExtensionError(row.error, hint, code="extension-broken")
    return kind()


def list_benchmarks() -> list[Kind]:
    """List all benchmarks; an extension whose settings collide with others is marked as broken."""
    rows = BENCHMARKS.list_rows()
    return [
        replace(row, kind=None, error=e) if (e := _find_clash(row, rows)) else row for row in rows
    ]


def _find_clash(row: Kind, rows: Iterable[Kind]) -> str:
    """Return the error of an extension whose settings collide with others, or ``""``."""
    mine = row.kind.list_sections() if row.kind and row.distribution != OWN_PACKAGE else {}
    for other in rows if mine else ():
        theirs = other.kind.list_sections() if other.kind else {}
        for key in mine.keys() & theirs.keys():
            if mine[key] is not theirs[key]:
                return (
                    f"the benchmark '{row.name}' of {row.distribution} has its settings in "
                    f"procedure.{key}, which '{other.name}' of {other.distribution} uses"
                )
    return ""


def load_installed() -> list[Benchmark[Any, Any]]:
    """Load every working benchmark, in the order of measurement."""
    return sort_benchmarks(row.kind() for row in list_benchmarks() if row.kind is not None)


def list_sections() -> dict[str, type[StrictModel]]:
    """Return the settings of the installed benchmarks by their key below ``procedure``."""
    return {key: model for b in load_installed() for key, model in b.list_sections().items()}


def list_flags() -> dict[str, list[str]]:
    """Return the settings of each command line flag of the benchmarks."""
    from v6t.benchmarks.settings import list_flags

    by_flag: dict[str, list[str]] = {}
    for section, model in list_sections().items():
        for flag, name in list_flags(model, f"{section}."):
            by_flag.setdefault(flag, []).append(name)
    return by_flag


def find_by_section(key: str) -> list[str]:
    """Find the benchmarks whose settings are below a key of ``procedure``."""
    return [b.name for b in load_installed() if key in b.list_sections()]


def make_quick_preset() -> dict[str, Any]:
    """Collect the settings of the preset ``quick``."""
    return {
        b.section: b.quick_settings.model_dump(exclude_unset=True)
        for b in load_installed()
        if b.section and b.quick_settings
    }


def sort_benchmarks(benchmarks: Iterable[B]) -> list[B]:
    """Sort benchmarks in the order of measurement."""
    return sorted(benchmarks, key=lambda b: (b.phase, b.order, b.name))


ALL_BENCHMARKS = "all"  # name for every benchmark that suits the technology


def expand_all(
    plugin: TechnologyClass, named: Collection[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Replace ``all`` by the benchmarks that suit a technology; return messages about others."""
    unfit = "forbidden" if plugin.stateful else "required"
    installed = (b for b in load_installed() if b.exchange == plugin.exchange)
    fit = (b for b in installed if b.connection_use != unfit)
    names: list[str] = []
    left_out: list[str] = []
    separate: list[str] = []
    for benchmark in fit:
        if benchmark.name in named:
            names.append(benchmark.name)
        elif not benchmark.included_in_all:
            separate.append(benchmark.name)
        elif missing := benchmark.find_missing_requirement():
            left_out.append(f"left out of '{ALL_BENCHMARKS}': {missing[0]} ({missing[1]})")
        else:
            names.append(benchmark.name)
    if separate:
        left_out.append(f"left out of '{ALL_BENCHMARKS}' unless named: {', '.join(separate)}")
    return tuple(names), tuple(left_out)


def select_benchmarks(context: RunContext) -> list[Benchmark[Any, Any]]:
    """Return a run's benchmarks in order, with the prerequisites."""
    names = list(context.settings.benchmarks)
    for name in names:  # grows while it is walked
        names += [other for other in load(name).list_prerequisites(context) if other not in names]
    return sort_benchmarks(map(load, names))


def load_presentations() -> Presentations:
    """Load the presentations of all benchmarks."""
    from v6t.analysis.presentation import Presentations

    return Presentations(load_installed())


def make_results_schema() -> dict[str, Any]:
    """Build the JSON schema of ``results.json``, with the records of every installed benchmark."""
    from v6t.analysis import results_schema as results

    return results.build_results_schema({b.name: b.record for b in load_installed()})
