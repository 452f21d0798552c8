"""The record of an audit, its report and JUnit XML, and the comparison of several."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any, Literal, get_args

from pydantic import Field, ValidationError
from v6t.analysis.blocks import (
    Block,
    BulletList,
    CodeListing,
    Collapsible,
    FactTable,
    Paragraph,
    ReportDocument,
    ReportSection,
)
from v6t.analysis.record import RecordModel
from v6t.analysis.report.exports import write_suite
from v6t.analysis.sheet import Table, make_text_columns, make_text_table, pluralize
from v6t.audit.clause import Level, Verdict
from v6t.base.errors import UsageError

SCHEMA = "v6t-audit/2"
VERDICTS = get_args(Verdict)
LEVELS = get_args(Level)
ABSENT = "not tested"
_HEADS = make_text_columns("clause", "section", "level", "sent", "expected", "got", "verdict")
_SECTIONS = {
    "deviates": ("Deviations", "Clauses from which the device deviates"),
    "not testable": ("Not testable", "Clauses that could not be tested"),
    "information": ("Information", "Clauses of level MAY that the device does not follow"),
}


class AuditFrame(RecordModel):
    """A frame that the tester or the device sent; ``number`` is its number in the capture, from 1."""

    side: str
    sent: bool  # by the tester rather than by the device
    octets: str  # hexadecimal, without FCS
    number: int


class AuditFinding(RecordModel):
    """A clause with its verdict, and descriptions of what was sent, expected and received."""

    clause: str  # name, for example rfc7915-4.1-ttl-1
    rfc: str  # for example RFC 7915
    section: str
    level: Level
    title: str
    variant: str  # further configuration of the device; empty: the audit's own
    verdict: Verdict
    sent: str
    expected: str
    got: str
    tries: int
    frames: Sequence[AuditFrame]  # of the last try, in order

    @property
    def fails(self) -> bool:
        return self.verdict == "deviates"

    @property
    def full_title(self) -> str:
        variant = f" ({self.variant})" if self.variant else ""
        return f"{self.clause}: {self.title}{variant}"


class AuditRecord(RecordModel):
    """The audit of one device."""

    schema_: Literal["v6t-audit/2"] = Field(alias="schema")
    version: str  # version of v6t
    source_commit: str | None
    made: str  # UTC, ISO 8601
    plugin: str
    params: Mapping[str, Any]  # all parameters of the technology
    driver: str
    device: str  # name and version
    suites: Sequence[str]
    seconds: float
    planned: int  # clauses of the audit; more than the findings if the audit was stopped
    stopped: str  # why the audit was stopped; empty: it was not
    findings: Sequence[AuditFinding]

    def counts(self, rfc: str = "", level: str = "") -> Counter[str]:
        findings = (f for f in self.findings if rfc in ("", f.rfc) and level in ("", f.level))
        return Counter(f.verdict for f in findings)

    def select(self, verdict: str) -> list[AuditFinding]:
        return [f for f in self.findings if f.verdict == verdict]

    @property
    def fails(self) -> bool:
        return any(f.fails for f in self.findings)

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)


def read_audit(values: Any, place: str) -> AuditRecord:
    """Parse a stored audit record; raise UsageError if it is not an audit of this version."""
    try:
        return AuditRecord.model_validate(values)
    except ValidationError as exc:
        where = ".".join(map(str, exc.errors()[0]["loc"]))
        problem = f"{place} is not an audit of this version: {where}: {exc.errors()[0]['msg']}"
        raise UsageError(problem, "repeat it with `v6t audit`", code="invalid-audit") from exc


def make_audit_document(audit: AuditRecord) -> ReportDocument:
    """Return the report of an audit."""
    facts = {
        "Technology": audit.plugin,
        "Device": f"{audit.device} (driver {audit.driver})",
        "Suites": ", ".join(audit.suites),
        "Made": f"{audit.made}, {audit.seconds:.0f} s",
        "v6t": f"{audit.version}, commit {audit.source_commit or 'unknown'}",
    }
    summary: list[Block] = [
        Paragraph(summarize_audit(audit), "bad" if audit.fails else "good"),
        FactTable(list(facts.items())),
        count_clauses(audit),
    ]
    sections = [ReportSection("Summary", "summary", summary)]
    for verdict, (title, words) in _SECTIONS.items():
        if findings := audit.select(verdict):
            blocks = [_make_table(words, findings), *map(_make_frame_listing, findings)]
            sections.append(ReportSection(title, title.lower().replace(" ", "-"), blocks))
    blocks = [_make_table("All clauses tested", audit.findings)]
    sections.append(ReportSection("All clauses", "clauses", blocks))
    title = f"Audit: {audit.plugin} by {audit.device}"
    return ReportDocument(title, f"v6t {audit.version}, {audit.made}", sections)


def count_clauses(audit: AuditRecord) -> Table:
    """Return a table of the verdicts for each RFC and level."""
    rfcs = dict.fromkeys(f.rfc for f in audit.findings)
    counts = {place: audit.counts(*place) for place in product(rfcs, LEVELS)}
    rows = [[*place, *(str(some[v]) for v in VERDICTS)] for place, some in counts.items() if some]
    columns = (*make_text_columns("RFC", "level"), *VERDICTS)
    return make_text_table("Clauses by RFC and level", columns, rows)


def summarize_audit(audit: AuditRecord) -> str:
    """Summarize the audit in one sentence."""
    failed, counts = audit.select("deviates"), audit.counts()
    count = len(audit.findings) - counts["not testable"]
    tested = f"{count} of {pluralize(audit.planned, 'clause')} tested"
    further = [f"{counts[v]} {v}" for v in ("not testable", "information") if counts[v]]
    parts = [f"{n} {level}" for level in LEVELS if (n := sum(f.level == level for f in failed))]
    deviations = f"deviates from {' and '.join(parts)} clause{'s' * (len(failed) != 1)}"
    tested = ", ".join([tested, *further])
    if audit.stopped:
        result = f"the device {deviations}" if failed else "none deviates"
        return f"Stopped: {tested}; {result}. Reason: {audit.stopped}."
    return f"The device {deviations if failed else 'deviates from no MUST or SHOULD'}. {tested}."


def _make_table(title: str, findings: Sequence[AuditFinding]) -> Block:
    rows = [
        [f.full_title, f"{f.rfc} {f.section}", f.level, f.sent, f.expected, f.got, f.verdict]
        for f in findings
    ]
    return replace(make_text_table(title, _HEADS, rows), cards=True)


def _make_frame_listing(finding: AuditFinding) -> Block:
    numbers = [frame.number for frame in finding.frames]
    where = f"frames {numbers[0]} to {numbers[-1]} of frames.pcap" if numbers else "no frames"
    tries = f"tried {finding.tries} times" if finding.tries > 1 else "tried once"
    items = [f"expected: {finding.expected}", f"got: {finding.got}", f"{tries}; {where}"]
    blocks = [BulletList(items), CodeListing("\n\n".join(map(_dump, finding.frames)))]
    return Collapsible(f"{finding.clause}: {finding.title}", blocks)


def _dump(frame: AuditFrame) -> str:
    octets = bytes.fromhex(frame.octets)
    action = "sent" if frame.sent else "received"
    lines = [f"{frame.number}: {action} on the {frame.side} link, {len(octets)} octets"]
    for at in range(0, len(octets), 16):
        row = octets[at : at + 16]
        text = "".join(chr(c) if 32 <= c < 127 else "." for c in row)
        lines.append(f"{at:04x}  {row.hex(' '):<47}  {text}")
    return "\n".join(lines)


def to_junit(audit: AuditRecord) -> str:
    """Return a test case for each clause: deviations fail, clauses that are not testable are skipped."""
    cases = []
    for f in audit.findings:
        message = f"expected {f.expected}; got {f.got}"
        results = {
            "conforms": ("", "", ""),
            "deviates": ("failure", message, "\n\n".join(map(_dump, f.frames))),
            "not testable": ("skipped", message, ""),
            "information": ("system-out", "", f.got),
        }
        cases.append((f"{audit.plugin}.{f.rfc}", f.full_title, *results[f.verdict]))
    return write_suite(f"audit of {audit.plugin} by {audit.device}", audit.made, cases)


@dataclass
class AuditComparison:
    """Differences of several audits: clauses with the finding of each audit or None, and parameters."""

    audits: Sequence[AuditRecord]

    def __post_init__(self) -> None:
        by_audit = [{(f.clause, f.variant): f for f in audit.findings} for audit in self.audits]
        keys = dict.fromkeys(chain(*by_audit))
        clauses = [[findings.get(key) for findings in by_audit] for key in keys]
        self.differences = [each for each in clauses if len({f.verdict for f in each if f}) > 1]
        single = [each for each in clauses if each.count(None) == len(self.audits) - 1]
        self.tested_once = [sum(bool(each[n]) for each in single) for n in range(len(self.audits))]
        names = dict.fromkeys(chain(*(audit.params for audit in self.audits)))
        values = {name: [audit.params.get(name) for audit in self.audits] for name in names}
        self.params = {n: each for n, each in values.items() if any(v != each[0] for v in each)}

    def to_json(self) -> dict[str, Any]:
        columns, shown = {"plugin", "device", "made"}, {"clause", "level", "variant"}
        return {
            "schema": "v6t-audit-comparison/2",
            "audits": [{**a.model_dump(include=columns), **a.counts()} for a in self.audits],
            "differences": [
                {
                    **next(filter(None, each)).model_dump(include=shown),
                    "verdicts": [f.verdict if f else ABSENT for f in each],
                    "got": [f.got if f else "" for f in each],
                }
                for each in self.differences
            ],
            "tested_once": self.tested_once,
            "parameters": self.params,
        }

    def document(self) -> ReportDocument:
        audits = {f"{n}: {a.device}, {a.plugin}": a for n, a in enumerate(self.audits, 1)}
        heads = "; ".join(audits)
        rows = [
            [head, audit.made, *(str(audit.counts()[v]) for v in VERDICTS)]
            for head, audit in audits.items()
        ]
        blocks: list[Block] = [
            *self._summarize(),
            FactTable([("Audits", heads)]),
            make_text_table("Verdicts", (*make_text_columns("audit", "made"), *VERDICTS), rows),
        ]
        rows = []
        for each in self.differences:
            clause = next(filter(None, each))
            words = [f"{f.verdict}: {f.got}" if f else ABSENT for f in each]
            rows.append([clause.full_title, clause.level, *words])
        if rows:
            names = make_text_columns("clause", "level", *map(str, range(1, len(audits) + 1)))
            table = make_text_table("Clauses with different verdicts", names, rows)
            blocks.append(replace(table, cards=True))
        sections = [ReportSection("Audits", "audits", blocks)]
        return ReportDocument("Comparison of audits", heads, sections)

    def _summarize(self) -> Iterator[Block]:
        if self.params:
            words = "; ".join(
                f"{name} {', '.join('none' if v is None else json.dumps(v) for v in values)}"
                for name, values in self.params.items()
            )
            yield Paragraph(f"The audits have different parameters: {words}.", "warning")
        count, alone = len(self.differences), self.tested_once
        if count:
            clauses = "clauses have" if count > 1 else "clause has"
            yield Paragraph(f"{count} {clauses} different verdicts.")
        elif not any(alone):
            yield Paragraph("All verdicts are equal.", "good")
        elif sum(alone) == sum(len(audit.findings) for audit in self.audits):
            yield Paragraph("No clause was tested in two of the audits.", "warning")
        else:
            yield Paragraph("All verdicts of clauses that several audits tested are equal.", "good")
        if any(alone):
            parts = [f"{n} in {number}" for number, n in enumerate(alone, 1) if n]
            yield Paragraph(f"Tested in one audit only: {', '.join(parts)}.")
