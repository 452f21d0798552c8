"""``v6t dut``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from v6t.base.errors import UsageError
from v6t.core.cli.options import (
    PATH_TYPE,
    CommandGroup,
    combine_options,
    device_options,
    flag,
    frame_size_option,
    json_option,
    read_run_files,
)
from v6t.core.cli.terminal import (
    PIPE_WIDTH,
    make_console,
    print_json,
    print_table,
    print_text,
    truncate,
)
from v6t.core.log import is_verbose, print_notice

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun

ROLLBACK_COMMAND = ("v6t", "dut", "rollback")
DIFFERENCE_STATUS = 7  # exit status: a comparison found a difference
# Procedure settings for single frames, small enough for devices that hold few sessions.
FEW_CONNECTIONS = {"connections": {"count": 16}}

dut_options = combine_options(device_options, json_option)


@click.group(cls=CommandGroup, no_args_is_help=False)
def command() -> None:
    """Control the device under test without a run.

    `plan` needs neither a device nor a testbed file. The others reach the device the testbed
    file describes (dut.options.ssh). In place of RUN_FILE and --testbed a run's directory does.
    """


@command.command(name="list", short_help="list the device drivers")
@json_option
def list_drivers(as_json: bool) -> None:
    """List the device drivers, their technologies, and whether their programs are installed here."""
    from v6t.analysis.sheet import Column, make_table
    from v6t.core.runs.doctor import DriverSummary, list_drivers

    drivers = list_drivers()
    if as_json:
        print_json([asdict(driver) for driver in drivers])
        return

    is_whole = is_verbose() or not sys.stdout.isatty()
    technologies_width, programs_width = (PIPE_WIDTH, PIPE_WIDTH) if is_whole else (40, 20)

    def format_programs(driver: DriverSummary) -> str:
        """Return the missing programs of a driver, or all of them if none is missing."""
        programs, is_ready = driver.programs.items(), all(driver.programs.values())
        return truncate(" ".join(p for p, there in programs if there == is_ready), programs_width)

    def format_technologies(driver: DriverSummary) -> str:
        """Return the technologies of a driver as text, truncated to the width of the column."""
        return truncate(" ".join(driver.technologies) or "any", technologies_width)

    columns = [
        Column[DriverSummary]("driver", lambda driver: driver.name, text=True),
        Column("technologies", format_technologies, text=True),
        Column("programs", format_programs, text=True),
    ]
    groups: dict[str, list[DriverSummary]] = {"installed": [], "not needed": [], "missing": []}
    for driver in drivers:
        state = "installed" if all(driver.programs.values()) else "missing"
        groups[state if driver.programs else "not needed"].append(driver)
    for state, group in groups.items():
        shown = columns[:2] if state == "not needed" else columns
        print_table(make_console(), make_table(f"Programs {state} on this machine", group, shown))


@command.command(short_help="print every command, its undo and its check")
@dut_options
def plan(as_json: bool, **arguments: Any) -> None:
    """Print what the driver would do, without connecting to the device or a tester."""
    run = _resolve_run(arguments)
    from v6t.core.runs import dut

    if as_json:
        print_json(dut.plan_to_json(run.driver, run.example_plan))
    else:
        print_text(dut.format_plan(run.driver, run.example_plan))


@command.command(short_help="show how the device differs from the plan")
@dut_options
def compare(as_json: bool, **arguments: Any) -> int:
    """Compare the plan with the present state of the device, without changing the device.

    Prints the steps that differ; with -v all. Exit status 7: a step differs.
    """
    run = _resolve_run(arguments)
    from v6t.core.runs import dut
    from v6t.drivers.duts.session.plan_steps import StepState, format_comparison

    with _guard_session(arguments):
        name, steps = dut.compare(run)
    if as_json:
        print_json({"device": name, "steps": [asdict(step) for step in steps]})
    else:
        for line in format_comparison(steps, with_equal=is_verbose()):
            print_text(line)
        states = [step.state for step in steps]
        as_planned, unread = map(states.count, (StepState.PRESENT, StepState.UNKNOWN))
        line = f"{name}: {as_planned} of {len(steps)} steps as planned"
        print_text(line + (f", {unread} without read-back" if unread else ""))
    return DIFFERENCE_STATUS if any(step.differs for step in steps) else 0


@command.command(short_help="configure the device and leave it so")
@dut_options
@click.option(
    "--revert-in",
    type=click.IntRange(2, 86_400),
    metavar="SECONDS",
    help="Roll back after this time unless `v6t dut confirm` stops the timer.",
)
@flag(
    "--replace",
    "replace_existing",
    text="Roll back the finished configuration of another operator or technology first.",
)
def commit(as_json: bool, revert_in: int | None, replace_existing: bool, **arguments: Any) -> None:
    """Configure the device and verify it by read-back; `v6t dut rollback` undoes it."""
    run = _resolve_run(arguments)
    from v6t.core.runs import dut

    with _guard_session(arguments, run):
        done = dut.commit(run, revert_in, replace=replace_existing)
    _print_action(done, as_json)


@command.command(short_help="stop the rollback timer")
@dut_options
def confirm(as_json: bool, **arguments: Any) -> None:
    """Stop the rollback timer of a configured device, which then stays configured."""
    run = _resolve_run(arguments, any_technology=True)
    from v6t.core.runs import dut

    with _guard_session(arguments):
        done = dut.confirm(run)
    _print_action(done, as_json)


@command.command(short_help="configure, read back, send frames both ways, roll back")
@dut_options
@frame_size_option
def verify(as_json: bool, **arguments: Any) -> None:
    """Verify the configuration by read-back and by frames that the tester sends both ways."""
    run = _resolve_run(arguments)
    from v6t.core.runs import dut

    run.tester.prepare()
    with _guard_session(arguments, run):
        done = dut.verify(run)
    _print_action(done, as_json)


@command.command(short_help="lock, configuration, rollback timer and counters")
@dut_options
def status(as_json: bool, **arguments: Any) -> None:
    """Show the lock and the configuration with their owners, the rollback timer and counters."""
    run = _resolve_run(arguments, any_technology=True)
    from v6t.core.runs import dut

    with _guard_session(arguments):
        state = dut.read_status(run, _find_run_dir(arguments))
    if as_json:
        print_json(state)
        return
    for line in _describe_status(state, run.rollback_command):
        print_text(line)


@command.command(short_help="empty its session table")
@dut_options
def flush(as_json: bool, **arguments: Any) -> None:
    """Empty the connection table of a configured device, and check that it is empty."""
    run = _resolve_run(arguments)
    from v6t.core.runs import dut

    with _guard_session(arguments):
        done = dut.flush(run)
    _print_action(done, as_json)


@command.command(short_help="undo what v6t did")
@dut_options
@flag("--forget", text="Drop the undo record even if the device is not as it was.")
@flag("--by-script", text="Run undo.sh where the undo record is damaged.")
def rollback(as_json: bool, forget: bool, by_script: bool, **arguments: Any) -> None:
    """Undo what v6t configured, even after a crash and from any host that can log in.

    The undo record is kept until the device is as it was.
    """
    run = _resolve_run(arguments, any_technology=True)
    from v6t.core.runs import dut

    with _guard_session(arguments, run):
        done = dut.rollback(
            run, record_dir=_find_run_dir(arguments), forget=forget, by_script=by_script
        )
    if as_json:
        print_json(done)
        return
    for line in done:
        print_text(line)


@command.command(short_help="watch it at the rates a run has found")
@click.argument("directory", type=PATH_TYPE)
@click.option("--duration", "duration_s", type=float, default=10.0, help="Seconds at each rate.")
@json_option
def bottleneck(directory: Path, duration_s: float, as_json: bool) -> None:
    """Print what limits the device: each core's idle time, drops, sessions, vectors per second.

    DIRECTORY is that of a finished run. Its throughput is sent once more, for watching only.
    """
    from v6t.core.config.bound import bind
    from v6t.core.runs.bottleneck import watch_device
    from v6t.core.runs.rundir import RunDir

    arguments = {"run_file": directory}
    with RunDir(directory, new=False) as held:
        run = replace(
            bind(held.load_config()),
            rollback_command=_format_rollback_command(arguments, full=False),
        )
    run.tester.prepare()
    show = print_notice if as_json else print_text
    with _guard_session(arguments, run):
        entries = watch_device(directory, show, duration_s, run)
    if as_json:
        print_json(entries)


def resolve_single_frame_run(arguments: dict[str, Any]) -> BoundRun:
    """Return the run that :func:`device_options` describe, for sending single frames only."""
    return _resolve_run(arguments, single_frames=True)


def _resolve_run(
    arguments: dict[str, Any], *, any_technology: bool = False, single_frames: bool = False
) -> BoundRun:
    """Return the run that options describe; ``any_technology``: choose one if none is given."""
    if _find_run_dir(arguments) is not None:
        from v6t.core.config.bound import bind
        from v6t.core.runs.rundir import read_config

        run = bind(read_config(arguments["run_file"]))
        return replace(run, rollback_command=_format_rollback_command(arguments, full=False))
    run_file, testbed = read_run_files(arguments)
    from v6t.core.config.resolve import find_driver_name, resolve_and_bind
    from v6t.core.config.settings import Flags

    plugin, driver = arguments["plugin"], arguments["dut"]
    if any_technology and plugin is None and run_file is None:
        from v6t.core.runs.dut import find_technology
        from v6t.drivers.duts.registry import load_driver_type

        if driver is None and testbed is None:
            raise UsageError(
                "no device is named",
                "add --testbed FILE, or name a run's directory",
                code="missing-device",
            )
        if driver is not None:
            load_driver_type(driver)  # refuses an unknown name
        plugin = find_technology(driver or find_driver_name(testbed))
    flags = Flags(
        plugin=plugin,
        params=arguments["params"],
        dut=driver,
        dut_params=arguments["dut_params"],
        procedure=FEW_CONNECTIONS if any_technology or single_frames else {},
        frame_sizes=() if arguments.get("frame_size") is None else (arguments["frame_size"],),
        single_frames=single_frames,
    )
    run = resolve_and_bind(run_file, testbed, flags)
    for warning in run.resolution_warnings:
        print_notice(f"note: {warning}")
    full = run.driver.is_chain or run.driver.name != (driver or find_driver_name(testbed))
    return replace(run, rollback_command=_format_rollback_command(arguments, full=full))


def _format_rollback_command(arguments: dict[str, Any], *, full: bool) -> str:
    """Return the command line that rolls back the device that these arguments name.

    Args:
        arguments: values of the options.
        full: include the technology and its parameters.
    """
    if _find_run_dir(arguments) is not None:
        return shlex.join([*ROLLBACK_COMMAND, str(arguments["run_file"])])
    words = [*ROLLBACK_COMMAND]
    if full and arguments["run_file"] is not None:
        words.append(str(arguments["run_file"]))
    for option, name in (("--testbed", "testbed"), ("--driver", "dut"), ("--plugin", "plugin")):
        if arguments[name] is not None and (full or name != "plugin"):
            words += [option, str(arguments[name])]
    for option, name in (("--set-dut", "dut_params"), ("--set", "params")):
        for pair in arguments[name].items() if full or name != "params" else ():
            words += [option, "=".join(pair)]
    return shlex.join(words)


def _find_run_dir(arguments: dict[str, Any]) -> Path | None:
    """Return the run directory, or None if a run file or no file is given."""
    path: Path | None = arguments["run_file"]
    return path if path is not None and path.is_dir() else None


@contextmanager
def _guard_session(arguments: dict[str, Any], run: BoundRun | None = None) -> Iterator[None]:
    """Log a device session; if a run is given, restore the device when a signal arrives."""
    from v6t.core.cli.stopping import handle_signals, make_device_stop_messages
    from v6t.core.runs.events import open_log

    with open_log(_find_run_dir(arguments)):
        if run is None:
            yield
            return
        with handle_signals(lambda: make_device_stop_messages(run.settings, run.rollback_command)):
            yield


def _print_action(text: str, as_json: bool) -> None:
    """Print the description of a completed action on the device."""
    if as_json:
        print_json({"done": text})
    else:
        print_text(text)


def _describe_status(status: dict[str, Any], rollback_command: str) -> list[str]:
    """Return lines that describe the status of a device, or of each part of a chain."""
    parts = status.get("parts") or {}
    if len(parts) > 1:
        lines = [
            line for part in parts.values() for line in _describe_status(part, rollback_command)
        ]
    else:
        lines = [f"{status['device']}: {_describe_configuration(status, rollback_command)}"]
        if (left_s := status["rollback_in_s"]) is not None:
            lines.append(f"  rollback timer: rolls back in {left_s} s unless confirmed")
        lines.append(f"  lock: {status['lock'] or 'free'}")
    for name, counters in status.get("now", {}).items():
        if counters:
            lines.append(f"  {name}: " + ", ".join(f"{k} {v:.15g}" for k, v in counters.items()))
    return lines


def _describe_configuration(status: dict[str, Any], rollback_command: str) -> str:
    """Return a sentence on who configured a device, for what, and how to undo it."""
    record = status["configured"]
    if record is None:
        return "not configured by v6t"
    if status["timer"]:
        return f"{status['timer']}; `{rollback_command}` checks it"
    if record["undone"]:
        undone = f"{record['undone']} of {record['steps']} steps are undone"
        return f"{undone}; `{rollback_command}` checks it"
    steps = f"{record['steps']} steps"
    if not record["finished"]:
        steps = f"{record['begun']} of {record['steps']} steps done, not verified"
    return (
        f"configured for {status['technology']} ({status['driver']}) by {record['owner']} since "
        f"{record['started']}, {steps}; by hand, `{status['undo']}` undoes it"
    )
