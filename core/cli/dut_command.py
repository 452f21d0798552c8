"""``v6t dut``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from v6t.base.errors import UsageError
from v6t.core.cli import options
from v6t.core.cli.terminal import CommandResult, make_result, print_table
from v6t.core.log import is_verbose, print_notice
from v6t.core.runs import dut

if TYPE_CHECKING:
    from v6t.core.config.run_setup import RunSetup

ROLLBACK_COMMAND = ("v6t", "dut", "rollback")
DIFFERENCE_STATUS = 7  # exit status: a comparison found a difference
# Procedure settings for single frames, small enough for devices that hold few sessions.
FEW_CONNECTIONS = {"connections": {"count": 16}}

dut_options = options.combine_options(options.device_options, options.json_option)


@click.group(cls=options.CommandGroup, no_args_is_help=False)
def dut_command() -> None:
    """Control the device under test without a run.

    `plan` needs neither a device nor a testbed file. The others reach the device the testbed
    file describes (dut.options.ssh). A run's directory replaces RUN_FILE and --testbed.
    """


@dut_command.command("list", short_help="list the device drivers")
@options.json_option
def list_command() -> CommandResult:
    """List the device drivers, their technologies, and whether their programs are installed here."""
    from v6t.analysis.sheet import make_text_columns, make_text_table
    from v6t.core.runs.doctor import list_drivers

    drivers, rows = list_drivers(), []
    for driver in drivers:
        missing = [name for name, is_installed in driver.programs.items() if not is_installed]
        programs = f"missing: {' '.join(missing)}" if missing else " ".join(driver.programs)
        rows.append((driver.name, " ".join(driver.technologies) or "any", programs or "-"))
    columns = make_text_columns("driver", "technologies", "programs")
    table = make_text_table("Device drivers and their programs on this machine", columns, rows)
    return CommandResult(lambda: [*map(asdict, drivers)], partial(print_table, table))


@dut_command.command("plan", short_help="print every command, its undo and its check")
@dut_options
def plan_command(**arguments: Any) -> CommandResult:
    """Print what the driver would do, without connecting to the device or a tester."""
    return _make_plan_result(arguments)


def _make_plan_result(arguments: dict[str, Any]) -> CommandResult:
    run = resolve_device_run(arguments)
    from v6t.drivers.duts.session.plan_steps import export_plan, format_plan

    driver, plan = run.driver, run.example_plan
    return make_result(export_plan(driver, plan), [format_plan(driver, plan)])


@dut_command.command("compare", short_help="show how the device differs from the plan")
@dut_options
def compare_command(**arguments: Any) -> CommandResult:
    """Compare the plan with the present state of the device, without changing the device.

    Prints the steps that differ; with -v all. Exit status 7: a step differs.
    """
    with _use_device(arguments) as run:
        from v6t.drivers.duts.session.plan_steps import StepState, format_comparison

        name, steps = dut.compare(run)
    states = [step.state for step in steps]
    as_planned, unread = map(states.count, (StepState.PRESENT, StepState.UNKNOWN))
    summary = f"{name}: {as_planned} of {len(steps)} steps as planned"
    summary += f", {unread} without read-back" if unread else ""
    value = {"device": name, "steps": [asdict(step) for step in steps]}
    lines = format_comparison(steps, with_equal=is_verbose())
    status = DIFFERENCE_STATUS if any(step.differs for step in steps) else 0
    return make_result(value, [*lines, summary], status=status)


@dut_command.command("commit", short_help="configure the device and leave it so")
@dut_options
@click.option(
    "--revert-in",
    type=click.IntRange(2, 86_400),
    metavar="SECONDS",
    help="Roll back after this time unless `v6t dut confirm` stops the timer.",
)
@options.flag(
    "--replace",
    "replace_existing",
    text="Roll back the finished configuration of another operator or technology first.",
)
@options.flag("--dry-run", text="Print the plan only, as `v6t dut plan` does.")
def commit_command(
    revert_in: int | None, replace_existing: bool, dry_run: bool, **arguments: Any
) -> CommandResult:
    """Configure the device and verify it by read-back; `v6t dut rollback` undoes it."""
    if dry_run:
        return _make_plan_result(arguments)
    with _use_device(arguments, restore=True) as run:
        return _make_action_result(dut.commit(run, revert_in, replace=replace_existing))


@dut_command.command("confirm", short_help="stop the rollback timer")
@dut_options
def confirm_command(**arguments: Any) -> CommandResult:
    """Stop the rollback timer of a configured device, which then stays configured."""
    with _use_device(arguments, any_technology=True) as run:
        return _make_action_result(dut.confirm(run))


@dut_command.command("verify", short_help="configure, read back, send frames both ways, roll back")
@dut_options
@options.frame_size_option
def verify_command(**arguments: Any) -> CommandResult:
    """Verify the configuration by read-back and by frames that the tester sends both ways."""
    with _use_device(arguments, restore=True) as run:
        run.tester.prepare()
        return _make_action_result(dut.verify(run))


@dut_command.command("status", short_help="lock, configuration, rollback timer and counters")
@dut_options
def status_command(**arguments: Any) -> CommandResult:
    """Show the lock and the configuration with their owners, the rollback timer and counters."""
    with _use_device(arguments, any_technology=True) as run:
        state = dut.read_status(run, _find_run_dir(arguments))
        return make_result(state, _describe_status(state, run.rollback_command))


@dut_command.command("flush", short_help="empty its session table")
@dut_options
def flush_command(**arguments: Any) -> CommandResult:
    """Empty the connection table of a configured device, and check that it is empty."""
    with _use_device(arguments) as run:
        return _make_action_result(dut.flush(run))


@dut_command.command("rollback", short_help="undo what v6t did")
@dut_options
@options.flag("--forget", text="Drop the undo record even if the device is not restored.")
@options.flag("--by-script", text="Run undo.sh where the undo record is damaged.")
def rollback_command(forget: bool, by_script: bool, **arguments: Any) -> CommandResult:
    """Undo what v6t configured, even after a crash and from any host that can log in.

    The undo record is kept until the device is as it was.
    """
    with _use_device(arguments, any_technology=True, restore=True) as run:
        record_dir = _find_run_dir(arguments)
        actions = dut.rollback(run, record_dir=record_dir, forget=forget, by_script=by_script)
        return make_result(actions, actions)


@dut_command.command("bottleneck", short_help="watch it at the rates that a run measured")
@click.argument("directory", type=options.PATH_TYPE)
@click.option("--duration", "duration_s", type=options.NumberRange(1, 86_400), default=10.0,
              help="Seconds at each rate.")  # fmt: skip
@options.json_option
def bottleneck_command(directory: Path, duration_s: float) -> CommandResult:
    """Print what limits the device: each core's idle time, drops, sessions, vectors per call.

    DIRECTORY holds a finished run, whose throughput is sent again; these trials do not count.
    """
    from v6t.core.runs.rundir import RunDir

    with (
        RunDir(directory, new=False) as run_dir,  # rejects a run in progress
        _use_device({"run_file": directory}, restore=True) as run,
    ):
        from v6t.core.runs.bottleneck import check_has_driver, describe_entry, watch_device
        from v6t.core.runs.plan import plan
        from v6t.core.runs.results import read_run

        check_has_driver(run)
        run.tester.prepare()
        print_notice("repeating the measured rates while sampling the device once a second")
        results = watch_device(run_dir, plan(run), read_run(directory).results, duration_s)
    entries = results["bottleneck"]
    return make_result(entries, [line for entry in entries for line in describe_entry(entry)])


@contextmanager
def _use_device(
    arguments: dict[str, Any], *, any_technology: bool = False, restore: bool = False
) -> Iterator[RunSetup]:
    """Yield the run whose device is used, and log the session in the run's directory, if any.

    Args:
        arguments: values of :func:`device_options`.
        any_technology: choose a technology if none is given.
        restore: restore the device when a signal arrives.
    """
    run = resolve_device_run(arguments, any_technology=any_technology)
    from v6t.core.cli.stopping import handle_device_signals
    from v6t.core.runs.events import open_log

    signals = handle_device_signals(run) if restore else nullcontext()
    with open_log(_find_run_dir(arguments)), signals:
        yield run


def resolve_device_run(
    arguments: dict[str, Any], *, any_technology: bool = False, single_frames: bool = False
) -> RunSetup:
    """Return the setup that the options describe; it holds the command that rolls the device back.

    Args:
        arguments: values of :func:`device_options`.
        any_technology: choose a technology if none is given.
        single_frames: the device receives single frames only.
    """
    if (directory := _find_run_dir(arguments)) is not None:
        from v6t.core.config.run_setup import make_setup
        from v6t.core.runs.rundir import read_config

        command = shlex.join([*ROLLBACK_COMMAND, str(directory)])
        return replace(make_setup(read_config(directory)), rollback_command=command)
    run_file, testbed = options.read_run_files(arguments)
    from v6t.core.config.resolve import find_driver_name, resolve_setup

    plugin, driver = arguments["plugin"], arguments["dut"]
    if any_technology and plugin is None and run_file is None:
        from v6t.drivers.duts.registry import load_driver_type

        if driver is None and testbed is None:
            problem = "no device is named"
            hint = "add --testbed FILE, or name a run's directory"
            raise UsageError(problem, hint, code="missing-device")
        if driver is not None:
            load_driver_type(driver)  # refuses an unknown name
        plugin = dut.find_technology(driver or find_driver_name(testbed))
    given = {name: arguments[name] for name in ("params", "dut", "dut_params")}
    if any_technology or single_frames:
        given["procedure"] = FEW_CONNECTIONS
    if arguments.get("frame_size") is not None:
        given["frame_sizes"] = (arguments["frame_size"],)
    run = resolve_setup(run_file, testbed, plugin=plugin, single_frames=single_frames, **given)
    for warning in run.resolution_warnings:
        print_notice(f"note: {warning}")
    return with_rollback_command(run, arguments)


def with_rollback_command(run: RunSetup, arguments: dict[str, Any]) -> RunSetup:
    """Return a copy of the run with the command line that rolls back its device.

    Args:
        arguments: values of :data:`device_options`, which name the device; others are ignored.
    """
    from v6t.core.config.resolve import find_driver_name

    words = [*ROLLBACK_COMMAND]
    flags = {"--testbed": "testbed", "--driver": "dut", "--set-dut": "dut_params"}
    run_file: Path | None = arguments["run_file"]
    driver_name = arguments["dut"] or find_driver_name(arguments["testbed"])
    is_directory = run_file is not None and run_file.is_dir()
    # a directory contains the testbed, too; some drivers are not found without the technology
    if is_directory or run.driver.is_chain or run.driver.name != driver_name:
        words += [str(run_file)] if run_file is not None else []
        flags |= {"--plugin": "plugin", "--set": "params"}
    for option, name in flags.items():
        value = arguments[name]
        if isinstance(value, dict):
            words += [word for pair in value.items() for word in (option, "=".join(pair))]
        elif value is not None:
            words += [option, str(value)]
    return replace(run, rollback_command=shlex.join(words))


def _find_run_dir(arguments: dict[str, Any]) -> Path | None:
    """Return the run directory, or None if files or options describe the device."""
    path: Path | None = arguments["run_file"]
    names = ("plugin", "testbed", "dut", "params", "dut_params")
    if path is None or not path.is_dir() or any(arguments.get(name) for name in names):
        return None
    return path


def _make_action_result(text: str) -> CommandResult:
    return make_result({"done": text}, [text])


def _describe_status(status: dict[str, Any], rollback_command: str) -> list[str]:
    parts = status.get("parts") or {}
    if len(parts) > 1:
        lines = [
            line for part in parts.values() for line in _describe_status(part, rollback_command)
        ]
    else:
        lines = [f"{status['device']}: {_describe_configuration(status, rollback_command)}"]
        if (remaining_s := status["rollback_in_s"]) is not None:
            lines.append(f"  rollback timer: rolls back in {remaining_s} s unless confirmed")
        lines.append(f"  lock: {status['lock'] or 'free'}")
    for name, counters in status.get("now", {}).items():
        if counters:
            lines.append(f"  {name}: " + ", ".join(f"{k} {v:.15g}" for k, v in counters.items()))
    return lines


def _describe_configuration(status: dict[str, Any], rollback_command: str) -> str:
    """Return a sentence on who configured a device, for what, and how to undo it."""
    if (record := status["configured"]) is None:
        return "not configured by v6t"
    if status["timer"]:
        return f"{status['timer']}; `{rollback_command}` checks it"
    if record["undone"]:
        undone = f"{record['undone']} of {record['to_undo']} steps are undone"
        return f"{undone}; `{rollback_command}` checks it"
    steps = f"{record['steps']} steps"
    if not record["finished"]:
        steps = f"{record['begun']} of {record['steps']} steps done, not verified"
    purpose = f"{status['technology']} ({status['driver']})"
    who = f"{record['owner']} since {record['started']}, {steps}"
    return f"configured for {purpose} by {who}; by hand, `{status['undo']}` undoes it"
