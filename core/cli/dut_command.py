"""``v6t dut``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import click
from v6t.base.text import escape_controls
from v6t.core.cli import shell_completion
from v6t.core.cli.groups import CommandGroup
from v6t.core.cli.options import FrameSizeOption, assignments, plugin_names, read_first
from v6t.core.cli.paths import PATH
from v6t.core.cli.verbosity import verbosity_flags
from v6t.core.cli.wrapping import wrap
from v6t.core.log import is_verbose, notice

F = TypeVar("F", bound=Callable[..., Any])


def device_flags(command: F) -> F:
    """Add the flags that say which device, and what it must be."""
    decorators: list[Callable[[Any], Any]] = [
        click.argument("run_file", required=False, type=PATH),
        click.option("--plugin", shell_complete=plugin_names, help="What the device shall be."),
        click.option("--testbed", type=PATH, help="Testbed file."),
        click.option(
            "--driver",
            "--dut",
            "dut",
            shell_complete=shell_completion.drivers,
            help="Device driver.",
        ),
        click.option(
            "--set",
            "params",
            multiple=True,
            callback=assignments,
            shell_complete=shell_completion.parameters,
            metavar="NAME=VALUE",
            help="Plugin parameter; repeatable.",
        ),
        click.option(
            "--set-dut",
            "dut_params",
            multiple=True,
            callback=assignments,
            metavar="NAME=VALUE",
            help="Option of the driver, for example version=24.02; repeatable.",
        ),
    ]
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def dut_flags(command: F) -> F:
    """Add the same flags and ``--json``."""
    return device_flags(
        click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)
    )


@click.group(
    cls=CommandGroup,
    short_help="configure, compare, verify and roll back a device",
    no_args_is_help=False,
)
def command() -> None:
    """Control the device under test without a run.

    `plan` needs neither a device nor a testbed file. The others reach the device the testbed
    file describes (dut.options.ssh). In place of RUN_FILE and --testbed a run's directory does.
    """


@command.command(name="list", short_help="list the device drivers")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@verbosity_flags
def list_drivers(as_json: bool) -> None:
    """List drivers, the technologies of each, and whether its programs are on this machine."""
    from v6t.analysis.sheet import Column, table
    from v6t.core.cli.document_view import console_for_tables
    from v6t.core.cli.tables import print_table
    from v6t.core.runs.doctor import DriverSummary, list_drivers

    drivers = list_drivers()
    if as_json:
        click.echo(json.dumps([asdict(driver) for driver in drivers], indent=1))
        return

    def programs(driver: DriverSummary) -> str:
        states = [
            f"{p} {'installed' if there else 'missing'}" for p, there in driver.programs.items()
        ]
        return ", ".join(states) or "-"

    columns = [
        Column[DriverSummary]("driver", lambda driver: driver.name, text=True),
        Column("technologies", lambda driver: " ".join(driver.technologies) or "any", text=True),
        Column("programs on this machine", programs, text=True),
    ]
    print_table(console_for_tables(140), table("Device drivers", drivers, columns))


@command.command(short_help="print every command, its undo and its check")
@dut_flags
@verbosity_flags
def plan(as_json: bool, **given: Any) -> None:
    """Print what the driver would do. Nothing is opened."""
    run = _resolve(given)
    from v6t.core.runs import dut

    driver, planned = dut.plan_without_device(run)
    if as_json:
        click.echo(dut.as_json(dut.plan_to_json(driver, planned)))
    else:
        click.echo(escape_controls(dut.format_plan(driver, planned)))


@command.command(short_help="show how the device differs from the plan")
@dut_flags
@verbosity_flags
def compare(as_json: bool, **given: Any) -> None:
    """Compare the plan with the present state of the device. Nothing is changed.

    Prints the steps that differ; with -v all. Exit status 7: a step differs.
    """
    run = _resolve(given)
    from v6t.core.runs import dut
    from v6t.drivers.duts.session.plan_steps import StepState, format_comparison

    with _log(given):
        name, steps = dut.compare(run)
    if as_json:
        click.echo(dut.as_json({"device": name, "steps": [asdict(s) for s in steps]}))
    else:
        for line in format_comparison(steps, every=is_verbose()):
            click.echo(wrap(escape_controls(line)))
        states = [s.state for s in steps]
        as_planned, unread = map(states.count, (StepState.PRESENT, StepState.UNREADABLE))
        unread_words = f", {unread} without read-back" if unread else ""
        click.echo(
            escape_controls(f"{name}: {as_planned} of {len(steps)} steps as planned{unread_words}")
        )
    if any(s.differs for s in steps):
        raise SystemExit(DIFFERENT)


@command.command(short_help="configure the device and leave it so")
@dut_flags
@click.option(
    "--revert-in",
    type=click.IntRange(2, 86_400),
    metavar="SECONDS",
    help="Roll back after this time unless `v6t dut confirm` stops the timer.",
)
@click.option(
    "--replace",
    "replaces",
    is_flag=True,
    help="Roll back the finished configuration of another operator or technology first.",
)
@verbosity_flags
def commit(as_json: bool, revert_in: int | None, replaces: bool, **given: Any) -> None:
    """Configure the device and read everything back; `rollback` undoes it."""
    run = _resolve(given)
    from v6t.core.runs import dut

    with _log(given), _handle_signals(run):
        done = dut.commit(run, revert_in, replace=replaces)
    _show(done, as_json)


@command.command(short_help="stop the rollback timer")
@dut_flags
@verbosity_flags
def confirm(as_json: bool, **given: Any) -> None:
    """Stop the rollback timer of a configured device: the configuration stays."""
    run = _resolve(given, any_technology=True)
    from v6t.core.runs import dut

    with _log(given):
        done = dut.confirm(run)
    _show(done, as_json)


@command.command(short_help="configure, read back, send frames both ways, roll back")
@dut_flags
@click.option(
    "--frame-size", type=FrameSizeOption(), help="IPv6 frame size, octets with FCS, or imix."
)
@verbosity_flags
def verify(as_json: bool, **given: Any) -> None:
    """Prove the configuration: read-back, and frames each way through the tester."""
    run = _resolve(given)
    from v6t.core.runs import dut

    run.tester.prepare()
    with _log(given), _handle_signals(run):
        done = dut.verify(run)
    _show(done, as_json)


@command.command(short_help="lock, configuration, rollback timer and counters")
@dut_flags
@verbosity_flags
def status(as_json: bool, **given: Any) -> None:
    """Show who holds the lock, who configured the device, its rollback timer and its counters."""
    bound = _resolve(given, any_technology=True)
    from v6t.core.runs import dut

    with _log(given):
        found = dut.status(bound)
    if as_json:
        click.echo(dut.as_json(found))
        return
    for line in _status_lines(found, bound.rollback_command):
        click.echo(escape_controls(line))


@command.command(short_help="empty its session table")
@dut_flags
@verbosity_flags
def flush(as_json: bool, **given: Any) -> None:
    """Empty the state of a configured device, and see that it is empty."""
    run = _resolve(given)
    from v6t.core.runs import dut

    with _log(given):
        done = dut.flush(run)
    _show(done, as_json)


@command.command(short_help="undo what v6t did")
@dut_flags
@click.option(
    "--forget", is_flag=True, help="Drop the undo record even if the device is not as it was."
)
@click.option("--by-script", is_flag=True, help="Run undo.sh where the undo record is damaged.")
@verbosity_flags
def rollback(as_json: bool, forget: bool, by_script: bool, **given: Any) -> None:
    """Undo what v6t did, after whatever happened, from any host that can log in.

    The undo record is kept until the device is as it was.
    """
    run = _resolve(given, any_technology=True)
    from v6t.core.runs import dut

    with _log(given), _handle_signals(run):
        done = dut.rollback(run, record_dir=_run_dir(given), forget=forget, by_script=by_script)
    if as_json:
        click.echo(dut.as_json(done))
        return
    for line in done:
        click.echo(escape_controls(line))


def _add_alias(name: str, target: click.Command) -> None:
    alias = copy(target)
    alias.name, alias.short_help = name, f"alias of {target.name}"
    alias.help = f"Alias of `v6t dut {target.name}`, with the same options."
    command.add_command(alias)


_add_alias("apply", commit)
_add_alias("restore", rollback)


@command.command(short_help="watch it at the rates a run has found")
@click.argument("directory", type=PATH)
@click.option("--duration", type=float, default=10.0, help="Seconds at each rate.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@verbosity_flags
def bottleneck(directory: Path, duration: float, as_json: bool) -> None:
    """Say what limits the device: each core's idle time, drops, sessions, vectors per second.

    DIRECTORY is that of a finished run. Its throughput is sent once more, for watching only.
    """
    from v6t.core.config.bound import bind
    from v6t.core.runs.bottleneck import watch_device
    from v6t.core.runs.dut import as_json as printed
    from v6t.core.runs.rundir import RunDir

    held = RunDir(directory, new=False)
    try:
        command = shlex.join([*ROLLBACK, str(directory)])
        bound = replace(bind(held.config()), rollback_command=command)
    finally:
        held.close()
    bound.tester.prepare()
    from v6t.core.runs.log import log_to

    with log_to(directory), _handle_signals(bound):
        told = watch_device(
            directory,
            notice if as_json else lambda text: click.echo(escape_controls(text)),
            duration,
            bound,
        )
    if as_json:
        click.echo(printed(told))


ROLLBACK = ("v6t", "dut", "rollback")
DIFFERENT = 7
"""Exit status: a comparison found a difference."""
FEW = 16
"""Connections that a clause of an audit keeps open at a time."""
_FEW = {"connections": {"count": FEW}}


def resolve_device(given: dict[str, Any]) -> Any:
    """Resolve the run behind :func:`device_flags`, for single frames."""
    return _resolve(given, procedure=_FEW)


def _resolve(
    given: dict[str, Any],
    *,
    any_technology: bool = False,
    procedure: dict[str, Any] | None = None,
) -> Any:
    """Resolve the run; the technology may be left out where it does not matter."""
    if _run_dir(given) is not None:
        from v6t.core.config.bound import bind
        from v6t.core.runs.rundir import read_config

        bound = bind(read_config(given["run_file"]))
        return replace(bound, rollback_command=_rollback_command(given, whole=False))
    run_file, testbed = read_first(given["run_file"]), read_first(given["testbed"])
    from v6t.core.config.resolve import find_driver_name, resolve_and_bind
    from v6t.core.config.settings import Flags

    plugin = given["plugin"]
    if any_technology and plugin is None and run_file is None:
        from v6t.base.errors import UsageError
        from v6t.core.runs.dut import find_technology
        from v6t.drivers.duts.registry import driver_type

        if given["dut"] is None and testbed is None:
            raise UsageError(
                "no device is named",
                "add --testbed FILE, or name a run's directory",
                code="missing-device",
            )
        if given["dut"] is not None:
            driver_type(given["dut"])  # refuses an unknown name
        plugin = find_technology(given["dut"] or find_driver_name(testbed))
    flags = Flags(
        plugin=plugin,
        params=given["params"],
        dut=given["dut"],
        dut_params=given["dut_params"],
        # a device that holds too few connections for a run is looked at and restored like any other
        procedure=procedure or (_FEW if any_technology else {}),
        frame_sizes=() if given.get("frame_size") is None else (given["frame_size"],),
        single_frames=procedure is not None,
    )
    bound = resolve_and_bind(run_file, testbed, flags)
    told = given["dut"] or find_driver_name(testbed)
    whole = bound.driver.of_parts or bound.driver.name != told
    return replace(bound, rollback_command=_rollback_command(given, whole=whole))


def _rollback_command(given: dict[str, Any], *, whole: bool) -> str:
    """Return the command that rolls back the device of these flags.

    Args:
        given: the flags.
        whole: it takes the technology, too.
    """
    if _run_dir(given) is not None:
        return shlex.join([*ROLLBACK, str(given["run_file"])])
    words = [*ROLLBACK]
    if whole and given["run_file"] is not None:
        words.append(str(given["run_file"]))
    for flag, name in (("--testbed", "testbed"), ("--driver", "dut"), ("--plugin", "plugin")):
        if given[name] is not None and (whole or name != "plugin"):
            words += [flag, str(given[name])]
    for flag, name in (("--set-dut", "dut_params"), ("--set", "params")):
        if whole or name != "params":
            words += [word for pair in given[name].items() for word in (flag, "=".join(pair))]
    return shlex.join(words)


def _run_dir(given: dict[str, Any]) -> Path | None:
    """Return the run's directory, where one is given in place of files."""
    path: Path | None = given["run_file"]
    return path if path is not None and path.is_dir() else None


def _log(given: dict[str, Any]) -> AbstractContextManager[None]:
    """Log to the run's log file, where a run's directory is given in place of files."""
    from v6t.core.runs.log import log_to

    return log_to(_run_dir(given))


def _handle_signals(bound: Any) -> AbstractContextManager[None]:
    """Signals end the work on a device in order."""
    from v6t.core.cli.stopping import of_device, signals

    return signals(lambda: of_device(bound.settings, bound.rollback_command))


def _show(text: str, as_json: bool) -> None:
    from v6t.core.runs.dut import as_json as printed

    click.echo(printed({"done": text}) if as_json else escape_controls(text))


def _status_lines(status: dict[str, Any], rollback_command: str) -> list[str]:
    """Return the status of a device, and of each part of a chain, for a reader."""
    parts = status.get("parts") or {}
    if len(parts) > 1:
        lines = [line for part in parts.values() for line in _status_lines(part, rollback_command)]
    else:
        lines = [f"{status['device']}: {_configuration(status, rollback_command)}"]
        if status["rollback_in_s"] is not None:
            lines.append(
                f"  rollback timer: rolls back in {status['rollback_in_s']} s unless confirmed"
            )
        lines.append(f"  lock: {status['lock'] or 'free'}")
    for name, counters in status.get("now", {}).items():
        if counters:
            lines.append(f"  {name}: " + ", ".join(f"{k} {v:.15g}" for k, v in counters.items()))
    return lines


def _configuration(status: dict[str, Any], rollback_command: str) -> str:
    record = status["configured"]
    if record is None:
        return "not configured by v6t"
    if status["timer"]:
        return f"{status['timer']}; `{rollback_command}` checks it"
    steps = f"{record['steps']} steps"
    if not record["finished"]:
        steps = f"{record['begun']} of {record['steps']} steps done, not verified"
    return (
        f"configured for {status['technology']} ({status['driver']}) by {record['owner']} since "
        f"{record['started']}, {steps}; by hand, `{status['undo']}` undoes it"
    )
