"""Audits set beside one another: where their verdicts differ, clause by clause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from v6t.analysis.blocks import Block, Document, Facts, Section, Text
from v6t.analysis.records.audit import VERDICTS, Audit, Finding
from v6t.analysis.sheet import sheet

ABSENT = "not asked"


@dataclass(frozen=True)
class Difference:
    """A clause that is not judged alike everywhere.

    Attributes:
        clause: from the first audit that asked it.
        verdicts, got: of each audit; :data:`ABSENT` and nothing where it was not asked.
    """

    clause: Finding
    verdicts: tuple[str, ...]
    got: tuple[str, ...]


def differences(audits: Sequence[Audit]) -> list[Difference]:
    """In the order in which the clauses were first asked."""
    asked: dict[tuple[str, str], Finding] = {}
    by_audit: list[Mapping[tuple[str, str], Finding]] = []
    for audit in audits:
        mine = {(f.clause, f.variant): f for f in audit.findings}
        by_audit.append(mine)
        for key, finding in mine.items():
            asked.setdefault(key, finding)
    found = []
    for key, finding in asked.items():
        each = [mine.get(key) for mine in by_audit]
        verdicts = tuple(ABSENT if f is None else f.verdict for f in each)
        if len(set(verdicts)) > 1:
            found.append(
                Difference(finding, verdicts, tuple("" if f is None else f.got for f in each))
            )
    return found


def to_json(audits: Sequence[Audit]) -> dict[str, Any]:
    """For programs."""
    return {
        "schema": "v6t-audit-comparison/1",
        "audits": [
            {"plugin": a.plugin, "device": a.device, "made": a.made, **dict(a.counts())}
            for a in audits
        ],
        "differences": [
            {
                "clause": d.clause.clause,
                "level": d.clause.level,
                "variant": d.clause.variant,
                "verdicts": list(d.verdicts),
                "got": list(d.got),
            }
            for d in differences(audits)
        ],
    }


def document(audits: Sequence[Audit]) -> Document:
    """For readers."""
    heads = [f"{number}: {a.device}, {a.plugin}" for number, a in enumerate(audits, 1)]
    rows = [
        [head, audit.made, *(str(audit.counts()[v]) for v in VERDICTS)]
        for head, audit in zip(heads, audits, strict=True)
    ]
    found = differences(audits)
    blocks: list[Block] = [
        Facts([("Audits", "; ".join(heads))]),
        sheet("Verdicts", ("<audit", "<made", *VERDICTS), rows),
    ]
    if found:
        names = ("<clause", "<level", *(f"<{n}" for n in range(1, len(audits) + 1)))
        table = [
            [
                f"{d.clause.clause}: {d.clause.title}",
                d.clause.level,
                *(
                    v if v == ABSENT else f"{v}: {g}"
                    for v, g in zip(d.verdicts, d.got, strict=True)
                ),
            ]
            for d in found
        ]
        blocks.append(sheet("Clauses that are not judged alike", names, table))
    else:
        blocks.append(Text("Every clause is judged alike.", "good"))
    return Document("Comparison of audits", "; ".join(heads), [Section("Audits", "audits", blocks)])
