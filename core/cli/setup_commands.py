"""Commands before the first run: ``v6t init``, ``doctor`` and ``selftest``."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

import click
from v6t.base.errors import UsageError
from v6t.base.text import escape_line
from v6t.core.cli import options
from v6t.core.cli.terminal import CommandResult, make_result
from v6t.core.log import print_notice

STATE_LABELS = {"ok": "ok     ", "note": "note   ", "missing": "MISSING"}  # by finding state


@click.command(cls=options.Command)
@options.path_option("--dir", "directory", default=".", show_default=True, text="Where to write.")
@options.path_option("--from-siitperf", "siitperf", metavar="FILE", text="Convert a siitperf.conf.")
@options.path_option(
    "--from-maptperf", "maptperf", metavar="FILE", text="Convert a maptperf.conf or mapperf.conf."
)
@options.path_option("--from-run", "run", metavar="DIR", text="Use an earlier run's settings.")
@options.plugin_option
def init_command(
    directory: Path,
    siitperf: Path | None,
    maptperf: Path | None,
    run: Path | None,
    plugin: str | None,
) -> None:
    """Write run.yaml and testbed.yaml with every setting explained.

    When converted from another tester, run.yaml ends with a list of the converted parameters.

    --from-maptperf takes --plugin mape-br or mapt-br; the default is mape-br if the file contains
    the BR's address.
    """
    if sum(path is not None for path in (siitperf, maptperf, run)) > 1:
        message = "one file at a time: --from-siitperf, --from-maptperf or --from-run"
        raise UsageError(message, code="conflicting-options")
    if plugin and not maptperf:
        hint = "omit it, and edit plugin and params in run.yaml"
        raise UsageError("--plugin goes with --from-maptperf", hint, code="conflicting-options")
    if source := siitperf or maptperf:
        from v6t.core.migrate.maptperf import read_maptperf
        from v6t.core.migrate.migration import migrate
        from v6t.core.migrate.siitperf import read_siitperf

        read = read_siitperf if siitperf else partial(read_maptperf, plugin=plugin)
        imported = migrate(source, read, directory, "siitperf" if siitperf else "Maptperf")
        paths = [directory / "run.yaml", directory / "testbed.yaml"]
        for parameter, meaning in imported.parameter_targets:
            if meaning.startswith("not known"):
                print_notice(f"v6t: note: line {parameter.line}: {parameter.name} is {meaning}")
    elif run:
        from v6t.core.runs.rundir import write_run_files

        paths = write_run_files(run, directory)
    else:
        from v6t.core.config.yaml_file import write_examples

        paths = write_examples(directory)
    for path in paths:
        click.echo(path)
    run_file, testbed = (quote(str(directory / name)) for name in ("run.yaml", "testbed.yaml"))
    click.echo(f"next: v6t run {run_file} --testbed {testbed}")


@click.command(cls=options.Command)
@options.testbed_option
@options.plugin_option
@options.json_option
def doctor_command(testbed: Path | None, plugin: str | None) -> CommandResult:
    """Check this machine and, with --testbed, whether a run on that testbed could start.

    Without --plugin, the device is checked for a technology that its driver supports.

    Exit status 3: the lab, or the testbed's tester or device, cannot be used. v6t logs in to the
    device and reads its state, without changes.
    """
    from v6t.core.config.resolve import resolve_tester
    from v6t.core.runs.doctor import examine_device, examine_machine

    if testbed is None and plugin is not None:
        problem = "--plugin is for the device of a testbed"
        raise UsageError(problem, "add --testbed FILE", code="conflicting-options")
    findings = [*examine_machine(None if testbed is None else resolve_tester(testbed))]
    if testbed is not None:
        findings += examine_device(testbed, plugin)
    lines = (escape_line(f"{STATE_LABELS[f.state]} {f.what}: {f.text}") for f in findings)
    status = 3 if any(finding.state == "missing" for finding in findings) else 0
    return make_result([*map(asdict, findings)], lines, indent=8, status=status)


@click.command(cls=options.RunCommand)
@options.run_options
@options.json_option
def selftest_command(**arguments: Any) -> CommandResult:
    """Measure the highest lossless rates of the tester itself, without a device in between."""
    setup = options.resolve_run(arguments)
    from v6t.core.runs.tester_capacity import measure_capacities

    setup.tester.prepare()
    rows = list(measure_capacities(setup, print_notice))
    rate = f"{setup.settings.line_rate_bps / 1e9:g}G"
    return make_result(rows, (_describe_capacity(row, rate) for row in rows))


def _describe_capacity(row: Mapping[str, Any], line_rate: str) -> str:
    from v6t.profiles.mixes import format_sizes

    server = f"server {row['server']}: " if "server" in row else ""
    place = f"{server}{format_sizes(row['frame_sizes'])} octets, {row['mode']}"
    usable = f"{row['usable_fps']:,.0f} usable"
    rates = f"{row['capacity_fps']:,.0f} fps per direction without loss, {usable}"
    limit = f"; limited by the line_rate of {line_rate}: the tester may carry more"
    is_limited = row["bounded_by"] == "line_rate"
    return f"{place}: {rates} ({row['trials']} trials){limit if is_limited else ''}"
