"""``v6t run`` and ``resume``."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from v6t.base.errors import TranslationError, UsageError
from v6t.base.quantities import convert_quantity
from v6t.core.cli import options
from v6t.core.cli.terminal import CommandResult
from v6t.core.log import is_verbose, print_notice

if TYPE_CHECKING:
    from v6t.analysis.rundata import RunData
    from v6t.core.cli.run_console import RunOutput
    from v6t.core.config.run_setup import RunSetup

BELOW_LIMIT_STATUS = 7  # exit status: a throughput is below ``--fail-below``


def parse_rate(_ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Parse a frame rate with an optional suffix ``k``, ``M`` or ``G``.

    Raises:
        UsageError: the value is not a positive rate.
    """
    if value is None:
        return None
    with suppress(ValueError):
        rate_fps = float(convert_quantity("rate_fps", value))
        if 0 < rate_fps < math.inf:
            return rate_fps
    problem = f"{param.opts[0]} takes a rate in frames/s, not '{value}'"
    raise UsageError(problem, "for example 500000, 500k or 1.2M", code="wrong-form")


def load_baseline(
    _ctx: click.Context, _param: click.Parameter, path: Path | None
) -> tuple[Path, RunData] | None:
    """Load a run to compare with, so that an error ends the command before it measures."""
    if path is None:
        return None
    from v6t.core.runs.results import load_run

    return path, load_run(path)


baseline_option = options.path_option(
    "--baseline", callback=load_baseline, text="Compare with this run; status 7: a result is worse."
)
fail_below_option = click.option(
    "--fail-below",
    "min_fps",
    metavar="RATE",
    callback=parse_rate,
    help="End with status 7 if a throughput is below RATE frames/s per direction, for example 500k.",
)


@click.command(cls=options.RunCommand)
@options.run_options
@options.output_directory_option
@options.json_option
@options.report_option
@options.live_option
@options.flag("--bottleneck", text="Afterwards, sample the device and print what limits it.")
@click.option(
    "--audit",
    type=click.Choice(["warn", "refuse"]),
    help="First test the core clauses of `v6t audit`: print deviations, or refuse to measure.",
)
@fail_below_option
@baseline_option
@options.dry_run_option
def run_command(
    output: Path | None,
    report: bool,
    live: str | None,
    bottleneck: bool,
    audit: str | None,
    min_fps: float | None,
    baseline: tuple[Path, RunData] | None,
    dry_run: bool,
    **arguments: Any,
) -> CommandResult:
    """Measure a technology on a device.

    Without further arguments: the quick preset, a demonstration of about a minute on the
    embedded tester with a reference device. RUN_FILE and --testbed take files that `v6t init`
    writes; flags win over files. RUN is the directory of a run, which is repeated.
    """
    device_arguments = dict(arguments)  # `resolve_run` removes some
    setup = options.resolve_run(arguments)
    if bottleneck:
        from v6t.core.runs.bottleneck import check_has_driver

        check_has_driver(setup)
    planned_audit = _describe_audit(setup, audit) if audit else ""
    if dry_run:
        from v6t.core.cli.plan_view import make_plan_result
        from v6t.core.config.checks import check_capabilities
        from v6t.core.runs.rundir import check_directory_free

        if output is not None:
            check_directory_free(output)
        check_capabilities(setup)
        result = make_plan_result(setup, is_verbose())
        return replace(result, finish=partial(click.echo, planned_audit)) if audit else result
    from v6t.core.cli.run_console import RunOutput, execute_and_report
    from v6t.core.runs.rundir import choose_default_path
    from v6t.core.runs.runner import execute

    setup.tester.prepare()
    if audit:
        from v6t.core.cli.dut_command import with_rollback_command

        _audit_device(with_rollback_command(setup, device_arguments), refuse=audit == "refuse")
    path = output or choose_default_path(setup.settings)
    run_output = RunOutput(report, live, min_fps, baseline)
    measure = partial(execute, setup, path)
    data = execute_and_report(setup, path, run_output, measure, watch_device=bottleneck)
    return _make_checked_result(path, data, run_output)


def _make_checked_result(path: Path, data: RunData, output: RunOutput) -> CommandResult:
    from v6t.core.cli.results_commands import make_run_result

    return replace(make_run_result(data, path), finish=partial(_check_results, path, data, output))


def _check_results(path: Path, data: RunData, output: RunOutput) -> int:
    status = 0 if output.min_fps is None else _check_rates(data, output.min_fps)
    if (baseline := output.baseline) is None:
        return status
    from v6t.core.cli.results_commands import make_comparison_result
    from v6t.core.reporting.compare import compare_runs

    runs = baseline[1], data
    comparison = compare_runs(runs, allow_differences=False)
    result = make_comparison_result(comparison, None, (baseline[0], path), runs)
    return result.print(as_json=False) or status


def _check_rates(data: RunData, min_fps: float) -> int:
    """Print each throughput below ``min_fps`` and return the exit status."""
    measured = [(r.point, fps) for r in data.records if (fps := r.throughput_fps) is not None]
    lines = [
        f"{point}: {fps:,.0f} fps is below {min_fps:,.0f} fps"
        for point, fps in measured
        if fps < min_fps
    ]
    if not measured:
        lines = ["no throughput was measured: --fail-below cannot be checked"]
    for line in lines:
        click.echo(line, err=True)
    return BELOW_LIMIT_STATUS if lines else 0


def _describe_audit(setup: RunSetup, policy: str) -> str:
    """Return a description of the audit, or raise UsageError if the device cannot be audited."""
    from v6t.analysis.sheet import pluralize
    from v6t.audit.auditor import list_core_clauses

    if setup.tester.simulates:
        problem = f"the device of the {setup.tester.name} tester is simulated and cannot be audited"
        hint = "leave out --audit, or use --tester embedded"
        raise UsageError(problem, hint, code="unsupported-by-tester")
    if setup.driver.is_cable:
        raise UsageError("an audit needs a device", "leave out --audit", code="missing-device")
    clauses = pluralize(len(list_core_clauses(setup.technology)), "clause")
    effect = "ends the run" if policy == "refuse" else "is printed"
    subject = f"the core of `v6t audit`, {clauses}, is tested before the first trial"
    return f"audit: {subject}; a deviation from a MUST or SHOULD {effect}"


def _audit_device(setup: RunSetup, *, refuse: bool) -> None:
    """Test the core clauses on the device before the run, and print the result.

    Raises:
        TranslationError: the device deviates from a MUST or SHOULD, and ``refuse`` is true.
    """
    from v6t.audit.auditor import audit_core_clauses, list_core_clauses
    from v6t.core.audit_device import RunDevice
    from v6t.core.cli.stopping import handle_device_signals

    with handle_device_signals(setup):
        findings = audit_core_clauses(RunDevice(setup), list_core_clauses(setup.technology))
    failures = [f"{f.rfc} {f.section}: {f.title}: {f.got}" for f in findings]
    if failures and refuse:
        problem = f"the device deviates: {'; '.join(failures)}"
        hint = "`v6t audit` shows the frames; --audit warn measures it anyway"
        raise TranslationError(problem, hint, code="device-deviates")
    for line in failures or ["the device conforms to the core clauses"]:
        print_notice(f"audit: {line}")


@click.command(cls=options.Command)
@options.directory_argument
@options.json_option
@options.report_option
@options.live_option
@fail_below_option
@baseline_option
def resume_command(directory: Path | None, **arguments: Any) -> CommandResult:
    """Continue the run in DIRECTORY from its journal.

    Without one, or with `latest`: the latest run here or below ./runs.
    """
    from v6t.core.cli.run_console import RunOutput, continue_run
    from v6t.core.runs.rundir import resolve_run_path

    path, output = resolve_run_path(directory), RunOutput(**arguments)
    return _make_checked_result(path, continue_run(path, output), output)
