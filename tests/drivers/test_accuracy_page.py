"""The page of accuracy holds what was recorded, of both testers, and every planted fault."""

from __future__ import annotations

import pytest

from . import accuracy_page, planted

HOW = "python -m v6t.tests.drivers.accuracy_page"

if not accuracy_page.PAGE.exists():
    pytest.skip("the documentation is not installed", allow_module_level=True)


@pytest.mark.parametrize("name", accuracy_page.PARTS)
def test_the_page_is_what_was_recorded(name):
    assert accuracy_page.part(name) in accuracy_page.PAGE.read_text(encoding="utf-8"), HOW


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
