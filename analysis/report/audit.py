"""An audit as a document, and as JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from xml.sax.saxutils import escape, quoteattr

from v6t.analysis.blocks import Block, Collapsible, Document, Facts, Items, Listing, Section, Text
from v6t.analysis.records.audit import (
    DEVIATES,
    LEVELS,
    UNTOLD,
    VERDICTS,
    Audit,
    Finding,
    FrameSeen,
)
from v6t.analysis.sheet import number_of, sheet

_HEADS = ("<clause", "<section", "<level", "<sent", "<expected", "<got", "<verdict")


def document(audit: Audit, *, every: bool = True) -> Document:
    """All of it; ``every``: the clauses that are followed, too."""
    sections = [Section("Summary", "summary", list(_summary(audit)))]
    for title, anchor, verdict, words in (
        ("Deviations", "deviations", DEVIATES, "Clauses that are deviated from"),
        ("Cannot be told", "untold", UNTOLD, "Clauses of which it cannot be told"),
    ):
        findings = audit.of(verdict)
        if findings:
            sections.append(
                Section(title, anchor, [_table(words, findings), *map(_frames, findings)])
            )
    if every:
        table = _table("Every clause that was asked", audit.findings)
        sections.append(Section("All clauses", "clauses", [table]))
    return Document(
        f"Audit: {audit.plugin} by {audit.device}", f"v6t {audit.version}, {audit.made}", sections
    )


def verdict(audit: Audit) -> str:
    """In a sentence."""
    failed, counts = [f for f in audit.findings if f.fails], audit.counts()
    tried = sum(f.tries > 0 for f in audit.findings)
    if failed:
        parts = [f"{n} {level}" for level in LEVELS if (n := sum(f.level == level for f in failed))]
        noun = "clause" if len(failed) == 1 else "clauses"
        sentence = f"The device deviates from {' and '.join(parts)} {noun} of {tried} asked."
    else:
        sentence = f"{number_of(tried, 'clause')} asked: no MUST or SHOULD is deviated from."
    untold = counts[UNTOLD]
    return f"{sentence} Of {number_of(untold, 'clause')} it cannot be told." if untold else sentence


def _summary(audit: Audit) -> Iterator[Block]:
    yield Text(verdict(audit), "bad" if audit.fails else "good")
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
        [_named(f), f"{f.rfc} {f.section}", f.level, f.sent, f.expected, f.got, f.verdict]
        for f in findings
    ]
    return replace(sheet(title, _HEADS, rows), cards=True)


def _named(finding: Finding) -> str:
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


def _dump(frame: FrameSeen) -> str:
    octets = bytes.fromhex(frame.octets)
    who = "sent" if frame.sent else "received"
    lines = [f"{frame.number}: {who} on the {frame.side} link, {len(octets)} octets"]
    for at in range(0, len(octets), 16):
        row = octets[at : at + 16]
        text = "".join(chr(c) if 32 <= c < 127 else "." for c in row)
        lines.append(f"{at:04x}  {row.hex(' '):<47}  {text}")
    return "\n".join(lines)


def to_junit(audit: Audit) -> str:
    """A test case for each clause: a deviation from MUST or SHOULD fails, what cannot be told is skipped."""
    failures = sum(f.fails for f in audit.findings)
    skipped = len(audit.of(UNTOLD))
    counts = f'tests="{len(audit.findings)}" failures="{failures}" errors="0" skipped="{skipped}"'
    cases = "\n".join(f"  {_case(audit, f)}" for f in audit.findings)
    name = quoteattr(_printable(f"audit of {audit.plugin} by {audit.device}"))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<testsuites {counts}>\n <testsuite name={name} {counts} "
        f"timestamp={quoteattr(audit.made)}>\n{cases}\n </testsuite>\n</testsuites>\n"
    )


def _case(audit: Audit, finding: Finding) -> str:
    name = quoteattr(_printable(_named(finding)))
    head = f"<testcase classname={quoteattr(f'{audit.plugin}.{finding.rfc}')} name={name}"
    message = quoteattr(_printable(f"expected {finding.expected}; got {finding.got}"))
    if finding.fails:
        return f"{head}><failure message={message}>{escape(_text(finding))}</failure></testcase>"
    if finding.verdict == UNTOLD:
        return f"{head}><skipped message={message}/></testcase>"
    if finding.verdict == DEVIATES:
        return f"{head}><system-out>{escape(_printable(finding.got))}</system-out></testcase>"
    return f"{head}/>"


def _text(finding: Finding) -> str:
    return _printable("\n\n".join(map(_dump, finding.frames)))


def _printable(text: str) -> str:
    """Control characters cannot stand in XML, not even escaped."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
