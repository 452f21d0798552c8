"""From a resolved run to the device under test: driver, intent, expected frames, who restores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.core.benchmarks import registry
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs import chained
from v6t.core.runs.hooks import run_hook
from v6t.drivers.tester import Oracle
from v6t.profiles.errors import UsageError

if TYPE_CHECKING:
    from v6t.drivers.duts.driver import Driver
    from v6t.drivers.duts.session import Session
    from v6t.drivers.lab.setup import LabDevice
    from v6t.drivers.oracle.two_phase import StateDevice
    from v6t.plugins.base import DutIntent

REFERENCE = "reference"
CHAIN = "chain"


def driver_of(run: ResolvedRun) -> Driver | None:
    """The device's driver; None for the reference device."""
    if run.dut.driver == REFERENCE:
        return None
    from v6t.drivers.duts.registry import make_driver

    return make_driver(run.dut.driver, run.dut.options)


def oracle_of(run: ResolvedRun) -> Oracle:
    """Who knows the frames this device must emit: the plugin, as the driver's device does it."""
    from v6t.core.config.resolve import technology

    plugin = technology(run)
    driver = driver_of(run) if run.tester.kind != "sim" else None
    if driver is None:
        return plugin
    if driver.name == CHAIN:
        return chained.oracle_of(driver, plugin)
    from v6t.drivers.duts.expect_profile import ProfiledOracle

    profile = driver.profile(plugin.dut_intent())
    return plugin if profile.plain else ProfiledOracle(plugin, profile)


def lab_device(
    run: ResolvedRun, keep: Path | None = None, say: Callable[[str], None] = lambda text: None
) -> LabDevice:
    """What the run's device driver puts between the lab's cables.

    Args:
        run: the run.
        keep: local directory for a copy of the undo record.
        say: told what happens.
    """
    from v6t.core.config.resolve import device_of, technology

    driver = driver_of(run)
    if driver is not None and driver.name == CHAIN:
        return chained.lab_chain(driver, technology(run), intent_of(run), keep, say)
    if driver is not None:
        from v6t.drivers.lab.device import LabDut

        return LabDut(driver, intent_of(run), keep, say)
    from v6t.drivers.lab.reference_device import Faults
    from v6t.drivers.lab.setup import ReferenceDevice, frame_octets

    device = device_of(run)
    faults = Faults(**run.dut.options.get("faults", {}))
    return ReferenceDevice(device, frame_octets(device.links), faults)


def intent_of(run: ResolvedRun) -> DutIntent:
    """What the device must be; with the number of connections it must hold (ST-02)."""
    from v6t.core.config.resolve import technology

    intent = technology(run).dut_intent()
    if not any(registry.load(name).fills_table for name in run.benchmarks) or not run.connects:
        return intent
    sessions = {"sessions": run.procedure.connections.count}
    return replace(intent, settings={**intent.settings, **sessions})


def state_of(run: ResolvedRun, tester: Any, session: Session | None) -> StateDevice:
    """How the device's connections are emptied and counted.

    Args:
        run: the run.
        tester: with the device between its ports.
        session: with a device elsewhere, if one is driven.

    Raises:
        UsageError: nothing empties them.
    """
    from v6t.drivers.duts.state import HookState, SessionState

    if run.tester.kind == "sim":
        table: StateDevice = tester.table
        return table
    if session is not None:
        whole = getattr(session, "state", None)
        return SessionState(session) if whole is None else whole()
    own = getattr(tester, "device_state", None)
    found: StateDevice | None = own() if own is not None else None
    if found is not None:
        return found
    hooks = run.dut.options.get("hooks", {})
    if "flush" not in hooks:
        raise UsageError(
            "nothing empties the device's table before each trial",
            "choose a device driver (--dut), or give the command dut.options.hooks.flush",
        )
    count = hooks.get("count-states")
    return HookState(
        lambda: run_hook("flush", hooks["flush"]),
        None if count is None else lambda: run_hook("count-states", count),
    )


def in_lab(run: ResolvedRun) -> bool:
    """Whether the device stands in the lab's namespaces."""
    if run.tester.kind == "trex":
        return bool(run.tester.options.get("lab"))
    return run.tester.kind == "embedded"


def remote_session(
    run: ResolvedRun, keep: Path | None = None, say: Callable[[str], None] = lambda text: None
) -> Session | None:
    """The device elsewhere that a run drives, not open yet; None if it drives none.

    Raises:
        UsageError: nothing says how to reach it.
    """
    if in_lab(run) or run.tester.kind == "sim":
        return None
    driver = driver_of(run)
    return None if driver is None else session_over_ssh(driver, run, keep, say)


def session_over_ssh(
    driver: Driver, run: ResolvedRun, keep: Path | None, say: Callable[[str], None]
) -> Session:
    """A session with a device elsewhere, not open yet.

    Raises:
        UsageError: nothing says how to reach it.
    """
    from v6t.drivers.duts.session import Session
    from v6t.drivers.duts.ssh import SshTransport

    if driver.name == CHAIN:
        return chained.sessions_over_ssh(driver, intent_of(run), keep, say)  # type: ignore[return-value]
    ssh = driver.options.ssh
    if ssh is None or not ssh.host:
        raise UsageError(
            f"how is the {driver.name} device reached?",
            "give dut.options.ssh.host in the testbed file",
        )
    return Session(driver, SshTransport(ssh), intent_of(run), keep, say)
