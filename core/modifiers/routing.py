"""A route beside the traffic is moved to and fro, and read back (RFC 2544 section 11.3)."""

from __future__ import annotations

from v6t.core.modifiers.base import Modifier
from v6t.core.modifiers.repeated import Repeated
from v6t.drivers.device import DeviceSession
from v6t.intent.device import DeviceRequirements
from v6t.procedures.preflight import BENCHMARK as PREFLIGHT
from v6t.trials.trial import Trial

INTERVAL_S = 30.0
"""Appendix C.2.3, for trials longer than a minute."""


class Routing(Modifier):
    """Two states of the routing table in turn; the driver changes it, no protocol is spoken."""

    name = "routing"
    source = "RFC 2544 section 11.3"
    driven = True
    in_streams = True
    requirements = DeviceRequirements(route_updates=True)

    @property
    def words(self) -> str:
        return (
            "a trial begins with a change of a route to a network that no test frame goes to, made by "
            f"the driver and read back, another one every {INTERVAL_S:g} s"
        )

    def during(self, trial: Trial, session: DeviceSession) -> Repeated | None:
        """State A, then B, and so on, from one trial to the next, too.

        Not in what goes ahead of a trial: each of the two would always have the same change.
        """
        if trial.benchmark == PREFLIGHT:
            return None
        return Repeated(trial, session.update_routes, INTERVAL_S)
