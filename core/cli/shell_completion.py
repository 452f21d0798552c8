"""Names that the shell offers: technologies, settings, benchmarks, drivers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from v6t.base.entry_points import Extensions

# Parameters with one or several names, separated by commas.
LIST_PARAMETERS = ("benchmarks", "suites")


def complete_parameter(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the completions of a parameter; an extension that cannot be loaded has its error as help."""
    name = str(param.name)
    prefix, comma, word = (
        incomplete.rpartition(",") if name in LIST_PARAMETERS else ("", "", incomplete)
    )
    helps: dict[str, str] = {}
    if extensions := _find_extensions(name):
        rows = extensions.list_rows(foreign=True)
        helps = {row.name: f"BROKEN: {row.error}" for row in rows if row.error}
        names = [*(["auto"] if name == "tester" else []), *extensions.list_names()]
    else:
        names = list(_find_names(name, ctx))
    return [
        CompletionItem(f"{prefix}{comma}{name}", help=helps.get(name))
        for name in dict.fromkeys(names)
        if name.startswith(word)
    ]


def _find_extensions(parameter: str) -> Extensions[Any] | None:
    """Return the extensions whose names a parameter takes, or None for other parameters."""
    if parameter == "suites":  # slow to import
        from v6t.audit.auditor import SUITES

        return SUITES
    from v6t.benchmarks.registry import BENCHMARKS
    from v6t.core.config.plugins import TECHNOLOGIES
    from v6t.drivers.duts.registry import DRIVERS
    from v6t.drivers.testers import TESTERS

    kinds = {"plugin": TECHNOLOGIES, "benchmarks": BENCHMARKS, "tester": TESTERS, "dut": DRIVERS}
    return kinds.get(parameter)


def _find_names(parameter: str, ctx: click.Context) -> Iterable[str]:
    """Return the names that a parameter takes, followed by ``=`` for assignments."""
    from v6t.core.config.explain import list_all_settings, list_settings
    from v6t.core.config.plugins import TECHNOLOGIES, load_technology_type
    from v6t.core.config.settings import make_procedure_model
    from v6t.drivers.testers import TESTERS
    from v6t.trials.trial import MODES

    usable = {row.name for row in TECHNOLOGIES.list_rows() if not row.error}
    plugin = ctx.params.get("plugin")
    plugin = plugin if plugin in usable else None
    models: list[Any] = []
    match parameter:
        case "modes":
            return MODES
        case "setting":
            return [row.name for row in list_all_settings(plugin)]
        case "procedure":
            models = [make_procedure_model()]
        case "params" if plugin is not None:
            models = [load_technology_type(plugin).params_model]
        case "tester_options":
            kinds = dict(TESTERS.load_all())
            models = [kinds[n].options_model for n in [ctx.params.get("tester")] if n in kinds]
    rows = (row.name for model in models for row in list_settings(model))
    return [f"{name}=" for name in rows if "[]" not in name]
