"""From a run to testers: the one that meets the device, and the one in loopback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from v6t.base.errors import DutError
from v6t.benchmarks import registry
from v6t.core.config.bound import BoundRun
from v6t.core.runs.device import lab_device, remote_session, state_of
from v6t.core.runs.hooks import Action, run_hook
from v6t.drivers.device import DeviceSession
from v6t.drivers.duts.plan import ACTIONS
from v6t.drivers.duts.plan import Action as ChangeAction
from v6t.drivers.tester import Tester
from v6t.packets.direction import DIRECTIONS, Direction
from v6t.plugins.base import Technology
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.mixes import Sizes
from v6t.profiles.model import Traffic
from v6t.profiles.streams import StreamSet
from v6t.trials.device_events import name_change_hook
from v6t.trials.result import TrialResult
from v6t.trials.trial import TIMING_CAPABILITIES, Trial

if TYPE_CHECKING:
    from v6t.core.modifiers.repeated import Repeated
    from v6t.drivers.oracle.two_phase import TwoPhaseTester

STREAM_IDS: dict[Direction, int] = {"forward": 0, "reverse": 64}
"""First stream identifier by direction: unique over both."""


def make_tester(
    bound: BoundRun,
    *,
    loopback: bool = False,
    keep: Path | None = None,
) -> Tester:
    """Make a tester that is not open yet.

    Args:
        bound: the run.
        loopback: leave the device out.
        keep: local directory for the device's undo record.

    Raises:
        EnvironmentLacking: this tester cannot be had.
    """
    links, intent = bound.technology.links, bound.technology.dut_intent()
    loopback = loopback or bound.driver.absent
    return bound.tester.make(
        links if loopback else intent.emulated_links,
        lab_device(bound, keep) if bound.tester.in_lab and not loopback else None,
        loopback=loopback,
        delays=any(
            TIMING_CAPABILITIES & b.needs(bound)
            for b in map(registry.load, bound.settings.benchmarks)
        ),
        seed=bound.settings.seed,
    )


def compile_point(
    plugin: Technology,
    sizes: Sizes,
    seed: int,
    vary: Callable[[Traffic], Traffic] = lambda traffic: traffic,
) -> dict[Direction, StreamSet]:
    """Streams of both directions for one frame size; ``vary`` changes the plugin's traffic.

    None of a technology of queries.
    """
    if plugin.exchange != "frames":
        return {}
    return {
        direction: compile_traffic(
            vary(plugin.sized_traffic(direction, sizes, seed)),
            first_stream_id=STREAM_IDS[direction],
        )
        for direction in DIRECTIONS
    }


def streams_of(
    bound: BoundRun,
    sizes: Sizes,
    vary: Callable[[Traffic], Traffic] = lambda traffic: traffic,
) -> dict[Direction, StreamSet]:
    """Compile what a run sends for one frame size, with the traffic of its modifier."""

    def changed(traffic: Traffic) -> Traffic:
        return bound.modified(vary(traffic))

    return compile_point(bound.technology, sizes, bound.settings.seed, changed)


def _nobody(trial: Trial) -> None:
    """Is told that the tester sends."""


def _nothing(tester: Tester) -> None:
    """Has nothing against a tester."""


class Bench:
    """A tester that opens and loads when a trial needs it: a replayed run needs none."""

    def __init__(
        self,
        bound: BoundRun,
        *,
        loopback: bool = False,
        keep: Path | None = None,
        opened: Callable[[Tester], object] = _nothing,
    ) -> None:
        """Remember what to make.

        Args:
            bound: the run.
            loopback: leave the device out.
            keep: local directory for the device's undo record.
            opened: looks at the tester when it is open, and may refuse it.
        """
        self._bound = bound
        self._opened = opened
        self._loopback = loopback or bound.driver.absent
        self._keep = keep
        self._oracle = bound.oracle
        self._tester: Tester | None = None
        self._device: DeviceSession | None = None
        self._wanted: Mapping[Direction, StreamSet] = {}
        self._stale = True
        self._preparing: TwoPhaseTester | None = None
        self._sends: Callable[[Trial], object] = _nobody

    def load(self, streams: Mapping[Direction, StreamSet]) -> None:
        """Load what the next trials send."""
        self._wanted = streams
        self._stale = True

    def open(self) -> Tester:
        """Configure the device, open the tester, unless that is done."""
        if self._tester is None:
            self._configure()
            tester = make_tester(self._bound, loopback=self._loopback, keep=self._keep)
            self._tester = tester
            tester.open()
            self._opened(tester)
        return self._tester

    def ready(self) -> Tester:
        """Open, and load what the next trials send, unless that is done."""
        tester = self.open()
        if self._stale:
            tester.load(self._wanted, self._oracle)
            self._stale = False
            self._preparing = None
        return tester

    def measure(self, trial: Trial, sends: Callable[[Trial], object] = _nobody) -> TrialResult:
        """Run one trial, opening and loading first where needed.

        Args:
            trial: what to do.
            sends: told when the tester is called for the stream, and with which pause; not at all
                where a trial has none.

        Raises:
            DutError: the device may not have been configured all the time: the trial says nothing.
        """
        self._sends = sends
        result = self._measure(trial)
        if self.session is not None:
            self.session.check_configured()
        return result

    def _measure(self, trial: Trial) -> TrialResult:
        tester: Any = self.ready()
        if trial.queries is not None and not trial.queries.is_selftest:
            self._empty_cache()
        if trial.connections is None:
            return self._stream(trial)
        if self._preparing is None:
            self._preparing = self._prepare(tester)
        return self._preparing.measure(trial)

    def _empty_cache(self) -> None:
        """No name of an earlier trial is left on the device (RFC 8219 section 9.2)."""
        hook = self._bound.driver.hooks.get("flush")
        if self.session is not None:
            self.session.flush()
        elif hook is not None and not self._bound.tester.simulates:
            run_hook("flush", hook)

    def _prepare(self, tester: Any) -> TwoPhaseTester:
        from v6t.drivers.oracle.two_phase import TwoPhaseTester

        return TwoPhaseTester(
            tester,
            None if self._loopback else state_of(self._bound, tester, self._device),
            self._stream,
        )

    def _stream(self, trial: Trial) -> TrialResult:
        """Send, with what the run's modifier does to the device meanwhile."""
        tester = self.ready()
        modified = self._modified(trial)
        self._sends(trial)
        if modified is None:
            return tester.measure(trial)
        with modified:
            result = tester.measure(trial)
        return modified.added_to(result)

    def describe(self) -> dict[str, Any] | None:
        """Facts about the tester and a device it drives; None if none was needed."""
        if self._tester is None:
            return None
        description = self._tester.describe()
        return (
            description
            if self._device is None
            else {**description, "device": self._device.describe()}
        )

    @property
    def session(self) -> DeviceSession | None:
        """The session with a device that has a driver, here in the lab or elsewhere."""
        if self._device is not None or self._tester is None:
            return self._device
        return self._tester.device_session()

    @property
    def actions(self) -> dict[str, Action]:
        """What the driver can do to the device while traffic goes on, by the names of events."""
        if self._loopback or not (self._bound.driven and self._bound.reconfigures):
            return {}
        return {
            name_change_hook(action): Action(
                partial(self._drive, "reconfigure", action),
                partial(self._drive, "prepare_reconfiguration", action),
            )
            for action in ACTIONS
        }

    def _modified(self, trial: Trial) -> Repeated | None:
        modifier = None if self._loopback else self._bound.modifier
        if modifier is None or not (modifier.driven and self._bound.driven):
            return None
        return modifier.during(trial, self._driven)

    @property
    def _driven(self) -> DeviceSession:
        if self.session is None:
            raise DutError("no driver is configured for the device", code="missing-driver")
        return self.session

    def _drive(
        self, what: Literal["reconfigure", "prepare_reconfiguration"], action: ChangeAction
    ) -> None:
        self.ready()
        if what == "reconfigure":
            self._driven.reconfigure(action)
        else:
            self._driven.prepare_reconfiguration(action)

    def verify_device(self) -> list[str]:
        """Read the device's configuration back; one line per read-back, none without a driver.

        Raises:
            DutError: something is not as it should be.
        """
        return [] if self.session is None else self.session.verify()

    def close(self) -> None:
        """Stop traffic, remove the lab, restore the device. May be called twice."""
        tester, self._tester = self._tester, None
        device, self._device = self._device, None
        try:
            if tester is not None:
                tester.close()
        finally:
            if device is not None:
                try:
                    device.rollback()
                finally:
                    device.close()

    def _configure(self) -> None:
        """Configure a remote device before the tester opens its ports."""
        if self._loopback or self._device is not None:
            return
        device = remote_session(self._bound, self._keep)
        if device is not None:
            device.open()
            self._device = device
            device.commit()
            device.verify()
