"""Trials with connections: empty the device's table, phase 1, count, validate, then phase 2.

The tester sends, learns and replays; the driver empties the device and counts; this module puts the steps
in order and checks that both agree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from v6t.base.errors import DutError, TesterError, UsageError
from v6t.drivers.device import MAX_OWN_CONNECTIONS, StateDevice
from v6t.drivers.tester import PhaseCounts, StatefulTester
from v6t.trials.connections import Connections, PhaseOneResult, Tcp
from v6t.trials.result import DirectionResult, Measure, TrialResult
from v6t.trials.trial import Trial

LOOK_S = 0.5  # Interval of counts while a device deletes closed connections


def make_phase_one_trial(trial: Trial, connections: Connections) -> Trial:
    """Return phase 1 as a trial of the Initiator's direction."""
    return replace(
        trial,
        mode="forward",
        rate_fps=connections.rate_cps,
        duration_s=connections.phase_one_s,
        residual_wait_s=connections.wait_s,
        delays=None,
        frame_timeout_s=None,
        second_segment=None,
        flow_starts=None,
        device_event=None,
        search_limit_fps=None,
    )


def make_validation_trial(trial: Trial, connections: Connections) -> Trial:
    """Return the validation as a trial of the Responder's direction."""
    return replace(
        make_phase_one_trial(trial, connections),
        mode="reverse",
        rate_fps=connections.rate_cps * (connections.alpha or 1.0),
        duration_s=connections.validation_s or connections.phase_one_s,
    )


@dataclass
class _EstablishedConnections:
    """Connections that are established, and the times of their use."""

    connections: Connections
    established: PhaseOneResult
    began_s: float
    last_used_s: float
    clock_offset_s: float | None  # The tester's clock less the wall clock; None: unknown


class TwoPhaseTester:
    """Measures trials with connections in two phases.

    Args:
        device: the device's connection table; None in loopback.
        stream: measures phase 2; default: the tester's ``measure``.
    """

    def __init__(
        self, tester: StatefulTester, device: StateDevice | None, stream: Measure | None = None
    ) -> None:
        self._tester = tester
        self._stream = stream or tester.measure
        self._device = device
        self._standing: _EstablishedConnections | None = None
        self._table_limits: dict[str, float] | None = None

    def measure(self, trial: Trial) -> TrialResult:
        """Run a trial; the device's table and timeout must fit, or UsageError or DutError is raised."""
        if (connections := trial.connections) is None:
            return self._stream(trial)
        self._check_timeout(trial, connections)
        prepares = connections.purpose == "prepare"
        phase_one = self._find_reusable(connections) if prepares and connections.reuse else None
        directions: dict[str, DirectionResult] = {}
        faults: tuple[str, ...] = ()
        started = ""
        health: Mapping[str, object] = {}
        if phase_one is None:
            phase, phase_one, directions, faults = self._run_phase_one(trial, connections)
            started, health = phase.started, phase.health or {}
        complete = phase_one.is_complete and not faults
        if connections.purpose == "tear-down" and complete:
            phase_one = self._tear_down(phase_one)
        if prepares and complete:
            return self._run_phase_two(trial, connections, phase_one)
        return TrialResult(
            {} if prepares else directions,
            faults,
            started,
            {"phase 1": dict(health)},
            connections=phase_one,
            is_disturbed=prepares,  # phase 1 has a separate rate
        )

    def _run_phase_two(
        self, trial: Trial, connections: Connections, phase_one: PhaseOneResult
    ) -> TrialResult:
        if (standing := self._standing) is None:
            raise DutError("the connections of phase 1 are gone", code="not-learned")
        before = self._tester.read_clock()
        result = self._stream(replace(trial, pause_s=connections.gap_s))
        sent = (d.sending_time_s for d in result.directions.values())
        sending_s = max(sent, default=trial.total_duration_s)
        # the gap includes what the tester does before it can send
        began = self._tester.read_clock() - trial.residual_wait_s - sending_s
        if result.started and standing.clock_offset_s is not None:
            # without the evaluation; the wall clock may have been set meanwhile
            began = min(began, max(before, _parse_time(result.started) + standing.clock_offset_s))
        ended = began + sending_s
        # dates resolve less than a microsecond
        gap_s = round(max(0.0, began - standing.last_used_s), 6)
        age_s = round(ended + trial.residual_wait_s - standing.began_s, 6)
        standing.last_used_s = ended
        if (limit := self._timeout_s) is not None and gap_s >= limit:
            problem = f"{gap_s:.1f} s passed between the phases; the idle timeout is {limit:g} s"
            hint = f"the first connection was {age_s:.1f} s old: raise the timeout"
            raise DutError(problem, hint, code="idle-timeout")
        return replace(result, connections=replace(phase_one, gap_s=gap_s, age_s=age_s))

    def _run_phase_one(
        self, trial: Trial, connections: Connections
    ) -> tuple[PhaseCounts, PhaseOneResult, dict[str, DirectionResult], tuple[str, ...]]:
        """Empty the device, run phase 1, count and validate."""
        self._standing = None
        before = None
        if self._device is not None:
            self._device.flush()
            before = _check_empty(self._device)
        phase = self._tester.establish(trial, connections)
        (count,) = phase.result.classes.values()
        phase_one = PhaseOneResult(
            required=count.required,
            sent=count.sent,
            learned=count.received,
            surplus=count.surplus,
            # without a device, tunnels with equal inner four-tuples do not show a fault
            duplicate_tuples=phase.duplicate_tuples if self._device is not None else 0,
            sending_time_s=phase.result.max_sending_time_s,
            inside_endpoints=phase.inside_endpoints,
            outside_endpoints=phase.outside_endpoints,
            sessions_before=before,
            sessions=self._count_sessions(before),
            by_endpoint=self._device is not None and self._device.counts_endpoints,
            device=self._read_limits(),
            example=phase.example,
            tcp=phase.tcp,
        )
        directions = {"forward": phase.result}
        faults = phase.faults
        last = phase.end_s
        if (phase_one.is_complete or (connections.tcp and phase_one.learned)) and not faults:
            _check_count(connections, phase_one)
            # connections that the device itself has lost are not validated
            can_validate = connections.tcp or not phase_one.has_lost_sessions
            if connections.alpha is not None and can_validate:
                tried = self._tester.validate(trial, connections)
                (back,) = tried.result.classes.values()
                phase_one = replace(
                    phase_one,
                    validation_sent=back.sent,
                    validated=back.received,
                    validation_time_s=tried.result.max_sending_time_s,
                    gap_s=max(0.0, tried.start_s - phase.end_s),
                    tcp=tried.tcp,
                )
                directions["reverse"] = tried.result
                faults = tried.faults
                last = tried.end_s
            offset_s = phase.start_s - _parse_time(phase.started) if phase.started else None
            self._standing = _EstablishedConnections(
                connections, phase_one, phase.start_s, last, offset_s
            )
        if connections.tcp is not None:
            phase_one, more = self._close_tcp(trial, connections, connections.tcp, phase_one)
            faults += more
        return phase, phase_one, directions, faults

    def _close_tcp(
        self, trial: Trial, connections: Connections, tcp: Tcp, phase_one: PhaseOneResult
    ) -> tuple[PhaseOneResult, tuple[str, ...]]:
        """End TCP connections (RFC 3511, section 5.2.3)."""
        self._standing = None
        ended = self._tester.disconnect(trial, connections)
        if ended.tcp is None:
            problem = "the tester does not report the state of TCP connections"
            raise TesterError(problem, code="unsupported-by-tester")
        (count,) = ended.result.classes.values()
        faults = ended.faults
        if count.sent < count.required:
            faults += (f"the client ended {count.sent} of {count.required} connections",)
        # the device removes connections from the last end on, also while the tester waits for
        # answers to it
        expiry_s = None
        before = phase_one.sessions_before
        left = after = self._count_sessions(before)
        while tcp.aging_s and left is not None:
            passed_s = self._tester.read_clock() - ended.end_s
            if left <= MAX_OWN_CONNECTIONS:
                expiry_s = passed_s
                break
            if passed_s >= tcp.aging_s:
                break
            self._tester.wait(min(LOOK_S, tcp.aging_s))
            left = self._count_sessions(before)
        counts = replace(ended.tcp, sessions_after=after, expiry_s=expiry_s)
        return replace(phase_one, tcp=counts), faults

    @property
    def _timeout_s(self) -> float | None:
        return None if self._device is None else self._device.timeout_s

    def _count_sessions(self, before: int | None) -> int | None:
        sessions = None if self._device is None else self._device.count_sessions()
        return None if sessions is None else max(0, sessions - (before or 0))

    def _read_limits(self) -> dict[str, float] | None:
        """Read the device's timeout and the limits of its table, once."""
        if self._device is None:
            return None
        if self._table_limits is None:
            self._table_limits = dict(self._device.read_limits())
            if self._device.timeout_s is not None:
                self._table_limits["timeout_s"] = self._device.timeout_s
        return self._table_limits or None

    def _tear_down(self, phase_one: PhaseOneResult) -> PhaseOneResult:
        """Empty the device twice and measure how long that takes."""
        self._standing = None
        if self._device is None:
            return phase_one
        times = [self._tester.read_clock()]
        for _ in range(2):
            self._device.flush()
            times.append(self._tester.read_clock())
        _check_empty(self._device)
        return replace(phase_one, flush_s=times[1] - times[0], idle_flush_s=times[2] - times[1])

    def _find_reusable(self, connections: Connections) -> PhaseOneResult | None:
        """Return established connections that can be used again, or None."""
        if (standing := self._standing) is None or standing.connections.count != connections.count:
            return None
        if self._device is not None:
            limit = self._device.timeout_s
            if limit is not None and self._tester.read_clock() - standing.began_s > limit / 2:
                return None
            left = self._device.count_sessions()
            before = standing.established.sessions_before or 0
            if left is not None and left - before != standing.established.sessions:
                return None
        return replace(standing.established, reused=True)

    def _check_timeout(self, trial: Trial, connections: Connections) -> None:
        """Check that idle connections live longer than the trial."""
        if connections.tcp is not None:
            return  # that is a timeout of UDP; all TCP connections are tested at the end
        request = connections
        needed = request.phase_one_s + request.wait_s + request.validation_s + request.gap_s
        if connections.purpose == "prepare":
            needed += trial.total_duration_s + trial.residual_wait_s
        if (limit := self._timeout_s) is not None and limit <= needed:
            problem = f"the trial needs {needed:.1f} s; the device's idle timeout is {limit:g} s"
            hint = "raise the device's timeout (dut.options.timeout_s), or use fewer connections"
            raise UsageError(problem, hint, code="idle-timeout")


def _parse_time(text: str) -> float:
    """Parse a wall clock time [s]."""
    return datetime.fromisoformat(text).timestamp()


def _check_empty(device: StateDevice) -> int | None:
    """Return the number of connections after a flush; raise DutError if too many are left."""
    if (left := device.count_sessions()) is not None and left > MAX_OWN_CONNECTIONS:
        problem = f"the device's table cannot be emptied: {left} connections remain"
        hint = "stop other connections through the device"
        raise DutError(problem, hint, code="table-not-emptied")
    return left


def _check_count(connections: Connections, phase_one: PhaseOneResult) -> None:
    """Compare the device's session count with the Responder's table.

    A step of a search that finds fewer has failed, which its procedure judges. Every other difference
    ends the run.
    """
    sessions = phase_one.sessions
    if sessions is None or sessions == phase_one.expected_sessions or not phase_one.is_complete:
        return
    if connections.purpose == "establish" and phase_one.has_lost_sessions:
        return
    hint = "other traffic passes the device, its connections expire, or it replaces them"
    raise DutError(phase_one.count_difference, hint, code="phase-one-lost")
