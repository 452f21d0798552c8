"""Run an audit: all clauses in the given configuration, then those of further configurations."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from v6t.audit.clause import NOT_TESTABLE, Clause, Subject, subject_of
from v6t.audit.probe import Probe
from v6t.audit.record import AuditFrame, Finding
from v6t.audit.runner import Listening, Outcome, carry_out
from v6t.audit.suites import Selection, load_suites, select_clauses
from v6t.audit.wire import NOTHING, Wire, opposite
from v6t.base.errors import DutError, UsageError, interrupted
from v6t.base.log_levels import NOTICE

if TYPE_CHECKING:
    from typing import Self

    from v6t.plugins.base import Technology

_LOG = logging.getLogger(__name__)
LASTING_S = {"short": 20.0, "minutes": 600.0, "hours": 10_000.0}
"""Longest time that a clause may wait for timers, by the user's choice."""
SAVE_INTERVAL_S = 10.0
"""Findings are saved this often, in case the process is killed."""
_DESCRIBED_TURNS = 3
"""Exchanges that a finding describes; the capture has all of them."""


class AuditedDevice(Protocol):
    """A device that can be configured in several ways."""

    @property
    def technology(self) -> Technology:
        """The technology with its parameters."""

    def open(self) -> AbstractContextManager[Probe]:
        """Configure the device; restore it at the end.

        Raises:
            UsageError: single frames cannot reach the device.
            DutError: it could not be configured.
        """

    def with_params(self, params: Mapping[str, Any]) -> Self:
        """Return the device in a further configuration.

        Raises:
            UsageError: the device or its driver does not support the parameters.
        """


@dataclass(frozen=True)
class AuditRequest:
    """What the user asks for.

    Attributes:
        suites: names; none: all that apply.
        clauses: parts of names of clauses; none: all.
        variants: also test further configurations.
        listening: how long to listen.
        lasting_s: leave out clauses that wait longer for timers.
    """

    suites: Sequence[str] = ()
    clauses: Sequence[str] = ()
    variants: bool = True
    listening: Listening = field(default_factory=Listening)
    lasting_s: float = LASTING_S["short"]

    def select(self, clauses: Iterable[Clause]) -> list[Clause]:
        """Return the clauses to test, plain ones first."""
        selected = [
            clause
            for clause in clauses
            if clause.lasts_s <= self.lasting_s
            and (not self.clauses or any(part in clause.name for part in self.clauses))
        ]
        return sorted(selected, key=lambda clause: not clause.plain)


@dataclass
class AuditProgress:
    """Findings so far, and the frames of the capture.

    Attributes:
        planned: clauses of the audit.
        tested: called with the number of the clause, and its name, before each clause.
        save: called with the findings every few seconds.
    """

    planned: int = 0
    tested: Callable[[int, int, str], None] = lambda number, planned, name: None
    save: Callable[[AuditProgress], None] = lambda progress: None
    findings: list[Finding] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    stopped: str = ""
    saved_at: float = field(default_factory=time.monotonic)

    def add(self, outcome: Outcome, variant: str, wire: Wire) -> Finding:
        """Add the outcome of a clause."""
        frames = []
        for turn in outcome.turns:
            for some, sent in ((turn.sent, True), (turn.heard, False)):
                for frame in some:
                    self.frames.append(frame.octets)
                    number, octets = len(self.frames), frame.octets.hex()
                    frames.append(
                        AuditFrame(side=frame.side, sent=sent, octets=octets, number=number)
                    )
        descriptions = list(
            dict.fromkeys(wire.describe_sent(turn.sent) for turn in outcome.turns if turn.sent)
        )
        if len(descriptions) > _DESCRIBED_TURNS:
            descriptions[_DESCRIBED_TURNS - 1 : -1] = ["..."]
        judgement = outcome.judgement
        finding = self._append(
            outcome.clause,
            variant=variant,
            verdict=judgement.verdict,
            sent="; ".join(descriptions) or NOTHING,
            expected=judgement.expected,
            got=judgement.got,
            tries=outcome.tries,
            frames=frames,
        )
        if time.monotonic() > self.saved_at + SAVE_INTERVAL_S:
            self.save(self)
            self.saved_at = time.monotonic()
        return finding

    def add_untestable(self, clauses: Iterable[Clause], variant: str, reason: str) -> None:
        """Add the clauses of a configuration that the device does not support."""
        for clause in clauses:
            self._append(
                clause,
                variant=variant,
                verdict=NOT_TESTABLE,
                sent=NOTHING,
                expected="the device is configured",
                got=reason,
                tries=0,
                frames=[],
            )

    def _append(self, clause: Clause, **values: Any) -> Finding:
        self.findings.append(
            Finding(
                clause=clause.name,
                rfc=clause.rfc,
                section=clause.section,
                level=clause.level,
                title=clause.title,
                **values,
            )
        )
        return self.findings[-1]


Device = TypeVar("Device", bound=AuditedDevice)


class NothingPasses(Exception):
    """Not even a plain packet passes the device."""


def choose_clauses(
    device: Device, names: Sequence[str], user_params: Iterable[str]
) -> tuple[Device, Selection]:
    """Choose suites, and apply the parameters that the technology prefers for audits.

    Args:
        device: as the user configured it.
        names: of suites; none: all that apply.
        user_params: names of parameters that the user set.

    Raises:
        UsageError: a suite is unknown, or none applies.
    """
    suites = load_suites(names)
    preferred = device.technology.audit_params()
    preferred = {name: value for name, value in preferred.items() if name not in user_params}
    try:
        better = device.with_params(preferred) if preferred else device
    except UsageError as exc:
        # the user's parameters contradict the preferred ones; some suites may apply without them
        try:
            return device, select_clauses(suites, device.technology)
        except UsageError as none:
            hint = f"{none.hint}; the audit's own choice is refused: {exc.message}"
            raise UsageError(none.message, hint, code=none.code) from None
    return better, select_clauses(suites, better.technology)


def plan_audit(
    device: AuditedDevice, selection: Selection, request: AuditRequest
) -> dict[str, list[Clause]]:
    """Return the clauses by configuration; the empty name is the audit's own."""
    plan = {"": request.select(selection.clauses)}
    if request.variants:
        for variant, params in device.technology.audit_variants().items():
            subject = _variant_subject(device.technology, params)
            plan[variant] = request.select(selection.variant_clauses(subject, variant))
    return {variant: clauses for variant, clauses in plan.items() if clauses}


def _variant_subject(technology: Technology, params: Mapping[str, Any]) -> Subject:
    """Return a further configuration, or the given one if the parameters contradict the user's."""
    values = {**json.loads(technology.params.model_dump_json(exclude_unset=True)), **params}
    try:
        return subject_of(type(technology)(type(technology.params)(**values), technology.links))
    except ValueError:
        return subject_of(technology)
    except UsageError:
        return subject_of(technology)


def run_audit(
    device: AuditedDevice, selection: Selection, request: AuditRequest, progress: AuditProgress
) -> DutError | KeyboardInterrupt | None:
    """Test all clauses.

    Returns:
        why the audit ended early; findings made before are kept.

    Raises:
        UsageError: no clause has a requested name, or single frames cannot reach the device.
        DutError: the device could not be configured at all.
    """
    plan = plan_audit(device, selection, request)
    if not plan:
        raise UsageError(
            "no clause has such a name", "`v6t audit --list` prints the names", code="unknown-name"
        )
    for problem, fix in selection.unmet:
        _LOG.log(NOTICE, "clauses are left out: %s; %s", problem, fix)
    progress.planned = sum(map(len, plan.values()))
    try:
        for variant, clauses in plan.items():
            if variant:
                _test_variant(device, selection, request, variant, clauses, progress)
            else:
                with device.open() as probe:
                    _test(probe, clauses, "", device.technology, request.listening, progress)
    except NothingPasses as exc:
        progress.stopped = str(exc)
    except (DutError, KeyboardInterrupt) as exc:
        if not progress.findings:
            raise
        progress.stopped = "interrupted" if interrupted(exc) else str(exc)
        return exc
    return None


def _test_variant(
    device: AuditedDevice,
    selection: Selection,
    request: AuditRequest,
    variant: str,
    clauses: Sequence[Clause],
    progress: AuditProgress,
) -> None:
    """Test a further configuration; its clauses are not testable if the device does not support it."""
    params = device.technology.audit_variants()[variant]
    try:
        changed = device.with_params(params)
        subject = subject_of(changed.technology)
        clauses = request.select(selection.variant_clauses(subject, variant))
        with changed.open() as probe:
            _test(probe, clauses, variant, changed.technology, request.listening, progress)
    except UsageError as exc:
        progress.add_untestable(clauses, variant, f"not with this device: {exc.message}")
    except DutError as exc:
        if interrupted(exc):
            raise
        progress.add_untestable(clauses, variant, f"the device was not configured: {exc.message}")


def _test(
    probe: Probe,
    clauses: Sequence[Clause],
    variant: str,
    technology: Technology,
    listening: Listening,
    progress: AuditProgress,
) -> None:
    """Test clauses in one configuration.

    Raises:
        NothingPasses: no plain packet passes in the audit's own configuration.
        DutError: the device lost its configuration; what it drops then proves nothing.
    """
    wire = Wire(technology.links)
    plain = [clause for clause in clauses if clause.plain]
    blocked: list[tuple[Outcome, Finding]] = []
    for number, clause in enumerate(clauses):
        progress.tested(len(progress.findings) + 1, progress.planned, clause.name)
        outcome = carry_out(clause, probe, listening)
        probe.check()
        finding = progress.add(outcome, variant, wire)
        if finding.verdict in ("deviates", NOT_TESTABLE):
            _LOG.log(NOTICE, "%s: %s: %s", clause.name, finding.verdict, finding.got)
        if clause.plain and not _passes(outcome, wire):
            blocked.append((outcome, finding))
        if not variant and number + 1 == len(plain) == len(blocked):
            raise NothingPasses(_explain(*blocked[0]))
        if outcome.judgement.dead:
            probe.reset()


def _passes(outcome: Outcome, wire: Wire) -> bool:
    """Return whether the device forwarded any packet of a clause."""
    return any(
        wire.packets(opposite(turn.sent[0].side), turn.heard) for turn in outcome.turns if turn.sent
    )


def _explain(outcome: Outcome, finding: Finding) -> str:
    octets = outcome.turns[0].sent[0].octets.hex() if outcome.turns else ""
    return (
        f"no plain packet passes the device: sent {finding.sent}, expected {finding.expected}, "
        f"got {finding.got}; frame {octets}"
    )


def check_core(
    device: AuditedDevice, clauses: Sequence[Clause], listening: Listening
) -> list[Finding]:
    """Test a few clauses and return those from which the device deviates."""
    progress = AuditProgress(planned=len(clauses))
    with device.open() as probe:
        try:
            _test(probe, clauses, "", device.technology, listening, progress)
        except NothingPasses as exc:
            progress.stopped = str(exc)
    return [finding for finding in progress.findings if finding.fails]
