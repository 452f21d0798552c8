"""The CSV file of all trials, and the summary of invalid trials."""

import csv
import io
import re
from types import SimpleNamespace

from v6t.analysis.record import InvalidTrial
from v6t.core.runs.results import COMPLETE
from v6t.tools.publish.introduction import count_invalid_trials, summarize_reasons
from v6t.tools.publish.redaction import Redactor
from v6t.tools.publish.trials_table import format_trials_csv

TOO_LONG = "sending took 0.743660 s, allowed 0.510000 s"
COUNTS = {
    "preflight/64/bidirectional/a1": "no: preflight",
    "selftest/64/forward/t1": "no: self-test",
    "phase1-selftest/84/forward/t3": "no: self-test",
    "rule-selftest/64/forward/t1": "no: self-test",
    "latency/64/bidirectional/r01/a1": "no: search begun anew",
    "again1-latency/64/bidirectional/r01/a1": "no: search begun anew",
    "again2-latency/64/bidirectional/r01/a1": "yes",
    "loopback-latency/64/bidirectional/r01/a1": "no: tester alone",
    "loopback-again2-latency/64/bidirectional/r01/a1": "no: tester alone",
    "throughput/64/bidirectional/r01/s00/a1": "no: invalid",
    "throughput/64/bidirectional/r01/s00/a2": "yes",
    "throughput/64/bidirectional/r09/s00/a1": "no: of no result",
}
RESULT_KEYS = [k for k, counts in COUNTS.items() if counts in ("yes", "no: invalid")]
REASONS = [f"forward: {TOO_LONG}", f"reverse: {TOO_LONG}"]
INVALID = [InvalidTrial(key=RESULT_KEYS[1], reasons=REASONS)]


def test_trials_have_columns_for_counts_and_errors(tmp_path):
    (tmp_path / "001-x").mkdir()
    lines = [f"{k},{d},0.1000000001\n" for k in COUNTS for d in ("forward", "reverse")]
    text = "key,direction,sending_time_s\n" + "".join(lines)
    (tmp_path / "001-x" / "trials.csv").write_text(text)
    record = SimpleNamespace(trials=RESULT_KEYS, invalid_trials=INVALID)
    run = SimpleNamespace(directory="001-x", status=COMPLETE, records=[record], data=None)
    text = format_trials_csv(tmp_path, [(run, run)], Redactor(tmp_path, []))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(r["key"], r["counts"]) for r in rows[::2]] == list(COUNTS.items())
    assert {r["run"] for r in rows} == {"x"}
    reasons = {r["key"]: r["invalid"] for r in rows if r["invalid"]}
    assert reasons == {RESULT_KEYS[1]: f"forward: {TOO_LONG}; reverse: {TOO_LONG}"}
    assert [r["counts"] for r in rows[::2]] == [r["counts"] for r in rows[1::2]]
    assert rows[0]["sending_time_s"] == "0.100000"


def test_reasons_are_merged_if_only_numbers_differ():
    trials = [
        *INVALID,
        InvalidTrial(key="b", reasons=["reverse: sending took 0.9 s ± 0.1 s: it is not proven that it took "
                                       "the allowed 0.5 s"]),
        InvalidTrial(key="c", reasons=["phase 1 took 0.13 s, allowed 0.10 s", f"forward: {TOO_LONG}"]),
        InvalidTrial(key="d", reasons=["forward: the tester sent 9 of 10 frames of fg"]),
    ]  # fmt: skip
    summary = summarize_reasons(trials)
    assert re.findall(r"\d+ because", summary) == ["3 because", "1 because", "1 because"]
    assert summarize_reasons([]) == ""


def test_invalid_trials_are_counted():
    record = SimpleNamespace(trials=RESULT_KEYS, invalid_trials=INVALID, unit="ms")
    (sentence,) = count_invalid_trials([SimpleNamespace(records=[record], data=None)])
    assert "3 trials, 1" in sentence
