"""What every planted fault flags, as it was noted; some are tried again."""

from __future__ import annotations

import re

from v6t.tests.drivers.audits import PAGE
from v6t.tests.plugins.clauses.score import planted, recorded, score, strangers

AGAIN = 12
"""Every so many faults one is tried before all clauses: all of them take half a minute."""


def test_every_fault_is_found_by_the_clause_meant_for_it() -> None:
    assert set(recorded()) == {p.name for p in planted()}
    found = score()
    assert found["found"] == found["faults"]
    words = re.search(r"(\d+) of (\d+)\s+flag only\s+what", PAGE.read_text())
    assert words is not None
    assert (int(words[1]), int(words[2])) == (found["alone"], found["faults"])


WIDER = {
    "siit translation: too big with DF forwarded": "MTUs that are told are of the link, too",
    "siit translation: whole packets with DF dropped above 1280": "MTUs that are told, too",
    "siit translation: nested errors forwarded": "type 3 is taken for a query everywhere",
    "siit translation: nested ICMPv6 errors forwarded": "type 1 is taken for a query everywhere",
    "mape-br relay: ports not checked": "ports tell whose a packet is, too: it reaches its sender",
    "mape-br relay: port ranges end early": "of the other direction, too",
    "mape-br relay: port ranges begin late": "of the other direction, too",
    "mape-br relay: all ports are the first customer's": "those of the others are refused",
    "nat44 nat: no limit": "ports are beyond the block",
}
"""Faults that change packets in more than one place, and why."""


def test_what_a_fault_flags_beside_is_of_one_cause() -> None:
    kept = recorded()
    assert {p.name for p in planted() if strangers(p, kept[p.name])} == set(WIDER)


def test_what_was_noted_is_still_so() -> None:
    kept = recorded()
    for fault in list(planted())[::AGAIN]:
        assert fault.flagged() == kept[fault.name], fault.name
