"""The device under test without a run: plan, compare, commit, confirm, verify, status, rollback."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.base.errors import DutError, UsageError, hides_interrupt
from v6t.base.files import acquire_lock
from v6t.base.log_levels import NOTICE

if TYPE_CHECKING:
    from v6t.core.config.run_setup import RunSetup
    from v6t.drivers.device import DeviceSession
    from v6t.drivers.duts.lab.ssh import LabSshServer
    from v6t.drivers.duts.session.plan_steps import StepComparison

LAB_DEVICE_GONE = "this lab device does not exist; nothing of it remains"  # message
_LOG = logging.getLogger(__name__)


@contextmanager
def open_session(
    setup: RunSetup, record_dir: Path | None = None, *, lock: bool = True
) -> Iterator[DeviceSession]:
    """Open a session with a remote device, or with a lab device that is running.

    Raises:
        UsageError: the device exists during a run only.
        DutError: the device cannot be reached.
    """
    with closing(_make_session(setup, record_dir)) as session:
        session.open(lock=lock)
        yield session


@contextmanager
def _explain_interrupt(text: str) -> Iterator[None]:
    """Print the text if the context is interrupted."""
    try:
        yield
    except BaseException as exc:
        if hides_interrupt(exc):
            _LOG.log(NOTICE, "%s", text)
        raise


def compare(setup: RunSetup) -> tuple[str, list[StepComparison]]:
    """Compare the device's state with its plan; return the device's name and the steps."""
    with open_session(setup, lock=False) as device:
        device.make_plan()
        return device.name, list(device.compare())


def commit(setup: RunSetup, revert_in: int | None = None, *, replace: bool = True) -> str:
    """Configure the device, verify it by read-back and return a message; roll back on failure.

    Args:
        revert_in: time [s] after which the rollback timer rolls back; None stops the timer.
        replace: roll back the finished configuration of another operator or for another purpose.
    """
    done = ""
    try:
        with open_session(setup) as device:
            if not replace:
                _check_replaceable(device, setup)
            device.commit(revert_in)
            try:
                device.verify()
                if revert_in is None:
                    device.confirm()
                    what = f"and stays so; `{setup.rollback_command}` undoes it"
                else:
                    device.schedule_rollback(revert_in)
                    what = f"and rolls back in {revert_in} s unless `v6t dut confirm` stops it"
            except BaseException:  # Ctrl-C, too
                device.rollback()
                raise
            done = f"{device.name} is configured, {what}"
    except KeyboardInterrupt:
        if done:  # it came too late
            _LOG.log(NOTICE, "%s", done)
        raise
    return done


def _check_replaceable(device: DeviceSession, setup: RunSetup) -> None:
    """Raise DutError if a confirmed configuration has another owner, driver or technology."""
    for part, session in device.get_sessions():
        status = session.read_status()
        configured = status["configured"]
        if not configured or configured["undone"] or not configured["finished"]:
            continue
        if status["rollback_in_s"] is not None or status["timer"]:  # not confirmed
            continue
        now = (session.driver.name, session.intent.technology, session.owner.partition(" ")[0])
        before = (status["driver"], status["technology"], configured["owner"].partition(" ")[0])
        if before != now:
            commit = f"by {configured['owner']} since {configured['started']}"
            problem = f"{part} is configured for {before[1]} ({before[0]}) {commit}"
            undo = f"`{setup.rollback_command}` undoes it first, or --replace does"
            hint = f"nothing was changed; {undo}"
            raise DutError(problem, hint, code="changed-by-another-owner")


def confirm(setup: RunSetup) -> str:
    """Stop the rollback timer of a configured device and return a message.

    Raises:
        DutError: the device is not configured, or the timer has rolled back.
    """
    text = "the rollback timer may still run; `v6t dut status` shows it"
    with _explain_interrupt(text), open_session(setup) as device:
        status = device.read_status()
        if status["configured"] is None:
            raise DutError(f"{device.name} is not configured by v6t", code="not-configured")
        if status["timer"]:
            problem = f"{device.name}: {status['timer']}"
            hint = f"`{setup.rollback_command}` removes the undo record; then commit again"
            raise DutError(problem, hint, code="rollback-timer-failed")
        for part in _list_part_statuses(status):
            configured = part["configured"]
            if configured is None or not configured["finished"]:
                steps = "no step"
                if configured:
                    steps = f"{configured['begun']} of {configured['steps']} steps, not verified"
                problem = f"{part['device']}: the commit did not finish: {steps}"
                raise DutError(problem, f"run `{setup.rollback_command}`", code="not-configured")
            _check_not_undone(part, setup)
        device.confirm()
        stays = f"stays configured; `{setup.rollback_command}` undoes it"
        if all(part["rollback_in_s"] is None for part in _list_part_statuses(status)):
            return f"{device.name}: no rollback timer runs; the device {stays}"
        return f"{device.name} {stays}"


def verify(setup: RunSetup) -> str:
    """Read back the configuration, check the translation of a few frames and return a message.

    Raises:
        DutError: the configuration differs from the plan.
        TranslationError: a frame was lost or translated wrongly.
    """
    from v6t.core.runs.bench import Bench, compile_directions
    from v6t.core.runs.preflight import make_mismatch_error, report_phase_one_failure, run_preflight

    _check_configurable(setup)
    if setup.tester.simulates:
        problem = f"the {setup.tester.name} tester simulates the device and cannot verify it"
        raise UsageError(problem, "use another tester", code="unsupported-by-tester")
    run, plugin = setup.settings, setup.technology
    sizes = plugin.make_sizes(run.frame_sizes[0])
    with closing(Bench(setup)) as bench:
        bench.load(compile_directions(plugin, sizes, run.seed))
        with report_phase_one_failure():
            failure = run_preflight(setup, sizes, bench.measure)
        if bench.session is None or not bench.session.verify():
            problem = "the driver did not read back the configuration of the device"
            raise DutError(problem, code="no-read-back")
    if failure is not None:
        raise make_mismatch_error(failure)
    if plugin.exchange == "queries":
        return "queries were answered correctly; the device is restored"
    return "frames matched the reference translation both ways; the device is restored"


def read_status(setup: RunSetup, record_dir: Path | None = None) -> dict[str, Any]:
    """Return the lock, owner, rollback timer and counters of the device as JSON values."""
    with open_session(setup, record_dir, lock=False) as device:
        status = device.read_status()
        counters = device.read_counters()
        return {**status, "now": counters} if counters else status


def flush(setup: RunSetup) -> str:
    """Empty the connection table of the device and return a message."""
    text = "the device may keep sessions; `v6t dut status` shows its state"
    with _explain_interrupt(text), open_session(setup) as device:
        confirmed = []
        for part, session in device.get_sessions():
            status = session.read_status()
            if status["rollback_in_s"] is None:
                confirmed.append(session)
            driver, technology = session.driver.name, session.intent.technology
            if (status["driver"], status["technology"]) != (driver, technology):
                problem = f"{part} is not configured by v6t for {technology} ({driver})"
                hint = "`v6t dut status` shows what it is; `v6t dut commit` configures it"
                raise DutError(problem, hint, code="not-configured")
            _check_not_undone(status, setup)
        device.make_plan()
        device.flush()
        for session in confirmed:
            # a flush by reboot configures the device again, with a timer
            if session.read_status()["rollback_in_s"] is not None:
                session.verify()
                session.confirm()
        return f"{device.name} has no sessions"


def rollback(
    setup: RunSetup,
    *,
    record_dir: Path | None = None,
    forget: bool = False,
    by_script: bool = False,
) -> list[str]:
    """Undo what v6t configured on the device, and return messages.

    Args:
        record_dir: directory of the run, which holds a copy of the undo record.
        forget: drop the undo record even if the device could not be restored.
        by_script: run ``undo.sh`` if the record is damaged.
    """
    labs = _list_lab_devices(setup)
    ended = [lab.name for lab in labs if not lab.find_pid()]
    during_run_only = record_dir is not None and _exists_during_run_only(setup)
    if record_dir is not None and (ended or during_run_only):
        acquire_lock(record_dir).release()  # rejects a run in progress
        _remove_records_of_lost_devices(setup, record_dir, ended)
    elsewhere = any(ssh is not None and ssh.host for ssh in setup.driver.get_logins(setup.intent))
    if during_run_only or (labs and len(ended) == len(labs) and not elsewhere):
        return [LAB_DEVICE_GONE]
    for name in ended:
        _LOG.log(NOTICE, "the lab device %s no longer exists; nothing of it remains", name)
    with closing(_make_session(setup, record_dir, partial=True)) as device:
        if not setup.driver.is_chain:  # each part is connected to by its own rollback
            text = f"{device.name}: stopped before the rollback; `{setup.rollback_command}` does it"
            with _explain_interrupt(text):
                device.open()
        done = device.rollback(forget=forget, by_script=by_script)
    for lab in labs:  # a lab that is in use, or not as it was, stays
        lab.stop()
    return done


def find_technology(driver: str) -> str | None:
    """Return the first technology that a driver can configure; None for a chain of devices."""
    from v6t.core.config.compatibility import list_technologies
    from v6t.core.config.plugins import list_names
    from v6t.drivers.duts.registry import list_driver_names, load_driver_type

    if driver not in list_driver_names() or load_driver_type(driver).is_chain:
        return None
    return next(iter(list_technologies(driver) or list_names()), None)


def _list_part_statuses(status: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the status of each part of a chain, or of the only device."""
    return list(status.get("parts", {}).values()) or [status]


def _check_not_undone(status: dict[str, Any], setup: RunSetup) -> None:
    configured = status["configured"]
    if configured["undone"]:
        problem = f"{status['device']}: {configured['undone']} of {configured['to_undo']} steps are undone"
        hint = f"`{setup.rollback_command}` checks it and undoes the rest; then commit again"
        raise DutError(problem, hint, code="not-configured")


def _check_configurable(setup: RunSetup) -> None:
    if not setup.driver.configures_device:
        device = "device of the testbed" if setup.has_user_device else "reference device"
        problem = f"the {device} has no driver that configures it"
        raise UsageError(problem, "name a driver with --driver", code="missing-driver")


def _list_lab_devices(setup: RunSetup) -> list[LabSshServer]:
    from v6t.drivers.duts.lab.ssh import LabSshServer

    _check_configurable(setup)
    logins = setup.driver.get_logins(setup.intent)
    names = dict.fromkeys(ssh.lab for ssh in logins if ssh is not None and ssh.lab)
    return [LabSshServer(name) for name in names]


def _remove_records_of_lost_devices(setup: RunSetup, record_dir: Path, ended: list[str]) -> None:
    """Remove a run's copies of the undo records of lab devices that no longer exist."""
    from v6t.drivers.duts.session.undo_store import remove_local_record

    parts = setup.driver.get_parts(setup.intent)
    drivers = {record_dir / part.name: part.driver for part in parts}
    for directory, driver in (drivers or {record_dir: setup.driver}).items():
        ssh = driver.options.ssh if driver.configures_device else None
        if ssh is None or ssh.lab in ended:
            remove_local_record(directory)


def _exists_during_run_only(setup: RunSetup) -> bool:
    """Return whether the device belongs to a lab that ends with the run."""
    return setup.tester.in_lab and all(ssh is None for ssh in setup.driver.get_logins(setup.intent))


def _make_session(
    setup: RunSetup, record_dir: Path | None, *, partial: bool = False
) -> DeviceSession:
    """Return a session, not yet open; unless ``partial``, all of its lab devices must run."""
    from v6t.drivers.duts.devices import make_session
    from v6t.drivers.duts.lab.ssh import find_transport

    driver, labs = setup.driver, _list_lab_devices(setup)
    if _exists_during_run_only(setup):
        if record_dir is not None:
            acquire_lock(record_dir).release()  # rejects a run in progress
            raise UsageError(LAB_DEVICE_GONE, code="missing-device")
        problem = "the lab's device exists during a run only"
        hint = "`v6t dut verify` makes one and tests it; a device elsewhere needs dut.options.ssh"
        raise UsageError(problem, hint, code="missing-device")
    ended = [lab.name for lab in labs if not lab.find_pid()]
    if ended and not partial:
        problem = f"the lab device {' and '.join(ended)} does not exist"
        raise UsageError(problem, "it exists while a run uses it", code="missing-device")
    session = make_session(driver, setup.intent, record_dir, setup.rollback_command, find_transport)
    if session is None:
        problem = "no driver is configured for this device"
        raise UsageError(problem, "name a driver with --driver", code="missing-driver")
    return session
