"""A chain of parts in the lab: a namespace for each, joined by cables of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from v6t.drivers.duts.chain.driver import Chain, Part
from v6t.drivers.duts.chain.session import ChainSession, ChainState, Driven
from v6t.drivers.duts.plan import Intent
from v6t.drivers.lab.device import LabDut
from v6t.drivers.lab.namespaces import Lab
from v6t.drivers.lab.setup import ReferenceDevice
from v6t.profiles.errors import V6tError


@dataclass(frozen=True)
class LabPart:
    """One part and what stands for it."""

    part: Part
    made: LabDut | ReferenceDevice


class LabChain:
    """See :class:`v6t.drivers.lab.setup.LabDevice`."""

    def __init__(self, driver: Chain, intent: Intent, parts: Sequence[LabPart]) -> None:
        """Remember; nothing is started.

        Args:
            driver: of the chain.
            intent: of the whole.
            parts: from left to right.
        """
        self._driver = driver
        self._intent = intent
        self._parts = list(parts)
        self.mtus_between = [p.part.intent.links.right.mtu for p in self._parts[:-1]]

    def namespaces(self) -> list[int | None]:
        """For each part, a process in its namespaces; None: a new network namespace will do."""
        found: list[int | None] = []
        for each in self._parts:
            found.append(each.made.namespace() if isinstance(each.made, LabDut) else None)
        return found

    def start(self, lab: Lab) -> None:
        """Start and configure all parts."""
        for each in self._parts:
            if isinstance(each.made, LabDut):
                each.made.address()
        for each, holder in zip(self._parts, lab.devices, strict=True):
            if isinstance(each.made, LabDut):
                each.made.start(lab)
            else:
                each.made.start_in(holder.pid)

    @property
    def session(self) -> ChainSession | None:
        """The parts that are driven; None before they stand."""
        driven = [
            Driven(each.part, each.made.session)
            for each in self._parts
            if isinstance(each.made, LabDut) and each.made.session is not None
        ]
        return ChainSession(self._driver, self._intent, driven) if driven else None

    def state(self) -> ChainState | None:
        """How connections are emptied and counted; None before it stands."""
        session = self.session
        return None if session is None else session.state()

    def report(self) -> dict[str, Any]:
        """Counters of each part by its name."""
        return {each.part.name: each.made.report() for each in self._parts}

    def describe(self) -> dict[str, Any]:
        """Facts for the manifest, with the counters of each part as they stand (DD-04)."""
        parts = {
            each.part.name: {
                "belongs_to": each.part.device,
                "stateful": each.part.stateful,
                **each.made.describe(),
                "counters": _counters(each.made),
            }
            for each in self._parts
        }
        return {"kind": self._driver.name, "parts": parts}

    def close(self) -> None:
        """End all parts, the rightmost first, and raise the first error."""
        first: V6tError | None = None
        for each in reversed(self._parts):
            try:
                each.made.close()
            except V6tError as exc:
                first = first or exc
        if first is not None:
            raise first


def _counters(made: LabDut | ReferenceDevice) -> dict[str, Any]:
    """Its own; nothing of a part that is gone."""
    try:
        return made.report()
    except V6tError:
        return {}
