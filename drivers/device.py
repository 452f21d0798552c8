"""What a run asks of a device under test, whatever it is made of: a session with it, its connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


def quiet(text: str) -> None:
    """For whoever need not be told."""


NEARLY_EMPTY = 10
"""Connections of its own that a device may have: the one over which it is driven, for example."""


class StateDevice(Protocol):
    """The part of a device driver that knows about connections."""

    @property
    def timeout_s(self) -> float | None:
        """Idle connections live so long [s]; None: unknown."""

    @property
    def by_endpoint(self) -> bool:
        """What it counts is an address and port inside, however many connections these have."""

    def flush(self) -> None:
        """Empty the table and see that it is empty.

        Raises:
            DutError: it is not.
        """

    def sessions(self) -> int | None:
        """Connections the device counts; None: it does not tell."""

    def table(self) -> Mapping[str, float]:
        """What limits the table, by the device's own names; empty: it does not tell."""


class Watcher(Protocol):
    """Watches a device from its making on."""

    def stop(self) -> Sequence[Any]:
        """End, and give the samples of each second."""


class Watched(Protocol):
    """One driven device, as whoever watches it sees it."""

    def watcher(self, *readings: str) -> Watcher:
        """Begin.

        Args:
            readings: names of what to read, as far as the device has it; none: all it has.
        """

    def read(self) -> Any:
        """One sample, now, of what it tells without delay.

        Raises:
            DutError: it does not answer.
        """

    @property
    def question(self) -> object:
        """What :meth:`query` asks.

        Raises:
            UsageError: there is nothing to be asked in one frame.
        """

    def query(self) -> str:
        """Ask it for something that was configured, in an answer that fits into one frame.

        Returns:
            What it was asked.

        Raises:
            DutError: the answer is not what it must be, or there is none.
        """


class DeviceSession(Protocol):
    """A device being driven, or several in a row. Opened once, closed always."""

    @property
    def name(self) -> str:
        """Of the device, in messages."""

    def open(self) -> None:
        """Connect."""

    def close(self) -> None:
        """Give the connection back; nothing is restored by that. May be called twice."""

    def make_plan(self) -> object:
        """Survey, refuse or plan."""

    def apply(self) -> object:
        """Make the device what it shall be; restore it if that fails.

        Raises:
            DutError: with what is left on the device, if anything, and how to undo it.
        """

    def verify(self) -> list[str]:
        """Read everything back; one line per check.

        Raises:
            DutError: the first thing that is not as it should be.
        """

    def flush(self) -> None:
        """Empty its connections."""

    def reconfigure(self, action: Any) -> None:
        """Add, change or remove what is beside the traffic (``add``, ``change``, ``remove``).

        Raises:
            DutError: it could not be done.
        """

    def ready_for(self, action: Any) -> None:
        """What goes before an action, without traffic."""

    def update_routes(self) -> str:
        """Move a route that no test packet takes: to the one way, to the other, and so on.

        Returns:
            What was done.

        Raises:
            DutError: it could not be done, or does not read back.
        """

    def keep(self) -> None:
        """The configuration stays, whatever becomes of this session."""

    def check_held(self) -> None:
        """See that the device can still be what it was made.

        Raises:
            DutError: it may have undone everything by itself, or the connection is lost.
        """

    def restore(self, *, forget: bool = False, by_script: bool = False) -> list[str]:
        """Put everything back; what was done, one line each.

        Args:
            forget: drop the undo record even if the device is not as it was.
            by_script: run ``undo.sh`` where the record beside it is damaged.

        Raises:
            DutError: something is left; the message says what and how to undo it.
        """

    def status(self) -> dict[str, Any]:
        """Who holds it and what is configured."""

    def figures(self) -> dict[str, dict[str, float]]:
        """What it says of itself now, by reading; empty where it is not configured."""

    def describe(self) -> dict[str, Any]:
        """Facts for the manifest."""

    def state(self) -> StateDevice:
        """How its connections are emptied and counted."""

    def devices(self) -> Sequence[tuple[str, Watched]]:
        """Every driven device with its name, from left to right."""


class HookState:
    """A device with commands of the user's: one that empties its table, and one that counts."""

    timeout_s: float | None = None
    by_endpoint = False

    def __init__(self, flush: Callable[[], object], count: Callable[[], str] | None) -> None:
        """Combine.

        Args:
            flush: empties the table, raises if it cannot.
            count: prints the number of connections; None: the device does not tell.
        """
        self._flush = flush
        self._count = count

    def flush(self) -> None:
        """Empty the table."""
        self._flush()

    def sessions(self) -> int | None:
        """The last word of what the command prints."""
        words = self._count().split() if self._count is not None else []
        return int(words[-1]) if words and words[-1].isdigit() else None

    def table(self) -> Mapping[str, float]:
        """Nothing is known."""
        return {}
