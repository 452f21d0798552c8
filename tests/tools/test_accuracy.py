"""Accuracy of a tester: impairments of the known device, comparison, record and study."""

import json
from dataclasses import replace

import numpy as np
import pytest
from v6t.analysis.report.render import to_html, to_markdown
from v6t.base.errors import TesterError, UsageError
from v6t.core.config.resolve import resolve_setup
from v6t.drivers.delays import compute_ipdv, make_distribution
from v6t.drivers.lab.privilege import check_availability
from v6t.tools.accuracy import compare, study
from v6t.tools.accuracy.checks import Check, list_checks
from v6t.tools.accuracy.impairments import Impairer, Impairments
from v6t.tools.accuracy.known_device import Truth
from v6t.tools.accuracy.record import AccuracyRecord, CapacityRow, CountRow, DelayRow, PaceRow
from v6t.tools.accuracy.report import make_document
from v6t.trials.result import ClassCount, DirectionResult
from v6t.trials.trial import DelayRequest, Trial

LAB, WHY = check_availability()
MS = 1_000_000


def make_arrivals(interval_ns, count):
    return np.arange(count, dtype=np.int64) * interval_ns + 10 * MS


def impair(impairments, arrivals, batch=7):
    """Return numbers and times of the frames that leave, for arrivals in batches, and the impairer."""
    impairer = Impairer(impairments, seed=3)
    numbers, departures = [], []
    for first in range(0, len(arrivals), batch):
        rows, times, _ = impairer.schedule(arrivals[first : first + batch])
        numbers += (rows + first).tolist()
        departures += times.tolist()
    return numbers, np.array(departures), impairer


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_one_in_n_frames_is_lost_for_any_batches(batch):
    numbers, _, impairer = impair(Impairments(lose_every=10), make_arrivals(1000, 1000), batch)
    assert sorted(set(range(1000)) - set(numbers)) == list(range(9, 1000, 10))
    assert impairer.lost == 100


def test_duplicates_leave_twice_and_are_counted():
    numbers, _, impairer = impair(Impairments(duplicate_every=100), make_arrivals(1000, 1000))
    assert (len(numbers), impairer.duplicated, impairer.lost) == (1010, 10, 0)


@pytest.mark.parametrize(
    ("jitter", "mean"), [("none", 0), ("uniform", 250), ("exponential", 500), ("two-point", 50)]
)
def test_delays_follow_the_distribution(jitter, mean):
    arrivals = make_arrivals(MS, 20_000)
    impairments = Impairments(delay_us=100, jitter=jitter, jitter_us=500)
    _, departures, _ = impair(impairments, arrivals, 1000)
    added = (departures - arrivals) / 1000 - 100
    assert added.min() >= 0
    assert abs(added.mean() - mean) <= 0.05 * max(mean, 1)


def test_token_bucket_passes_its_rate_and_loses_the_rest():
    tokens = {"capacity_fps": 10_000.0}
    at_rate, above = make_arrivals(100_000, 20_000), make_arrivals(80_000, 20_000)
    assert impair(Impairments(**tokens), at_rate)[2].lost == 0
    # frames that arrive between two tokens are lost: 6,250 of 12,500 pass in a second
    assert impair(Impairments(**tokens), above)[2].lost == 10_000
    assert impair(Impairments(**tokens, depth_frames=50), above)[2].lost == 20_000 - 16_000 - 49
    numbers, departures, buffered = impair(Impairments(**tokens, buffer_frames=50), above)
    assert buffered.lost == 20_000 - 16_000 - 50
    assert (np.diff(departures) >= 100_000).all()
    waits = departures - above[numbers]
    assert (waits.min(), waits.max() <= 50 * 100_000) == (0, True)


@pytest.mark.parametrize("depth", [1, 16, 64])
def test_burst_as_large_as_the_bucket_passes(depth):
    burst = np.full(100, 10 * MS, dtype=np.int64)
    numbers, _, _ = impair(Impairments(capacity_fps=1000.0, depth_frames=depth), burst)
    assert numbers == list(range(depth))


CHECK = Check("c", "delay", "100 us", Impairments(delay_us=100), 1000.0, 1000)


def make_trial(**more):
    return Trial("accuracy", "k", 84, 84, "forward", 1000.0, 1.0, 0.1, 0.0, **more)


def make_truth(delays_ns, arrivals=None, **counts):
    count = len(delays_ns)
    arrivals = make_arrivals(MS, count) if arrivals is None else arrivals
    counts = {"lost": 0, "duplicated": 0, "reordered": 0, "missed": 0, **counts}
    return Truth(arrivals, np.asarray(delays_ns, dtype=np.int64), np.arange(count), **counts)


def make_result(delays_ns=None, *, sending_s=1.0, ipdv=None, **counts):
    count = ClassCount("foreground", **{"required": 1000, "sent": 1000, "received": 1000, **counts})
    delays = None if delays_ns is None else {"fg": make_distribution(np.asarray(delays_ns))}
    return DirectionResult({"fg": count}, sending_s, delays=delays, ipdv=ipdv)


def test_error_of_a_delay_is_measured_minus_actual():
    actual = np.arange(1000) * 1000 + 100_000
    measured = actual + 30_000
    ipdv = {"fg": compute_ipdv(np.arange(1000), measured, 1000)}
    trial = make_trial(delays=DelayRequest(ipdv=True))
    row = compare.compare_delays(CHECK, trial, make_result(measured, ipdv=ipdv), make_truth(actual))
    assert row.actual["min"] == 100.0
    assert all(abs(error - 30.0) < 1.0 for error in row.errors.values())  # buckets of 0.1 %
    assert abs(row.pdv_error) < 1.0
    assert row.ipdv_error == 0.0


def test_tagged_frames_are_compared_with_their_own_delays():
    trial = make_trial(delays=DelayRequest(tags=100, first_tag_s=0.2))
    actual = np.full(1000, 900_000)
    actual[list(trial.tag_positions)] = 50_000
    row = compare.compare_delays(CHECK, trial, make_result([60_000] * 100), make_truth(actual))
    assert row.actual_frames == row.measured_frames == 100 and row.actual["p50"] == 50.0
    assert abs(row.bias - 10.0) < 0.1


def test_rate_and_sending_time_are_judged_by_arrivals():
    arrivals = make_arrivals(MS, 1000) + np.where(np.arange(1000) == 500, 70_000, 0)
    trials = [(make_trial(), make_result(sending_s=1.000_05), make_truth([0] * 1000, arrivals))]
    row = compare.compare_pace(replace(CHECK, kind="pace"), trials)
    assert (row.rate_error_ppm, row.sending_time_error_us) == ([0.0], [50.0])
    assert row.late_us["p50"] == 0.0 and row.late_us["max"] == pytest.approx(70.0, rel=1e-3)


@pytest.mark.parametrize(
    ("lost", "received", "exact"), [(1, 999, True), (1, 998, False), (0, 1000, False)]
)
def test_count_is_exact_if_frames_were_lost_and_all_were_counted(lost, received, exact):
    check = Check("l", "loss", "", Impairments(lose_every=1000), 1000.0, 1000)
    truth = make_truth([0] * 999, lost=lost)
    row = compare.compare_counts(check, make_trial(), make_result(received=received), truth)
    assert (row.actual, row.measured, row.exact) == (lost, 1000 - received, exact)


def test_tester_that_sees_no_order_counts_no_reordering():
    check = Check("r", "reordering", "", Impairments(reorder_every=1000), 1000.0, 1000)
    result = make_result(out_of_order=None)
    row = compare.compare_counts(check, make_trial(), result, make_truth([0], reordered=1))
    assert (row.actual, row.measured, row.exact) == (1, None, False)


@pytest.mark.parametrize(("depth", "buffer"), [(64, 0), (1, 64)])
def test_expected_throughput_is_the_highest_that_the_bucket_passes(depth, buffer):
    bucket = Impairments(capacity_fps=10_000.0, depth_frames=depth, buffer_frames=buffer)
    check = Check("c", "capacity", "", bucket, 10_000.0, 10_000)
    expected = compare.compare_capacity(check, 1.0, 1.0, 1.0).expected_fps
    for rate, loses in ((expected, False), (expected + 3, True)):
        arrivals = np.rint(np.arange(round(rate)) * 1e9 / rate).astype(np.int64)
        assert bool(impair(bucket, arrivals, 1000)[2].lost) == loses


def make_delay_row(rate, bias_us, tail_us=0.0):
    actual = {"min": 100.0, "p1": 101.0, "p50": 110.0, "p99": 120.0, "p99_9": 130.0, "max": 140.0}
    measured = {k: v + bias_us + (tail_us if k == "p99_9" else 0) for k, v in actual.items()}
    return DelayRow(behaviour="b", rate_fps=rate, tagged=False, actual_frames=9, measured_frames=9,
                    actual=actual, measured=measured, ipdv_actual=actual, ipdv_measured=actual)  # fmt: skip


def test_record_is_read_back_and_printed():
    count = CountRow(kind="loss", every=10, rate_fps=1.0, frames=20, actual=2, measured=1)
    pace = PaceRow(rate_fps=1.0, frames=1, rate_error_ppm=[1.0], sending_time_error_us=[2.0],
                   reported_error_us=0.0, late_us={"p50": 1.0, "p99": 2.0, "max": 3.0})  # fmt: skip
    bucket = CapacityRow(capacity_fps=10.0, depth=1, buffer=2, duration_s=1.0, expected_fps=12.0,
                         measured_fps=11.4, resolution_fps=0.1)  # fmt: skip
    record = AccuracyRecord(
        made="2026-11-22T10:00:00+00:00", version="0.1", source_commit=None,
        tester={"kind": "embedded"}, options={}, machine={"cores": 2}, load=[0.1, 0.2], traffic="t",
        delays=[make_delay_row(1000.0, 30.0), make_delay_row(1000.0, 40.0, 5.0), make_delay_row(5000.0, -90.0)],
        counts=[count], pace=[pace], capacity=[bucket],
    )  # fmt: skip
    loaded = AccuracyRecord.model_validate(json.loads(json.dumps(record.to_json())))
    assert loaded == record
    for text in (to_markdown(make_document(loaded)), to_html(make_document(loaded))):
        assert "WRONG" in text and "-5.00%" in text


def test_checks_have_unique_names_and_impair_frames():
    checks = list_checks()
    assert len({c.name for c in checks}) == len(checks)
    losses = [c for c in checks if c.kind == "loss"]
    assert [c.impairments.lose_every for c in losses] == [1000, 10_000, 100_000, 1_000_000]
    assert all(c.frames >= 2 * c.impairments.lose_every for c in losses)


def test_simulated_tester_is_rejected():
    with pytest.raises(UsageError):
        study.check_supported(resolve_setup(plugin="ipv6-router", tester="sim"))


@pytest.mark.parametrize(("stopped", "tries"), [(True, 1), (False, 6)])
def test_failed_count_is_repeated_at_half_the_rate_unless_interrupted(monkeypatch, stopped, tries):
    rates = []

    def fail(_bench, _check, rate_fps, **_rest):
        rates.append(rate_fps)
        cause = KeyboardInterrupt() if stopped else None
        raise TesterError("failed", code="tester-fault") from cause

    monkeypatch.setattr(study.Bench, "_measure", fail)
    bench = object.__new__(study.Bench)
    with pytest.raises(TesterError):
        bench.run(next(check for check in list_checks() if check.kind == "loss"))
    assert rates == [100_000.0 / 2**n for n in range(tries)]


def list_short_checks():
    request, rest = DelayRequest(ipdv=True), {"record_departures": False}
    return [
        Check("d", "delay", "d", Impairments(delay_us=2000, busy_poll=True), 500.0, 200, delays=request),
        Check("t", "delay", "t", Impairments(), 500.0, 400, delays=DelayRequest(tags=50)),
        Check("p", "pace", "", Impairments(**rest), 500.0, 200, trials=2),
        Check("l", "loss", "", Impairments(lose_every=100, **rest), 2000.0, 1000),
        Check("u", "duplicates", "", Impairments(duplicate_every=100, **rest), 2000.0, 1000),
        Check("r", "reordering", "", Impairments(reorder_every=100, **rest), 2000.0, 1000),
    ]  # fmt: skip


@pytest.mark.lab
@pytest.mark.alone
@pytest.mark.skipif(not LAB, reason=f"needs a lab: {WHY}")
def test_interrupted_study_of_the_embedded_tester_continues(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(study, "list_checks", list_short_checks)
    setup = resolve_setup(plugin="ipv6-router", tester="embedded")
    out, lines = tmp_path / "accuracy", []

    def interrupt_third(text):
        lines.append(text)
        if text.startswith("3/"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study.run_study(setup, out, interrupt_third)
    assert lines[-1].startswith("2 of 6 checks are stored")
    lines.clear()
    record = study.run_study(setup, out, lines.append)
    assert [text.split()[1] for text in lines] == ["p", "l", "u", "r"]
    assert {p.name for p in out.iterdir()} == {"accuracy.html", "accuracy.json", "accuracy.md"}
    assert AccuracyRecord.model_validate(json.loads((out / "accuracy.json").read_text())) == record
    counts = [(row.kind, row.actual, row.exact) for row in record.counts]
    assert counts == [("loss", 10, True), ("duplicates", 10, True), ("reordering", 10, True)]
    constant, tagged = record.delays
    # the path between the tester's time stamps contains that between the device's
    assert constant.measured["min"] >= constant.actual["min"] >= 2000
    assert (constant.actual_frames, constant.measured_frames) == (200, 200)
    assert (tagged.actual_frames, tagged.measured_frames, tagged.tagged) == (50, 50, True)
    assert len(record.pace[0].rate_error_ppm) == 2
