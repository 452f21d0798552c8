"""From a run to the device under test: what stands in the lab, what is reached elsewhere, its connections."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from v6t.base.errors import UsageError
from v6t.core.config.bound import BoundRun
from v6t.core.runs.hooks import run_hook
from v6t.drivers.device import DeviceSession, HookState, StateDevice

if TYPE_CHECKING:
    from v6t.drivers.lab.setup import LabDevice
    from v6t.drivers.tester import Tester


def lab_device(bound: BoundRun, record_dir: Path | None = None) -> LabDevice:
    """Return what the run's device driver puts between the lab's cables.

    Args:
        bound: the run.
        record_dir: local directory for a copy of the undo record.
    """
    from v6t.drivers.duts.devices import make_lab_device

    return make_lab_device(bound.driver, bound.device, bound.intent, record_dir)


def remote_session(bound: BoundRun, record_dir: Path | None = None) -> DeviceSession | None:
    """Return the session of a remote device, not open yet; None if the run drives none.

    Raises:
        UsageError: nothing says how to reach it.
    """
    if bound.tester.in_lab or bound.tester.simulates:
        return None
    from v6t.drivers.duts.devices import make_session

    return make_session(bound.driver, bound.intent, record_dir, bound.rollback_command)


def state_of(bound: BoundRun, tester: Tester, session: DeviceSession | None) -> StateDevice:
    """How the device's connections are emptied and counted.

    Args:
        bound: the run.
        tester: with the device between its ports.
        session: with a device elsewhere, if one is driven.

    Raises:
        UsageError: nothing empties them.
    """
    state = tester.device_state() if session is None else session.state()
    if state is not None:
        return state
    hooks = bound.driver.hooks
    if "flush" not in hooks:
        raise UsageError(
            "no command is configured that empties the device's table before each trial",
            "choose a device driver (--dut), or give the command dut.options.hooks.flush",
            code="missing-driver",
        )
    count = hooks.get("count-states")
    return HookState(
        lambda: run_hook("flush", hooks["flush"]),
        None if count is None else lambda: run_hook("count-states", count),
    )
