"""``v6t doctor``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click
from v6t.profiles.plain_text import in_one_line


@click.command(short_help="say what this machine can do and what is missing")
@click.option(
    "--testbed",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Check the tester that this file names.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(testbed: Path | None, as_json: bool) -> int:
    """Check this machine; exit status 3 if the lab or the testbed's tester cannot work here."""
    from v6t.core.runs.doctor import examine

    tester = None
    if testbed is not None:
        from v6t.core.config.resolve import tester_of

        tester = tester_of(testbed)
    findings = examine(tester)
    if as_json:
        click.echo(json.dumps([asdict(f) for f in findings], indent=1))
    else:
        for finding in findings:
            mark = {"ok": "ok     ", "note": "note   ", "missing": "MISSING"}[finding.state]
            click.echo(in_one_line(f"{mark} {finding.what}: {finding.text}"))
    return 3 if any(f.state == "missing" for f in findings) else 0
