"""Accuracy was recorded for both testers and every planted fault."""

from __future__ import annotations

from . import accuracy_page, planted


def test_every_planted_fault_was_found_every_time():
    ran = planted.recorded()
    wanted = {f"{tester} {fault.name}" for tester in planted.TESTERS for fault in planted.ALL}
    assert set(ran) == wanted, "V6T_RECORD=5 pytest tests/drivers/test_planted.py"
    assert all(entry["found"] == entry["of"] > 0 for entry in ran.values())


def test_both_testers_are_certified_and_counted_exactly():
    found = {c.tester["kind"]: c for c in accuracy_page.certificates()}
    assert set(found) == set(planted.TESTERS)
    for certificate in found.values():
        kinds = {(row.kind, row.every) for row in certificate.counted}
        assert {("loss", 10**n) for n in (3, 4, 5, 6)} <= kinds
        assert all(row.exact for row in certificate.counted)
        assert certificate.timed
