"""From a resolved run to testers: the one that meets the device, and the one in loopback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from v6t.core.config import device_of, technology
from v6t.core.settings import ResolvedRun
from v6t.drivers.tester import Tester
from v6t.plugins.base import Technology
from v6t.procedures.trial import Trial, TrialResult
from v6t.profiles.compile import compile_traffic
from v6t.profiles.model import DIRECTIONS, Direction, FramePair
from v6t.profiles.streams import StreamSet

if TYPE_CHECKING:
    from v6t.drivers.embedded.bed import LabDevice

STREAM_IDS: dict[Direction, int] = {"forward": 0, "reverse": 64}
"""First stream identifier by direction: unique over both."""


def make_tester(run: ResolvedRun, *, loopback: bool = False) -> Tester:
    """A tester that is not open yet.

    Raises:
        EnvironmentLacking: this tester cannot be had.
    """
    if run.tester.kind == "sim":
        from v6t.drivers.sim import SimOptions, SimTester

        simulated = SimOptions.from_mapping(run.tester.options)
        return SimTester(simulated, run.seed, loopback=loopback)
    device = technology(run)
    if run.tester.kind == "embedded":
        from v6t.drivers.embedded.tester import EmbeddedTester

        return EmbeddedTester(device.links, None if loopback else lab_device(run))
    from v6t.drivers.trex.options import TrexOptions
    from v6t.drivers.trex.tester import TrexTester

    options = TrexOptions.from_mapping(run.tester.options)
    standing = lab_device(run) if options.lab and not loopback else None
    return TrexTester(options, device.links, standing, loopback=loopback)


def lab_device(run: ResolvedRun) -> LabDevice:
    """What the run's device driver puts between the lab's cables."""
    from v6t.drivers.embedded.bed import ReferenceDevice, frame_octets
    from v6t.drivers.embedded.refdut import Faults

    device = device_of(run)
    faults = Faults(**run.dut.options.get("faults", {}))
    return ReferenceDevice(device, frame_octets(device.links), faults)


def compile_point(plugin: Technology, sizes: FramePair, seed: int) -> dict[Direction, StreamSet]:
    """Streams of both directions for one frame size."""
    return {
        direction: compile_traffic(
            plugin.traffic(direction, sizes, seed), first_stream_id=STREAM_IDS[direction]
        )
        for direction in DIRECTIONS
    }


class Bench:
    """A tester that opens and loads when a trial needs it: a replayed run needs none."""

    def __init__(self, run: ResolvedRun, *, loopback: bool = False) -> None:
        """Remember what to make.

        Args:
            run: the run.
            loopback: leave the device out.
        """
        self._run = run
        self._loopback = loopback
        self._plugin = technology(run)
        self._tester: Tester | None = None
        self._wanted: Mapping[Direction, StreamSet] = {}
        self._stale = True

    def load(self, streams: Mapping[Direction, StreamSet]) -> None:
        """What the next trials send."""
        self._wanted = streams
        self._stale = True

    def measure(self, trial: Trial) -> TrialResult:
        """Run one trial, opening and loading first where needed."""
        if self._tester is None:
            tester = make_tester(self._run, loopback=self._loopback)
            self._tester = tester
            tester.open()
        if self._stale:
            self._tester.load(self._wanted, self._plugin)
            self._stale = False
        return self._tester.measure(trial)

    def describe(self) -> dict[str, Any] | None:
        """Facts about the tester; None if none was needed."""
        return None if self._tester is None else self._tester.describe()

    def close(self) -> None:
        """Stop traffic and remove the lab. May be called twice."""
        if self._tester is not None:
            self._tester.close()
            self._tester = None
