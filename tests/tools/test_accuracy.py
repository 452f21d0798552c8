"""The tester's own error: known devices, comparison, certificate and its users."""

import json
from dataclasses import replace

import numpy as np
import pytest
from v6t.analysis.report.render import to_html, to_markdown
from v6t.base.errors import TesterError, UsageError
from v6t.core.config.resolve import resolve
from v6t.core.config.run_setup import make_setup
from v6t.drivers.delays import compute_ipdv, make_distribution
from v6t.drivers.lab.privilege import check_availability
from v6t.tools.accuracy import certify as certifying
from v6t.tools.accuracy import comparing
from v6t.tools.accuracy.checks import Check, checks
from v6t.tools.accuracy.known_behaviour import Behaviour, Known
from v6t.tools.accuracy.known_device import Truth
from v6t.tools.accuracy.record import Capacity, Certificate, Counted, Paced, Timed
from v6t.tools.accuracy.report import document
from v6t.trials.result import ClassCount, DirectionResult
from v6t.trials.trial import DelayRequest, Trial

LAB, WHY = check_availability()
MS = 1_000_000


def every(interval_ns, count):
    return np.arange(count, dtype=np.int64) * interval_ns + 10 * MS


def passed(known, arrived, batch=7):
    """Return numbers and times of the frames that leave, for arrivals in batches."""
    behaviour = Behaviour(known, seed=3)
    rows, leave = [], []
    for first in range(0, len(arrived), batch):
        kept, when, _ = behaviour.leaving(arrived[first : first + batch])
        rows += (kept + first).tolist()
        leave += when.tolist()
    return rows, np.array(leave), behaviour


def test_exactly_one_frame_in_so_many_is_lost_whatever_the_batches():
    for batch in (1, 7, 1000):
        rows, _, behaviour = passed(Known(lose_every=10), every(1000, 1000), batch)
        assert sorted(set(range(1000)) - set(rows)) == list(range(9, 1000, 10))
        assert behaviour.lost == 100


def test_duplicates_leave_twice_and_are_counted():
    rows, _, behaviour = passed(Known(duplicate_every=100), every(1000, 1000))
    assert len(rows) == 1010
    assert behaviour.doubled == 10
    assert behaviour.lost == 0


def test_delays_are_those_of_the_distribution_and_count_from_the_arrival():
    arrived = every(MS, 20_000)
    for jitter, mean in (("none", 0), ("uniform", 250), ("exponential", 500), ("two-point", 50)):
        known = Known(delay_us=100, jitter=jitter, jitter_us=500)
        _, leave, _ = passed(known, arrived, 1000)
        more = (leave - arrived) / 1000 - 100
        assert more.min() >= 0
        assert abs(more.mean() - mean) <= 0.05 * max(mean, 1)


def test_a_token_bucket_passes_its_rate_and_loses_the_rest():
    tokens = {"capacity_fps": 10_000.0}
    at_rate, above = every(100_000, 20_000), every(80_000, 20_000)
    assert passed(Known(**tokens), at_rate)[2].lost == 0
    lost = passed(Known(**tokens), above)[2].lost
    # a frame that comes between two tokens finds none: 12,500 a second become 6,250
    assert lost == 10_000
    deep = passed(Known(**tokens, depth_frames=50), above)[2].lost
    assert deep == 20_000 - 16_000 - 49
    rows, leave, behaviour = passed(Known(**tokens, buffer_frames=50), above)
    assert behaviour.lost == 20_000 - 16_000 - 50
    assert (np.diff(leave) >= 100_000).all()
    waits = leave - above[rows]
    assert waits.min() == 0
    assert waits.max() <= 50 * 100_000


def test_a_burst_passes_as_deep_as_the_bucket_is():
    burst = np.full(100, 10 * MS, dtype=np.int64)
    for depth in (1, 16, 64):
        rows, _, _ = passed(Known(capacity_fps=1000.0, depth_frames=depth), burst)
        assert rows == list(range(depth))


CHECK = Check("c", "delay", "constant delay of 100 us", Known(delay_us=100), 1000.0, 1000)


def a_trial(**more):
    return Trial("accuracy", "k", 84, 84, "forward", 1000.0, 1.0, 0.1, 0.0, **more)


def a_truth(stayed_ns, arrived=None, **done):
    count = len(stayed_ns)
    arrived = every(MS, count) if arrived is None else arrived
    given = {"lost": 0, "doubled": 0, "reordered": 0, "missed": 0, **done}
    return Truth(arrived, np.asarray(stayed_ns, dtype=np.int64), np.arange(count), **given)


def a_result(delays_ns=None, *, sending_s=1.0, ipdv=None, **counts):
    given = {"required": 1000, "sent": 1000, "received": 1000, **counts}
    count = ClassCount("foreground", **given)
    found = None if delays_ns is None else {"fg": make_distribution(np.asarray(delays_ns))}
    return DirectionResult({"fg": count}, sending_s, delays=found, ipdv=ipdv)


def test_the_error_of_a_delay_is_read_less_true():
    true = np.arange(1000) * 1000 + 100_000
    seq = np.arange(1000)
    read = true + 30_000
    ipdv = {"fg": compute_ipdv(seq, read, 1000)}
    trial = a_trial(delays=DelayRequest(ipdv=True))
    row = comparing.timed(CHECK, trial, a_result(read, ipdv=ipdv), a_truth(true))
    assert row.true["min"] == 100.0
    for error in row.errors.values():
        assert abs(error - 30.0) < 1.0  # buckets of one part in a thousand
    assert abs(row.pdv_error) < 1.0
    assert row.ipdv_error == 0.0


def test_of_tagged_frames_the_truth_is_that_of_the_tags():
    trial = a_trial(delays=DelayRequest(tags=100, first_tag_s=0.2))
    places = list(trial.tag_positions)
    true = np.full(1000, 900_000)
    true[places] = 50_000
    row = comparing.timed(CHECK, trial, a_result([60_000] * 100), a_truth(true))
    assert row.true_frames == row.read_frames == 100
    assert row.true["p50"] == 50.0
    assert abs(row.bias - 10.0) < 0.1


def test_rate_and_sending_time_are_judged_by_arrivals():
    arrived = every(1_000_000, 1000) + np.where(np.arange(1000) == 500, 70_000, 0)
    done = [(a_trial(), a_result(sending_s=1.000_05), a_truth([0] * 1000, arrived))]
    row = comparing.paced(replace(CHECK, kind="pace"), done)
    assert row.rate_ppm == [0.0]
    assert row.sending_us == [50.0]
    assert row.late_us["p50"] == 0.0
    assert row.late_us["max"] == pytest.approx(70.0, rel=1e-3)


def test_counts_are_exact_or_not():
    check = Check("l", "loss", "", Known(lose_every=1000), 1000.0, 1000)
    truth = a_truth([0] * 999, lost=1)
    right = comparing.counted(check, a_trial(), a_result(received=999), truth)
    assert (right.true, right.read, right.exact) == (1, 1, True)
    assert not comparing.counted(check, a_trial(), a_result(received=998), truth).exact
    none = comparing.counted(check, a_trial(), a_result(), a_truth([0] * 1000))
    assert not none.exact, "no frames were changed"


def test_the_expected_throughput_of_a_bucket_is_what_its_behaviour_passes():
    for depth, buffer in ((64, 0), (1, 64)):
        known = Known(capacity_fps=10_000.0, depth_frames=depth, buffer_frames=buffer)
        check = Check("c", "capacity", "", known, 10_000.0, 10_000)
        expected = comparing.capacity(check, 1.0, 1.0, 1.0).expected
        for rate, loses in ((expected, False), (expected + 3, True)):
            count = round(rate)
            arrived = np.rint(np.arange(count) * 1e9 / rate).astype(np.int64)
            assert bool(passed(known, arrived, 1000)[2].lost) == loses


def a_row(rate, bias_us, more_us=0.0, *, tagged=False):
    true = {"min": 100.0, "p1": 101.0, "p50": 110.0, "p99": 120.0, "p99_9": 130.0, "max": 140.0}
    read = {k: v + bias_us + (more_us if k == "p99_9" else 0) for k, v in true.items()}
    return Timed(what="w", rate=rate, tagged=tagged, true_frames=9, read_frames=9,
                 true=true, read=read, ipdv_true=true, ipdv_read=true)  # fmt: skip


def a_certificate(**changes):
    given = {
        "made": "2026-11-22T10:00:00+00:00", "version": "0.1", "source_commit": None,
        "tester": {"kind": "embedded"}, "options": {}, "machine": {"cores": 2}, "load": [0.1, 0.2],
        "traffic": "t", "timed": [a_row(1000.0, 30.0), a_row(1000.0, 40.0, 5.0), a_row(5000.0, -90.0)],
    }  # fmt: skip
    return Certificate(**{**given, **changes})


def test_the_certificate_is_read_back_and_printed():
    counted = Counted(kind="loss", every=10, rate=1.0, frames=20, true=2, read=1)
    paced = Paced(rate=1.0, frames=1, rate_ppm=[1.0], sending_us=[2.0], said_error_us=0.0,
                  late_us={"p50": 1.0, "p99": 2.0, "max": 3.0})  # fmt: skip
    bucket = Capacity(capacity=10.0, depth=1, buffer=2, duration_s=1.0, expected=12.0, found=11.4,
                      resolution=0.1)  # fmt: skip
    made = a_certificate(counted=[counted], paced=[paced], capacity=[bucket])
    again = Certificate.model_validate(json.loads(json.dumps(made.to_json())))
    assert again == made
    for text in (to_markdown(document(again)), to_html(document(again))):
        assert "WRONG" in text
        assert "-5.00%" in text


def test_every_check_has_a_name_of_its_own_and_shows_something():
    todo = checks()
    assert len({c.name for c in todo}) == len(todo)
    rates = {c.known.lose_every for c in todo if c.kind == "loss"}
    assert rates == {1000, 10_000, 100_000, 1_000_000}
    for check in todo:
        if check.kind == "loss":
            assert check.frames >= 2 * check.known.lose_every


def test_simulated_tester_is_rejected():
    setup = make_setup(resolve(plugin="ipv6-router", tester="sim"))
    with pytest.raises(UsageError):
        certifying.check_certifiable(setup)


def short():
    """Return checks of a second each."""
    every = DelayRequest(ipdv=True)
    return [
        Check("d", "delay", "d", Known(delay_us=2000, awake=True), 500.0, 200, delays=every),
        Check("t", "delay", "t", Known(), 500.0, 400, delays=DelayRequest(tags=50)),
        Check("p", "pace", "p", Known(timeless=True), 500.0, 200, trials=2),
        Check("l", "loss", "", Known(lose_every=100, timeless=True), 2000.0, 1000),
        Check("u", "duplicates", "", Known(duplicate_every=100, timeless=True), 2000.0, 1000),
        Check("r", "reordering", "", Known(reorder_every=100, timeless=True), 2000.0, 1000),
    ]


class Interrupted:
    """Interrupts its user at the third check."""

    def __init__(self):
        self.said = []

    def __call__(self, text):
        self.said.append(text)
        if text.startswith("3/"):
            raise KeyboardInterrupt


@pytest.mark.parametrize("stopped", [True, False])
def test_a_check_that_was_stopped_is_not_made_again_at_half_the_rate(monkeypatch, stopped):
    """The tester's error takes the interrupt's place."""
    rates = []

    def fails(_bench, _check, rate_fps, **_rest):
        rates.append(rate_fps)
        raise TesterError("it does not end", code="tester-fault") from (
            KeyboardInterrupt() if stopped else None
        )

    monkeypatch.setattr(certifying._Bench, "_measure", fails)
    bench = object.__new__(certifying._Bench)
    with pytest.raises(TesterError):
        bench.run(next(check for check in checks() if check.kind == "loss"))
    assert (len(rates) == 1) == stopped


@pytest.mark.lab
@pytest.mark.alone
@pytest.mark.skipif(not LAB, reason=f"needs a lab: {WHY}")
def test_the_embedded_tester_is_certified_after_an_interrupt(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(certifying, "checks", short)
    setup = make_setup(resolve(plugin="ipv6-router", tester="embedded"))
    stopped, out = Interrupted(), tmp_path / "certificate"
    with pytest.raises(KeyboardInterrupt):
        certifying.certify(setup, out, stopped)
    assert stopped.said[-1].startswith("2 of 6 checks are kept")
    said = []
    made = certifying.certify(setup, out, said.append)
    assert [text.split()[1] for text in said] == ["p", "l", "u", "r"]
    assert sorted(p.name for p in out.iterdir()) == [
        "accuracy.html",
        "accuracy.json",
        "accuracy.md",
    ]
    assert Certificate.model_validate(json.loads((out / "accuracy.json").read_text())) == made
    assert [(c.kind, c.true) for c in made.counted] == [
        ("loss", 10), ("duplicates", 10), ("reordering", 10)
    ]  # fmt: skip
    assert all(c.exact for c in made.counted)
    constant, tagged = made.timed
    # the device lets no frame go before its time, and the tester's way is longer than the device's
    assert constant.true["min"] >= 2000
    assert constant.read["min"] >= constant.true["min"]
    assert (constant.true_frames, constant.read_frames) == (200, 200)
    assert (tagged.true_frames, tagged.read_frames, tagged.tagged) == (50, 50, True)
    assert len(made.paced[0].rate_ppm) == 2
