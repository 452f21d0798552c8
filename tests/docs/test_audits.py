"""docs/audit.md has the tables of what was recorded, and the number of planted faults there are."""

from __future__ import annotations

import re

from v6t.tests.drivers import audits
from v6t.tests.plugins.clauses import nat_device, relay_faults, translation_faults


def test_the_page_has_the_recorded_tables() -> None:
    assert audits.generated() in audits.PAGE.read_text()


def test_every_row_was_recorded() -> None:
    assert {row.name for row in audits.ROWS} == set(audits.recorded())


def test_clauses_that_are_asked_anew_leave_the_others_as_they_were(monkeypatch, tmp_path) -> None:
    row = audits.ROWS[0]
    monkeypatch.setattr(audits, "RECORD", tmp_path / "record.json")

    def found(**verdicts: str) -> dict[str, object]:
        place = {"rfc": "RFC 1", "section": "2", "level": "MUST", "title": "t", "got": "g"}
        rows = [{"clause": c, "verdict": v, **place} for c, v in verdicts.items()]
        return {"device": "d", "made": "2026-11-22T00:00:00", "findings": rows}

    audits.note(row, found(one="deviates", two="deviates"))
    audits.note(row, found(one="conforms", three="conforms"), whole=False)
    kept = audits.recorded()[row.name]
    assert kept["clauses"] == {"one": "conforms", "two": "deviates", "three": "conforms"}
    assert (set(kept["about"]), kept["got"]) == ({"one", "two", "three"}, {"two": "g"})


def test_the_page_counts_the_planted_faults() -> None:
    planted = [
        *translation_faults.faults(),
        *relay_faults.relay(),
        *relay_faults.tunnel(),
        *relay_faults.mapt(),
        *relay_faults.RULES,
        *nat_device.FAULTS,
    ]
    found = re.search(r"(\d+) faults, all found", audits.PAGE.read_text())
    assert found is not None
    assert int(found[1]) == len(planted) >= 60
