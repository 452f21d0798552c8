"""What every planted fault flags, as it was noted; some are tried again."""

from __future__ import annotations

import re

from v6t.tests.drivers.audits import PAGE
from v6t.tests.plugins.clauses.score import planted, recorded, score

AGAIN = 12
"""Every so many faults one is tried before all clauses: all of them take half a minute."""


def test_every_fault_is_found_by_the_clause_meant_for_it() -> None:
    assert set(recorded()) == {p.name for p in planted()}
    found = score()
    assert found["found"] == found["faults"]
    words = re.search(r"(\d+) of (\d+)\s+flag only\s+what", PAGE.read_text())
    assert words is not None
    assert (int(words[1]), int(words[2])) == (found["alone"], found["faults"])


def test_what_was_noted_is_still_so() -> None:
    kept = recorded()
    for fault in list(planted())[::AGAIN]:
        assert fault.flagged() == kept[fault.name], fault.name
