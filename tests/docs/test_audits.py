"""The pages about audits have the recorded tables and the number of planted faults."""

import re

from v6t.tests.audit import faults, nat_faults
from v6t.tools import audits


def test_page_names_each_deviation_once() -> None:
    sets = {tuple(audits.list_deviations(audit)) for audit in audits.load_audits().values()}
    named = sum(line.count(", ") + line.count("; ") + 1 for lines in sets for line in lines)
    verdicts = {
        tuple(sorted(c for c, verdict in audit["clauses"].items() if verdict == "deviates"))
        for audit in audits.load_audits().values()
    }
    assert named == sum(map(len, verdicts)) >= 300


def test_audits_page_is_short() -> None:
    assert len(audits.PAGE.read_text().split()) <= 2500


def test_rows_are_recorded() -> None:
    assert {row.name for row in audits.ROWS} == set(audits.load_audits())


def test_page_states_number_of_planted_faults() -> None:
    tables = faults.TRANSLATION, faults.RELAY, faults.TUNNEL, faults.MAPT, faults.RULES
    planted = sum(map(len, (*tables, nat_faults.FAULTS)))
    tutorial = audits.PAGE.parent / "tutorials" / "audit.md"
    match = re.search(r"finds all (\d+) faults", tutorial.read_text())
    assert match is not None
    assert int(match[1]) == planted >= 60
