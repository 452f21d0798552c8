"""What the shell offers after Tab: names of plugins, settings, benchmarks, drivers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem
    from v6t.base.entry_points import Extensions


def plugin_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Technologies; v6t's own are not imported."""
    from v6t.core.config.plugins import TECHNOLOGIES

    del ctx, param
    return _extensions(TECHNOLOGIES, incomplete)


def benchmarks(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Benchmarks, after a comma too."""
    from v6t.benchmarks.registry import BENCHMARKS

    del ctx, param
    return _listed(BENCHMARKS, incomplete)


def suites(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Suites of clauses, after a comma too."""
    from v6t.audit.auditor import SUITES

    del ctx, param
    return _listed(SUITES, incomplete)


def testers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Testers."""
    from click.shell_completion import CompletionItem
    from v6t.drivers.testers import AUTOMATIC, TESTERS

    del ctx, param
    own = [CompletionItem(name) for name in _beginning([AUTOMATIC], incomplete)]
    return [*own, *_extensions(TESTERS, incomplete)]


def presets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Presets."""
    del ctx, param
    return _beginning(("quick", "rfc"), incomplete)


def modes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Directions."""
    del ctx, param
    return _beginning(("bidirectional", "forward", "reverse"), incomplete)


def drivers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Device drivers."""
    from v6t.drivers.duts.registry import DRIVERS

    del ctx, param
    return _extensions(DRIVERS, incomplete)


def settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Every setting of the files."""
    from v6t.core.config.explain import every_setting

    del param
    return _beginning((row.name for row in every_setting(_plugin(ctx))), incomplete)


def parameters(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """``NAME=`` of the chosen technology's parameters."""
    from v6t.core.config.explain import settings_of
    from v6t.core.config.plugins import load_plugin

    del param
    plugin = _plugin(ctx)
    if plugin is None:
        return []
    return _assignments((row.name for row in settings_of(load_plugin(plugin).params_model)),
                        incomplete)  # fmt: skip


def procedure(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """``NAME=`` of the procedures' settings."""
    from v6t.core.config.explain import settings_of
    from v6t.core.config.settings import procedure_model

    del ctx, param
    return _assignments((row.name for row in settings_of(procedure_model())), incomplete)


def tester_options(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """``NAME=`` of the chosen tester's options."""
    from v6t.core.config.explain import settings_of
    from v6t.drivers.testers import TESTERS

    del param
    named = str(ctx.params.get("tester"))
    kinds = [row.kind for row in TESTERS.list_rows() if row.name == named and row.kind is not None]
    rows = (row.name for kind in kinds for row in settings_of(kind.options_model))
    return _assignments(rows, incomplete)


def _plugin(ctx: click.Context) -> str | None:
    from v6t.core.config.plugins import TECHNOLOGIES

    given = ctx.params.get("plugin")
    usable = {row.name for row in TECHNOLOGIES.list_rows() if not row.error}
    return str(given) if given in usable else None


def _extensions(found: Extensions[Any], incomplete: str) -> list[CompletionItem]:
    """Their names; what is wrong with a broken one of another distribution stands beside it."""
    from click.shell_completion import CompletionItem

    broken = {row.name: row.error for row in found.list_rows(foreign=True) if row.error}
    return [
        CompletionItem(name, help=f"BROKEN: {broken[name]}" if name in broken else None)
        for name in _beginning(found.names(), incomplete)
    ]


def _listed(found: Extensions[Any], incomplete: str) -> list[CompletionItem]:
    """Those that fit what stands behind the last comma."""
    before, comma, last = incomplete.rpartition(",")
    items = _extensions(found, last)
    for item in items:
        item.value = f"{before}{comma}{item.value}"
    return items


def _beginning(known: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in dict.fromkeys(known) if name.startswith(incomplete)]


def _assignments(known: Iterable[str], incomplete: str) -> list[str]:
    return [f"{name}=" for name in _beginning(known, incomplete) if "[]" not in name]
