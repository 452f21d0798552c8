"""``v6t explain``."""

from __future__ import annotations

from dataclasses import asdict

import click
from v6t.core.cli.options import Command, complete_parameter, flag, json_option, name_option
from v6t.core.cli.terminal import print_json, print_text


@click.command(cls=Command)
@click.argument("setting", nargs=-1, metavar="[NAME]...", shell_complete=complete_parameter)
@name_option("--plugin", text="Look among its parameters, too.")
@flag("--all", "show_all", text="Explain all settings.")
@json_option
def command(setting: tuple[str, ...], plugin: str | None, show_all: bool, as_json: bool) -> None:
    """Explain settings of the run and testbed files, benchmarks, terms and error codes.

    NAME is a setting, as in `procedure.latency.tags`, or the beginning or the end of several, as
    in `tester.options` or `tags`; a benchmark, as in `pdv`; or a word of tables, as in `P99` or
    `limited by the tester`; an error code; a column or field of the files of a run, as in
    `loss_percent`. Without a name: the names.
    """
    from v6t.core.config.explain import list_all_settings, list_names, look_up

    if not setting and not show_all:
        groups = list_names(plugin)
        if as_json:
            print_json(groups)
            return
        for kind, names in groups.items():
            shown = ", ".join(name for name in names if name.count(".") < 2)
            print_text(f"{kind}:\n  {shown}", indent=0)
        return
    found = list(list_all_settings(plugin)) if show_all else look_up(" ".join(setting), plugin)
    if as_json:
        print_json([asdict(row) for row in found])
        return
    for row in found:
        default = f"; default: {row.default}" if row.default else ""
        print_text(f"{row.name}: {row.kind}{default}")
        for paragraph in row.text.splitlines():
            print_text(f"    {paragraph}", indent=0)
