"""The pages about audits have the recorded tables and the number of planted faults."""

from __future__ import annotations

import re

from v6t.tests.audit import faults, nat_faults
from v6t.tests.drivers import audits


def test_the_page_has_the_recorded_tables() -> None:
    assert audits.generated() in audits.PAGE.read_text()


def test_every_row_was_recorded() -> None:
    assert {row.name for row in audits.ROWS} == set(audits.recorded())


def test_the_page_counts_the_planted_faults() -> None:
    tables = faults.TRANSLATION, faults.RELAY, faults.TUNNEL, faults.MAPT, faults.RULES
    planted = sum(map(len, (*tables, nat_faults.FAULTS)))
    found = re.search(r"(\d+) faults, all found", audits.PAGE.with_name("audit.md").read_text())
    assert found is not None
    assert int(found[1]) == planted >= 60
