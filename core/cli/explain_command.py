"""``v6t explain``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from v6t.core.cli.options import Command, all_option, complete_parameter, json_option, plugin_option
from v6t.core.cli.terminal import CommandResult, make_result

if TYPE_CHECKING:
    from v6t.core.config.explain import ReferenceEntry


@click.command(cls=Command)
@click.argument("setting", nargs=-1, metavar="[NAME]...", shell_complete=complete_parameter)
@plugin_option
@all_option
@json_option
def command(setting: tuple[str, ...], plugin: str | None, show_all: bool) -> CommandResult:
    """Explain settings of the run and testbed files, benchmarks, terms and error codes.

    NAME is a setting, as in `procedure.latency.tags`, or the beginning or the end of several, as
    in `tester.options` or `tags`; a benchmark, as in `pdv`; or a word of tables, as in `P99` or
    `limited by the tester`; an error code; a column or field of the files of a run, as in
    `loss_percent`. Without a name: the names. With --plugin: the technology's parameters, too.
    """
    from v6t.core.config.explain import list_all_settings, list_names, look_up

    if not setting and not show_all:
        groups = list_names(plugin)
        shown = {
            kind: ", ".join(name for name in names if name.count(".") < 2)
            for kind, names in groups.items()
        }
        lines = (f"{kind}:\n  {names}" for kind, names in shown.items())
        return make_result(groups, lines, indent=0)
    found = list(list_all_settings(plugin)) if show_all else look_up(" ".join(setting), plugin)
    return make_result([asdict(row) for row in found], map(_describe_row, found), indent=0)


def _describe_row(row: ReferenceEntry) -> str:
    """Return a name with its kind and default, and its explanation."""
    default = f"; default: {row.default}" if row.default else ""
    return "\n    ".join([f"{row.name}: {row.kind}{default}", *row.text.splitlines()])
