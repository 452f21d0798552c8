"""Sessions with the parts of a chain, and a chain in the lab."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from v6t.base.errors import DutError, V6tError
from v6t.drivers.device import DeviceSession
from v6t.drivers.duts.chain.driver import ChainPart
from v6t.drivers.duts.session.plan_steps import StepComparison
from v6t.drivers.duts.session.session import Session
from v6t.drivers.lab.setup import LabDevice


class ChainSession(DeviceSession):
    """A session with all configured parts of a chain, from left to right."""

    def __init__(self, kind: str, parts: Sequence[tuple[ChainPart, Session]]) -> None:
        self._kind = kind
        self.parts = list(parts)

    @property
    def name(self) -> str:
        return ", ".join(session.name for session in self._sessions)

    @property
    def _sessions(self) -> list[Session]:
        return [session for _, session in self.parts]

    def open(self, *, lock: bool = True) -> None:
        with contextlib.ExitStack() as opened:
            for session in self._sessions:
                session.open(lock=lock)
                opened.callback(session.close)
            opened.pop_all()

    def close(self) -> None:
        run_all_actions([s.close for s in self._sessions])

    def make_plan(self) -> None:
        for session in self._sessions:
            session.make_plan()

    def compare(self) -> list[StepComparison]:
        return [
            replace(difference, why=f"{part.name}: {difference.why}")
            for part, session in self.parts
            for difference in session.compare()
        ]

    def commit(self, revert_in: int | None = None) -> None:
        committed_sessions: list[Session] = []
        try:
            for session in self._sessions:
                session.commit(revert_in)
                committed_sessions.append(session)
        except BaseException as cause:
            try:
                run_all_actions([s.rollback for s in reversed(committed_sessions)])
            except V6tError as exc:
                text = cause.message if isinstance(cause, V6tError) else f"{cause!r}"
                raise DutError(f"{text}; and {exc.message}", exc.hint, code=exc.code) from cause
            raise

    def verify(self) -> list[str]:
        return [f"{part.name}: {line}" for part, s in self.parts for line in s.verify()]

    def confirm(self) -> None:
        run_all_actions([s.confirm for s in self._sessions])

    def schedule_rollback(self, limit_s: int) -> None:
        run_all_actions([partial(s.schedule_rollback, limit_s) for s in self._sessions])

    def rollback(self, *, forget: bool = False, by_script: bool = False) -> list[str]:
        """Undo the plans of all parts from right to left, even if one of them fails."""
        options = {"forget": forget, "by_script": by_script}
        return run_all_actions([partial(s.rollback, **options) for s in self._sessions[::-1]])

    def check_configured(self) -> None:
        for session in self._sessions:
            session.check_configured()

    def flush(self) -> None:
        for session in self._sessions:
            session.flush()

    def read_status(self) -> dict[str, Any]:
        statuses = {part.name: session.read_status() for part, session in self.parts}
        return {**next(iter(statuses.values()), {}), "device": self.name, "parts": statuses}

    def read_counters(self) -> dict[str, dict[str, float]]:
        return {
            f"{part.name}: {name}": figures
            for part, session in self.parts
            for name, figures in session.read_counters().items()
        }

    def describe(self) -> dict[str, Any]:
        parts = {
            part.name: {"belongs_to": part.device, **session.describe()}
            for part, session in self.parts
        }
        return {"kind": self._kind, "device": self.name, "parts": parts}

    def get_sessions(self) -> list[tuple[str, Session]]:
        return [(part.name, session) for part, session in self.parts]

    @property
    def _stateful_sessions(self) -> list[Session]:
        return [session for part, session in self.parts if part.stateful]

    @property
    def timeout_s(self) -> float | None:
        limits = (s.timeout_s for s in self._stateful_sessions)
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def counts_endpoints(self) -> bool:
        return any(s.counts_endpoints for s in self._stateful_sessions)

    def count_sessions(self) -> int | None:
        counts = [s.count_sessions() for s in self._stateful_sessions]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    def read_limits(self) -> dict[str, float]:
        return {n: limit for s in self._stateful_sessions for n, limit in s.read_limits().items()}


class LabChain(LabDevice):
    """A chain whose parts are in namespaces of the lab."""

    def __init__(
        self, kind: str, parts: Sequence[tuple[ChainPart, LabDevice]], *, swapped: bool = False
    ) -> None:
        self._kind = kind
        self._parts = list(parts)
        self._swapped = swapped
        between = [part.intent.links.right.mtu for part, _ in self._parts[:-1]]
        self.mtus_between = between[::-1] if swapped else between

    @property
    def parts(self) -> Sequence[LabDevice]:
        devices = [device for _, device in self._parts]
        return devices[::-1] if self._swapped else devices

    def start_in_namespace(self, pid: int) -> None:
        raise TypeError("the parts of a chain are in separate namespaces")

    @property
    def session(self) -> ChainSession | None:
        sessions = [(part, device.session) for part, device in self._parts]
        configured = [(part, s) for part, s in sessions if isinstance(s, Session)]
        return ChainSession(self._kind, configured) if configured else None

    def describe_parts(self) -> list[str]:
        return [f"{p.name}: {line}" for p, dut in self._parts for line in dut.describe_parts()]

    def report(self) -> dict[str, Any]:
        return {part.name: device.report() for part, device in self._parts}

    def describe(self) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        for part, device in self._parts:
            about = {"belongs_to": part.device, "stateful": part.stateful, **device.describe()}
            parts[part.name] = {**about, "counters": {}}
            with contextlib.suppress(V6tError):
                parts[part.name]["counters"] = device.report()
        return {"kind": self._kind, "parts": parts}

    def close(self) -> None:
        run_all_actions([device.close for _, device in reversed(self._parts)])


def run_all_actions(actions: Sequence[Callable[[], list[str] | None]]) -> list[str]:
    """Run all actions and return the lines of all; raise one error with all messages if any fails."""
    errors: list[V6tError] = []
    interrupt: KeyboardInterrupt | None = None
    lines: list[str] = []
    for action in actions:
        try:
            lines += action() or []
        except V6tError as exc:
            errors.append(exc)
        except KeyboardInterrupt as exc:
            interrupt = exc
    if len(errors) > 1:
        hints = "; ".join(filter(None, dict.fromkeys(exc.hint for exc in errors)))
        problem = "; ".join(exc.message for exc in errors)
        raise DutError(problem, hints, code=errors[0].code) from interrupt or errors[0]
    if errors:
        raise errors[0] from interrupt or errors[0].__cause__
    if interrupt is not None:
        raise interrupt
    return lines
