"""Compare audits: the clauses on which their verdicts differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from v6t.analysis.blocks import Block, Document, Facts, Section, Text
from v6t.analysis.sheet import sheet
from v6t.audit.record import VERDICTS, AuditRecord, Finding

ABSENT = "not tested"


@dataclass(frozen=True)
class VerdictDifference:
    """A clause that at least two audits tested with different verdicts.

    Attributes:
        clause: of the first audit that tested it.
        verdicts, got: of each audit; :data:`ABSENT` and empty if it did not test the clause.
    """

    clause: Finding
    verdicts: tuple[str, ...]
    got: tuple[str, ...]


def differences(audits: Sequence[AuditRecord]) -> list[VerdictDifference]:
    """Return the differences, in the order of the clauses."""
    disagreements = []
    for each in _by_clause(audits):
        heard = [f for f in each if f is not None]
        if len({f.verdict for f in heard}) > 1:
            verdicts = tuple(ABSENT if f is None else f.verdict for f in each)
            got = tuple("" if f is None else f.got for f in each)
            disagreements.append(VerdictDifference(heard[0], verdicts, got))
    return disagreements


def count_tested_once(audits: Sequence[AuditRecord]) -> list[int]:
    """Count the clauses that only one audit tested, for each audit."""
    alone = [each for each in _by_clause(audits) if each.count(None) == len(audits) - 1]
    return [sum(each[place] is not None for each in alone) for place in range(len(audits))]


def different_params(audits: Sequence[AuditRecord]) -> dict[str, list[Any]]:
    """Return the parameters that differ, with the value of each audit; None if it has none."""
    names = dict.fromkeys(name for audit in audits for name in audit.params)
    parameters = {name: [audit.params.get(name) for audit in audits] for name in names}
    return {
        name: values for name, values in parameters.items() if any(v != values[0] for v in values)
    }


def _by_clause(audits: Sequence[AuditRecord]) -> Iterator[list[Finding | None]]:
    """Return each clause as each audit tested it."""
    by_audit: list[Mapping[tuple[str, str], Finding]] = [
        {(f.clause, f.variant): f for f in audit.findings} for audit in audits
    ]
    for key in dict.fromkeys(key for mine in by_audit for key in mine):
        yield [mine.get(key) for mine in by_audit]


def to_json(audits: Sequence[AuditRecord]) -> dict[str, Any]:
    """Return the comparison for programs."""
    return {
        "schema": "v6t-audit-comparison/2",
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
        "tested_once": count_tested_once(audits),
        "parameters": different_params(audits),
    }


def comparison_document(audits: Sequence[AuditRecord]) -> Document:
    """Return the comparison as a report."""
    heads = [f"{number}: {a.device}, {a.plugin}" for number, a in enumerate(audits, 1)]
    rows = [
        [head, audit.made, *(str(audit.counts()[v]) for v in VERDICTS)]
        for head, audit in zip(heads, audits, strict=True)
    ]
    disagreements = differences(audits)
    blocks: list[Block] = [
        *_lead(audits, len(disagreements)),
        Facts([("Audits", "; ".join(heads))]),
        sheet("Verdicts", ("<audit", "<made", *VERDICTS), rows),
    ]
    if disagreements:
        names = ("<clause", "<level", *(f"<{n}" for n in range(1, len(audits) + 1)))
        table = [
            [
                f"{d.clause.clause}: {d.clause.title}"
                + (f" ({d.clause.variant})" if d.clause.variant else ""),
                d.clause.level,
                *(
                    v if v == ABSENT else f"{v}: {g}"
                    for v, g in zip(d.verdicts, d.got, strict=True)
                ),
            ]
            for d in disagreements
        ]
        clause_sheet = sheet("Clauses with different verdicts", names, table)
        blocks.append(replace(clause_sheet, cards=True))
    return Document("Comparison of audits", "; ".join(heads), [Section("Audits", "audits", blocks)])


def _lead(audits: Sequence[AuditRecord], different: int) -> Iterator[Block]:
    """Summarize the comparison of the audits."""
    different_values = different_params(audits)
    if different_values:
        parameters = "; ".join(
            f"{name} {', '.join('none' if v is None else json.dumps(v) for v in values)}"
            for name, values in different_values.items()
        )
        yield Text(f"The audits have different parameters: {parameters}.", "warning")
    alone = count_tested_once(audits)
    if different:
        yield Text(f"{different} clause{'s have' if different > 1 else ' has'} different verdicts.")
    elif not any(alone):
        yield Text("All verdicts are equal.", "good")
    elif sum(alone) == sum(len(audit.findings) for audit in audits):
        yield Text("No clause was tested in two of the audits.", "warning")
    else:
        yield Text("All verdicts of clauses that more than one audit tested are equal.", "good")
    if any(alone):
        parts = [f"{n} in {number}" for number, n in enumerate(alone, 1) if n]
        yield Text(f"Tested in one audit only: {', '.join(parts)}.")
