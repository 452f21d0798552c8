"""The self-test: it is measured, cached, invalidated by changes and repeated after noise."""

import json
from contextlib import closing
from dataclasses import replace

import pytest
from v6t.base.files import locate_cache
from v6t.core.config.run_setup import make_setup
from v6t.core.config.settings import LinksSettings
from v6t.core.runs import tester_capacity
from v6t.core.runs.bench import compile_directions
from v6t.core.runs.events import Listener
from v6t.core.runs.results import read_results
from v6t.core.runs.rundir import RunDir
from v6t.core.runs.runner import execute, resume
from v6t.core.runs.tester_capacity import (
    THIS_RUN_SOURCE,
    UNKNOWN_SOURCE,
    SelfTest,
    make_capacity_spec,
    measure_capacities,
)
from v6t.procedures.tester_rate import TesterCapacity, find_plausible_rate, measure_tester_capacity
from v6t.tests.core.support import read_journal, simulate
from v6t.tests.procedures.support import make_limited
from v6t.tests.settings import resolve

MEDIA = 10_000_000.0


@pytest.fixture(autouse=True)
def _use_temporary_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class Loopback:
    """Tester without a device: it has limits for short and long trials, and records its trials."""

    def __init__(self, limit_fps, lasting_fps=None):
        self.limits, self.trials = (limit_fps, lasting_fps or limit_fps), []

    def __call__(self, trial):
        self.trials.append(trial)
        return make_limited(self.limits[trial.duration_s > 10])(trial)


def make_run(seed=1, tester="embedded", **procedure):
    procedure = {"selftest": "cached", **procedure}
    return resolve(plugin="mape-br", tester=tester, seed=seed, procedure=procedure)


def make_rfc_run():
    return resolve(plugin="mape-br", tester="embedded", preset="rfc")


def with_trex(run):
    """Return the same run with TRex, whose ports cannot be joined."""
    tester = run.tester.model_copy(update={"kind": "trex", "options": {}})
    return run.model_copy(update={"tester": tester})


def make_spec(run, size=104, **changes):
    """Return the plugin's streams of a frame size and the self-test's specification, forward."""
    plugin = make_setup(run).technology
    sizes = plugin.make_frame_pair(size)
    spec = replace(make_capacity_spec(run, sizes, "forward"), media_fps=MEDIA)
    return replace(spec, **changes), compile_directions(plugin, sizes, run.seed)


def make_selftest(run, measure, opens_connections=False, **changes):
    return SelfTest(make_setup(run), *make_spec(run, **changes), measure, opens_connections)


def find_capacity(run, directory, limit_fps=1e6, **changes):
    """Return the rate, its source, and the number of trials of a self-test."""
    loopback = Loopback(limit_fps)
    capacity, source = make_selftest(run, loopback, **changes).find_capacity(directory)
    return capacity.rate_fps, source, len(loopback.trials)


def expect_new_selftest(run, directory, **changes):
    rate, source, trials = find_capacity(run, directory, **changes)
    assert source == THIS_RUN_SOURCE
    assert trials > 3
    return rate


@pytest.fixture
def directory(tmp_path):
    with closing(RunDir(tmp_path / "run", new=True)) as run_directory:
        yield run_directory


def test_self_test_runs_by_default(directory):
    assert resolve(plugin="mape-br").procedure.selftest == "run"
    for limit in (1e6, 2e6):
        rate = expect_new_selftest(make_run(selftest="run"), directory, limit_fps=limit)
        assert 0.9 * limit < rate <= 1.1 * limit
    # the plan includes one trial under the rules of the benchmark
    assert make_spec(make_run(selftest="run"))[0].confirmation_s == pytest.approx(0.7 + 0.15)
    assert make_spec(make_rfc_run())[0].confirmation_s == 60.0 + 2.0


def test_self_test_uses_rules_of_benchmark(directory):
    """The tester sends 2 Mfps for 5 s, but only 1 Mfps for the trial duration of a minute."""
    run, loopback = make_rfc_run(), Loopback(2e6, 1e6)
    capacity, source = make_selftest(run, loopback).find_capacity(directory)
    assert source == THIS_RUN_SOURCE
    assert 0.85e6 < capacity.rate_fps <= 1e6
    last, p = loopback.trials[-1], run.procedure
    assert (last.rate_fps, last.duration_s) == (capacity.rate_fps, p.trial_duration_s)
    assert last.residual_wait_s == p.residual_wait_s == 2.0
    assert make_spec(run)[0].rules.sending_time_tolerance == p.sending_time_tolerance == 1.00001
    short = [t for t in loopback.trials if t.duration_s == 5.0]
    assert 1.8e6 < max(t.rate_fps for t in short[-4:]) <= 2.5e6


def test_sending_late_is_judged_as_in_the_benchmark():
    """Sending 1 % too long is accepted while searching, but not by the rules of the rfc preset."""

    def send_late(trial):
        result = make_limited(1e9)(trial)
        late = trial.duration_s * (1.01 if trial.rate_fps > 4e6 else 1.0)
        directions = {n: replace(d, sending_time_s=late) for n, d in result.directions.items()}
        return replace(result, directions=directions)

    spec, _ = make_spec(make_rfc_run())
    assert 3.5e6 < measure_tester_capacity(spec, send_late).rate_fps <= 4e6
    assert measure_tester_capacity(replace(spec, rules=None), send_late).rate_fps == MEDIA


def test_self_test_with_laxer_rules_is_not_used(directory):
    """The cached self-test has the rules of the quick preset, but the run needs the rfc preset."""
    selftest = make_selftest(with_trex(make_run()), Loopback(1e6))
    selftest.store(TesterCapacity("forward", 123.0, (), ()))
    rate, source, trials = find_capacity(with_trex(make_rfc_run()), directory)
    assert (rate, trials) == (MEDIA, 0)
    assert "not known" in source and "123 fps" in source


def test_cached_capacity_is_used_by_next_run(directory, tmp_path):
    first = expect_new_selftest(make_run(), directory)
    with closing(RunDir(tmp_path / "next", new=True)) as following:
        rate, source, trials = find_capacity(make_run(), following, limit_fps=5e6)
    assert (rate, trials) == (first, 0)
    assert source.startswith("self-test of 20")


TAGGED = {side: {"vlan": 5, "background": {"vlan": 6}} for side in ("left", "right")}


@pytest.mark.parametrize(("run", "changes"), [
    (make_run().model_copy(update={"links": LinksSettings.model_validate(TAGGED)}), {"size": 108}),
    (make_run(seed=2), {}),
    (make_run(trial_duration_s=0.1), {}),
    (make_run(), {"size": 128}),
    (make_run(), {"mode": "reverse"}),
    (make_run(), {"variant": "fixed-"}),
])  # fmt: skip
def test_changed_settings_need_a_new_self_test(directory, run, changes):
    find_capacity(make_run(), directory)
    expect_new_selftest(run, directory, **changes)


def test_other_machine_needs_a_new_self_test(directory, monkeypatch):
    find_capacity(make_run(), directory)
    machine = {**tester_capacity.describe_machine(), "processor": "another"}
    monkeypatch.setattr(tester_capacity, "describe_machine", lambda: machine)
    expect_new_selftest(make_run(), directory)


@pytest.mark.parametrize("damaged", [7.0, {"when": "today"}])
def test_damaged_capacity_is_measured_again(directory, damaged):
    find_capacity(make_run(), directory)
    cache = locate_cache() / tester_capacity.CAPACITY_FILE
    cache.write_text(json.dumps(dict.fromkeys(json.loads(cache.read_text()), damaged)))
    expect_new_selftest(make_run(), directory)


def test_resumed_run_keeps_its_tester_capacity(directory):
    first, _, _ = find_capacity(make_run(), directory)
    find_capacity(make_run(), directory)
    cache = locate_cache() / tester_capacity.CAPACITY_FILE
    capacities = json.loads(cache.read_text())
    cache.write_text(json.dumps({k: {**v, "fps": 7.0} for k, v in capacities.items()}))
    rate, source, trials = find_capacity(make_run(), directory)
    assert (rate, trials) == (first, 0)
    assert source.startswith("self-test of 20")


def test_simulated_or_failed_self_test_is_not_cached(directory):
    for _ in range(2):
        expect_new_selftest(make_run(tester="sim"), directory)
    assert find_capacity(make_run(), directory, limit_fps=0.0)[0] == 0.0
    assert not (locate_cache() / tester_capacity.CAPACITY_FILE).exists()


def test_phase_one_has_separate_capacity(directory):
    for _ in range(2):
        expect_new_selftest(make_run(), directory, opens_connections=True)


def test_tester_without_loopback_uses_cached_capacity(directory, tmp_path):
    run = with_trex(make_run())
    assert not make_setup(run).tester.can_loop_back
    assert find_capacity(run, directory) == (MEDIA, UNKNOWN_SOURCE, 0)
    make_selftest(run, Loopback(1e6)).store(TesterCapacity("forward", 123.0, (), ()))
    # the duration of the self-test does not matter; a run that began without one continues so
    assert find_capacity(run, directory, duration_s=9.0)[1] == UNKNOWN_SOURCE
    with closing(RunDir(tmp_path / "next", new=True)) as following:
        assert find_capacity(run, following, duration_s=9.0)[0] == 123.0


TESTER_FPS, DEVICE_FPS = 2_000_000.0, 1_000_000.0


class Messages(Listener):
    def __init__(self):
        self.texts = []

    def on_message(self, text):
        self.texts.append(text)

    def count(self, words):
        return sum(words in text for text in self.texts)


def make_noisy_setup(modes, **options):
    device = {"tester_fps": TESTER_FPS, "capacity_fps": DEVICE_FPS, **options}
    return make_setup(simulate(
        "throughput", plugin="siit", device=device, modes=modes, frame_sizes=(84,),
        procedure={"repetitions": 1},
    ))  # fmt: skip


def measure_rates(path, modes, **options):
    """Return the rates by mode, the messages, and the keys of all trials of a run."""
    messages = Messages()
    outcome = execute(make_noisy_setup(modes, **options), path, messages)
    keys = [entry["trial"]["key"] for entry in read_journal(path)]
    return {r.direction: r.median for r in outcome.records}, messages, keys


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """Measure without noise; provide the rates, and the first trial of the second self-test."""
    path = tmp_path_factory.mktemp("quiet") / "run"
    rates, messages, keys = measure_rates(path, ("bidirectional", "forward", "reverse"))
    assert messages.count("it is repeated") == 0
    assert min(rates.values()) > 0.95 * DEVICE_FPS
    return rates, sum(key.startswith("selftest/84/bidirectional/t") for key in keys) + 1


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_noisy_self_test_is_repeated_if_another_mode_contradicts_it(quiet, tmp_path, mode):
    """The machine is busy during the self-test of the second mode, which the first mode reveals."""
    (rates, begin), modes = quiet, ("bidirectional", mode)
    noisy, messages, keys = measure_rates(tmp_path / "noisy", modes, noisy_at=begin)
    assert noisy == {mode: rates[mode] for mode in modes}
    (text,) = [text for text in messages.texts if "it is repeated" in text]
    assert text.startswith(f"84/64 octets, {mode}: ")
    assert any(f"selftest/84/{mode}/a2-t" in key for key in keys)
    # without another mode, the cause of the limit is unknown, and the result has a warning
    noise = {"noisy_at": 1, "noisy_trials": 40}
    alone, messages, _ = measure_rates(tmp_path / "alone", (mode,), **noise)
    assert messages.count("it is repeated") == 0
    assert alone[mode] < DEVICE_FPS / 2


def test_persistent_noise_is_accepted_after_two_repetitions(quiet, tmp_path):
    modes, noise = ("bidirectional", "forward"), {"noisy_at": quiet[1], "noisy_trials": 1000}
    rates, messages, _ = measure_rates(tmp_path / "noisy", modes, **noise)
    assert messages.count("it is repeated") == 2
    assert rates["forward"] < rates["bidirectional"]


def test_selftest_command_repeats_noisy_test(quiet):
    messages = Messages()
    setup = make_noisy_setup(("bidirectional", "forward"), noisy_at=quiet[1])
    rows = list(measure_capacities(setup, messages.on_message))
    assert messages.count("it is repeated") == 1
    assert rows[1]["capacity_fps"] >= rows[0]["capacity_fps"] > DEVICE_FPS


@pytest.mark.parametrize(("mode", "others", "least"), [
    ("forward", {}, 0.0),
    ("forward", {"bidirectional": 7e4}, 7e4),
    ("reverse", {"bidirectional": 7e4, "forward": 9e5}, 7e4),
    ("forward", {"reverse": 9e5}, 0.0),  # the directions have different frame sizes
    ("bidirectional", {"forward": 8e5, "reverse": 4e5}, 1e5),
    ("bidirectional", {}, 0.0),
])  # fmt: skip
def test_plausible_rate_follows_from_other_modes(mode, others, least):
    assert find_plausible_rate(mode, others) == least


def test_single_mode_repeats_noisy_self_test(quiet, tmp_path):
    """The tester seems to limit the result, so self-test and benchmark are repeated."""
    path, messages = tmp_path / "noisy", Messages()
    outcome = execute(make_noisy_setup(("forward",), noisy_at=1, noisy_trials=8), path, messages)
    (record,) = outcome.records
    assert record.median == quiet[0]["forward"] and record.tester_limited is False
    assert messages.count("are repeated") == 1
    keys = [entry["trial"]["key"] for entry in read_journal(path)]
    assert {key.split("/")[0] for key in record.trials} == {"again1-throughput"}
    assert any(key.startswith("throughput/") for key in keys)
    # replaying the journal gives the same results
    (path / "results.json").write_text(json.dumps(read_results(path) | {"status": "running"}))
    resumed = resume(path, Messages())
    assert len(resumed.trials) == len(keys)
    assert [r.median for r in resumed.records] == [record.median]


def test_slow_tester_is_not_tested_again(tmp_path):
    """If the device is faster than the tester, one more short self-test trial confirms the limit."""
    rates, messages, keys = measure_rates(tmp_path / "run", ("forward",), capacity_fps=9_000_000)
    assert messages.count("it is repeated") == 0
    assert rates["forward"] < TESTER_FPS * 1.01
    assert sum("selftest/84/forward/u" in key for key in keys) == 1
    assert not any(key.startswith("again") for key in keys)
