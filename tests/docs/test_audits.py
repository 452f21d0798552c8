"""docs/audit.md has the tables of what was recorded, and the number of planted faults there are."""

from __future__ import annotations

import re

import pytest
from v6t.tests.drivers import audits
from v6t.tests.plugins.clauses import nat_device, relay_faults, translation_faults


def test_the_page_has_the_recorded_tables() -> None:
    assert audits.generated() in audits.PAGE.read_text()


def test_every_row_was_recorded() -> None:
    assert {row.name for row in audits.ROWS} == set(audits.recorded())


def test_clauses_that_are_asked_anew_leave_the_others_as_they_were(monkeypatch, tmp_path) -> None:
    row = audits.ROWS[0]
    monkeypatch.setattr(audits, "RECORD", tmp_path / "record.json")

    def found(day: str = "22", device: str = "d", **verdicts: str) -> dict[str, object]:
        place = {"rfc": "RFC 1", "section": "2", "level": "MUST", "title": "t", "got": "g"}
        rows = [{"clause": c, "verdict": v, **place} for c, v in verdicts.items()]
        return {"device": device, "made": f"2026-11-{day}T00:00:00", "findings": rows}

    with pytest.raises(SystemExit, match="not recorded yet"):
        audits.note(row, found(one="conforms"), whole=False)
    audits.note(row, found(one="deviates", two="deviates"))
    with pytest.raises(SystemExit, match="are of d, these of e"):
        audits.note(row, found(device="e", one="conforms"), whole=False)
    audits.note(row, found(day="23", three="deviates"), whole=False)
    audits.note(row, found(day="24", one="conforms", three="conforms"), whole=False)
    assert "| 2026-11-22; asked later: 2 on 2026-11-24 |" in audits.generated()
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
