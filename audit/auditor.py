"""Run an audit: choose clauses, carry them out in the given configuration, then in further ones."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from v6t.audit.clause import (
    Clause,
    Judgement,
    Probe,
    ProbeUnable,
    Suite,
    Turn,
    flip_side,
    make_subject,
)
from v6t.audit.packets import NOTHING, Wire
from v6t.audit.record import AuditFinding, AuditFrame
from v6t.base.entry_points import Extensions
from v6t.base.errors import DutError, ExtensionError, UsageError, V6tError, hides_interrupt
from v6t.base.log_levels import NOTICE
from v6t.plugins.audit_views import Nat

if TYPE_CHECKING:
    from typing import Self

    from v6t.plugins.base import Technology

_LOG = logging.getLogger(__name__)
SUITES: Extensions[Suite] = Extensions("v6t.audits", "v6t.audit.clause:Suite", "suite")
# longest time that a clause may wait for timers, by the user's choice
LASTING_S = {"short": 20.0, "minutes": 600.0, "hours": 10_000.0}
SAVE_INTERVAL_S = 10.0  # findings are saved this often, in case the process is killed
TRIES = 3
RETRIED_UP_TO_S = 20.0  # clauses that wait longer for timers are tried once
STILLNESS_FACTOR = 3.0  # each further try listens this much longer: a busy device may be late
RATE_LIMIT_PAUSE_S = 1.3  # between tries of messages that a device may send only once a second
_DESCRIBED_TURNS = 3
_WITHOUT_AUDIT = "leave out --audit"


class AuditedDevice(Protocol):
    """A device that can be configured in several ways."""

    @property
    def technology(self) -> Technology: ...

    def open(self) -> AbstractContextManager[Probe]:
        """Configure the device, and restore it at the end; raise UsageError or DutError if that fails."""

    def with_params(self, params: Mapping[str, Any]) -> Self:
        """Return the device with other parameters, or raise UsageError."""


Device = TypeVar("Device", bound=AuditedDevice)
Plan: TypeAlias = dict[str, list[Clause]]


@dataclass(frozen=True)
class AuditRequest:
    """Options of an audit that the user chooses."""

    clauses: Sequence[str] = ()  # parts of names of clauses; none: all
    variants: bool = True  # also test further configurations
    lasting_s: float = LASTING_S["short"]  # leave out clauses that wait longer for timers
    wait_s: float = 0.4  # listen this long for the first frame
    quiet_s: float = 0.06  # and this long after the last one


class Selection(NamedTuple):
    """The suites that apply, with their clauses for the audit's own configuration."""

    suites: list[Suite]
    clauses: list[Clause]
    unmet: list[tuple[str, str]]  # what the parameters lack for further suites, and what to set


class ClauseOutcome(NamedTuple):
    """The judgement on a clause, with the frames of each exchange in its last try."""

    clause: Clause
    judgement: Judgement
    turns: Sequence[Turn] = ()
    tries: int = 1


def load_suites(names: Sequence[str] = ()) -> list[Suite]:
    """Load suites by name, or all if no name is given."""
    return [SUITES.load(name)() for name in (names or SUITES.list_names())]


def select_clauses(suites: Sequence[Suite], technology: Technology, advice: str = "") -> Selection:
    """Return the clauses of the suites that apply, or raise UsageError with ``advice`` as its hint."""
    subject = make_subject(technology)
    by_suite = {suite: list(suite.list_clauses(subject)) for suite in suites}
    unmet = list(filter(None, (suite.find_requirement(subject) for suite in suites)))
    clauses = list(chain.from_iterable(by_suite.values()))
    if not clauses:
        problem = f"no clauses exist for {technology.name} ({', '.join(s.name for s in suites)})"
        for lack, fix in unmet[:1]:
            problem = f"no clause applies to {technology.name} with these parameters: {lack}"
            advice = "; or ".join(filter(None, (fix, advice)))
        raise UsageError(problem, advice, code="no-clauses")
    [(name, count)] = Counter(clause.name for clause in clauses).most_common(1)
    if count > 1:
        raise ExtensionError(f"two clauses have the name '{name}'", code="duplicate")
    return Selection([suite for suite in suites if by_suite[suite]], clauses, unmet)


def find_technologies(kinds: Mapping[str, type[Technology]], suites: Sequence[Suite]) -> list[str]:
    """Return the names of the technologies for which the suites have clauses."""
    plugins = {n: k(k.params_model(**k().suggest_audit_params())) for n, k in kinds.items()}
    return [
        n for n, p in plugins.items() if any(tuple(s.list_clauses(make_subject(p))) for s in suites)
    ]


def choose_clauses(
    device: Device, names: Sequence[str], user_params: Iterable[str]
) -> tuple[Device, Selection]:
    """Choose suites, by default all that apply, and parameters that the technology prefers for audits."""
    suites, params = load_suites(names), device.technology.suggest_audit_params()
    preferred = {name: value for name, value in params.items() if name not in user_params}
    try:
        better = device.with_params(preferred) if preferred else device
    except UsageError as exc:
        try:  # some suites may apply with the user's parameters alone
            return device, select_clauses(suites, device.technology)
        except UsageError as none:
            hint = f"{none.hint}; the audit's default choice is rejected: {exc.message}"
            raise UsageError(none.message, hint, code=none.code) from None
    return better, select_clauses(suites, better.technology)


def list_core_clauses(technology: Technology) -> list[Clause]:
    """Return the clauses that a run checks before its first trial, or raise UsageError."""
    selection = select_clauses(load_suites(), technology, _WITHOUT_AUDIT)
    ends = tuple(end for suite in selection.suites for end in suite.core)
    clauses = [clause for clause in selection.clauses if clause.name.endswith(ends)]
    if not clauses:
        problem = f"{technology.name} has no clauses that are checked before a run"
        raise UsageError(problem, _WITHOUT_AUDIT, code="no-clauses")
    return clauses


def find_uncovered_rfcs(technology: Technology, selection: Selection) -> list[str]:
    """Return the RFCs of a technology that no clause of its audit cites."""
    cited = dict.fromkeys(" ".join(text.split()[:2]) for text in technology.rfcs)
    return [rfc for rfc in cited if rfc not in {clause.rfc for clause in selection.clauses}]


def plan_audit(technology: Technology, selection: Selection, request: AuditRequest) -> Plan:
    """Return the clauses by variant, plain ones first; the empty name is the audit's own configuration.

    Raises:
        UsageError: the request selects no clause.
    """
    variants = {"": selection.clauses}
    user_params = json.loads(technology.params.model_dump_json(exclude_unset=True))
    for variant, params in technology.list_audit_variants().items() if request.variants else ():
        try:
            changed = technology.params_model(**{**user_params, **params})
            subject = make_subject(type(technology)(changed, technology.links))
        except (ValueError, UsageError):  # they contradict the user's
            subject = make_subject(technology)
        variants[variant] = [c for s in selection.suites for c in s.list_clauses(subject, variant)]
    plan = {}
    for variant, clauses in variants.items():
        matching = [c for c in clauses if any(part in c.name for part in request.clauses or [""])]
        if chosen := [clause for clause in matching if clause.lasts_s <= request.lasting_s]:
            plan[variant] = sorted(chosen, key=lambda clause: not clause.plain)
    if not plan:
        hint = f"`v6t audit --plugin {technology.name} --list` prints the names; some need --timers"
        raise UsageError("no clause with such a name can be tested", hint, code="unknown-name")
    return plan


@dataclass
class AuditProgress:
    """Findings of an unfinished audit, and the frames of the capture."""

    planned: int = 0  # clauses of the audit
    # called before each clause with its number, the number of all and its name
    tested: Callable[[int, int, str], None] = lambda number, planned, name: None
    # called every few seconds
    save: Callable[[AuditProgress], None] = lambda progress: None
    findings: list[AuditFinding] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    stopped: str = ""  # why the audit ended early
    saved_at: float = field(default_factory=time.monotonic)

    def add(self, outcome: ClauseOutcome, variant: str, wire: Wire) -> AuditFinding:
        clause, judgement, turns, tries = outcome
        frames = []
        for sent, heard in turns:
            for number, (side, octets) in enumerate((*sent, *heard)):
                self.frames.append(octets)
                place = {"side": side, "sent": number < len(sent), "number": len(self.frames)}
                frames.append(AuditFrame(**place, octets=octets.hex()))
        words = list(dict.fromkeys(wire.describe_sent(sent) for sent, _ in turns if sent))
        if len(words) > _DESCRIBED_TURNS:
            words[_DESCRIBED_TURNS - 1 : -1] = ["..."]
        values = {name: getattr(clause, name) for name in ("rfc", "section", "level", "title")}
        values |= {name: getattr(judgement, name) for name in ("verdict", "expected", "got")}
        values |= {"clause": clause.name, "variant": variant, "sent": "; ".join(words) or NOTHING}
        finding = AuditFinding(**values, tries=tries, frames=frames)
        self.findings.append(finding)
        if time.monotonic() > self.saved_at + SAVE_INTERVAL_S:
            self.save(replace(self, stopped="in progress, or v6t was killed"))
            self.saved_at = time.monotonic()
        return finding


def run_audit(
    device: AuditedDevice, selection: Selection, request: AuditRequest, progress: AuditProgress
) -> V6tError | KeyboardInterrupt | None:
    """Test all clauses; return why the audit ended early, or raise if no clause could be tested."""
    plan = plan_audit(device.technology, selection, request)
    for problem, fix in selection.unmet:
        _LOG.log(NOTICE, "clauses are left out: %s; %s", problem, fix)
    progress.planned = sum(map(len, plan.values()))
    variants = {"": {}, **device.technology.list_audit_variants()}
    try:
        for variant, clauses in plan.items():
            before = len(progress.findings)
            try:
                configured = device.with_params(variants[variant]) if variant else device
                _test_clauses(configured, clauses, variant, request, progress)
            except (UsageError, DutError) as exc:
                if not variant or hides_interrupt(exc):
                    raise
                problem = "the device was not configured"
                if isinstance(exc, UsageError):
                    problem = "impossible with this device"
                got, wire = f"{problem}: {exc.message}", Wire(device.technology.links)
                judgement = Judgement("not testable", "the device is configured", got)
                for clause in clauses[len(progress.findings) - before :]:
                    progress.add(ClauseOutcome(clause, judgement, tries=0), variant, wire)
            if progress.stopped:
                break
    except (V6tError, KeyboardInterrupt) as exc:
        if not progress.findings:
            raise
        progress.stopped = "interrupted" if hides_interrupt(exc) else str(exc)
        return exc
    return None


def audit_core_clauses(device: AuditedDevice, clauses: Sequence[Clause]) -> list[AuditFinding]:
    """Test the core clauses and return those from which the device deviates."""
    progress = AuditProgress(planned=len(clauses))
    _test_clauses(device, clauses, "", AuditRequest(), progress)
    return [finding for finding in progress.findings if finding.fails]


def _test_clauses(
    device: AuditedDevice,
    clauses: Sequence[Clause],
    variant: str,
    request: AuditRequest,
    progress: AuditProgress,
) -> None:
    """Test the clauses of one variant; stop if no plain packet passes in the audit's own configuration."""
    wire, views = Wire(device.technology.links), device.technology.list_audit_views()
    nats = [view for view in views if isinstance(view, Nat)]
    has_session_limit = any(nat.session_limit for nat in nats)
    plain, blocked = sum(clause.plain for clause in clauses), 0
    with device.open() as probe:
        for number, clause in enumerate(clauses, 1):
            progress.tested(len(progress.findings) + 1, progress.planned, clause.name)
            # connections of an earlier configuration have its addresses
            if has_session_limit or (nats and number == 1):
                with suppress(ProbeUnable):
                    probe.flush()
            outcome = carry_out(clause, probe, request)
            probe.check()  # what a device drops without its configuration proves nothing
            finding = progress.add(outcome, variant, wire)
            if finding.verdict in ("deviates", "not testable"):
                _LOG.info("%s: %s: %s", clause.name, finding.verdict, finding.got)
            passes = any(s and wire.octets(flip_side(s[0].side), h) for s, h in outcome.turns)
            blocked += clause.plain and not passes
            if not variant and number == plain == blocked:
                progress.stopped = "the device does not forward a plain packet"
                return
            if outcome.judgement.dead:
                try:
                    probe.reset()
                except ProbeUnable as exc:
                    progress.stopped = f"the device no longer forwards packets: {exc}"
                    return


def carry_out(clause: Clause, probe: Probe, request: AuditRequest) -> ClauseOutcome:
    """Test a clause until it conforms, at most TRIES times; frames may be lost or rate limited."""
    outcome = _try_once(clause, probe, request.wait_s, request.quiet_s)
    tries = TRIES if clause.lasts_s <= RETRIED_UP_TO_S else 1
    while outcome.judgement.verdict != "conforms" and outcome.tries < tries:
        if clause.rate_limited:
            probe.pause(RATE_LIMIT_PAUSE_S)
        quiet_s = request.quiet_s * STILLNESS_FACTOR**outcome.tries
        retry = _try_once(clause, probe, request.wait_s, quiet_s)
        if (outcome.judgement.verdict, retry.judgement.verdict) == ("deviates", "not testable"):
            retry = outcome  # the device deviated, and may be dead because of it
        outcome = retry._replace(tries=outcome.tries + 1)
    if clause.level == "MAY" and outcome.judgement.verdict == "deviates":
        return outcome._replace(judgement=outcome.judgement._replace(verdict="information"))
    return outcome


def _try_once(clause: Clause, probe: Probe, wait_s: float, quiet_s: float) -> ClauseOutcome:
    steps, turns = clause.steps(), []
    try:
        send = next(steps)
        while True:
            if send.before:
                (probe.flush if send.before == "flush" else probe.reset)()
            if send.pause_s:
                probe.pause(send.pause_s)
            times = (send.listen_s, 0.0) if send.listen_s else (wait_s, quiet_s)
            heard = probe.exchange(send.frames, *times)
            turns.append((tuple(send.frames), tuple(heard)))
            send = steps.send(heard)
    except ProbeUnable as exc:
        judgement = Judgement("not testable", "the clause can be tested", str(exc))
        return ClauseOutcome(clause, judgement, turns)
    except StopIteration as stop:
        return ClauseOutcome(clause, stop.value, turns)
