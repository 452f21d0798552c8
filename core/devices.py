"""From a resolved run to the device under test: driver, intent, expected frames, who restores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from v6t.core.config import device_of, technology
from v6t.core.settings import ResolvedRun
from v6t.drivers.tester import Judge
from v6t.profiles.errors import UsageError

if TYPE_CHECKING:
    from v6t.drivers.duts.driver import Driver
    from v6t.drivers.duts.session import Session
    from v6t.drivers.embedded.bed import LabDevice

REFERENCE = "reference"


def driver_of(run: ResolvedRun) -> Driver | None:
    """The device's driver; None for the reference device."""
    if run.dut.driver == REFERENCE:
        return None
    from v6t.drivers.duts.registry import make_driver

    return make_driver(run.dut.driver, run.dut.options)


def judge_of(run: ResolvedRun) -> Judge:
    """Who knows the frames this device must emit: the plugin, as the driver's device does it."""
    plugin = technology(run)
    driver = driver_of(run) if run.tester.kind != "sim" else None
    if driver is None:
        return plugin
    from v6t.drivers.duts.profile import ProfiledJudge

    profile = driver.profile(plugin.dut_intent())
    return plugin if profile.plain else ProfiledJudge(plugin, profile)


def lab_device(
    run: ResolvedRun, keep: Path | None = None, say: Callable[[str], None] = lambda text: None
) -> LabDevice:
    """What the run's device driver puts between the lab's cables.

    Args:
        run: the run.
        keep: local directory for a copy of the undo record.
        say: told what happens.
    """
    driver = driver_of(run)
    if driver is not None:
        from v6t.drivers.duts.labdevice import LabDut

        return LabDut(driver, technology(run).dut_intent(), keep, say)
    from v6t.drivers.embedded.bed import ReferenceDevice, frame_octets
    from v6t.drivers.embedded.refdut import Faults

    device = device_of(run)
    faults = Faults(**run.dut.options.get("faults", {}))
    return ReferenceDevice(device, frame_octets(device.links), faults)


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

    ssh = driver.options.ssh
    if ssh is None or not ssh.host:
        raise UsageError(
            f"how is the {driver.name} device reached?",
            "give dut.options.ssh.host in the testbed file",
        )
    return Session(driver, SshTransport(ssh), technology(run).dut_intent(), keep, say)
