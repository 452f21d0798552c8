"""A simulated tester behind a line that loses a fixed share of the frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field
from v6t.base.strict_model import StrictModel
from v6t.drivers.device import DeviceSession, StateDevice
from v6t.drivers.lab.setup import LabDevice
from v6t.drivers.sim.device import SimOptions
from v6t.drivers.sim.tester import SimTester
from v6t.drivers.tester import Oracle, Tester
from v6t.drivers.tester_kind import TesterKind
from v6t.packets.direction import Direction
from v6t.profiles.streams import StreamSet
from v6t.trials.result import ClassCount, TrialResult
from v6t.trials.trial import Capability, Trial


class ImpairedOptions(StrictModel):
    """Settings of the device and of the line."""

    capacity_fps: float = Field(default=100_000.0, gt=0)
    """Frames per second the device forwards in one direction."""
    one_in: int = Field(default=0, ge=0)
    """The line loses one of this number of frames; 0 for none."""


class Impaired(TesterKind):
    """Facts about the tester before it is created."""

    name = "impaired"
    title = "the simulated device behind a line that loses a fixed share"
    options_model = ImpairedOptions
    simulates = True

    def make(
        self, links: Any, device: LabDevice | None, *, loopback: bool, delays: bool, seed: int
    ) -> ImpairedTester:
        """Make a tester that is not open yet; in a self-test it has no impaired line."""
        del links, device, delays
        return ImpairedTester(self.options, seed, loopback)

    def list_warnings(self, figures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Yield the warnings that apply to every result."""
        del figures
        yield "SIMULATED: no frame was sent; device and line are models"
        if self.options.one_in:
            yield f"the line loses one frame in {self.options.one_in}"


class ImpairedTester:
    """Sends and counts; see :class:`v6t.drivers.tester.Tester`."""

    name = "impaired"
    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, options: ImpairedOptions, seed: int, loopback: bool) -> None:
        self._options = options
        self._loopback = loopback
        device = SimOptions(capacity_fps=options.capacity_fps)
        self._inner: Tester = SimTester(device, seed, loopback=loopback)

    def open(self) -> None:
        """Open ports and start processes; nothing in this tester."""
        self._inner.open()

    def load(self, streams: Mapping[Direction, StreamSet], oracle: Oracle) -> None:
        """Set what the next trials send and the oracle that predicts what must return."""
        self._inner.load(streams, oracle)

    def measure(self, trial: Trial) -> TrialResult:
        """Send, wait for late frames, and count them by direction and class."""
        result = self._inner.measure(trial)
        if self._loopback or not self._options.one_in:
            return result
        directions = {
            name: replace(counted, classes={n: self._lossy(c) for n, c in counted.classes.items()})
            for name, counted in result.directions.items()
        }
        return replace(result, directions=directions)

    def _lossy(self, counted: ClassCount) -> ClassCount:
        lost = counted.sent // self._options.one_in
        return replace(counted, received=max(0, counted.received - lost))

    def device_state(self) -> StateDevice | None:
        """Return None, because this tester has no device with connections."""
        return None

    def device_session(self) -> DeviceSession | None:
        """Return no session: this tester sets up no device."""
        return None

    def describe(self) -> dict[str, Any]:
        """Return facts for the manifest."""
        return {"kind": self.name, "simulated": True, "options": self._options.model_dump()}

    def close(self) -> None:
        """Release all resources; a second call does nothing."""
        self._inner.close()
