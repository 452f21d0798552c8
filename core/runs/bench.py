"""The testers of a run: one with the device between its ports, and one in loopback."""

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from v6t.base.errors import DutError
from v6t.core.config.checks import check_capabilities
from v6t.core.config.run_setup import RunSetup, make_tester
from v6t.core.runs.device import measure_with_event, run_hook
from v6t.drivers.device import DeviceSession, HookState, StateDevice
from v6t.drivers.duts.plan import ACTIONS
from v6t.drivers.oracle.two_phase import TwoPhaseTester
from v6t.drivers.tester import StatefulTester, Tester
from v6t.packets.direction import Direction
from v6t.plugins.base import Technology
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.mixes import Sizes
from v6t.profiles.model import Traffic
from v6t.profiles.streams import StreamSet
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Trial, name_change_hook

EventAction = Callable[[], object]  # prepares or executes a device event
# First stream identifier of each direction; identifiers are unique over both directions.
FIRST_STREAM_IDS: dict[Direction, int] = {"forward": 0, "reverse": 64}


def compile_directions(
    plugin: Technology,
    sizes: Sizes,
    seed: int,
    change: Callable[[Traffic], Traffic] = lambda traffic: traffic,
) -> dict[Direction, StreamSet]:
    """Compile the streams of both directions, whose traffic ``change`` may modify first."""
    if plugin.exchange != "frames":
        return {}
    streams: dict[Direction, StreamSet] = {}
    for direction, first_id in FIRST_STREAM_IDS.items():
        traffic = change(plugin.build_sized_traffic(direction, sizes, seed))
        streams[direction] = compile_traffic(traffic, first_stream_id=first_id)
    return streams


def compile_streams(
    setup: RunSetup,
    sizes: Sizes,
    change: Callable[[Traffic], Traffic] = lambda traffic: traffic,
) -> dict[Direction, StreamSet]:
    """Compile the streams of a frame size, including the frames of the run's modifier."""
    plugin, seed = setup.technology, setup.settings.seed
    return compile_directions(plugin, sizes, seed, lambda each: setup.add_modifier(change(each)))


class Bench:
    """Test bench of a run, which opens its tester and loads streams when a trial needs them."""

    def __init__(
        self,
        setup: RunSetup,
        *,
        loopback: bool = False,
        record_dir: Path | None = None,
        checks_capabilities: bool = False,
    ) -> None:
        self._setup = setup
        self._checks_capabilities = checks_capabilities
        self._loopback = loopback or setup.driver.is_cable
        self._record_dir = record_dir
        self._tester: Tester | None = None
        self._device: DeviceSession | None = None
        self._streams: Mapping[Direction, StreamSet] = {}
        self._loaded = False
        self._two_phase: Measure | None = None
        self.virtual_time_s = 0.0  # at which the clock of a simulated tester starts [s]

    def load(self, streams: Mapping[Direction, StreamSet]) -> None:
        """Set the streams that the next trials send."""
        self._streams, self._loaded = streams, False

    def open(self) -> Tester:
        """Configure the device and open the tester, unless both are ready."""
        if self._tester is None:
            self._configure_remote_device()
            self._tester = tester = make_tester(
                self._setup, loopback=self._loopback, record_dir=self._record_dir
            )
            tester.open()
            if self.virtual_time_s:  # only testers that can wait report a virtual time
                cast(StatefulTester, tester).wait(self.virtual_time_s)
            if self._checks_capabilities:
                check_capabilities(self._setup, tester)
        return self._tester

    def prepare(self) -> Tester:
        """Open the tester and load the streams of the next trials, unless both are done."""
        tester = self.open()
        if not self._loaded:
            tester.load(self._streams, self._setup.oracle)
            self._loaded, self._two_phase = True, None
        return tester

    def measure(self, trial: Trial) -> TrialResult:
        """Measure a trial; open the tester and load the streams first if necessary.

        Raises:
            DutError: the device may have lost its configuration during the trial.
        """
        tester = self.prepare()
        if actions := self._find_event_actions(trial):
            actions[0]()
        if trial.queries is not None and not trial.queries.is_selftest:
            self._flush_dns_cache()
        result = (
            self._send_stream if trial.connections is None else self._make_two_phase_measure(tester)
        )(trial)
        if self.session is not None:
            self.session.check_configured()
        return result

    def _make_two_phase_measure(self, tester: Tester) -> Measure:
        if self._two_phase is None:
            state = None if self._loopback else self._make_state_device(tester)
            stateful = cast(StatefulTester, tester)
            self._two_phase = TwoPhaseTester(stateful, state, self._send_stream).measure
        return self._two_phase

    def _make_state_device(self, tester: Tester) -> StateDevice:
        """Return an object that empties and counts the connection table of the device."""
        state = tester.device_state() if self._device is None else self._device
        if state is not None:
            return state
        hooks = self._setup.driver.hooks
        flush, count = partial(run_hook, "flush", hooks["flush"]), hooks.get("count-states")
        return HookState(flush, partial(run_hook, "count-states", count) if count else None)

    def _send_stream(self, trial: Trial) -> TrialResult:
        """Send the stream of a trial while its event and the run's modifier act on the device."""
        setup, actions = self._setup, self._find_event_actions(trial)
        measure: Measure = self.prepare().measure
        is_driven = setup.has_driver and not self._loopback
        if is_driven and (modifier := setup.modifier) and modifier.needs_driver:
            measure = partial(modifier.measure, measure=measure, session=self._require_session())
        return measure(trial) if actions is None else measure_with_event(trial, measure, actions[1])

    def _find_event_actions(self, trial: Trial) -> tuple[EventAction, EventAction] | None:
        """Return the functions that prepare and run the event of a trial on the device, or None."""
        name = trial.device_event.hook if trial.device_event else ""
        action = {name_change_hook(action): action for action in ACTIONS}.get(name)
        if action and not self._loopback and self._setup.has_driver:
            device = self._require_session()
            prepare = partial(device.prepare_reconfiguration, action)
            return prepare, partial(device.reconfigure, action)
        hooks = self._setup.driver.hooks
        # A rehearsal must not reset the device that its testbed file names.
        if self._setup.tester.simulates or name not in hooks:
            return None
        return lambda: None, partial(run_hook, name, hooks[name])

    def _flush_dns_cache(self) -> None:
        """Empty the DNS cache of the device (RFC 8219, section 9.2)."""
        if self.session is not None:
            self.session.flush()
        elif (hook := self._setup.driver.hooks.get("flush")) and not self._setup.tester.simulates:
            run_hook("flush", hook)

    def describe(self) -> dict[str, Any] | None:
        """Return facts about the tester and the device, or None if no tester was opened."""
        if self._tester is None:
            return None
        device = {} if self._device is None else {"device": self._device.describe()}
        return {**self._tester.describe(), **device}

    @property
    def session(self) -> DeviceSession | None:
        """Session with the device; None without a device driver or an open tester."""
        if self._device is not None or self._tester is None:
            return self._device
        return self._tester.device_session()

    def _require_session(self) -> DeviceSession:
        if self.session is None:
            raise DutError("no driver is configured for the device", code="missing-driver")
        return self.session

    def close(self) -> None:
        """Stop the traffic, remove the lab and restore the device, unless this is already done."""
        tester, self._tester = self._tester, None
        device, self._device = self._device, None
        with contextlib.ExitStack() as stack:
            if device is not None:
                stack.callback(device.close)
                stack.callback(device.rollback)
            if tester is not None:
                stack.callback(tester.close)

    def _configure_remote_device(self) -> None:
        """Configure the device, if it is outside the lab, before the tester opens its ports."""
        setup = self._setup
        if self._loopback or self._device or setup.tester.in_lab or setup.tester.simulates:
            return
        from v6t.drivers.duts.devices import make_session

        device = make_session(setup.driver, setup.intent, self._record_dir, setup.rollback_command)
        if device is not None:
            device.open()
            self._device = device
            device.commit()
            device.verify()
