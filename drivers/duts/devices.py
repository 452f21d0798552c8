"""The devices of a run: sessions with devices elsewhere, and devices between the lab's cables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.base.errors import UsageError
from v6t.drivers.device import DeviceSession
from v6t.drivers.duts.chain.driver import check_lab_placement
from v6t.drivers.duts.chain.session import ChainSession, LabChain
from v6t.drivers.duts.driver import DeviceTechnology, Driver
from v6t.drivers.duts.lab.device import LabDut
from v6t.drivers.duts.options import require_ssh
from v6t.drivers.duts.plan import Intent
from v6t.drivers.duts.reference import ReferenceDriver
from v6t.drivers.duts.session.session import make_device_session
from v6t.drivers.duts.session.transaction import build_rollback_command
from v6t.drivers.lab.packet_model import PacketModelDevice
from v6t.drivers.lab.setup import ReferenceLabDevice, compute_frame_octets

if TYPE_CHECKING:
    from v6t.drivers.lab.packet_model import PacketModel
    from v6t.drivers.lab.setup import LabDevice
    from v6t.drivers.transport.contract import Transport
    from v6t.drivers.transport.ssh_options import SshOptions

    Connect = Callable[[SshOptions], Transport | None]


def make_ssh_transport(ssh: SshOptions) -> Transport:
    """Return an unopened SSH transport to a device outside the lab."""
    from v6t.drivers.transport.openssh import SshTransport

    if ssh.lab:
        problem = f"this tester cannot reach the lab device {ssh.lab}"
        hint = "give ssh.host in place of ssh.lab; with TRex, --set-tester lab=true tries it here"
        raise UsageError(problem, hint, code="unsupported-by-tester")
    return SshTransport(ssh)


def make_session(
    driver: Driver,
    intent: Intent,
    record_dir: Path | None = None,
    rollback_command: str = "",
    connect: Connect = make_ssh_transport,
) -> DeviceSession | None:
    """Return an unopened session with a device outside the lab; None if v6t does not configure it.

    Args:
        record_dir: local directory for a copy of the undo record.
        rollback_command: the user's command for a later rollback; empty: derived from ``record_dir``.
        connect: makes the transport to a machine; it returns None if the machine does not run.
    """
    if driver.is_chain:
        return _make_chain_session(driver, intent, record_dir, rollback_command, connect)
    if not driver.configures_device:
        return None
    ssh = require_ssh(driver.options.ssh, f"the {driver.name} device", "dut.options.ssh.host")
    if (transport := connect(ssh)) is None:
        return None
    return make_device_session(driver, transport, intent, record_dir, rollback_command)


def _make_chain_session(
    driver: Driver, intent: Intent, record_dir: Path | None, rollback_command: str, connect: Connect
) -> ChainSession | None:
    rollback_command = rollback_command or build_rollback_command(record_dir)
    parts = driver.get_parts(intent)
    logins = [part.driver.options.ssh if part.driver.configures_device else None for part in parts]
    in_lab = any(login is not None and login.lab for login in logins)
    sessions = []
    for part, login in zip(parts, logins, strict=True):
        if login is None and in_lab:
            continue
        device = f"the part '{part.name}' of the {part.device}"
        setting = f"dut.options.parts.{part.name}.driver and its options.ssh.host"
        ssh = require_ssh(login, device, setting)
        if (transport := connect(ssh)) is not None:
            part_dir = None if record_dir is None else record_dir / part.name
            session = make_device_session(
                part.driver, transport, part.intent, part_dir, rollback_command, part.name
            )
            sessions.append((part, session))
    return ChainSession(driver.name, sessions) if sessions else None


def make_lab_device(
    driver: Driver,
    technology: DeviceTechnology,
    intent: Intent,
    record_dir: Path | None = None,
    build_model: Callable[[Any], PacketModel] | None = None,
) -> LabDevice:
    """Return the device under test of the lab, between the two cables to the tester.

    Args:
        build_model: makes the packet model that an audit uses in place of the reference device.
    """
    if isinstance(driver, ReferenceDriver):
        octets, swapped = compute_frame_octets(technology.links), technology.links.swapped
        if build_model is not None:
            return PacketModelDevice(build_model(technology), octets, swapped=swapped)
        faults = driver.options.faults
        return ReferenceLabDevice(technology, octets, faults, swapped=swapped)
    if not driver.is_chain:
        return (driver.lab_device_type or LabDut)(driver, intent, record_dir)  # type: ignore[no-any-return]
    references = {part.name: part for part in technology.parts}
    parts = driver.get_parts(intent)
    check_lab_placement(parts)
    lab_parts = []
    for part in parts:
        if part.driver.configures_device:
            part_dir = None if record_dir is None else record_dir / part.name
            lab_device_type = part.driver.lab_device_type or LabDut
            lab_part: LabDevice = lab_device_type(part.driver, part.intent, part_dir, part.name)
        else:
            reference, octets = references[part.name], compute_frame_octets(part.intent.links)
            swapped = reference.mirrored != intent.links.swapped
            lab_part = ReferenceLabDevice(reference.reference, octets, swapped=swapped)
        lab_parts.append((part, lab_part))
    return LabChain(driver.name, lab_parts, swapped=intent.links.swapped)
