"""``v6t selftest``."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
from v6t.core.cli.options import resolve_flags, run_flags


@click.command(short_help="measure the tester's own capacity")
@run_flags
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool, **given: Any) -> None:
    """Measure what the tester itself sends and receives without loss, without a device."""
    from v6t.core.runs.selftest import measure_capacities

    bound = resolve_flags(given)
    bound.tester.prepare()
    rows = measure_capacities(bound, lambda text: print(text, file=sys.stderr))
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        click.echo(
            f"{row['frame_sizes']['ipv6']}/{row['frame_sizes']['ipv4']} octets, {row['mode']}: "
            f"{row['capacity_fps']:,.0f} fps per direction without loss, "
            f"{row['usable_fps']:,.0f} usable ({row['trials']} trials)"
        )
