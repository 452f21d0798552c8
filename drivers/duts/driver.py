"""The contract of a device driver: commands, and how a device that takes them stands or is reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from v6t.base.errors import UsageError
from v6t.drivers.device import DeviceSession
from v6t.drivers.duts.commands import Commands, Reading, Suited, check_interfaces
from v6t.drivers.duts.expect_profile import ProfiledOracle
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.options import Hook, HookOptions, reached
from v6t.drivers.duts.plan import Intent
from v6t.drivers.tester import Oracle

if TYPE_CHECKING:
    from v6t.drivers.lab.packet_model import PacketModel
    from v6t.drivers.lab.setup import LabDevice
    from v6t.drivers.transport.contract import Transport
    from v6t.drivers.transport.ssh_options import SshOptions
    from v6t.packets.direction import Direction

    Reach = Callable[[SshOptions], Transport | None]

__all__ = ["DeviceTechnology", "Driver", "Reading", "ReferencePart", "Suited", "check_interfaces"]


class ReferencePart(Protocol):
    """What a technology of several parts says of one whose translation it knows."""

    @property
    def name(self) -> str:
        """Of the part."""

    @property
    def reference(self) -> Any:
        """Its oracle; None: it has none."""

    @property
    def mirrored(self) -> bool:
        """Whether the oracle's left is the part's right."""


class DeviceTechnology(Oracle, Protocol):
    """A technology, as the reference device is made of it."""

    @property
    def links(self) -> Any:
        """Left and right, with their MTUs."""

    @property
    def parts(self) -> Sequence[ReferencePart]:
        """Of a technology that is made of several; else none."""


def over_ssh(ssh: SshOptions) -> Transport:
    """The way to a device elsewhere, not open yet.

    Raises:
        UsageError: it is one of the lab.
    """
    from v6t.drivers.transport.openssh import SshTransport

    if ssh.lab:
        raise UsageError(
            f"{ssh.lab} is a device of the lab: this tester does not reach it",
            "give ssh.host in place of ssh.lab; with TRex, --set-tester lab=true tries it here",
            code="unsupported-by-tester",
        )
    return SshTransport(ssh)


class Driver(Commands):
    """One implementation, or several in a row. Instances hold options only."""

    configures: ClassVar[bool] = True
    """There is something to configure; else the device is as it is."""
    absent: ClassVar[bool] = False
    """There is no device: the tester's ports are joined."""
    of_parts: ClassVar[bool] = False
    """The technology says which devices there are."""
    has_background_vlans: ClassVar[bool] = False
    """Whether it can give the background VLANs of its own."""

    @property
    def hooks(self) -> Mapping[str, Hook]:
        """Commands of the user's, run here, by what they do to the device (GEN-29)."""
        return self.options.hooks if isinstance(self.options, HookOptions) else {}

    @property
    def overrides(self) -> Mapping[str, Any]:
        """Parameters that the device alone believes."""
        return {}

    @classmethod
    def from_flags(cls, given: Mapping[str, Any], flags: Mapping[str, Any]) -> Mapping[str, Any]:
        """Options that ``--set-dut`` changes.

        Args:
            given: of the testbed file.
            flags: of the command line.
        """
        return flags

    def check_intent(self, intent: Intent) -> None:
        """Refuse what no device of this kind could be.

        Raises:
            UsageError: the technology, or with what else would work.
        """
        self.check_supported(intent)
        if intent.links.background_vlans is not None and not self.has_background_vlans:
            raise UsageError(
                f"the {self.name} driver does not support separate VLANs for the background",
                "leave links.*.background out, or choose another driver",
                code="no-background",
            )

    def oracle(self, oracle: Oracle, intent: Intent) -> Oracle:
        """Who knows the frames this device emits: the technology, as this implementation does it."""
        profile = self.profile(intent)
        return oracle if profile.plain else ProfiledOracle(oracle, profile)

    def further_hops(self, intent: Intent, direction: Direction) -> int:
        """Return the hops that a packet takes in this device beyond those of the technology."""
        del direction
        return self.profile(intent).further_hops

    def configured_alike(self, one: Intent, other: Intent) -> bool:
        """Whether a device that shall be one is told the same as one that shall be the other."""
        if not self.configures or self.of_parts:
            return one == other

        def commands(intent: Intent) -> list[tuple[str, str]]:
            return [(s.set, s.text) for s in self.plan(intent, self.example(intent)).steps]

        return commands(one) == commands(other)

    def emptying(self, intent: Intent) -> str:
        """How its connections are emptied, in commands (ST-10)."""
        return "; ".join(step.set for step in self.plan(intent, self.example(intent)).flush)

    def session(
        self,
        intent: Intent,
        keep: Path | None = None,
        again: str = "",
        reach: Reach = over_ssh,
    ) -> DeviceSession | None:
        """A session with a device elsewhere, not open yet; None: nobody drives it, or it is not there.

        Args:
            intent: what it shall be.
            keep: local directory for a copy of the undo record.
            again: the command that restores later; empty: by ``keep``.
            reach: the way to a machine, not open yet; None: it is not there.

        Raises:
            UsageError: nothing says how to reach it.
        """
        from v6t.drivers.duts.session import Session

        ssh = reached(self.options.ssh, f"the {self.name} device", "dut.options.ssh.host")
        transport = reach(ssh)
        return None if transport is None else Session(self, transport, intent, keep, again)

    def logins(self, intent: Intent) -> Sequence[SshOptions | None]:
        """How each machine is logged in to that the driver configures; None: nothing says how."""
        del intent
        return [self.options.ssh]

    def lab_device(
        self,
        translation: DeviceTechnology,
        intent: Intent,
        keep: Path | None = None,
    ) -> LabDevice:
        """What stands between the lab's cables.

        Args:
            translation: the technology, as the device is to believe it.
            intent: what it shall be.
            keep: local directory for a copy of the undo record.
        """
        from v6t.drivers.duts.standing.device import LabDut

        return LabDut(self, intent, keep)

    def audited_device(
        self,
        technology: DeviceTechnology,
        intent: Intent,
        build_model: Callable[[Any], PacketModel],
    ) -> LabDevice:
        """Return the device that an audit tests with single frames.

        Args:
            technology: as the device should implement it.
            intent: of the device.
            build_model: builds a packet-level model, for drivers without a real device.
        """
        del build_model
        return self.lab_device(technology, intent)


class WithoutCommands(Driver):
    """What is no single device to be asked: there is nothing to survey."""

    def survey(self) -> Mapping[str, str]:
        """Nothing."""
        return {}

    def facts(self, sections: Mapping[str, str]) -> Facts:
        """None."""
        return Facts(system="", version="")

    def example(self, intent: Intent) -> Facts:
        """None."""
        return Facts(system="", version="")
