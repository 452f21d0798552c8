"""The parts of a chain, driven together: configured from left to right, restored backwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from v6t.base.errors import DutError, V6tError
from v6t.drivers.duts.chain.parts import Part
from v6t.drivers.duts.plan import Action
from v6t.drivers.duts.session import Session


@dataclass(frozen=True)
class Driven:
    """A part and the session with it."""

    part: Part
    session: Session


class ChainSession:
    """See :class:`v6t.drivers.device.DeviceSession`."""

    def __init__(self, kind: str, driven: list[Driven]) -> None:
        """Combine.

        Args:
            kind: the driver's name, for the manifest.
            driven: the parts that have a driver, from left to right.
        """
        self._kind = kind
        self.driven = driven

    @property
    def name(self) -> str:
        """Of the devices, in messages."""
        return ", ".join(d.session.name for d in self.driven)

    def open(self) -> None:
        """Connect to all."""
        opened: list[Session] = []
        try:
            for each in self.driven:
                each.session.open()
                opened.append(each.session)
        except BaseException:
            for session in opened:
                session.close()
            raise

    def close(self) -> None:
        """Give all connections back."""
        do_all([d.session.close for d in self.driven])

    def apply(self) -> None:
        """Configure all, or none."""
        done: list[Session] = []
        try:
            for each in self.driven:
                each.session.apply()
                done.append(each.session)
        except BaseException as cause:
            try:
                do_all([s.restore for s in reversed(done)])
            except V6tError as exc:
                text = cause.message if isinstance(cause, V6tError) else f"{cause!r}"
                raise DutError(f"{text}; and {exc.message}", exc.hint, code=exc.code) from cause
            raise

    def make_plan(self) -> None:
        """Survey and plan all."""
        for each in self.driven:
            each.session.make_plan()

    def verify(self) -> list[str]:
        """Read everything back; see the model."""
        return [
            f"{each.part.name}: {line}" for each in self.driven for line in each.session.verify()
        ]

    def flush(self) -> None:
        """Empty what keeps state."""
        for each in self.driven:
            each.session.flush()

    def reconfigure(self, action: Action) -> None:
        """Nothing of several devices is changed; see :meth:`v6t.drivers.duts.commands.Commands.beside`.

        Raises:
            DutError: always.
        """
        raise DutError(
            f"{self.name}: a chain cannot change its configuration under traffic",
            code="unsupported-operation",
        )

    def ready_for(self, action: Action) -> None:
        """The same.

        Raises:
            DutError: always.
        """
        self.reconfigure(action)

    def update_routes(self) -> str:
        """The same.

        Raises:
            DutError: always.
        """
        raise DutError(
            f"{self.name}: a chain cannot change routes under traffic",
            code="unsupported-operation",
        )

    def keep(self) -> None:
        """The configuration stays, whatever becomes of the sessions."""
        do_all([d.session.keep for d in self.driven])

    def check_held(self) -> None:
        """See that all can still be what they were made."""
        for each in self.driven:
            each.session.check_held()

    def restore(self, *, forget: bool = False, by_script: bool = False) -> list[str]:
        """Put all back, the rightmost first; what cannot be reached does not keep the others."""
        reports: list[str] = []
        each = (d.session.restore for d in reversed(self.driven))
        do_all([partial(one, forget=forget, by_script=by_script) for one in each], reports)
        return reports

    def status(self) -> dict[str, Any]:
        """Of the leftmost part that is configured; ``parts`` has all."""
        statuses = {d.part.name: d.session.status() for d in self.driven}
        first: Mapping[str, Any] = next(iter(statuses.values()), {})
        return {**first, "device": self.name, "parts": statuses}

    def describe(self) -> dict[str, Any]:
        """Facts for the manifest."""
        parts = {
            d.part.name: {"belongs_to": d.part.device, **d.session.describe()} for d in self.driven
        }
        return {"kind": self._kind, "device": self.name, "parts": parts}

    def figures(self) -> dict[str, dict[str, float]]:
        """Of every part that is configured."""
        return {
            f"{d.part.name}: {name}": figures
            for d in self.driven
            for name, figures in d.session.figures().items()
        }

    def devices(self) -> list[tuple[str, Session]]:
        """Every part by its name."""
        return [(d.part.name, d.session) for d in self.driven]

    def state(self) -> ChainState:
        """How connections are emptied and counted."""
        return ChainState(self)


class ChainState:
    """See :class:`v6t.drivers.device.StateDevice`: every part is emptied, the stateful counts."""

    def __init__(self, session: ChainSession) -> None:
        """Combine.

        Args:
            session: open and applied.
        """
        self._session = session
        self._counted = [d.session.state() for d in session.driven if d.part.stateful]
        limits = [s.timeout_s for s in self._counted if s.timeout_s is not None]
        self.timeout_s: float | None = min(limits, default=None)
        self.by_endpoint = any(s.by_endpoint for s in self._counted)

    def flush(self) -> None:
        """Empty all."""
        self._session.flush()

    def table(self) -> dict[str, float]:
        """Of all parts that keep connections."""
        return {name: limit for s in self._counted for name, limit in s.table().items()}

    def sessions(self) -> int | None:
        """Of the stateful part."""
        counts = [s.sessions() for s in self._counted]
        counted = [n for n in counts if n is not None]
        return sum(counted) if counted else None


def do_all(
    actions: Sequence[Callable[[], list[str] | None]], reports: list[str] | None = None
) -> None:
    """Do all, then raise the first error; the words of further ones are in it.

    Ctrl-C in the middle keeps no device configured: the others are done before it goes on.
    """
    errors: list[V6tError] = []
    stopped: KeyboardInterrupt | None = None
    lines = [] if reports is None else reports
    for action in actions:
        try:
            lines += action() or []
        except V6tError as exc:
            errors.append(exc)
        except KeyboardInterrupt as exc:
            stopped = exc
    if len(errors) > 1:
        hints = "; ".join(filter(None, dict.fromkeys(exc.hint for exc in errors)))
        raise DutError("; ".join(exc.message for exc in errors), hints, code=errors[0].code) from (
            stopped or errors[0]
        )
    if errors and stopped is not None:
        raise errors[0] from stopped
    if errors:
        raise errors[0]
    if stopped is not None:
        raise stopped
