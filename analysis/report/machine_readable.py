"""A report for programs: ``schema/report-1.json`` says what is in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from v6t.analysis.presentation import Presentations
from v6t.analysis.published.library import facts_of, references
from v6t.analysis.report.compliance import clauses
from v6t.analysis.rundata import RunData
from v6t.analysis.warnings import list_run_warnings, list_warnings

SCHEMA = "v6t-report/1"


@cache
def schema(name: str) -> Mapping[str, Any]:
    """Read a published JSON schema (draft 2020-12)."""
    text = files("v6t.analysis").joinpath(f"schema/{name}.json").read_text(encoding="utf-8")
    document: Mapping[str, Any] = json.loads(text)
    return document


def to_json(data: RunData, presentations: Presentations, paper: str | None = None) -> str:
    """Write the file: results as they are, and what the report says about them."""
    facts = facts_of(data.config, data.params, simulated=data.simulated)
    content = {
        "schema": SCHEMA,
        "run": data.name,
        "heading": data.heading,
        "status": data.status,
        "config": data.config,
        "manifest": data.manifest,
        "params": data.params,
        "results": data.results,
        "remarks": [str(w) for w in list_warnings(data.records, presentations)],
        "warnings": [asdict(w) for w in list_run_warnings(data, presentations)],
        "validity": {
            "trials": sum(len(r.trials) for r in data.records),
            "invalid_trials": sum(len(r.invalid_trials) for r in data.records),
            "checked": sum(c.checked for t in data.trials for c in t.result.directions.values()),
            "matched": sum(c.matched for t in data.trials for c in t.result.directions.values()),
            "behaviour": data.behaviour,
        },
        "compliance": [asdict(clause) for clause in clauses(data, presentations)],
        "published": [
            {
                "source": ref.source,
                "metric": ref.entry["metric"],
                "frame_sizes": record.frame_sizes.to_json(),
                "direction": ref.direction,
                "unit": ref.unit,
                "published": ref.published,
                "measured": ref.measured,
                "same_conditions": ref.alike,
                "differing": [asdict(c) for c in ref.differing],
            }
            for record in data.records
            for ref in references(record, facts, presentations, paper=paper)
        ],
        "points": [
            {"benchmark": r.benchmark, "octets": r.sizes, "direction": r.direction}
            for r in data.records
        ],
    }
    return json.dumps(content, indent=1, sort_keys=True) + "\n"
