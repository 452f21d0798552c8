"""Phase 1 as a trial, its verdict, and trials that need connections first."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from v6t.procedures.trial_runner import TrialOutcome, TrialRunner
from v6t.trials.conditions import Conditions
from v6t.trials.connections import Connections, PhaseOneResult, Tcp
from v6t.trials.result import Measure, TrialResult
from v6t.trials.trial import Mode, Trial
from v6t.trials.verdict import Verdict

MAX_RETAKES = 3  # repetitions of a failed phase 1 before its phase 2 is abandoned


class PhaseOneError(RuntimeError):
    """Error: every attempt at phase 1 failed.

    Attributes:
        first_key: key of the trial of the first attempt.
        tester: whether the last attempt failed because of the tester.
    """

    def __init__(self, message: str, first_key: str, *, tester: bool = False) -> None:
        super().__init__(message)
        self.first_key, self.tester = first_key, tester


@dataclass(frozen=True)
class PhaseOneSettings:
    """Settings of phase 1 in every trial, see :class:`~v6t.trials.connections.Connections`."""

    wait_s: float = 0.5  # wait for late frames [s]
    gap_s: float = 0.0  # further wait before phase 2 [s]
    alpha: float | None = 1.0  # validation rate / connection rate; None: no validation
    entries: int | None = None  # size of the Responder's table; None: one for each connection
    keep: bool = False  # reuse the open connections
    tcp: Tcp | None = None  # None: UDP

    def make_connections(self, count: int, rate_cps: float) -> Connections:
        """Make the request for phase 1 with a number of connections at a rate."""
        return Connections(
            count=count,
            rate_cps=rate_cps,
            wait_s=self.wait_s,
            gap_s=self.gap_s,
            alpha=self.alpha,
            entries=None if self.entries is None else min(self.entries, count),
            reuse=self.keep,
            tcp=self.tcp,
        )


def judge_connections(
    trial: Trial, result: TrialResult, *, sending_time_tolerance: float = 1.00001
) -> Verdict:
    """Judge a trial of phase 1, with validation if it was requested."""
    connections, phase_one = trial.connections, result.connections
    faults = list(result.faults)
    if connections is None or phase_one is None:
        faults.append("the tester established no connections")
        return Verdict(False, False, tuple(faults))
    faults += _list_tester_faults(connections, phase_one, sending_time_tolerance)
    failures = _list_failures(connections, phase_one)
    mismatch = None
    for direction, counted in result.directions.items():
        if counted.mismatch is not None and mismatch is None:
            mismatch = {"direction": direction, **counted.mismatch}
            failures.append(f"{direction}: a frame differs from the reference translation")
    lost = 1 - phase_one.established / phase_one.required if phase_one.required else 0.0
    return Verdict(
        passed=not faults and not failures,
        valid=not faults,
        reasons=tuple(faults or failures),
        loss={"connections": lost},
        mismatch=mismatch,
    )


def _list_tester_faults(
    connections: Connections, phase_one: PhaseOneResult, tolerance: float
) -> list[str]:
    faults = []
    if phase_one.sent < phase_one.required:
        faults.append(f"the Initiator sent {phase_one.sent} of {phase_one.required} frames")
    limit = connections.phase_one_s * tolerance
    if phase_one.sending_time_s > limit:
        faults.append(f"phase 1 took {phase_one.sending_time_s:.6f} s, allowed {limit:.6f} s")
    took_s, sent = phase_one.validation_time_s, phase_one.validation_sent or 0
    if phase_one.validated is not None and took_s is not None:
        limit = connections.validation_s * tolerance
        if took_s > limit:
            faults.append(f"the validation took {took_s:.6f} s, allowed {limit:.6f} s")
        if sent < phase_one.learned:
            faults.append(f"the Responder sent {sent} of {phase_one.learned} frames")
    return faults


def _list_failures(connections: Connections, phase_one: PhaseOneResult) -> list[str]:
    failures = []
    if phase_one.learned < phase_one.required:
        what = "forwarded" if phase_one.tcp is None else f"established: {phase_one.tcp.failures}"
        missing = phase_one.required - phase_one.learned
        failures.append(f"{missing} of {phase_one.required} connections were not {what}")
    if phase_one.tcp is not None and phase_one.tcp.wrong:
        failures.append(f"{phase_one.tcp.wrong} segments differ from those of a correct device")
    if phase_one.surplus:
        failures.append(f"surplus of {phase_one.surplus} frames in phase 1")
    if phase_one.duplicate_tuples:
        failures.append(_describe_duplicates(phase_one))
    if phase_one.has_lost_sessions:
        failures.append(phase_one.count_difference)
    if connections.alpha is not None and phase_one.is_complete and not phase_one.has_lost_sessions:
        if phase_one.validated is None:
            failures.append("the connections were not validated")
        elif phase_one.validated < phase_one.learned:
            failures.append(
                f"{phase_one.learned - phase_one.validated} of {phase_one.learned} connections failed "
                "validation"
            )
    return failures


def attempt_connections(
    trials: TrialRunner,
    conditions: Conditions,
    connections: Connections,
    *,
    benchmark: str,
    step: str,
    steps: int = 1,
    bracket: tuple[float, float] | None = None,
) -> TrialOutcome:
    """Run phase 1 as a separate trial; repeat it while it is invalid.

    Its directions are those of the Initiator and of the validation. The loss tolerance of the conditions
    is for phase 2 only.
    """
    mode: Mode = "forward" if connections.alpha is None else "bidirectional"
    purpose = "establish" if connections.purpose == "prepare" else connections.purpose
    trial = conditions.make_trial(
        benchmark,
        connections.rate_cps,
        connections.phase_one_s,
        mode=mode,
        frame_timeout_s=None,
        flow_starts=None,
        # an empty table before every step
        connections=replace(connections, purpose=purpose, reuse=False),
    )
    assess = partial(judge_connections, sending_time_tolerance=conditions.sending_time_tolerance)
    return trials.run(trial, step, steps=steps, bracket=bracket, assess=assess)


class ConnectionPreparer:
    """Measurement of phase 2 that establishes the connections of each trial first.

    A trial without a full table does not measure phase 2, so it is repeated a limited number of times.
    """

    def __init__(
        self, measure: Measure, connections: Connections, retakes: int = MAX_RETAKES
    ) -> None:
        """Prepare the connections of each trial; a failed phase 1 is repeated ``retakes`` times."""
        self._measure = measure
        self._connections = connections
        self._retakes = retakes
        self._final_keys: dict[str, str] = {}  # keys of the successful repetitions of trials

    def __call__(self, trial: Trial) -> TrialResult:
        """Run a trial with connections.

        Raises:
            PhaseOneError: phase 1 lost connections every time.
        """
        why = ""
        faults: tuple[str, ...] = ()
        for retake in range(self._retakes + 1):
            key = f"{trial.key}/p{retake + 1}" if retake else trial.key
            # a reset may take the connections with it
            keep = self._connections.reuse and trial.device_event is None
            keyed_trial = replace(
                trial, key=key, connections=replace(self._connections, reuse=keep)
            )
            result = self._measure(keyed_trial)
            phase_one = result.connections
            if phase_one is not None and phase_one.is_complete:
                if retake:
                    self._final_keys[trial.key] = key
                return result
            faults = result.faults
            why = faults[0] if faults else _describe_shortfall(phase_one)
        raise PhaseOneError(
            f"phase 1 at {self._connections.rate_cps:,.0f} connections per second failed "
            f"{self._retakes + 1} times: {why}",
            trial.key,
            tester=bool(faults),
        )

    def make_finder(self, find: Callable[[str], TrialResult]) -> Callable[[str], TrialResult]:
        """Return a function that finds the result of a trial, or of its successful repetition, by key."""
        return lambda key: find(self._final_keys.get(key, key))


def _describe_duplicates(phase_one: PhaseOneResult) -> str:
    count = phase_one.duplicate_tuples
    return f"{count} connections have the outside four-tuple of another: the device reuses ports"


def _describe_shortfall(phase_one: PhaseOneResult | None) -> str:
    if phase_one is None:
        return "the tester established no connections"
    if phase_one.duplicate_tuples:
        return _describe_duplicates(phase_one)
    return f"{phase_one.learned} of {phase_one.required} connections were forwarded"
