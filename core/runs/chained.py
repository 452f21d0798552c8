"""Devices of several parts: from a plugin's parts and the chain driver to what stands or is driven."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.profiles.errors import UsageError

if TYPE_CHECKING:
    from v6t.drivers.duts.chain.driver import Chain, Part
    from v6t.drivers.duts.chain.session import ChainSession
    from v6t.drivers.duts.driver import Driver
    from v6t.drivers.lab.setup import LabDevice
    from v6t.drivers.tester import Oracle
    from v6t.plugins.base import DutIntent, Technology


def check_parts(options: Mapping[str, Any], plugin: Technology) -> None:
    """Refuse parts there are not, and drivers that cannot be them.

    Raises:
        UsageError: the first thing that is wrong.
    """
    from v6t.drivers.duts.chain.driver import Chain

    Chain(options).parts(plugin.dut_intent())


def oracle_of(driver: Driver, plugin: Technology) -> Oracle:
    """Who knows the frames a chain emits."""
    return _chain(driver).oracle(plugin, plugin.dut_intent())


def timeout_s(driver: Driver, plugin: Technology) -> float | None:
    """The shortest lifetime of connections in any part that keeps some [s] (DD-05)."""
    parts = _chain(driver).parts(plugin.dut_intent())
    drivers = [part.driver for part in parts if part.stateful and part.driver is not None]
    limits = [getattr(each.options, "timeout_s", None) for each in drivers]
    return min((limit for limit in limits if limit is not None), default=None)


def lab_chain(
    driver: Driver,
    plugin: Technology,
    intent: DutIntent,
    keep: Path | None,
    say: Callable[[str], None],
) -> LabDevice:
    """All parts in namespaces of the lab.

    Args:
        driver: of the chain.
        plugin: knows the reference translation of its parts.
        intent: of the whole.
        keep: local directory for copies of the undo records.
        say: told what happens.
    """
    from v6t.drivers.lab.chain import LabChain, LabPart
    from v6t.drivers.lab.device import LabDut
    from v6t.drivers.lab.setup import ReferenceDevice, frame_octets

    chain = _chain(driver)
    own = {part.name: (part.reference, part.turned) for part in plugin.parts if part.reference}
    made = []
    for part in chain.parts(intent):
        if part.driver is not None:
            device: Any = LabDut(part.driver, part.intent, _kept(keep, part.name), say)
        else:
            reference, turned = own[part.name]
            octets = frame_octets(part.intent.links)
            device = ReferenceDevice(reference, octets, turned=turned)
        made.append(LabPart(part, device))
    return LabChain(chain, intent, made)


def sessions_over_ssh(
    driver: Driver, intent: DutIntent, keep: Path | None, say: Callable[[str], None]
) -> ChainSession:
    """Sessions with all parts elsewhere, not open yet.

    Raises:
        UsageError: nothing says how to reach one of them.
    """
    from v6t.drivers.duts.chain.session import ChainSession, Driven
    from v6t.drivers.duts.session import Session
    from v6t.drivers.duts.ssh import SshTransport

    chain = _chain(driver)
    driven = []
    for part in chain.parts(intent):
        ssh = _reached(part)
        kept = _kept(keep, part.name)
        again = f"v6t dut restore {keep}" if keep is not None else ""
        session = Session(part.driver, SshTransport(ssh), part.intent, kept, say, again)  # type: ignore[arg-type]
        driven.append(Driven(part, session))
    return ChainSession(chain, intent, driven)


def _reached(part: Part) -> Any:
    ssh = part.driver.options.ssh if part.driver is not None else None
    if ssh is None or not ssh.host:
        raise UsageError(
            f"how is the part '{part.name}' of the {part.device} reached?",
            f"give dut.options.parts.{part.name}.driver and its options.ssh.host in the testbed "
            "file; the reference translation stands in the lab only",
        )
    return ssh


def _chain(driver: Driver) -> Chain:
    from v6t.drivers.duts.chain.driver import Chain

    if not isinstance(driver, Chain):
        raise TypeError(f"{driver.name} is no chain")
    return driver


def _kept(keep: Path | None, name: str) -> Path | None:
    return None if keep is None else keep / name
