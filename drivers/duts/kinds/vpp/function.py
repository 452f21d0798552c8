"""The base of what VPP can be, one class for each function of it, and the steps of its commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from v6t.drivers.duts.expect_profile import ExpectProfile
from v6t.drivers.duts.kinds.vpp import outputs
from v6t.drivers.duts.kinds.vpp.options import VppOptions
from v6t.drivers.duts.plan import Change, Existing, Intent, Step
from v6t.drivers.duts.readings import ParameterOverride, Reading
from v6t.intent.device import LinkIntent

OWN_TIMEOUT_S = 300.0
"""VPP's own timeout of UDP sessions; no command changes that of NAT64."""


class Vppctl:
    """Makes shell lines of VPP commands, whose exit status is always 0: output of a change is an error."""

    def __init__(self, options: VppOptions) -> None:
        own = f"{options.state_dir}/vpp-cli.sock" if options.started else ""
        socket = options.socket or own
        self._client = f"{options.control}{f' -s {socket}' if socket else ''}"

    def __call__(self, command: str) -> str:
        return f"{self._client} {command}"

    def step(
        self,
        command: str,
        why: str,
        *,
        undo: str = "",
        existing: Existing = Existing.NONE,
        **more: Any,
    ) -> Step:
        """Return the step of a command; by default an earlier step creates its object."""
        undone = self(undo) if undo else ""
        return Step(self(command), why, undo=undone, existing=existing, silent=True, **more)


class VppFunction:
    """Routing alone; subclasses add a function."""

    plugin: ClassVar[str] = ""
    """The plugin that it needs; empty: none."""
    notes: ClassVar[tuple[str, ...]] = ()
    parameter_overrides: ClassVar[Mapping[str, ParameterOverride]] = {}
    """Parameters of its technology whose defaults it cannot take."""
    profile: ClassVar[ExpectProfile] = ExpectProfile()
    by_endpoint: ClassVar[bool] = False
    """Whether a session belongs to an address and port inside, wherever its packets go."""

    def __init__(
        self, intent: Intent, options: VppOptions, cli: Vppctl, ports: Mapping[str, str]
    ) -> None:
        self.intent, self.options, self.cli, self.ports = intent, options, cli, ports

    def refuse(self, version: str) -> None:
        """Refuse what VPP does not do, or does silently wrong.

        Raises:
            UsageError: with the nearest thing that works.
        """

    def side(self, side: str) -> tuple[LinkIntent, Sequence[Step]]:
        """Return addresses, neighbors and routes of a side, and steps between addresses and neighbors."""
        given: LinkIntent = getattr(self.intent, side)
        return given, ()

    def steps(self, version: str) -> list[Step]:
        """Return the steps beyond interfaces, addresses and routes."""
        return []

    def flush(self, version: str, plan: Sequence[Step]) -> tuple[Step, ...]:
        """Return the actions that empty its state."""
        return ()

    def sessions(self) -> Reading | None:
        """Return the reading of VPP's own count; NAT64's and DS-Lite's statistics may be missing."""
        return None

    def occupancy(self) -> Reading | None:
        """Return how full its table is, read every second: no command that walks through the table."""
        return None

    def errors(self, text: str) -> Mapping[str, float]:
        """Parse ``show errors``, as far as it means loss."""
        return outputs.errors(text)

    def timeout_s(self) -> float | None:
        """Return how long idle UDP sessions live [s]; None: for ever."""
        return float(self.lives_s() or OWN_TIMEOUT_S)

    def lives_s(self) -> int:
        """Return the timeout of UDP sessions that is configured [s]; 0: none."""
        return getattr(self.intent.configuration, "udp_timeout_s", 0) or self.options.timeout_s

    def live_change(self) -> Change | None:
        """Return what is added, changed and removed under traffic; None: nothing."""
        return None

    def statistics(self, counter: str, room: int) -> Reading:
        """Read sessions from VPP's statistics segment, where no table is walked through."""

        def parse(text: str) -> Mapping[str, float]:
            workers = outputs.simple_counters(text, counter)
            return {"used": max(workers), "limit": float(room)} if workers else {}

        return Reading(
            f"{self.options.statistics} dump {counter} 2>/dev/null; true",
            parse,
            "sessions, and how many the table takes, of the worker that has most",
        )
