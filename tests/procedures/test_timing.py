"""Latency, PDV and IPDV, and how lost frames change them."""

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
from v6t.tests.procedures.support import BACKGROUND, FOREGROUND, Recorded, at, by_rule, one_way, sim
from v6t.trials.codec import decode, encode
from v6t.trials.delays import Distribution
from v6t.trials.result import TrialResult
from v6t.trials.trial import DelayRequest, Trial

pytestmark = pytest.mark.slow

SAMPLE = Distribution.from_values([10, 11, 12])
THOUSAND = Distribution.from_values(range(1000))
WHOLE = by_rule(lambda _, trial: trial.frames)
"""Forwards everything and times nothing."""


def latency(conditions=None, tags=50_000, first_tag_s=60.0, **changes):
    given = {"rate_fps": 100_000.0, "rate_source": "given", "duration_s": 120.0, "repetitions": 3}
    request = DelayRequest(tags=tags, first_tag_s=first_tag_s)
    return TimingSpec(conditions or at(), request=request, **{**given, **changes})


def every_frame(benchmark, **changes):
    given = {"rate_fps": 10_000.0, "rate_source": "given", "duration_s": 60.0, "repetitions": 3}
    request = DelayRequest(ipdv=benchmark == "ipdv")
    return TimingSpec(at(), request=request, benchmark=benchmark, **{**given, **changes})


def with_delays(times, frames=None, name="fg", **more):
    """Make a tester whose trials bring this distribution."""
    total = frames or times.frames + times.lost
    classes = {name: (total, frames or times.frames)}
    return lambda _: one_way(classes, delays={"fg": times}, **more)


def record_of(spec, tester, loopback=None, **more):
    result = measure_timing(spec, tester)
    return measured(result, loopback, **more).record


def measured(result, loopback=None, **more):
    return registry.load(result.spec.benchmark).make_measurement(result, {}, loopback, **more)


@pytest.mark.parametrize(("figures", "delays", "expected"), [
    # A8 and A9: latency; a lost tag is later than any other
    (summarize_latency, Distribution.from_values(range(1, 501)), {"tl": 250.5, "wcl": 500}),
    (summarize_latency, Distribution.from_values(range(1, 50_001)), {"wcl": 49_950}),
    (summarize_latency, Distribution.from_values(range(1, 1000), lost=1), {"wcl": 999}),
    (summarize_latency, Distribution.from_values(range(1, 999), lost=2), {"wcl": math.inf, "tl": 500.5}),
    # A10: PDV
    (summarize_pdv, Distribution.from_values([10] * 990 + [25] * 9 + [90]),
     {"pdv": 15, "min": 10, "p99_9": 25, "max": 90}),
    (summarize_pdv, Distribution.from_values([10] * 999, lost=1), {"pdv": 0}),
    (summarize_pdv, Distribution.from_values([10] * 998, lost=2), {"pdv": math.inf}),
    (summarize_pdv, Distribution((), (), lost=2), {"pdv": math.inf}),
    # A11: IPDV; pairs with a lost member are skipped
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


def test_tags_are_spread_over_the_time_after_the_first():
    places = list(TAGGED.tag_positions)
    assert places[0] == 60_000
    assert len(set(places)) == 500
    assert [p // 120 for p in places] == list(range(500, 1000))
    assert places[-1] < TAGGED.frames


@pytest.mark.parametrize("period", [2, 3, 4, 10, 12, 120])
def test_tags_do_not_beat_with_the_mixture(period):
    share = sum(place % period == 0 for place in TAGGED.tag_positions) / 500
    assert share == pytest.approx(1 / period, abs=0.01)


@pytest.mark.parametrize(("tags", "first_s", "duration_s", "fits"), [
    (0, 60.0, 120.0, False), (500, 120.0, 120.0, False), (500, -1.0, 120.0, False),
    (7000, 60.0, 120.0, False), (6000, 60.0, 120.0, True), (6000, 60.005, 120.0, False),
])  # fmt: skip
def test_number_of_tags_is_limited_by_frames(tags, first_s, duration_s, fits):
    assert (find_tag_conflict(tags, first_s, duration_s, 100.0) is None) is fits
    with contextlib.nullcontext() if fits else pytest.raises(ValueError, match="tag|latency"):
        latency(tags=tags, first_tag_s=first_s, duration_s=duration_s, rate_fps=100.0)


def test_latency_of_simulated_device_is_found():
    tester = sim(capacity_fps=1e6, delay_us=200.0, jitter_us=100.0, tail_share=0.002, tail_us=5e3)
    result = measure_timing(latency(at("bidirectional")), tester.measure)
    assert len(result.repetitions) == 3
    for repetition in result.repetitions:
        for timed in repetition.directions.values():
            assert timed.frames == 50_000
            assert timed.figures["tl"] == pytest.approx(250_000, rel=0.01)
            # one in 500 is in the tail, so the 99.9th percentile is, too
            assert 5_200_000 <= timed.figures["wcl"] <= 5_300_000 * 1.001


@pytest.mark.parametrize(("benchmark", "frames", "expected"), [
    ("pdv", 600_000, {"pdv": 99_900}),
    ("ipdv", 599_999, {"min": -99_000, "med": 0, "max": 99_000}),
])  # fmt: skip
def test_delay_variation_of_simulated_device_is_found(benchmark, frames, expected):
    tester = sim(capacity_fps=1e6, delay_us=200.0, jitter_us=100.0)
    result = measure_timing(every_frame(benchmark, repetitions=1), tester.measure)
    timed = result.repetitions[0].directions["forward"]
    assert (result.sampled, timed.frames) == (False, frames)
    for name, value in expected.items():
        assert timed.figures[name] == pytest.approx(value, rel=0.03, abs=2000)


def test_lost_frames_count_in_ranks():
    tester = sim(capacity_fps=99_000.0)  # one frame in a hundred is lost
    result = measure_timing(latency(), tester.measure)
    outcome = result.repetitions[0].directions["forward"]
    assert outcome.lost == pytest.approx(500, abs=5)
    assert math.isinf(outcome.figures["wcl"])
    assert math.isfinite(outcome.figures["tl"])
    entry = measured(result).record.to_json()
    worst = entry["directions"]["forward"]["wcl"]
    assert (worst["median"], worst["values"]) == (None, [None] * 3)
    assert "undefined" in worst["notes"][0]


def test_foreground_and_background_have_separate_delays():
    tester = sim(streams=(FOREGROUND, BACKGROUND), capacity_fps=1e6)
    result = measure_timing(latency(), tester.measure)
    classes = result.repetitions[0].classes["forward"]
    half = pytest.approx(25_000, abs=50)
    assert {name: timed.frames for name, timed in classes.items()} == {"fg": half, "bg": half}


def test_frames_beyond_their_deadline_are_lost():
    tester = sim(capacity_fps=1e6, tail_share=0.01, tail_us=50_000.0)
    outcome = measure_timing(latency(at(frame_timeout_s=0.01)), tester.measure)
    assert outcome.repetitions[0].directions["forward"].lost == 500


@pytest.mark.parametrize(("door", "says"), [
    (WHOLE, "returned no delays"),
    (with_delays(Distribution.from_values(range(10))), "tagged 10 frames, not 50000"),
])  # fmt: skip
def test_missing_delays_are_tester_fault(door, says):
    result = measure_timing(latency(repetitions=1), door)
    assert not result.repetitions[0].valid
    assert len(result.attempts) == 3
    assert says in result.attempts[-1].verdict.reasons[0]
    entry = measured(result).record.to_json()
    assert entry["repetitions"] == 0
    assert len(entry["invalid_trials"]) == 3
    assert entry["directions"]["forward"]["tl"]["median"] is None


@pytest.mark.parametrize(("spec", "tester", "share", "title"), [
    (every_frame("pdv"), with_delays(Distribution.from_values(range(150_000)), 600_000), 0.25,
     "25.00%"),
    (every_frame("pdv", rate_fps=3.0, duration_s=1.0), with_delays(SAMPLE), 1.0, "PDV"),
    # TRex times runs of neighbours only: least and largest are those of a sample
    (every_frame("ipdv"),
     with_delays(Distribution.from_values([5]), 600_001,
                 ipdv={"fg": Distribution.from_values(range(30_000))}), 0.05, "5.00%"),
    (latency(tags=1000), with_delays(THOUSAND, timed_share=0.1640625), 0.1640625,
     "Latency of a subset (16.41% of the connections)"),
    (latency(tags=1000), with_delays(THOUSAND), 1.0, "Latency"),
    # classes are not told apart: several cores of TRex count by ports
    (latency(tags=1000), with_delays(THOUSAND, 200_000, name="test frames", timed_share=0.01, timed_of="load"), 0.01,
     "1.00%"),
    (every_frame("pdv"), with_delays(THOUSAND, 200_000, name="test frames", timed_share=0.01, timed_of="load"), None,
     "0.50%"),
])  # fmt: skip
def test_sample_is_titled_with_its_share(spec, tester, share, title):
    entry = record_of(spec, tester).to_json()
    assert title in entry["title"]
    assert entry["sampled"] is (share != 1.0)
    assert share is None or entry["share"] == pytest.approx(share, rel=1e-3)
    assert ("%" in entry["title"]) is entry["sampled"]
    counted = tester(None)
    assert decode(TrialResult, encode(counted)) == counted


@pytest.mark.parametrize("kind", ["embedded", "trex", "sim"])
def test_delay_record_states_measurement_points(kind):
    stamps = load_kind(kind, {}).stamps
    entry = record_of(every_frame("pdv"), with_delays(SAMPLE), stamps=stamps).to_json()
    assert entry["definition"].startswith("one way, from ")
    assert "RFC 1242" in entry["definition"]
    assert stamps in entry["definition"]
    assert "1 us" in stamps or kind != "trex"


def test_negative_delays_are_counted():
    tester = with_delays(Distribution.from_values([0, 0, 5], clamped=2))
    entry = record_of(every_frame("pdv", rate_fps=3.0, duration_s=1.0), tester).to_json()
    assert entry["directions"]["forward"]["clamped"] == [2, 2, 2]


def test_each_repetition_is_one_trial():
    door, progress = Recorded(sim(capacity_fps=1e6).measure), []
    measure_timing(latency(repetitions=20, tags=100), door, progress.append)
    assert {(p.step, p.steps) for p in progress} == {(1, 1)}
    keys = [f"latency/104/forward/r{n:02d}/a1" for n in range(1, 21)]
    assert [t.key for t in door.trials] == keys
    requested = {(t.duration_s, t.delays.tags, t.delays.first_tag_s) for t in door.trials}
    assert requested == {(120.0, 100, 60.0)}


FROM_THROUGHPUT = {"rate_source": "median throughput"}


def timing_up_to(limit_fps, spares="/none/"):
    """Make a tester that times no frames above a rate, but in one repetition."""
    tester = sim(capacity_fps=1e6)

    def measure(trial):
        is_too_fast = trial.rate_fps > limit_fps and spares not in trial.key
        return (WHOLE if is_too_fast else tester.measure)(trial)

    return Recorded(measure)


def tries(recorded):
    return [(t.key.partition("forward/")[2], t.rate_fps) for t in recorded.trials]


def test_rate_without_timed_frames_is_lowered_and_recorded():
    tester = timing_up_to(60_000)
    result = measure_timing(latency(**FROM_THROUGHPUT, shares=(0.75, 0.5, 0.25)), tester)
    assert tries(tester) == [
        *((f"r01/a{n}", 100_000.0) for n in (1, 2, 3)),
        *((f"r01/at75percent/a{n}", 75_000.0) for n in (1, 2, 3)),
        *((f"r{n:02d}/at50percent/a1", 50_000.0) for n in (1, 2, 3)),
    ]
    record = measured(result).record
    assert (record.rate, record.share_of_rate, record.repetitions) == (50_000.0, 0.5, 3)
    assert len(record.to_json()["invalid_trials"]) == 6
    assert {row["rate"] for row in measured(result).rows} == {50_000.0}
    assert any("at 50%" in note for note in Latency().make_main_table([record]).notes)


def test_rate_that_fails_in_most_repetitions_is_lowered_for_all():
    tester = timing_up_to(80_000, spares="/r01/")
    result = measure_timing(latency(**FROM_THROUGHPUT, shares=(0.75,)), tester)
    assert tries(tester) == [
        ("r01/a1", 100_000.0),
        *((f"r{n:02d}/a{a}", 100_000.0) for n in (2, 3) for a in (1, 2, 3)),
        *((f"r{n:02d}/at75percent/a1", 75_000.0) for n in (1, 2, 3)),
    ]
    assert (result.share_of_rate, [r.valid for r in result.repetitions]) == (0.75, [True] * 3)
    record = measured(result).record
    assert (record.repetitions, len(record.trials)) == (3, 10)
    assert len(record.to_json()["invalid_trials"]) == 6


@pytest.mark.parametrize(("limit_fps", "share"), [(1e9, 1), (80_000, 0.75)])
def test_disturbed_trials_neither_lower_rate_nor_hide_limit(limit_fps, share):
    tester = sim(capacity_fps=1e6)

    def measure(trial):
        if "/r03/" in trial.key:
            return (WHOLE if trial.rate_fps > limit_fps else tester.measure)(trial)
        spoilt = replace(
            tester.measure(trial), faults=("the clock was stepped",), is_disturbed=True
        )
        return decode(TrialResult, encode(spoilt))  # as a run that goes on reads it

    result = measure_timing(latency(**FROM_THROUGHPUT, shares=(0.75, 0.5)), measure)
    assert result.share_of_rate == share
    assert [r.valid for r in result.repetitions] == [False, False, True]


def test_given_rate_is_not_lowered():
    tester = Recorded(WHOLE)
    result = measure_timing(latency(), tester)
    assert {t.rate_fps for t in tester.trials} == {100_000.0}
    assert not any(r.valid for r in result.repetitions)
