"""Options of a login over SSH in testbed files."""

from __future__ import annotations

import contextlib
import re
from ipaddress import ip_address
from typing import Any, Literal

from pydantic import Field, model_validator
from v6t.base.errors import InvalidValue
from v6t.base.strict_model import StrictModel

USER_CONFIG = "~/.ssh/config"
_NAME = r"[A-Za-z0-9_.%][A-Za-z0-9_.%-]*"
_ADDRESS = r"\[?[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?\]?"
_HOP = re.compile(rf"(?:{_NAME}@)?(?:({_NAME})|\[([0-9A-Fa-f:.]+)\])(?::\d+)?")


class SshOptions(StrictModel):
    """Options of a login, or ``user@host``. Unset values come from ``~/.ssh/config``."""

    host: str = Field(default="", pattern=rf"^({_NAME}|{_ADDRESS})?$")
    """Name, address or alias of ``~/.ssh/config``."""
    port: int | None = Field(None, ge=1, le=65535, description="TCP port of sshd")
    user: str = Field("", pattern=rf"^({_NAME})?$", description="Login name")
    identity: tuple[str, ...] = ()
    """Private key files; without any: those of the configuration, and the agent's."""
    known_hosts: str = ""
    """File of known host keys; default: the configuration's. A host must be in it."""
    config: str = Field(USER_CONFIG, description="OpenSSH client configuration; empty: none")
    jump: str = ""
    """``[user@]host[:port]`` of a jump host (ProxyJump); several with commas. The same keys and
    known hosts are used there, never the device's password."""
    become: Literal["", "sudo -n", "doas -n"] = ""
    """How an ordinary user becomes root on the device."""
    netns: str = Field(default="", pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]{0,39})?$")
    """Network namespace of the machine that is the device, as `ip netns` names it: for a second
    part of a chain on one machine. It and its interfaces must exist. Empty: the machine's own."""
    ask_password: bool = False
    """Ask for a password at the terminal; it is never written anywhere. ``$V6T_DUT_PASSWORD``
    is taken without asking."""
    connect_deadline_s: float = Field(default=15.0, gt=0, le=600)
    """Time limit of a login [s]."""
    command_deadline_s: float = Field(default=30.0, gt=0, le=3600)
    """Time limit of a command that changes nothing [s]."""
    lab: str = ""
    """Instead of a host: an sshd that v6t starts within the lab's device namespace of this name."""

    @model_validator(mode="before")
    @classmethod
    def _parse_short_form(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        user, _, host = value.rpartition("@")
        return {"host": host, "user": user}

    @property
    def text(self) -> str:
        """``user@host``, for messages."""
        return f"{self.user}@{self.host or self.lab}" if self.user else self.host or self.lab

    @property
    def suffix(self) -> str:
        """Text that distinguishes the device from others on its machine."""
        return f" netns {self.netns}" if self.netns else ""

    @property
    def machine(self) -> tuple[str, int | None, str]:
        """Key that identifies the machine; equal options give equal keys."""
        return (self.host or self.lab, self.port, self.jump)

    @property
    def hops(self) -> dict[str, str]:
        """Name or address of each host of ``jump``, by its text there."""
        hops = {}
        for text in filter(None, self.jump.split(",")):
            if (match := _HOP.fullmatch(text)) is None:
                raise InvalidValue(f"jump '{text}' is not [user@]host[:port]", code="wrong-form")
            hops[text] = match[1] or match[2]
        return hops

    @property
    def jump_addresses(self) -> tuple[str, ...]:
        """Hops that are given by address."""
        addresses = []
        for host in self.hops.values():
            with contextlib.suppress(ValueError):
                addresses.append(str(ip_address(host)))
        return tuple(addresses)

    @model_validator(mode="after")
    def _check_host(self) -> SshOptions:
        if self.hops and self.lab:
            problem = "jump leads nowhere: the lab's own device is on this machine"
            raise InvalidValue(problem, code="conflict")
        if bool(self.host) == bool(self.lab):
            problem = "host (or lab, for the lab's own device) is required"
            raise InvalidValue(problem, code="missing-setting")
        if self.lab and not (self.lab.isidentifier() or self.lab.replace("-", "_").isidentifier()):
            problem = f"lab '{self.lab}' is invalid: use letters, digits and hyphens"
            raise InvalidValue(problem, code="wrong-form")
        return self
