"""Audits set beside one another: where their verdicts differ, clause by clause."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from v6t.analysis.blocks import Block, Document, Facts, Section, Text
from v6t.analysis.records.audit import VERDICTS, Audit, Finding
from v6t.analysis.sheet import sheet

ABSENT = "not asked"


@dataclass(frozen=True)
class Difference:
    """A clause that two audits asked, or more, and that is not judged alike.

    Attributes:
        clause: from the first audit that asked it.
        verdicts, got: of each audit; :data:`ABSENT` and nothing where it was not asked.
    """

    clause: Finding
    verdicts: tuple[str, ...]
    got: tuple[str, ...]


def differences(audits: Sequence[Audit]) -> list[Difference]:
    """In the order in which the clauses were first asked."""
    disagreements = []
    for each in _by_clause(audits):
        heard = [f for f in each if f is not None]
        if len({f.verdict for f in heard}) > 1:
            verdicts = tuple(ABSENT if f is None else f.verdict for f in each)
            got = tuple("" if f is None else f.got for f in each)
            disagreements.append(Difference(heard[0], verdicts, got))
    return disagreements


def asked_once(audits: Sequence[Audit]) -> list[int]:
    """How many clauses each audit alone asked: there is nothing to set them beside."""
    alone = [each for each in _by_clause(audits) if each.count(None) == len(audits) - 1]
    return [sum(each[place] is not None for each in alone) for place in range(len(audits))]


def configured_apart(audits: Sequence[Audit]) -> dict[str, list[Any]]:
    """Parameters that the audits do not share, with the value of each; absent: None."""
    names = dict.fromkeys(name for audit in audits for name in audit.params)
    parameters = {name: [audit.params.get(name) for audit in audits] for name in names}
    return {
        name: values for name, values in parameters.items() if any(v != values[0] for v in values)
    }


def _by_clause(audits: Sequence[Audit]) -> Iterator[list[Finding | None]]:
    """Each clause as each audit found it."""
    by_audit: list[Mapping[tuple[str, str], Finding]] = [
        {(f.clause, f.variant): f for f in audit.findings} for audit in audits
    ]
    for key in dict.fromkeys(key for mine in by_audit for key in mine):
        yield [mine.get(key) for mine in by_audit]


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
        "asked_once": asked_once(audits),
        "parameters": configured_apart(audits),
    }


def document(audits: Sequence[Audit]) -> Document:
    """For readers."""
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
        clause_sheet = sheet("Clauses that are not judged alike", names, table)
        blocks.append(replace(clause_sheet, cards=True))
    return Document("Comparison of audits", "; ".join(heads), [Section("Audits", "audits", blocks)])


def _lead(audits: Sequence[Audit], different: int) -> Iterator[Block]:
    """Summarize the comparison of the audits."""
    apart = configured_apart(audits)
    if apart:
        parameters = "; ".join(
            f"{name} {', '.join('none' if v is None else json.dumps(v) for v in values)}"
            for name, values in apart.items()
        )
        yield Text(f"The devices were not asked with the same parameters: {parameters}.", "warning")
    alone = asked_once(audits)
    if different:
        yield Text(f"{different} clause{'s are' if different > 1 else ' is'} judged differently.")
    elif not any(alone):
        yield Text("Every clause is judged alike.", "good")
    elif sum(alone) == sum(len(audit.findings) for audit in audits):
        yield Text("No clause was asked in two of the audits.", "warning")
    else:
        yield Text("Every clause that more than one audit asked is judged alike.", "good")
    if any(alone):
        parts = [f"{n} in {number}" for number, n in enumerate(alone, 1) if n]
        yield Text(f"Asked in one audit only, so not compared: {', '.join(parts)}.")
