"""``v6t selftest``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from v6t.core.cli.options import RunCommand, json_option, resolve_run, run_options
from v6t.core.cli.terminal import print_json, print_text
from v6t.core.log import print_notice


@click.command(cls=RunCommand)
@run_options
@json_option
def command(as_json: bool, **arguments: Any) -> None:
    """Measure the highest lossless rates of the tester itself, without a device in between."""
    bound = resolve_run(arguments)
    from v6t.core.runs.tester_capacity import measure_capacities
    from v6t.profiles.mixes import format_sizes

    bound.tester.prepare()
    rows = list(measure_capacities(bound, print_notice))
    if as_json:
        print_json(rows)
        return
    for row in rows:
        line = (
            f"{_describe_server(row)}{format_sizes(row['frame_sizes'])} octets, {row['mode']}: "
            f"{row['capacity_fps']:,.0f} fps per direction without loss, "
            f"{row['usable_fps']:,.0f} usable ({row['trials']} trials)"
        )
        if row["bounded_by"] == "line_rate":
            rate = f"{bound.settings.line_rate_bps / 1e9:g}G"
            line += f"; that is all a line_rate of {rate} allows: the tester may do more"
        print_text(line)


def _describe_server(row: Mapping[str, Any]) -> str:
    """Return a prefix that names the server of a row; empty if there is only one server."""
    return f"server {row['server']}: " if "server" in row else ""
