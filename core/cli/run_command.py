"""``v6t run``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from v6t.core.cli.options import live_flag, report_flag, resolve_flags, run_flags


@click.command(short_help="measure a technology on a device")
@run_flags
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Directory for the results.")
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table.")
@report_flag
@live_flag
@click.option(
    "--bottleneck",
    is_flag=True,
    help="Afterwards, watch the device at the found throughput and say what limits it.",
)
@click.option("--dry-run", is_flag=True, help="Show trials, time and device settings; do nothing.")
def command(
    output: Path | None,
    as_json: bool,
    report: bool,
    live: str | None,
    bottleneck: bool,
    dry_run: bool,
    **given: Any,
) -> None:
    """Measure a technology on a device.

    Without further arguments: the quick preset, a demonstration of about a minute on the
    embedded tester with a reference device. RUN_FILE and --testbed take files that `v6t init`
    writes; flags win over files.
    """
    from v6t.core.cli.run_console import carry_out, show_plan

    bound = resolve_flags(given)
    if bottleneck:
        from v6t.core.runs.bottleneck import check_watchable

        check_watchable(bound)
    if dry_run:
        from v6t.core.config.checks import check_abilities
        from v6t.core.runs.bench import make_tester

        check_abilities(bound, make_tester(bound))  # a plan that cannot be carried out is none
        show_plan(bound, as_json)
        return
    bound.tester.prepare()
    carry_out(bound, output, as_json, report, bottleneck, live)
