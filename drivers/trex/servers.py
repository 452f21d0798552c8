"""Options of one TRex server, or of several that send together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator
from v6t.base.errors import InvalidValue
from v6t.drivers.several.tester import MAX_SKEW_SHARE
from v6t.drivers.trex.options import TrexOptions

_COMMON_OPTIONS = ("servers", "only", "max_skew")  # Not of a single server


class ServerOptions(TrexOptions):
    """Options of one of several servers; those outside of ``servers`` apply to all."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,40}$")] = ""
    """Name in messages and results; empty: its number, from 1."""


class ServersOptions(TrexOptions):
    """Options of ``tester: {kind: trex}``; the left port sends IPv6 (or the private side)."""

    servers: tuple[ServerOptions, ...] = Field(default=(), max_length=16)
    """Several servers that send together; each has the options above, and ``name``. Options outside of
    ``servers`` apply to all of them."""
    only: str = ""
    """Name of the one server to use; empty: all."""
    max_skew: float = Field(default=MAX_SKEW_SHARE, gt=0, le=0.5)
    """Largest difference of the servers' starts as a share of a trial's duration; with a larger one the
    trial is invalid."""

    @model_validator(mode="before")
    @classmethod
    def _share_options(cls, given: Any) -> Any:
        """Copy the options outside of ``servers`` to each server."""
        servers = given.get("servers") if isinstance(given, Mapping) else None
        if not isinstance(servers, (list, tuple)):
            return given
        shared = {key: value for key, value in given.items() if key not in _COMMON_OPTIONS}
        laid = [
            {"name": str(n), **shared, **one} if isinstance(one, Mapping) else one
            for n, one in enumerate(servers, 1)
        ]
        return {**given, "servers": laid}

    @model_validator(mode="after")
    def _check_servers(self) -> ServersOptions:
        names = [one.name for one in self.servers]
        hosts = [(one.ssh and one.ssh.host, one.server, one.rpc_port) for one in self.servers]
        for values, text in ((names, "name"), (hosts, "host and rpc_port")):
            if len(set(values)) < len(values):
                raise InvalidValue(
                    f"two servers have the same {text}",
                    f"give each server its own {text}",
                    code="duplicate",
                    settings=("servers",),
                )
        lacking = [s.name for s in self.servers[1:] if s.left is None or s.right is None]
        for is_broken, text, hint, code, *settings in (
            (self.only and self.only not in names, f"unknown server {self.only!r}",
             f"the servers are {', '.join(names) or 'not listed'}", "unknown-name", "only"),
            (len(names) > 1 and any(one.lab for one in self.servers), "the lab has one server",
             "leave out lab, or servers", "conflict", "lab", "servers"),
            (lacking, f"server {''.join(lacking[:1])} has no MAC addresses",
             "set left and right with tester_mac and dut_mac", "missing-setting", "servers"),
        ):  # fmt: skip
            if is_broken:
                raise InvalidValue(text, hint, code=code, settings=tuple(settings))
        return self

    @property
    def chosen(self) -> Mapping[str, TrexOptions]:
        """Options of the used servers by name."""
        servers: dict[str, TrexOptions] = {
            one.name: one for one in self.servers if self.only in ("", one.name)
        }
        return servers or {
            "1": TrexOptions.model_validate(
                self.model_dump(exclude={*_COMMON_OPTIONS}, exclude_unset=True)
            )
        }
