"""Checks before a run for ``v6t doctor``: this machine, and the device of a testbed; the list of drivers."""

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from v6t.base.entry_points import Extensions
from v6t.base.errors import UsageError, V6tError
from v6t.benchmarks import registry
from v6t.core.config.checks import check_capabilities
from v6t.core.config.compatibility import list_technologies
from v6t.core.config.plugins import TECHNOLOGIES
from v6t.core.config.resolve import find_driver_name, resolve_setup
from v6t.core.config.run_setup import RunSetup
from v6t.core.runs.dut import find_technology
from v6t.core.runs.manifest import describe_machine
from v6t.drivers.duts.capabilities import find_capabilities
from v6t.drivers.duts.devices import make_lab_device, make_session
from v6t.drivers.duts.registry import DRIVERS, list_driver_names, make_driver
from v6t.drivers.duts.session.session import Session
from v6t.drivers.tester_kind import TesterKind
from v6t.drivers.testers import DEFAULT, TESTERS

MIN_FREE_BYTES = 1 << 30  # on the disk for results
SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"  # searched for programs after PATH
CheckState = Literal["ok", "note", "missing"]  # outcome of a check
MANUAL_DEVICE_TEXT = "configured by you, not by v6t (dut.driver names a driver)"


@dataclass(frozen=True)
class Diagnosis:
    """Result of one check; its state ``missing`` means that the lab or the tester cannot work."""

    what: str  # checked part of the machine or testbed
    state: CheckState
    text: str  # description for the user


@dataclass(frozen=True)
class DriverSummary:
    """Technologies that a device driver supports, and programs that it needs."""

    name: str
    title: str  # description of the device
    technologies: tuple[str, ...]  # names; empty if the user's own commands can configure any
    programs: dict[str, bool]  # required programs; True: installed


def list_drivers() -> list[DriverSummary]:
    """List the drivers that can be loaded, in order of their names."""
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"
    drivers = []
    for name in list_driver_names():
        try:
            driver = make_driver(name, {})
            technologies = list_technologies(name)
        except V6tError:  # a broken driver of another distribution; doctor shows it
            continue
        needed = getattr(driver, "programs", None) or getattr(driver, "optional_programs", ())
        programs = {name: shutil.which(name, path=path) is not None for name in needed}
        drivers.append(DriverSummary(name, driver.title, technologies, programs))
    return drivers


def examine_machine(tester: TesterKind | None = None) -> Iterator[Diagnosis]:
    """Check this machine and yield the findings; ``tester`` is the one that a testbed names."""
    yield from _check_system()
    yield _check_current_directory()
    yield from _check_extensions()
    yield _check_device_programs()
    yield from _check_testers(tester)


def _check_system() -> Iterator[Diagnosis]:
    text = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    if platform.system() != "Linux":
        yield Diagnosis("system", "missing", f"{text}; the lab needs Linux, --tester sim does not")
    else:
        yield Diagnosis("system", "ok", text)
    machine = describe_machine()
    if machine["cores"] == 1:
        yield Diagnosis("cores", "note", "1; tester and device will disturb each other")
    else:
        yield Diagnosis("cores", "ok", str(machine["cores"]))
    governor = machine["governor"]
    if governor not in (None, "performance"):
        text = f"governor {governor}: rates will vary; cpupower frequency-set -g performance"
        yield Diagnosis("frequency", "note", text)
    if machine["smt"] == "1":
        text = "on: two CPUs may share a core; echo off >/sys/devices/system/cpu/smt/control"
        yield Diagnosis("hyper-threading", "note", text)


def _check_current_directory() -> Diagnosis:
    here = Path.cwd()
    if not os.access(here, os.W_OK):
        return Diagnosis("results", "note", f"{here} cannot be written: give a directory with -o")
    free = shutil.disk_usage(here).free
    text = f"written below {here}, {free / MIN_FREE_BYTES:,.1f} GiB free"
    return Diagnosis("results", "note" if free < MIN_FREE_BYTES else "ok", text)


def _check_extensions() -> Iterator[Diagnosis]:
    groups: tuple[tuple[str, Extensions[Any]], ...] = (
        ("technologies", TECHNOLOGIES),
        ("device drivers", DRIVERS),
        ("benchmarks", registry.BENCHMARKS),
        ("testers", TESTERS),
    )
    for title, group in groups:
        rows = registry.list_benchmarks() if group is registry.BENCHMARKS else group.list_rows()
        working = sum(not row.error for row in rows)
        yield Diagnosis(title, "ok" if working else "missing", str(working))
        for row in rows:
            if row.error:
                yield Diagnosis(f"{group.noun} {row.name}", "note", row.error)


def _check_device_programs() -> Diagnosis:
    drivers = [driver for driver in list_drivers() if driver.programs]
    present = [driver.name for driver in drivers if all(driver.programs.values())]
    absent = [driver.name for driver in drivers if driver.name not in present]
    text = f"{', '.join(present) or 'none'}; not installed: {', '.join(absent) or 'none'}"
    return Diagnosis("device programs", "ok" if present else "note", f"{text} (v6t dut list)")


def _check_testers(required: TesterKind | None) -> Iterator[Diagnosis]:
    """Check all testers; only the testbed's and the default tester are required to work."""
    for row in TESTERS.list_rows():
        if row.kind is None:
            continue
        is_named = required is not None and row.name == required.name
        kind = required if is_named and required is not None else row.kind()
        needed = is_named or row.name == DEFAULT
        for what, state, text in kind.examine(required=is_named):
            yield Diagnosis(what, "note" if state == "missing" and not needed else state, text)


def examine_device(testbed: Path, plugin: str | None) -> Iterator[Diagnosis]:
    """Check the device of a testbed, which is locked but not changed, and yield the findings."""
    try:
        plugin_name = plugin or find_technology(find_driver_name(testbed))
        setup = resolve_setup(None, testbed, plugin=plugin_name)
        check_capabilities(setup)
    except UsageError as exc:
        yield _make_error_finding(exc, plugin)
        return
    if setup.driver.configures_device and not setup.driver.is_chain:
        rows = find_capabilities(setup.driver, setup.intent)
        text = "; ".join(f"{row}: {', '.join(rows[row])}" for row in rows if row != "options")
        yield Diagnosis("driver", "ok", f"{setup.driver.name}: {text}")
    try:
        if setup.tester.simulates:
            yield Diagnosis("device", "ok", "simulated")
        elif setup.tester.in_lab and not setup.has_driver:
            yield Diagnosis("device", "ok", "reference device of the lab")
        elif setup.tester.in_lab:
            device = make_lab_device(setup.driver, setup.device_view, setup.intent)
            for line in device.describe_parts():
                yield Diagnosis("device", "ok", f"{line}, for the lab")
        else:
            yield from _examine_remote_device(setup, plugin)
    except V6tError as exc:
        yield Diagnosis("device", "missing", _describe_error(exc))


def _examine_remote_device(setup: RunSetup, plugin: str | None) -> Iterator[Diagnosis]:
    session = make_session(setup.driver, setup.intent)
    if session is None:
        yield Diagnosis("device", "note", MANUAL_DEVICE_TEXT)
        return
    with closing(session):
        session.open()
        yield Diagnosis("device", "ok", f"{session.name}: logged in, not in use by another v6t")
        for name, part in session.get_sessions():
            if isinstance(part, Session):
                yield from _list_device_findings(name, part)
        try:
            session.make_plan()
        except UsageError as exc:
            yield _make_error_finding(exc, plugin)
            return
        words = f"can be configured as {setup.settings.plugin} without cutting this connection"
        yield Diagnosis("device", "ok", f"{session.name}: {words}")


def _make_error_finding(exc: UsageError, plugin: str | None) -> Diagnosis:
    """Return the finding for an error, which is only a note if the technology was a guess."""
    if plugin is not None:
        return Diagnosis("device", "missing", _describe_error(exc))
    text = f"{_describe_error(exc)}; `--plugin NAME` selects the technology"
    return Diagnosis("device", "note", text)


def _describe_error(exc: V6tError) -> str:
    return exc.message + (f": {exc.hint}" if exc.hint else "")


def _list_device_findings(name: str, session: Session) -> Iterator[Diagnosis]:
    facts = session.survey()
    text = f"{facts.system}, {session.driver.name} {facts.version}"
    yield Diagnosis("device", "ok", f"{name}: {text}")
    if protected := sorted(facts.find_protected_interfaces().items()):
        interfaces = ", ".join(f"{interface} ({why})" for interface, why in protected)
        yield Diagnosis("device", "ok", f"{name}: not touched: {interfaces}")
    if (record := session.read_record()) is not None:
        text = f"{name}: configured by {record.owner}; a run restores it first"
        yield Diagnosis("device", "note", text)
