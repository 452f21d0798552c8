"""One TRex server or several as a kind of tester."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator
from v6t.base.errors import InvalidValue
from v6t.drivers.several.tester import MAX_SKEW_SHARE, SeveralTesters
from v6t.drivers.tester_kind import Finding
from v6t.drivers.trex.kind import Trex
from v6t.drivers.trex.options import TrexOptions

if TYPE_CHECKING:
    from v6t.drivers.lab.setup import Bed, LabDevice
    from v6t.drivers.prober import Prober
    from v6t.drivers.tester import StatefulTester
    from v6t.trials.tcp import Tcp
    from v6t.trials.trial import Capability, Mode

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
            "1": TrexOptions.model_validate(self.model_dump(exclude={*_COMMON_OPTIONS}))
        }


class TrexServers(Trex):
    """Cisco TRex: one server, or several that send together."""

    options_model = ServersOptions

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        super().__init__(given)
        self._kinds = {name: _make_kind(one) for name, one in self.options.chosen.items()}
        self._first = next(iter(self._kinds.values()))

    @property
    def in_lab(self) -> bool:
        return self._first.in_lab

    def check_links(self, links: Any) -> None:
        for kind in self._kinds.values():
            kind.check_links(links)

    def prepare(self) -> None:
        for kind in self._kinds.values():
            kind.prepare()

    def make(  # type: ignore[override]
        self, links: Any, device: LabDevice | None, *, loopback: bool, delays: bool, seed: int
    ) -> StatefulTester:
        members: dict[str, StatefulTester] = {
            name: kind.make(links, device, loopback=loopback, delays=delays, seed=seed)
            for name, kind in self._kinds.items()
        }
        if len(members) == 1:
            return next(iter(members.values()))
        return SeveralTesters(self.name, members, self.options.max_skew)

    def prober(self, links: Any, bed: Bed | None) -> Prober:
        return self._first.prober(links, bed)

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(self._kinds) if len(self._kinds) > 1 else ()

    @property
    def negative_traffic_problem(self) -> tuple[str, str] | None:
        reasons = (kind.negative_traffic_problem for kind in self._kinds.values())
        return next(filter(None, reasons), None)

    def compute_max_rate_fps(self, needs: frozenset[Capability], mode: Mode) -> float:
        return len(self._kinds) * min(
            k.compute_max_rate_fps(needs, mode) for k in self._kinds.values()
        )

    def describe_counting(self, needs: frozenset[Capability], mode: Mode, most_fps: float) -> str:
        share_fps = most_fps / len(self._kinds)
        ways = (kind.describe_counting(needs, mode, share_fps) for kind in self._kinds.values())
        return " or ".join(dict.fromkeys(ways))

    def list_warnings(self) -> Iterator[str]:
        yield from _list_once(kind.list_warnings() for kind in self._kinds.values())
        parts = len(self._kinds)
        if parts == 1:
            return
        for name, kind in self._kinds.items():
            own = kind.options
            host = own.ssh.host if own.ssh else own.server
            ports = " and ".join(map(str, own.interfaces or own.all_ports))
            yield (
                f"server {name} ({host}:{own.rpc_port}, {ports}) sends 1/{parts} of the frames and of "
                "the flows, and counts what comes back to its own ports"
            )
        yield (
            f"a trial is invalid if its {parts} servers start more than {self.options.max_skew:.2%} of "
            "its duration apart; connections of TCP use the first server only"
        )

    def list_trial_warnings(self, figures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        yield from _list_once(
            kind.list_trial_warnings(
                [trial.get("servers", {name: trial}).get(name, {}) for trial in figures]
            )
            for name, kind in self._kinds.items()
        )

    def list_setting_warnings(self, timed: Sequence[str]) -> Iterator[str]:
        yield from _list_once(kind.list_setting_warnings(timed) for kind in self._kinds.values())

    def check_connections(self, most: int, needs: frozenset[Capability]) -> Iterator[str]:
        yield from self._first.check_connections(-(-most // len(self._kinds)), needs)

    def check_tcp_connections(
        self, technology: object, max_connections: int, tcp: Tcp, alpha: float | None
    ) -> Iterator[str]:
        yield from self._first.check_tcp_connections(technology, max_connections, tcp, alpha)

    def examine(self, *, named: bool) -> Iterator[Finding]:
        for name, kind in self._kinds.items():
            for what, state, text in kind.examine(named=named):
                yield f"{what}, server {name}" if len(self._kinds) > 1 else what, state, text


def _make_kind(options: TrexOptions) -> Trex:
    kind = Trex()
    kind.options = options
    return kind


def _list_once(texts: Iterator[Iterator[str]]) -> Iterator[str]:
    """Yield each text once."""
    yield from dict.fromkeys(text for own in texts for text in own)
