"""``v6t selftest``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from v6t.core.cli.options import resolve_flags, run_flags
from v6t.core.cli.settings_flags import Measuring
from v6t.core.cli.verbosity import verbosity_flags
from v6t.core.log import notice
from v6t.profiles.mixes import format_sizes

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun


@click.command(cls=Measuring, short_help="measure the tester's own capacity")
@run_flags
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@verbosity_flags
def command(as_json: bool, **given: Any) -> None:
    """Measure what the tester itself sends and receives without loss, without a device."""
    bound = resolve_flags(given)
    from v6t.core.runs.tester_capacity import measure_capacities

    bound.tester.prepare()
    rows = measure_capacities(bound, notice)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        click.echo(
            f"{format_sizes(row['frame_sizes'])} octets, {row['mode']}: "
            f"{row['capacity_fps']:,.0f} fps per direction without loss, "
            f"{row['usable_fps']:,.0f} usable ({row['trials']} trials)" + _bound(row, bound)
        )


def _bound(row: dict[str, Any], bound: BoundRun) -> str:
    """Describe the bound of a self-test: what was not tried is no limit of the tester."""
    if row["bounded_by"] != "line_rate":
        return ""
    return (
        f"; that is all a line_rate of {bound.settings.line_rate_bps / 1e9:g}G allows: "
        "the tester may do more"
    )
