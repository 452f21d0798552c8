"""``v6t doctor``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click
from v6t.base.errors import UsageError
from v6t.base.text import escape_line
from v6t.core.cli.paths import PATH
from v6t.core.cli.shell_completion import plugin_names
from v6t.core.cli.verbosity import verbosity_flags


@click.command(short_help="say what this machine can do and what is missing")
@click.option(
    "--testbed",
    type=PATH,
    help="Check the tester and the device that this file names.",
)
@click.option(
    "--plugin",
    shell_complete=plugin_names,
    help="What the device shall be; default: something that its driver can make of it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@verbosity_flags
def command(testbed: Path | None, plugin: str | None, as_json: bool) -> int:
    """Check this machine, and with --testbed whether a run on it would start.

    Exit status 3: the lab, or the testbed's tester or device, cannot be used as it is. The device is
    logged in to and looked at; nothing on it is changed.
    """
    from v6t.core.runs.doctor import examine

    tester = None
    if testbed is not None:
        from v6t.core.config.resolve import tester_of

        tester = tester_of(testbed)
    elif plugin is not None:
        raise UsageError(
            "--plugin is for the device of a testbed",
            "add --testbed FILE",
            code="conflicting-options",
        )
    findings = examine(tester)
    if testbed is not None:
        from v6t.core.runs.doctor import examine_device

        findings += examine_device(testbed, plugin)
    if as_json:
        click.echo(json.dumps([asdict(f) for f in findings], indent=1))
    else:
        for finding in findings:
            mark = {"ok": "ok     ", "note": "note   ", "missing": "MISSING"}[finding.state]
            click.echo(escape_line(f"{mark} {finding.what}: {finding.text}"))
    return 3 if any(f.state == "missing" for f in findings) else 0
