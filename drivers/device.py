"""A device under test as a run uses it: a session, and a connection table."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from v6t.base.errors import DutError

MAX_OWN_CONNECTIONS = 10  # Of the device itself, such as its SSH connection


def ignore_message(text: str) -> None:
    """Discard a message."""


class StateDevice(Protocol):
    """The connection table of a device."""

    @property
    @abstractmethod
    def timeout_s(self) -> float | None:
        """Lifetime of idle connections [s]; None if unknown."""

    @property
    @abstractmethod
    def counts_endpoints(self) -> bool:
        """Whether it counts inside endpoints instead of connections."""

    @abstractmethod
    def flush(self) -> None:
        """Empty the table; raise DutError if connections are left."""

    @abstractmethod
    def count_sessions(self) -> int | None:
        """Return the number of connections, or None if the device has no counter."""

    @abstractmethod
    def read_limits(self) -> Mapping[str, float]:
        """Read the limits of the table by the device's own names; empty if unknown."""


class DeviceSession(StateDevice, ABC):
    """A session with a device or a chain of devices; it is opened once and always closed."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the device in messages."""

    @abstractmethod
    def open(self, *, lock: bool = True) -> None:
        """Connect and take the lock; with ``lock=False`` only read, even if another process holds it."""

    @abstractmethod
    def close(self) -> None:
        """Free the lock and disconnect; nothing is rolled back. May be called twice."""

    @abstractmethod
    def make_plan(self) -> object:
        """Survey the device and plan for it."""

    @abstractmethod
    def compare(self) -> Sequence[Any]:
        """Compare the plan with the present state: one entry for each step."""

    @abstractmethod
    def commit(self, revert_in: int | None = None) -> object:
        """Apply the plan; roll back if that fails.

        Args:
            revert_in: silence after which the rollback timer acts [s], at least 15; default: from
                the options.
        """

    @abstractmethod
    def verify(self) -> list[str]:
        """Read the configuration back; return one line for each check, or raise DutError."""

    @abstractmethod
    def confirm(self) -> None:
        """Stop the rollback timer: the configuration stays when the session ends."""

    @abstractmethod
    def schedule_rollback(self, limit_s: int) -> None:
        """Roll back after a time from now unless :meth:`confirm` stops the timer."""

    @abstractmethod
    def rollback(self, *, forget: bool = False, by_script: bool = False) -> list[str]:
        """Undo the plan; return one line for each undone step, or raise DutError if steps remain.

        Args:
            forget: delete the undo record even if the device is not in its former state.
            by_script: run ``undo.sh`` if the record is damaged.
        """

    @abstractmethod
    def check_configured(self) -> None:
        """Check that the device still has its configuration, or raise DutError."""

    @abstractmethod
    def read_status(self) -> dict[str, Any]:
        """Return the holder of the lock, the owner of the configuration and the rollback timer."""

    @abstractmethod
    def read_counters(self) -> dict[str, dict[str, float]]:
        """Read the counters once; empty if the device is not configured."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return facts for the manifest."""

    @abstractmethod
    def get_sessions(self) -> Sequence[tuple[str, Any]]:
        """Return the name and session of every configured device, from left to right."""

    def reconfigure(self, action: Any) -> None:
        """Run ``add``, ``change`` or ``remove`` on configuration that no test packet uses."""
        raise self._make_unsupported_error("change its configuration")

    def prepare_reconfiguration(self, action: Any) -> None:
        """Bring the device, without traffic, into the state in which an action can be timed."""
        self.reconfigure(action)

    def update_routes(self) -> str:
        """Change a route that no test packet takes; return a description of the change."""
        raise self._make_unsupported_error("change routes")

    def _make_unsupported_error(self, what: str) -> DutError:
        problem = f"{self.name}: the driver cannot {what} under traffic"
        return DutError(problem, code="unsupported-operation")


class HookState:
    """The connection table of a device that the user's commands empty and count."""

    timeout_s: float | None = None
    counts_endpoints = False

    def __init__(self, flush: Callable[[], object], count: Callable[[], str] | None) -> None:
        self._flush = flush
        self._count = count

    def flush(self) -> None:
        self._flush()

    def count_sessions(self) -> int | None:
        """Return the number that the count command prints as its last word; None without one."""
        words = self._count().split() if self._count is not None else []
        return int(words[-1]) if words and words[-1].isdigit() else None

    def read_limits(self) -> Mapping[str, float]:
        return {}
