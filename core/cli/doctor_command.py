"""``v6t doctor``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from v6t.base.errors import UsageError
from v6t.base.text import escape_line
from v6t.core.cli.options import Command, json_option, plugin_option, testbed_option
from v6t.core.cli.terminal import CommandResult, make_result

STATE_LABELS = {"ok": "ok     ", "note": "note   ", "missing": "MISSING"}  # by finding state


@click.command(cls=Command)
@testbed_option
@plugin_option
@json_option
def command(testbed: Path | None, plugin: str | None) -> CommandResult:
    """Check this machine and, with --testbed, whether a run on that testbed could start.

    Without --plugin, the device is checked for a technology that its driver supports.

    Exit status 3: the lab, or the testbed's tester or device, cannot be used. The device is
    logged in to and looked at; nothing on it is changed.
    """
    from v6t.core.config.resolve import resolve_tester
    from v6t.core.runs.doctor import examine_device, examine_machine

    if testbed is None and plugin is not None:
        raise UsageError(
            "--plugin is for the device of a testbed",
            "add --testbed FILE",
            code="conflicting-options",
        )
    findings = [*examine_machine(None if testbed is None else resolve_tester(testbed))]
    if testbed is not None:
        findings += examine_device(testbed, plugin)
    lines = (
        escape_line(f"{STATE_LABELS[finding.state]} {finding.what}: {finding.text}")
        for finding in findings
    )
    status = 3 if any(finding.state == "missing" for finding in findings) else 0
    return make_result([asdict(finding) for finding in findings], lines, indent=8, status=status)
