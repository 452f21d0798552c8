"""An audit from its first frame to its files: every suite, every further configuration, one record."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.analysis.records.audit import DEVIATES, SCHEMA, UNTOLD, Audit, Finding, FrameSeen
from v6t.analysis.report.audit import document, to_junit
from v6t.analysis.report.html import to_html
from v6t.analysis.report.markdown import to_markdown
from v6t.base.errors import DutError, UsageError, interrupted
from v6t.base.log_levels import NOTICE
from v6t.base.storage import write_atomically
from v6t.core.audit import suites
from v6t.core.audit.device import Listening, ProbedDevice, probed
from v6t.core.config.bound import bind
from v6t.core.runs.manifest import commit, now
from v6t.core.runs.rundir import AUDIT, CONFIG
from v6t.plugins.clauses.carry import Outcome, carry_out
from v6t.plugins.clauses.ends import NOTHING, worded
from v6t.profiles.export.pcap import write_pcap

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun
    from v6t.plugins.clauses.base import Clause, Suite

_LOG = logging.getLogger(__name__)
FILES = {"json": AUDIT, "html": "audit.html", "md": "audit.md", "junit": "audit.xml"}
CAPTURE = "frames.pcap"
LASTING_S = {"short": 20.0, "minutes": 600.0, "hours": 10_000.0}
"""How long a clause may wait for a timer, by what the user calls it."""
UNASKED = "not asked: the audit ended before"
NOTED_S = 10.0
"""What was found is on disk after so long: a process that is killed writes nothing more."""
_SAID = 3
"""Turns of an exchange that the table names; more are in the capture."""
_FPS = 1000.0
"""Frames of the capture are so close: when each was sent matters to no clause."""


@dataclass
class _Findings:
    """What was found until now, and the frames of the capture."""

    note: Callable[[list[Finding]], None] = lambda rows: None
    rows: list[Finding] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    noted: float = field(default_factory=time.monotonic)

    def add(self, outcome: Outcome, variant: str, links: Any) -> Finding:
        """A clause that was tried."""
        seen = []
        for turn in outcome.turns:
            for frames, sent in ((turn.sent, True), (turn.heard, False)):
                for frame in frames:
                    self.frames.append(frame.octets)
                    seen.append(
                        FrameSeen(
                            side=frame.side,
                            sent=sent,
                            octets=frame.octets.hex(),
                            number=len(self.frames),
                        )
                    )
        clause, judgement = outcome.clause, outcome.judgement
        sentences = list(
            dict.fromkeys(worded(links, turn.sent) for turn in outcome.turns if turn.sent)
        )
        if len(sentences) > _SAID:
            sentences[_SAID - 1 : -1] = ["..."]
        finding = self._append(
            clause,
            variant,
            judgement.verdict,
            "; ".join(sentences) or NOTHING,
            judgement.expected,
            judgement.got,
            outcome.tries,
            seen,
        )
        if time.monotonic() > self.noted + NOTED_S:
            self.note(self.rows)
            self.noted = time.monotonic()
        return finding

    def rest_untold(self, clauses: Iterable[Clause], variant: str, why: str) -> None:
        """Clauses that could not be tried: those of which nothing was found yet."""
        names = {row.clause for row in self.rows if row.variant == variant}
        for clause in clauses:
            if clause.name not in names:
                self._append(clause, variant, UNTOLD, "nothing", "to be configured", why, 0, [])

    def _append(
        self,
        clause: Clause,
        variant: str,
        verdict: Any,
        sent: str,
        expected: str,
        got: str,
        tries: int,
        frames: Sequence[FrameSeen],
    ) -> Finding:
        self.rows.append(
            Finding(
                clause=clause.name,
                rfc=clause.rfc,
                section=clause.section,
                level=clause.level,
                title=clause.title,
                variant=variant,
                verdict=verdict,
                sent=sent,
                expected=expected,
                got=got,
                tries=tries,
                frames=frames,
            )
        )
        return self.rows[-1]


@dataclass(frozen=True)
class Wanted:
    """What the user asks for.

    Attributes:
        suites: names; none: all that apply.
        clauses: parts of names of clauses; none: all.
        variants: also the further configurations.
        interfaces: of this machine; None: in the lab.
        listening: how long.
        lasting_s: clauses that wait longer are left out.
    """

    suites: Sequence[str] = ()
    clauses: Sequence[str] = ()
    variants: bool = True
    interfaces: tuple[str, str] | None = None
    listening: Listening = field(default_factory=Listening)
    lasting_s: float = LASTING_S["short"]

    def keeps(self, clause: Clause) -> bool:
        """Whether it is one of those that are asked."""
        named = not self.clauses or any(part in clause.name for part in self.clauses)
        return named and clause.lasts_s <= self.lasting_s


@dataclass(frozen=True)
class Done:
    """An audit that was carried out.

    Attributes:
        record: of it.
        frames: of its capture.
        trouble: why not all was asked, or the device not put back; None: it was.
    """

    record: Audit
    frames: Sequence[bytes]
    trouble: DutError | KeyboardInterrupt | None


def audit(
    bound: BoundRun,
    wanted: Wanted,
    keep: Path | None,
    note: Callable[[Audit], None] = lambda record: None,
) -> Done:
    """Ask everything, in minutes.

    Args:
        bound: technology and device.
        wanted: what is asked.
        keep: directory for a copy of the device's undo record.
        note: given what was found so far, every few seconds.

    Raises:
        UsageError: no suite applies.
        DutError: the device could not be configured.
    """
    began = time.monotonic()
    bound, selection = asked_of(bound, wanted.suites)
    clauses = [c for c in selection.clauses if wanted.keeps(c)]
    about = bound.driver.name

    def record(rows: list[Finding]) -> Audit:
        return Audit(
            schema=SCHEMA,
            version=version("v6t"),
            source_commit=commit(),
            made=now(),
            plugin=bound.settings.plugin,
            params=json.loads(bound.technology.params.model_dump_json()),
            driver=bound.driver.name,
            device=about,
            suites=[s.name for s in selection.suites],
            seconds=round(time.monotonic() - began, 1),
            findings=rows,
        )

    for problem, fix in selection.unmet:
        _LOG.log(NOTICE, "clauses are left out: %s; %s", problem, fix)
    findings = _Findings(lambda rows: note(record(rows)))
    trouble: DutError | KeyboardInterrupt | None = None
    variants = list(selection.variants(bound.technology)) if wanted.variants else []
    if clauses:
        try:
            with probed(bound, wanted.interfaces, wanted.listening, keep) as device:
                about = device.about
                _ask(device, clauses, "", bound, findings)
        except (DutError, KeyboardInterrupt) as exc:
            if not findings.rows:
                raise
            trouble = exc  # what was asked until then is not thrown away
            findings.rest_untold(clauses, "", UNASKED)
    for suite, words, params in variants:
        try:
            if interrupted(trouble) or (trouble and wanted.interfaces):
                _leave_out(bound, suite, words, wanted, findings)
            else:
                _vary(bound, suite, words, params, wanted, keep, findings)
        except (DutError, KeyboardInterrupt) as exc:
            if not findings.rows:
                raise
            trouble = exc
            _leave_out(bound, suite, words, wanted, findings)
    if not findings.rows:
        raise UsageError(
            "no clause has such a name", "`v6t audit --list` shows them", code="unknown-name"
        )
    return Done(record(findings.rows), findings.frames, trouble)


def precheck(bound: BoundRun) -> list[Finding]:
    """The core of the suites that apply, with the run's own parameters, in seconds: what deviates.

    Raises:
        UsageError: no suite applies, or this device cannot be asked with single frames.
    """
    clauses, findings = suites.core(bound.technology), _Findings()
    with probed(bound, None, Listening(), None) as device:
        _ask(device, clauses, "", bound, findings)
    return [f for f in findings.rows if f.verdict == DEVIATES]


def asked_of(bound: BoundRun, names: Sequence[str]) -> tuple[BoundRun, suites.Asked]:
    """What these suites ask, and the run with the parameters they ask it with.

    Args:
        bound: technology and device.
        names: of suites; none: all that apply.

    Raises:
        UsageError: there is no such suite, or none applies.
    """
    chosen = suites.chosen(names)
    try:
        bound = _preferring(bound, suites.preferred(chosen, bound.technology))
    except UsageError as exc:
        # the user's own parameters contradict these; without them some suites may apply
        try:
            return bound, suites.asked(chosen, bound.technology)
        except UsageError as none:
            hint = f"{none.hint}; the suites' own choice is refused: {exc.message}"
            raise UsageError(none.message, hint, code=none.code) from None
    return bound, suites.asked(chosen, bound.technology)


def _preferring(bound: BoundRun, params: Mapping[str, Any]) -> BoundRun:
    """With parameters the suites prefer, but not in place of the user's own."""
    mine = {k: v for k, v in params.items() if k not in bound.settings.params}
    return _with(bound, mine) if mine else bound


def _with(bound: BoundRun, params: Mapping[str, Any]) -> BoundRun:
    changed = {**bound.settings.params, **params}
    settings = bound.settings.model_copy(update={"params": changed})
    return replace(bind(settings), again=bound.again)


def further(bound: BoundRun, params: Mapping[str, Any]) -> BoundRun:
    """A further configuration of the device, or, where parameters are the tester's alone, the same one.

    Raises:
        UsageError: it cannot be that, or its driver does not tell it.
    """
    changed = _with(bound, params)
    changed.driver.check_intent(changed.intent)
    differs = bound.intent != changed.intent
    if differs and changed.driver.configured_alike(bound.intent, changed.intent):
        raise UsageError("its driver cannot configure it", code="setting-untellable")
    return changed


def _leave_out(
    bound: BoundRun, suite: Suite, words: str, wanted: Wanted, findings: _Findings
) -> None:
    """A further configuration of which nothing more is asked."""
    clauses = [c for c in suite.varied(bound.technology, words) if wanted.keeps(c)]
    findings.rest_untold(clauses, words, UNASKED)


def _vary(
    bound: BoundRun,
    suite: Suite,
    words: str,
    params: Mapping[str, Any],
    wanted: Wanted,
    keep: Path | None,
    findings: _Findings,
) -> None:
    """One further configuration; one that cannot be had leaves its clauses untold.

    Raises:
        DutError: it came in the place of a Ctrl-C.
    """
    clauses = [c for c in suite.varied(bound.technology, words) if wanted.keeps(c)]
    if not clauses:
        return
    try:
        changed = further(bound, params)
        clauses = [c for c in suite.varied(changed.technology, words) if wanted.keeps(c)]
        with probed(changed, wanted.interfaces, wanted.listening, keep) as device:
            _ask(device, clauses, words, changed, findings)
    except UsageError as exc:
        findings.rest_untold(clauses, words, f"not with this device: {exc.message}")
    except DutError as exc:
        if interrupted(exc):
            raise
        findings.rest_untold(clauses, words, f"the device was not configured: {exc.message}")


def _ask(
    device: ProbedDevice,
    clauses: Iterable[Clause],
    variant: str,
    bound: BoundRun,
    findings: _Findings,
) -> None:
    for clause in clauses:
        outcome = carry_out(clause, device.carry)
        # one that undid its configuration meanwhile, or was started anew, deviates from nothing and
        # conforms to nothing: who is off drops all that must be dropped
        device.check()
        finding = findings.add(outcome, variant, bound.technology.links)
        if finding.verdict != "conforms":
            _LOG.log(NOTICE, "%s: %s: %s", clause.name, finding.verdict, finding.got)
        if outcome.judgement.ended:
            device.revive()


@contextmanager
def reserved(out: Path) -> Iterator[None]:
    """A directory that files can be put into, seen to before minutes are spent; gone if none come of it.

    Raises:
        UsageError: it cannot be made, or holds a run or an audit.
    """
    for name, what in ((CONFIG, "a run"), (FILES["json"], "an audit")):
        if (out / name).is_file():
            raise UsageError(
                f"{out} contains {what}",
                "choose another directory: -o DIRECTORY",
                code="file-exists",
            )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise UsageError(
            f"{out} cannot be written: {exc.strerror}", code="file-unwritable"
        ) from exc
    try:
        yield
    finally:
        with suppress(OSError):
            out.rmdir()


def write_record(record: Audit, out: Path) -> None:
    """The record alone.

    Raises:
        OSError: it cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / FILES["json"], json.dumps(record.to_json(), indent=1) + "\n")


def write(record: Audit, frames: Sequence[bytes], out: Path) -> None:
    """All files of an audit into a directory.

    Raises:
        UsageError: it cannot be written.
    """
    report = document(record)
    texts = {
        "html": to_html(report),
        "md": to_markdown(report),
        "junit": to_junit(record),
    }
    try:
        write_record(record, out)
        for kind, text in texts.items():
            write_atomically(out / FILES[kind], text)
        write_pcap(out / CAPTURE, frames, _FPS, overwrite=True)
    except OSError as exc:
        raise UsageError(
            f"{out} cannot be written: {exc.strerror}", code="file-unwritable"
        ) from exc
