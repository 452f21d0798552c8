"""Options of devices in a testbed file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator
from v6t.base.errors import InvalidValue, UsageError
from v6t.base.strict_model import StrictModel
from v6t.drivers.transport.ssh_options import SshOptions
from v6t.trials.trial import RESET_HOOKS as RESETS

DEFAULT_STATE_DIRECTORY = "/run/v6t"  # path on the device
# Interface name that is safe in a shell line.
InterfaceName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_:/-]*(\.[A-Za-z0-9_:/-]+)*$", max_length=40)
]
# Absolute directory path that is safe in a shell line.
DirectoryPath = Annotated[
    str,
    Field(pattern=r"^/[A-Za-z0-9_/-]*(\.[A-Za-z0-9_/-]+)*$"),
    AfterValidator(lambda path: path.rstrip("/")),
]


class Hook(StrictModel):
    """A user's command that acts on a device, with its limits; a plain string sets the command only."""

    command: str = Field(pattern=r"\S")
    """Program with its arguments; it is split as in a shell, but no shell runs it."""
    timeout_s: float = Field(default=120.0, gt=0, le=3600)  #: Time limit of one attempt [s].
    tries: int = Field(default=1, ge=1, le=10)  #: Maximum number of attempts.

    @model_validator(mode="before")
    @classmethod
    def _accept_plain_command(cls, value: object) -> object:
        return {"command": value} if isinstance(value, str) else value


class HookOptions(StrictModel):
    """Options of a device on which the user's own commands act."""

    hooks: dict[str, Hook] = Field(default_factory=dict)
    """Commands for the reset benchmark and for stateful devices, by name; with limits: `{flush: {command:
    ssh dut flush, timeout_s: 30, tries: 3}}`."""


class DutOptions(HookOptions):
    """Options of every driver that configures a device."""

    hooks: dict[str, Hook] = Field(default_factory=dict)
    """Commands that reset the device for the reset benchmark: `{software-reset: ssh dut systemctl restart
    tayga}`. Afterwards the configuration of v6t must be in place again. The driver itself does everything
    else."""

    ssh: SshOptions | None = None
    """SSH login of the device, or ``user@host``; without it, the device is a namespace of the lab."""
    left: InterfaceName = "left"  #: Interface towards the tester's left port.
    right: InterfaceName = "right"  #: Interface towards the tester's right port.
    state_dir: DirectoryPath = DEFAULT_STATE_DIRECTORY
    """Directory on the device for lock, undo record and configuration files, preferably on a tmpfs."""
    undo_after_s: int = Field(default=60, ge=0, le=86_400)
    """Silence of v6t after which a device reached over SSH rolls back by itself [s]; `v6t dut commit` stops
    this timer at its end. 0: never."""
    version: str = Field(default="", pattern=r"^[A-Za-z0-9.~+_-]{0,40}$")
    """Version of the implementation for plans without a device."""
    neighbours: Literal["static", "gateway", "resolved"] = "static"
    """How the device resolves the tester's addresses: static entries, one entry and routes through it
    (`gateway`, Linux only), or neighbor discovery and ARP."""

    @property
    def in_lab(self) -> bool:
        """Whether the device belongs to the lab, whose devices share one kernel."""
        return self.ssh is None or bool(self.ssh.lab)

    @property
    def artefact_paths(self) -> Mapping[str, str]:
        """Paths of files on the device that are saved with the results, by the name of the copy."""
        return {}

    @property
    def machine_wide_options(self) -> tuple[str, ...]:
        """Names of the given options that change the whole machine, not only its links."""
        return ()

    @field_validator("hooks")
    @classmethod
    def _check_hooks(cls, hooks: dict[str, Hook]) -> dict[str, Hook]:
        """Return the hooks; raise InvalidValue for actions that the driver performs itself."""
        if not hooks.keys() <= set(RESETS):
            known = " and ".join(RESETS)
            problem = f"the driver does that itself; other hooks are {known}"
            raise InvalidValue(problem, code="conflict")
        return hooks

    @model_validator(mode="after")
    def _check_consistency(self) -> DutOptions:
        """Raise InvalidValue if both interfaces are the same or the rollback timer is too short."""
        if self.left == self.right:
            raise InvalidValue("left and right are the same interface", code="duplicate")
        if self.undo_after_s == 1:
            raise InvalidValue("undo_after_s must be 0, or at least 2", code="out-of-range")
        return self


class LinuxOptions(DutOptions):
    """Options of every Linux device; each changed setting is restored."""

    offloads: Literal["off", "keep"] = "off"
    """GRO, LRO, GSO and TSO of both interfaces, which merge and split the measured frames."""
    rss: str = Field(default="", pattern="^[a-z]*$")
    """Fields of the receive hash as ``ethtool -N`` writes them, e.g. ``sdfn``; empty: unchanged."""
    queues: int = Field(default=0, ge=0, le=256)
    """Combined queues of both interfaces; 0: unchanged."""
    rps: str = Field(default="", pattern="^[0-9a-f,]*$")
    """Hexadecimal CPU mask for receive packet steering of every queue; empty: unchanged."""
    cores: int = Field(default=0, ge=0, le=1024)  #: Number of cores that stay online; 0: all.
    governor: str = Field(default="", pattern="^[a-z_]*$")
    """Frequency governor, e.g. ``performance``; empty: unchanged."""
    clock_khz: int = Field(default=0, ge=0)  #: Fixed clock of all cores [kHz]; 0: unchanged.
    sessions: int = Field(default=0, ge=0, le=1 << 30)
    """Connections that the device must hold; 0: the technology's requirement, if it has one."""
    timeout_s: int = Field(default=3600, ge=0, le=864_000)
    """Lifetime of idle UDP connections on the device, longer than any test [s]; 0: its default."""

    @property
    def machine_wide_options(self) -> tuple[str, ...]:
        settings = {"cores": self.cores, "governor": self.governor, "clock_khz": self.clock_khz}
        return tuple(name for name, value in settings.items() if value)


def require_ssh(ssh: SshOptions | None, device: str, setting: str) -> SshOptions:
    """Return the SSH options of a device; raise UsageError that names the setting if they are missing."""
    if ssh is None:
        hint = f"give {setting} in the testbed file; with TRex, --set-tester lab=true tries it here"
        raise UsageError(f"the login to {device} is not configured", hint, code="missing-setting")
    return ssh
