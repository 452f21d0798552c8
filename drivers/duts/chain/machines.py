"""Several parts on one machine: a directory for each there, and one network stack for no two of them.

What leaves a kernel by one interface and comes back by another one is its own packet, which it
drops; and routes of two parts to the same hosts cannot both be in one table. So a second part that
is the kernel's needs a network namespace of its own on the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from v6t.base.errors import UsageError
from v6t.drivers.duts.chain.parts import Part
from v6t.drivers.duts.driver import Driver
from v6t.drivers.duts.session.undo_store import PART_PREFIX
from v6t.intent.families import DeviceConfig


def directory_beside(before: Sequence[Part], name: str, driver: Driver) -> str:
    """Return the state directory of a part on another part's machine; empty: as its options say.

    The first part of a machine has the directory itself, and with it the machine's lock: whoever
    comes to the machine, for one part or for the whole of it, meets that first. Timer, record and
    files are each part's own.
    """
    if not driver.configures or driver.options.ssh is None:
        return ""
    ssh, directory = driver.options.ssh, driver.options.state_dir
    beside = [p for p in _on_machines(before) if p.driver.options.ssh.machine == ssh.machine]
    for part in beside:
        same = part.driver.options.ssh.netns == ssh.netns
        if same and all(_of_kernel(d) for d in (part.driver, driver)):
            raise UsageError(
                f"the parts {part.name} and {name} would both be the kernel of one machine, "
                f"{ssh.text}: what leaves the one never enters the other",
                "give one of them a network namespace on it, with the interfaces of its two cables: "
                f"`ip netns add {name}` there, and dut.options.parts.{name}.options.ssh.netns: {name}",
                code="chain-conflict",
            )
    taken = {part.driver.options.state_dir for part in beside}
    return f"{directory}/{PART_PREFIX}{name}" if directory in taken else ""


def check_places(parts: Sequence[Part]) -> None:
    """Check that each part can be cabled in the lab."""
    known: dict[tuple[str, str], str] = {}
    for part in _on_machines(parts):
        ssh = part.driver.options.ssh
        other = known.setdefault((ssh.lab, ssh.netns), part.name)
        if other != part.name:
            raise UsageError(
                f"the parts {other} and {part.name} have the same namespace of the lab, {ssh.lab}",
                f"give one dut.options.parts.{part.name}.options.ssh.netns, or another ssh.lab",
                code="chain-conflict",
            )


def _on_machines(parts: Iterable[Part]) -> list[Part]:
    return [p for p in parts if p.driver.configures and p.driver.options.ssh is not None]


def _of_kernel(driver: Driver) -> bool:
    """Whether the part is the machine's own network stack; of the user's shell lines that is unknown."""
    return driver.kernel and DeviceConfig not in driver.accepts
