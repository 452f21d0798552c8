"""Latency, PDV and IPDV, and the effect of lost frames on them."""

import contextlib
import math
from dataclasses import replace

import pytest
from v6t.benchmarks import registry
from v6t.benchmarks.delay import Latency
from v6t.drivers.testers import load_kind
from v6t.procedures.delay_figures import (
    find_tag_conflict,
    summarize_ipdv,
    summarize_latency,
    summarize_pdv,
)
from v6t.procedures.timing import TimingSpec, measure_timing
from v6t.trials.codec import decode, encode
from v6t.trials.delays import Distribution
from v6t.trials.result import TrialResult
from v6t.trials.trial import DelayRequest, Trial

from .support import (
    BACKGROUND,
    FOREGROUND,
    Recorder,
    make_conditions,
    make_result,
    make_sim,
    make_tester,
)

pytestmark = pytest.mark.slow

SAMPLE = Distribution.from_values([10, 11, 12])
THOUSAND = Distribution.from_values(range(1000))
UNTIMED = make_tester(lambda _, trial: trial.frames)
"""Forwards all frames but measures no delays."""


def make_latency_spec(conditions=None, tags=50_000, first_tag_s=60.0, **changes):
    fields = {"rate_fps": 100_000.0, "rate_source": "given", "duration_s": 120.0, "repetitions": 3}
    request = DelayRequest(tags=tags, first_tag_s=first_tag_s)
    return TimingSpec(conditions or make_conditions(), request=request, **{**fields, **changes})


def make_variation_spec(benchmark, **changes):
    fields = {"rate_fps": 10_000.0, "rate_source": "given", "duration_s": 60.0, "repetitions": 3}
    fields |= {"benchmark": benchmark, "request": DelayRequest(ipdv=benchmark == "ipdv")}
    return TimingSpec(make_conditions(), **{**fields, **changes})


def make_delay_tester(delays, frames=None, name="fg", **more):
    """Make a tester whose trials have this distribution of delays."""
    total = frames or delays.frames + delays.lost
    classes = {name: (total, frames or delays.frames)}
    return lambda _: make_result(classes, delays={"fg": delays}, **more)


def make_record(spec, tester, **more):
    return make_measurement(measure_timing(spec, tester), **more).record


def make_measurement(result, **more):
    return registry.load(result.spec.benchmark).make_measurement(result, {}, None, **more)


@pytest.mark.parametrize(("figures", "delays", "expected"), [
    # latency: a lost frame ranks as later than any other
    (summarize_latency, Distribution.from_values(range(1, 501)), {"tl": 250.5, "wcl": 500}),
    (summarize_latency, Distribution.from_values(range(1, 50_001)), {"wcl": 49_950}),
    (summarize_latency, Distribution.from_values(range(1, 1000), lost=1), {"wcl": 999}),
    (summarize_latency, Distribution.from_values(range(1, 999), lost=2), {"wcl": math.inf, "tl": 500.5}),
    # PDV
    (summarize_pdv, Distribution.from_values([10] * 990 + [25] * 9 + [90]),
     {"pdv": 15, "min": 10, "p99_9": 25, "max": 90}),
    (summarize_pdv, Distribution.from_values([10] * 999, lost=1), {"pdv": 0}),
    (summarize_pdv, Distribution.from_values([10] * 998, lost=2), {"pdv": math.inf}),
    (summarize_pdv, Distribution((), (), lost=2), {"pdv": math.inf}),
    # IPDV: pairs with a lost frame are omitted
    (summarize_ipdv, Distribution.from_values([2, -1, 0, 3]), {"min": -1, "med": 1.0, "max": 3}),
    (summarize_ipdv, Distribution.from_values([0], lost=3), {"med": 0}),
])  # fmt: skip
def test_delay_figures_follow_rfcs(figures, delays, expected):
    outcome = figures(delays)
    assert {name: outcome[name] for name in expected} == expected


TAGGED = Trial(
    "latency", "k", 104, 64, "forward", 1000.0, 120.0,
    delays=DelayRequest(tags=500, first_tag_s=60.0),
)  # fmt: skip


def test_tags_are_evenly_spread_from_the_first_to_the_end():
    places = list(TAGGED.tag_positions)
    assert places[0] == 60_000
    assert len(set(places)) == 500
    assert [p // 120 for p in places] == list(range(500, 1000))
    assert places[-1] < TAGGED.frames


@pytest.mark.parametrize("period", [2, 3, 4, 10, 12, 120])
def test_tags_are_spread_evenly_over_the_mixture(period):
    share = sum(place % period == 0 for place in TAGGED.tag_positions) / 500
    assert share == pytest.approx(1 / period, abs=0.01)


@pytest.mark.parametrize(("tags", "first_s", "duration_s", "fits"), [
    (0, 60.0, 120.0, False), (500, 120.0, 120.0, False), (500, -1.0, 120.0, False),
    (7000, 60.0, 120.0, False), (6000, 60.0, 120.0, True), (6000, 60.005, 120.0, False),
    (145, 0.055, 1.506, True), (146, 0.055, 1.506, False),
])  # fmt: skip
def test_number_of_tags_is_limited_by_frames(tags, first_s, duration_s, fits):
    assert (find_tag_conflict(tags, first_s, duration_s, 100.0) is None) is fits
    with contextlib.nullcontext() if fits else pytest.raises(ValueError, match="tag|latency"):
        make_latency_spec(tags=tags, first_tag_s=first_s, duration_s=duration_s, rate_fps=100.0)


def test_latency_of_simulated_device_is_measured():
    tail = {"tail_share": 0.002, "tail_us": 5e3}
    tester = make_sim(capacity_fps=1e6, delay_us=200.0, jitter_us=100.0, **tail)
    result = measure_timing(make_latency_spec(make_conditions("bidirectional")), tester.measure)
    assert len(result.repetitions) == 3
    for repetition in result.repetitions:
        for timed in repetition.directions.values():
            assert timed.frames == 50_000
            assert timed.figures["tl"] == pytest.approx(250_000, rel=0.01)
            # one frame in 500 is in the tail, which therefore contains the 99.9th percentile
            assert 5_200_000 <= timed.figures["wcl"] <= 5_300_000 * 1.001


@pytest.mark.parametrize(("benchmark", "frames", "expected"), [
    ("pdv", 600_000, {"pdv": 99_900}),
    ("ipdv", 599_999, {"min": -99_000, "med": 0, "max": 99_000}),
])  # fmt: skip
def test_delay_variation_of_simulated_device_is_measured(benchmark, frames, expected):
    tester = make_sim(capacity_fps=1e6, delay_us=200.0, jitter_us=100.0)
    result = measure_timing(make_variation_spec(benchmark, repetitions=1), tester.measure)
    timed = result.repetitions[0].directions["forward"]
    assert (result.sampled, timed.frames) == (False, frames)
    for name, value in expected.items():
        assert timed.figures[name] == pytest.approx(value, rel=0.03, abs=2000)


def test_lost_frames_rank_above_all_delays():
    tester = make_sim(capacity_fps=99_000.0)  # one frame in a hundred is lost
    result = measure_timing(make_latency_spec(), tester.measure)
    outcome = result.repetitions[0].directions["forward"]
    assert outcome.lost == pytest.approx(500, abs=5)
    assert math.isinf(outcome.figures["wcl"]) and math.isfinite(outcome.figures["tl"])
    worst = make_measurement(result).record.to_json()["directions"]["forward"]["wcl"]
    assert (worst["median"], worst["values"]) == (None, [None] * 3)
    assert "undefined" in worst["notes"][0]


def test_foreground_and_background_have_separate_delays():
    tester = make_sim(streams=(FOREGROUND, BACKGROUND), capacity_fps=1e6)
    classes = measure_timing(make_latency_spec(), tester.measure).repetitions[0].classes["forward"]
    half = pytest.approx(25_000, abs=50)
    assert {name: timed.frames for name, timed in classes.items()} == {"fg": half, "bg": half}


def test_frames_after_the_frame_timeout_are_lost():
    tester = make_sim(capacity_fps=1e6, tail_share=0.01, tail_us=50_000.0)
    spec = make_latency_spec(make_conditions(frame_timeout_s=0.01))
    assert measure_timing(spec, tester.measure).repetitions[0].directions["forward"].lost == 500


@pytest.mark.parametrize(("tester", "reason"), [
    (UNTIMED, "returned no delays"),
    (make_delay_tester(Distribution.from_values(range(10))), "tagged 10 frames, not 50000"),
])  # fmt: skip
def test_missing_delays_are_tester_fault(tester, reason):
    result = measure_timing(make_latency_spec(repetitions=1), tester)
    assert not result.repetitions[0].valid
    assert len(result.attempts) == 3
    assert reason in result.attempts[-1].verdict.reasons[0]
    entry = make_measurement(result).record.to_json()
    assert entry["repetitions"] == 0
    assert len(entry["invalid_trials"]) == 3
    assert entry["directions"]["forward"]["tl"]["median"] is None


@pytest.mark.parametrize(("spec", "tester", "share", "title"), [
    (make_variation_spec("pdv"), make_delay_tester(Distribution.from_values(range(150_000)), 600_000), 0.25,
     "25.00%"),
    (make_variation_spec("pdv", rate_fps=3.0, duration_s=1.0), make_delay_tester(SAMPLE), 1.0, "PDV"),
    # TRex measures IPDV for series of adjacent frames only, so extremes are those of a sample
    (make_variation_spec("ipdv"),
     make_delay_tester(Distribution.from_values([5]), 600_001,
                 ipdv={"fg": Distribution.from_values(range(30_000))}), 0.05, "5.00%"),
    (make_latency_spec(tags=1000), make_delay_tester(THOUSAND, timed_share=0.1640625), 0.1640625,
     "Latency of a subset (16.41% of the connections)"),
    (make_latency_spec(tags=1000), make_delay_tester(THOUSAND), 1.0, "Latency"),
    # several cores of TRex count by port and cannot distinguish the classes
    (make_latency_spec(tags=1000), make_delay_tester(THOUSAND, 200_000, name="test frames", timed_share=0.01, timed_of="load"), 0.01,
     "1.00%"),
    (make_variation_spec("pdv"), make_delay_tester(THOUSAND, 200_000, name="test frames", timed_share=0.01, timed_of="load"), None,
     "0.50%"),
])  # fmt: skip
def test_sample_is_titled_with_its_share(spec, tester, share, title):
    entry = make_record(spec, tester).to_json()
    assert title in entry["title"]
    assert entry["sampled"] is (share != 1.0)
    assert share is None or entry["share"] == pytest.approx(share, rel=1e-3)
    assert ("%" in entry["title"]) is entry["sampled"]
    counted = tester(None)
    assert decode(TrialResult, encode(counted)) == counted


@pytest.mark.parametrize("kind", ["embedded", "trex", "sim"])
def test_delay_record_states_measurement_points(kind):
    stamps = load_kind(kind, {}).stamps
    spec, tester = make_variation_spec("pdv"), make_delay_tester(SAMPLE)
    entry = make_record(spec, tester, stamps=stamps).to_json()
    assert entry["definition"].startswith("one way, from ") and "RFC 1242" in entry["definition"]
    assert stamps in entry["definition"]
    assert "1 us" in stamps or kind != "trex"


def test_negative_delays_are_counted():
    tester = make_delay_tester(Distribution.from_values([0, 0, 5], clamped=2))
    entry = make_record(make_variation_spec("pdv", rate_fps=3.0, duration_s=1.0), tester).to_json()
    assert entry["directions"]["forward"]["clamped"] == [2, 2, 2]


def test_each_repetition_is_one_trial():
    recorder, progress = Recorder(make_sim(capacity_fps=1e6).measure), []
    measure_timing(make_latency_spec(repetitions=20, tags=100), recorder, progress.append)
    assert {(p.step, p.steps) for p in progress} == {(1, 1)}
    keys = [f"latency/104/forward/r{n:02d}/a1" for n in range(1, 21)]
    assert [t.key for t in recorder.trials] == keys
    requested = {(t.duration_s, t.delays.tags, t.delays.first_tag_s) for t in recorder.trials}
    assert requested == {(120.0, 100, 60.0)}


FROM_THROUGHPUT = {"rate_source": "median throughput"}


def make_slow_timer(limit_fps, timed_key="/none/"):
    """Make a tester that measures no delays above a rate, except in trials with this key."""
    tester = make_sim(capacity_fps=1e6)

    def measure(trial):
        is_too_fast = trial.rate_fps > limit_fps and timed_key not in trial.key
        return (UNTIMED if is_too_fast else tester.measure)(trial)

    return Recorder(measure)


def list_tries(recorder):
    return [(t.key.partition("forward/")[2], t.rate_fps) for t in recorder.trials]


def test_rate_without_timed_frames_is_lowered_and_recorded():
    tester = make_slow_timer(60_000)
    result = measure_timing(make_latency_spec(**FROM_THROUGHPUT, shares=(0.75, 0.5, 0.25)), tester)
    assert list_tries(tester) == [
        *((f"r01/a{n}", 100_000.0) for n in (1, 2, 3)),
        *((f"r01/at75percent/a{n}", 75_000.0) for n in (1, 2, 3)),
        *((f"r{n:02d}/at50percent/a1", 50_000.0) for n in (1, 2, 3)),
    ]
    record = make_measurement(result).record
    assert (record.rate, record.share_of_rate, record.repetitions) == (50_000.0, 0.5, 3)
    assert len(record.to_json()["invalid_trials"]) == 6
    assert {row["rate"] for row in make_measurement(result).rows} == {50_000.0}
    assert any("at 50%" in note for note in Latency().make_main_table([record]).notes)


def test_rate_that_fails_in_most_repetitions_is_lowered_for_all():
    tester = make_slow_timer(80_000, timed_key="/r01/")
    result = measure_timing(make_latency_spec(**FROM_THROUGHPUT, shares=(0.75,)), tester)
    assert list_tries(tester) == [
        ("r01/a1", 100_000.0),
        *((f"r{n:02d}/a{a}", 100_000.0) for n in (2, 3) for a in (1, 2, 3)),
        *((f"r{n:02d}/at75percent/a1", 75_000.0) for n in (1, 2, 3)),
    ]
    assert (result.share_of_rate, [r.valid for r in result.repetitions]) == (0.75, [True] * 3)
    record = make_measurement(result).record
    assert (record.repetitions, len(record.trials)) == (3, 10)
    assert len(record.to_json()["invalid_trials"]) == 6


@pytest.mark.parametrize(("limit_fps", "share"), [(1e9, 1), (80_000, 0.75)])
def test_disturbed_trials_neither_lower_rate_nor_hide_limit(limit_fps, share):
    tester = make_sim(capacity_fps=1e6)

    def measure(trial):
        if "/r03/" in trial.key:
            return (UNTIMED if trial.rate_fps > limit_fps else tester.measure)(trial)
        result = tester.measure(trial)
        disturbed = replace(result, faults=("the clock was stepped",), is_disturbed=True)
        return decode(TrialResult, encode(disturbed))  # as a resumed run reads it

    result = measure_timing(make_latency_spec(**FROM_THROUGHPUT, shares=(0.75, 0.5)), measure)
    assert result.share_of_rate == share
    assert [r.valid for r in result.repetitions] == [False, False, True]


def test_given_rate_is_not_lowered():
    tester = Recorder(UNTIMED)
    result = measure_timing(make_latency_spec(), tester)
    assert {t.rate_fps for t in tester.trials} == {100_000.0}
    assert not any(r.valid for r in result.repetitions)
