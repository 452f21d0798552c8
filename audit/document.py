"""Render an audit as a report document and as JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from xml.sax.saxutils import escape, quoteattr

from v6t.analysis.blocks import Block, Collapsible, Document, Facts, Items, Listing, Section, Text
from v6t.analysis.sheet import number_of, sheet
from v6t.audit.clause import DEVIATES, INFORMATION, NOT_TESTABLE
from v6t.audit.record import LEVELS, VERDICTS, AuditFrame, AuditRecord, Finding

_HEADS = ("<clause", "<section", "<level", "<sent", "<expected", "<got", "<verdict")


def audit_document(audit: AuditRecord, *, every: bool = True) -> Document:
    """Return the report of an audit; ``every``: with the clauses to which the device conforms."""
    sections = [Section("Summary", "summary", list(_summary(audit)))]
    for title, anchor, verdict, words in (
        ("Deviations", "deviations", DEVIATES, "Clauses from which the device deviates"),
        ("Not testable", "not-testable", NOT_TESTABLE, "Clauses that could not be tested"),
        (
            "Information",
            "information",
            INFORMATION,
            "Clauses of level MAY that the device does not follow",
        ),
    ):
        findings = audit.select(verdict)
        if findings:
            sections.append(
                Section(title, anchor, [_table(words, findings), *map(_frames, findings)])
            )
    if every:
        table = _table("All clauses tested", audit.findings)
        sections.append(Section("All clauses", "clauses", [table]))
    return Document(
        f"Audit: {audit.plugin} by {audit.device}", f"v6t {audit.version}, {audit.made}", sections
    )


def summary_sentence(audit: AuditRecord) -> str:
    """Return the result in one sentence."""
    failed, counts = [f for f in audit.findings if f.fails], audit.counts()
    if failed:
        parts = [f"{n} {level}" for level in LEVELS if (n := sum(f.level == level for f in failed))]
        noun = "clause" if len(failed) == 1 else "clauses"
        sentence = f"The device deviates from {' and '.join(parts)} {noun}."
    else:
        sentence = "The device deviates from no MUST or SHOULD."
    tested = f"{len(audit.findings)} of {number_of(audit.planned, 'clause')} tested"
    parts = [tested, *(f"{counts[v]} {v}" for v in (NOT_TESTABLE, INFORMATION) if counts[v])]
    stopped = f" The audit was stopped: {audit.stopped}." if audit.stopped else ""
    return f"{sentence} {', '.join(parts)}.{stopped}"


def _summary(audit: AuditRecord) -> Iterator[Block]:
    yield Text(summary_sentence(audit), "bad" if audit.fails else "good")
    yield Facts(
        [
            ("Technology", audit.plugin),
            ("Device", f"{audit.device} (driver {audit.driver})"),
            ("Suites", ", ".join(audit.suites)),
            ("Made", f"{audit.made}, {audit.seconds:.0f} s"),
            ("v6t", f"{audit.version}, commit {audit.source_commit or 'unknown'}"),
        ]
    )
    rows = []
    for rfc in dict.fromkeys(f.rfc for f in audit.findings):
        for level in LEVELS:
            counts = audit.counts(rfc, level)
            if counts:
                rows.append([rfc, level, *(str(counts[v]) for v in VERDICTS)])
    yield sheet("Clauses by RFC and level", ("<RFC", "<level", *VERDICTS), rows)


def _table(title: str, findings: Sequence[Finding]) -> Block:
    rows = [
        [_format_name(f), f"{f.rfc} {f.section}", f.level, f.sent, f.expected, f.got, f.verdict]
        for f in findings
    ]
    return replace(sheet(title, _HEADS, rows), cards=True)


def _format_name(finding: Finding) -> str:
    return f"{finding.clause}: {finding.title}" + (
        f" ({finding.variant})" if finding.variant else ""
    )


def _frames(finding: Finding) -> Block:
    numbers = [frame.number for frame in finding.frames]
    where = f"frames {numbers[0]} to {numbers[-1]} of frames.pcap" if numbers else "no frames"
    tries = f"tried {finding.tries} times" if finding.tries > 1 else "tried once"
    return Collapsible(
        f"{finding.clause}: {finding.title}",
        [
            Items([f"expected: {finding.expected}", f"got: {finding.got}", f"{tries}; {where}"]),
            Listing("\n\n".join(map(_dump, finding.frames))),
        ],
    )


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
    failures = sum(f.fails for f in audit.findings)
    skipped = len(audit.select(NOT_TESTABLE))
    counts = f'tests="{len(audit.findings)}" failures="{failures}" errors="0" skipped="{skipped}"'
    cases = "\n".join(f"  {_case(audit, f)}" for f in audit.findings)
    name = quoteattr(_printable(f"audit of {audit.plugin} by {audit.device}"))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<testsuites {counts}>\n <testsuite name={name} {counts} "
        f"timestamp={quoteattr(audit.made)}>\n{cases}\n </testsuite>\n</testsuites>\n"
    )


def _case(audit: AuditRecord, finding: Finding) -> str:
    name = quoteattr(_printable(_format_name(finding)))
    head = f"<testcase classname={quoteattr(f'{audit.plugin}.{finding.rfc}')} name={name}"
    message = quoteattr(_printable(f"expected {finding.expected}; got {finding.got}"))
    if finding.fails:
        return f"{head}><failure message={message}>{escape(_text(finding))}</failure></testcase>"
    if finding.verdict == NOT_TESTABLE:
        return f"{head}><skipped message={message}/></testcase>"
    if finding.verdict == INFORMATION:
        return f"{head}><system-out>{escape(_printable(finding.got))}</system-out></testcase>"
    return f"{head}/>"


def _text(finding: Finding) -> str:
    return _printable("\n\n".join(map(_dump, finding.frames)))


def _printable(text: str) -> str:
    """Replace control characters, which XML cannot represent."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
