"""``v6t explain``."""

from __future__ import annotations

import json
from dataclasses import asdict

import click
from v6t.core.cli import shell_completion
from v6t.core.cli.verbosity import verbosity_flags
from v6t.core.cli.wrapping import wrap


@click.command(short_help="say what a setting, a benchmark or a term means")
@click.argument("name", nargs=-1, shell_complete=shell_completion.settings)
@click.option(
    "--plugin", shell_complete=shell_completion.plugin_names, help="Look among its parameters, too."
)
@click.option("--all", "everything", is_flag=True, help="Explain all settings.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@verbosity_flags
def command(name: tuple[str, ...], plugin: str | None, everything: bool, as_json: bool) -> None:
    """Explain settings of run file and testbed file (kind, default, meaning), benchmarks, terms.

    NAME is a setting, as in `procedure.latency.tags`, or the beginning or the end of several, as
    in `tester.options` or `tags`; a benchmark, as in `pdv`; or a word of tables, as in `P99` or
    `limited by the tester`; an error code; a column or field of the files of a run, as in
    `loss_percent`. Without a name: the names.
    """
    from v6t.core.config.lookup import every_setting, list_names, look_up

    if not name and not everything:
        groups = list_names(plugin)
        if as_json:
            click.echo(json.dumps(groups, indent=1))
            return
        for kind, names in groups.items():
            click.echo(f"{kind}:")
            click.echo(wrap("  " + ", ".join(names), indent=2))
        return
    found = list(every_setting(plugin)) if everything else look_up(" ".join(name), plugin)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in found], indent=1))
        return
    for row in found:
        default = f"; default: {row.default}" if row.default else ""
        click.echo(f"{row.name}: {row.kind}{default}")
        for paragraph in row.text.splitlines():
            click.echo(wrap("    " + paragraph))
