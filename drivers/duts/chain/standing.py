"""A chain of parts in the lab: a namespace for each, joined by cables of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from v6t.base.errors import V6tError
from v6t.drivers.duts.chain.parts import Part
from v6t.drivers.duts.chain.session import ChainSession, PartSession, run_all
from v6t.drivers.duts.session.session import Session
from v6t.drivers.lab.namespaces import Lab
from v6t.drivers.lab.setup import LabDevice


@dataclass(frozen=True)
class LabPart:
    """A part and its device in the lab."""

    part: Part
    device: LabDevice


class LabChain(LabDevice):
    """The parts of a chain in namespaces of the lab."""

    def __init__(self, kind: str, parts: Sequence[LabPart], *, swapped: bool = False) -> None:
        self._kind = kind
        self._parts = list(parts)
        self._cabled = self._parts[::-1] if swapped else self._parts
        between = [p.part.intent.links.right.mtu for p in self._parts[:-1]]
        self.mtus_between = between[::-1] if swapped else between

    def namespaces(self) -> list[int | None]:
        return [pid for each in self._cabled for pid in each.device.namespaces()]

    def start(self, lab: Lab) -> None:
        for each in self._parts:
            each.device.prepare()
        for each, holder in zip(self._cabled, lab.devices, strict=True):
            each.device.start_in(holder.pid)

    def start_in(self, pid: int) -> None:
        raise TypeError(f"a chain does not fit into the one namespace of process {pid}")

    @property
    def session(self) -> ChainSession | None:
        standing = [(each.part, each.device.session) for each in self._parts]
        driven = [
            PartSession(part, device) for part, device in standing if isinstance(device, Session)
        ]
        return ChainSession(self._kind, driven) if driven else None

    def check(self) -> None:
        for each in self._parts:
            each.device.check()

    def look(self) -> list[str]:
        return [f"{p.part.name}: {line}" for p in self._parts for line in p.device.look()]

    def report(self) -> dict[str, Any]:
        return {each.part.name: each.device.report() for each in self._parts}

    def describe(self) -> dict[str, Any]:
        parts = {
            each.part.name: {
                "belongs_to": each.part.device,
                "stateful": each.part.stateful,
                **each.device.describe(),
                "counters": _counters(each.device),
            }
            for each in self._parts
        }
        return {"kind": self._kind, "parts": parts}

    def close(self) -> None:
        run_all([each.device.close for each in reversed(self._parts)])


def _counters(device: LabDevice) -> dict[str, Any]:
    try:
        return device.report()
    except V6tError:
        return {}
