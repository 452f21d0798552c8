"""Every second the device is asked something, and the answer is checked (RFC 2544 section 11.2)."""

from __future__ import annotations

from v6t.base.errors import UsageError
from v6t.core.modifiers.base import Modifier
from v6t.core.modifiers.repeated import Repeated
from v6t.drivers.device import DeviceSession
from v6t.drivers.duts.plan import Plan
from v6t.trials.trial import Trial

INTERVAL_S = 1.0


class Management(Modifier):
    """A read-back of the driver, over the connection by which the device is managed."""

    name = "management"
    source = "RFC 2544 section 11.2"
    driven = True
    in_streams = True

    @property
    def words(self) -> str:
        return (
            "each second begins with a management query, by the driver's own connection and not among "
            "the test frames, whose answer is compared with what was configured"
        )

    def suits(self, plan: Plan) -> None:
        """There must be something to ask for."""
        if not plan.all_checks:
            raise UsageError(
                f"the {plan.driver} driver does not read back any configuration",
                "give its steps a check, or leave the modifier out",
                code="unsupported-operation",
            )

    def during(self, trial: Trial, session: DeviceSession) -> Repeated:
        """Of several devices every one is asked.

        Raises:
            UsageError: one of them has nothing to be asked: no answer of it could be right.
        """
        for _, device in session.devices():
            device.question  # noqa: B018  (asked for before any frame is sent)

        def ask() -> str:
            queries: list[str] = [device.query() for _, device in session.devices()]
            return "; ".join(queries)

        return Repeated(trial, ask, INTERVAL_S)
