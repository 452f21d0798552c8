"""The raw data are sufficient: results computed from them are the same."""

import csv
import io
import re
from types import SimpleNamespace

from v6t.analysis.record import InvalidTrial
from v6t.core.runs.results import COMPLETE
from v6t.tools.publish.meaning import _faltering
from v6t.tools.publish.public import Words
from v6t.tools.publish.reasons import why_invalid
from v6t.tools.publish.trials_table import trials_table

LATE = "sending took 0.743660 s, allowed 0.510000 s"
FATES = {
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
BEHIND = [k for k, fate in FATES.items() if fate in ("yes", "no: invalid")]
INVALID = [InvalidTrial(key=BEHIND[1], reasons=[f"forward: {LATE}", f"reverse: {LATE}"])]


def test_every_line_says_whether_its_trial_counts_and_what_the_tester_did_wrong(tmp_path):
    (tmp_path / "001-x").mkdir()
    lines = [f"{key},{way},0.1000000001\n" for key in FATES for way in ("forward", "reverse")]
    (tmp_path / "001-x" / "trials.csv").write_text(
        "key,direction,sending_time_s\n" + "".join(lines)
    )
    record = SimpleNamespace(trials=BEHIND, invalid_trials=INVALID)
    run = SimpleNamespace(directory="001-x", status=COMPLETE, records=[record], data=None)
    text = trials_table(tmp_path, [(run, run)], Words(tmp_path, []))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(r["key"], r["counts"]) for r in rows[::2]] == list(FATES.items())
    assert {r["run"] for r in rows} == {"x"}
    reasons = {r["key"]: r["invalid"] for r in rows if r["invalid"]}
    assert reasons == {BEHIND[1]: f"forward: {LATE}; reverse: {LATE}"}
    assert [r["counts"] for r in rows[::2]] == [r["counts"] for r in rows[1::2]]
    assert rows[0]["sending_time_s"] == "0.100000"


def test_reasons_are_counted_once_a_trial_whatever_their_numbers():
    trials = [
        *INVALID,
        InvalidTrial(key="b", reasons=["reverse: sending took 0.9 s ± 0.1 s: it is not proven that it took "
                                       "the allowed 0.5 s"]),
        InvalidTrial(key="c", reasons=["phase 1 took 0.13 s, allowed 0.10 s", f"forward: {LATE}"]),
        InvalidTrial(key="d", reasons=["forward: the tester sent 9 of 10 frames of fg"]),
    ]  # fmt: skip
    said = why_invalid(trials)
    assert re.findall(r"\d+ because", said) == ["3 because", "1 because", "1 because"]
    assert why_invalid([]) == ""


def test_the_page_says_why_trials_were_invalid():
    record = SimpleNamespace(trials=BEHIND, invalid_trials=INVALID, unit="ms")
    told = list(_faltering([SimpleNamespace(records=[record], data=None)]))
    assert "3 trials, 1" in told[0]
