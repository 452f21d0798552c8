import json
import xml.etree.ElementTree as ElementTree

import pytest
from v6t.analysis.report.render import to_html
from v6t.audit.record import (
    AuditComparison,
    make_audit_document,
    read_audit,
    summarize_audit,
    to_junit,
)
from v6t.base.errors import UsageError


def make_finding(name, level, verdict, **more):
    return {
        **{"clause": name, "rfc": "RFC 7915", "section": "5.1", "level": level, "title": "it does"},
        **{"variant": "", "verdict": verdict, "sent": "left: a packet", "expected": "TTL 60"},
        **{"got": "TTL <58>\x07", "tries": 3},
        "frames": [{"side": "left", "sent": True, "octets": "00ff41", "number": 1}],
        **more,
    }


def make_audit(*findings, **more):
    values = {
        **{"schema": "v6t-audit/2", "version": "1", "source_commit": None, "made": "2026-01-01"},
        **{"plugin": "siit", "params": {}, "driver": "tayga", "device": "tayga 1"},
        **{"suites": ["translation"], "seconds": 1.0, "findings": list(findings)},
        **{"planned": 5, "stopped": "", **more},
    }
    return read_audit(values, "here")


@pytest.mark.parametrize(("level", "verdict", "fails"), [
    ("MUST", "deviates", True), ("SHOULD", "deviates", True), ("MAY", "information", False),
    ("MUST", "not testable", False), ("MUST", "conforms", False),
])  # fmt: skip
def test_deviation_fails_the_audit(level, verdict, fails):
    record = make_audit(make_finding("a", level, verdict))
    assert record.fails is fails
    suite = ElementTree.fromstring(to_junit(record))  # noqa: S314
    assert suite.get("failures") == str(int(fails))
    assert suite.get("skipped") == str(int(verdict == "not testable"))
    assert len(suite.findall(".//testcase")) == 1


def test_summary_counts_tested_clauses():
    record = make_audit(make_finding("a", "MUST", "not testable"), stopped="interrupted")
    assert "0 of 5 clauses tested, 1 not testable" in summarize_audit(record)
    assert summarize_audit(record).startswith("Stopped: ")
    assert "interrupted" in summarize_audit(record)


def test_report_escapes_what_the_device_sent_and_shows_frames():
    findings = make_finding("a", "MUST", "deviates"), make_finding("b", "MUST", "conforms")
    page = to_html(make_audit_document(make_audit(*findings)))
    assert "00 ff 41" in page and "TTL &lt;58&gt;" in page
    assert "frames 1 to 1 of frames.pcap" in page


def test_stored_record_equals_original():
    record = make_audit(make_finding("a", "MUST", "deviates"))
    assert read_audit(json.loads(json.dumps(record.to_json())), "there") == record


@pytest.mark.parametrize("values", [{"schema": "other"}, {"schema": "v6t-audit/2", "made": []}, 1])
def test_invalid_record_is_rejected(values):
    with pytest.raises(UsageError) as raised:
        read_audit(values, "there")
    assert raised.value.code == "invalid-audit"


def test_comparison_finds_different_verdicts():
    shared = make_finding("b", "MAY", "conforms")
    first, other = make_finding("a", "MUST", "conforms"), make_finding("c", "MUST", "deviates")
    one, prefix = make_audit(first, shared, other), {"prefix": "64:ff9b::/96"}
    two = make_audit(make_finding("a", "MUST", "deviates"), shared, params=prefix)
    comparison = AuditComparison([one, two])
    [[first, second]] = comparison.differences
    assert (first.clause, first.verdict, second.verdict) == ("a", "conforms", "deviates")
    assert comparison.tested_once == [1, 0]
    assert comparison.params == {"prefix": [None, "64:ff9b::/96"]}
