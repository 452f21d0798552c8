"""``v6t doctor``."""

from __future__ import annotations

import json
from dataclasses import asdict

import click


@click.command(short_help="say what this machine can do and what is missing")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> int:
    """Check this machine; exit status 3 if the embedded lab cannot work here."""
    from v6t.core.doctor import examine

    findings = examine()
    if as_json:
        click.echo(json.dumps([asdict(f) for f in findings], indent=1))
    else:
        for finding in findings:
            mark = {"ok": "ok     ", "note": "note   ", "missing": "MISSING"}[finding.state]
            click.echo(f"{mark} {finding.what}: {finding.text}")
    return 3 if any(f.state == "missing" for f in findings) else 0
