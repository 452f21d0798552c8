"""``v6t selftest``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from v6t.core.cli.options import RunCommand, json_option, resolve_run, run_options
from v6t.core.cli.terminal import CommandResult, make_result
from v6t.core.log import print_notice


@click.command(cls=RunCommand)
@run_options
@json_option
def command(**arguments: Any) -> CommandResult:
    """Measure the highest lossless rates of the tester itself, without a device in between."""
    bound = resolve_run(arguments)
    from v6t.core.runs.tester_capacity import measure_capacities

    bound.tester.prepare()
    rows = list(measure_capacities(bound, print_notice))
    rate = f"{bound.settings.line_rate_bps / 1e9:g}G"
    return make_result(rows, (_describe_capacity(row, rate) for row in rows))


def _describe_capacity(row: Mapping[str, Any], line_rate: str) -> str:
    """Return a line about a measured capacity."""
    from v6t.profiles.mixes import format_sizes

    server = f"server {row['server']}: " if "server" in row else ""
    line = (
        f"{server}{format_sizes(row['frame_sizes'])} octets, {row['mode']}: "
        f"{row['capacity_fps']:,.0f} fps per direction without loss, "
        f"{row['usable_fps']:,.0f} usable ({row['trials']} trials)"
    )
    if row["bounded_by"] == "line_rate":
        line += f"; that is all a line_rate of {line_rate} allows: the tester may do more"
    return line
