"""The simulated tester as a kind: tester and device in virtual time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from v6t.drivers.sim.device import SimOptions, SimTable
from v6t.drivers.tester_kind import TesterKind

if TYPE_CHECKING:
    from v6t.drivers.lab.setup import LabDevice
    from v6t.drivers.sim.tester import SimTester


class Sim(TesterKind):
    """A rehearsal: no frame is sent."""

    name = "sim"
    title = "tester and device in virtual time, for rehearsals"
    options_model = SimOptions
    simulates = True
    stamps = "from the frame sent to the frame received, in simulated time without error"

    @property
    def timeout_s(self) -> float | None:
        return SimTable(self.options).timeout_s

    def make(
        self, links: Any, device: LabDevice | None, *, loopback: bool, delays: bool, seed: int
    ) -> SimTester:
        from v6t.drivers.sim.tester import SimTester

        return SimTester(self.options, seed, loopback=loopback)

    def list_warnings(self, figures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        yield "SIMULATED: no frame was sent; the device is a model"
