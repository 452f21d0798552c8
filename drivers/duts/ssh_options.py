"""What a testbed file may say about the way to a device."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class SshOptions(BaseModel):
    """How to log in. Unset values come from ``~/.ssh/config``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = ""
    """Name, address or alias of ``~/.ssh/config``."""
    port: int | None = Field(default=None, ge=1, le=65535)
    user: str = ""
    identity: tuple[str, ...] = ()
    """Private key files; without any: those of the configuration, and the agent's."""
    known_hosts: str = ""
    """File of known host keys; default: the configuration's. A host must be in it."""
    config: str = "~/.ssh/config"
    """OpenSSH client configuration; empty: none."""
    jump: str = ""
    """``[user@]host[:port]`` to go through (ProxyJump)."""
    become: Literal["", "sudo -n", "doas -n"] = ""
    """How an ordinary user becomes root on the device."""
    ask_password: bool = False
    """Ask for a password at the terminal; it is never written anywhere. ``$V6T_DUT_PASSWORD``
    is taken without asking."""
    connect_deadline_s: float = Field(default=15.0, gt=0, le=600)
    command_deadline_s: float = Field(default=30.0, gt=0, le=3600)
    lab: str = ""
    """Instead of a host: an sshd that v6t starts within the lab's device namespace of this name."""

    @model_validator(mode="after")
    def _somewhere(self) -> SshOptions:
        if bool(self.host) == bool(self.lab):
            raise ValueError("host (or lab, for the lab's own device) must say where to log in")
        if self.lab and not (self.lab.isidentifier() or self.lab.replace("-", "_").isidentifier()):
            raise ValueError(f"lab '{self.lab}' is no name: letters, digits and hyphens")
        return self
