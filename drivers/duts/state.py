"""A driven device as whoever prepares connections sees it: emptied, counted, with a timeout."""

from __future__ import annotations

from collections.abc import Callable

from v6t.drivers.duts.session import Session


class SessionState:
    """See :class:`v6t.drivers.oracle.two_phase.StateDevice`."""

    def __init__(self, session: Session) -> None:
        """Combine.

        Args:
            session: open and applied.
        """
        self._session = session
        self.timeout_s: float | None = session.driver.timeout_s(session.intent)

    def flush(self) -> None:
        """Empty the table; the driver sees that it is empty."""
        self._session.flush()

    def sessions(self) -> int | None:
        """The device's own count."""
        reading = self._session.driver.sessions(self._session.intent)
        if reading is None:
            return None
        found = reading.parse(self._session.transport.run(reading.command).out)
        count = found.get("sessions")
        return None if count is None else int(count)

    def table(self) -> dict[str, float]:
        """What limits the table, by the device's own names; empty: it does not tell."""
        session = self._session
        reading = session.driver.table(session.intent)
        if reading is None:
            return {}
        return dict(reading.parse(session.transport.run(reading.command).out))


class HookState:
    """A device with commands of the user's: one that empties its table, and one that counts."""

    timeout_s: float | None = None

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
