"""Resumed and repeated runs: which trials are replayed, and which are measured again."""

import json
import shlex
from dataclasses import asdict
from unittest.mock import Mock

import pytest
from v6t.analysis.report import run as run_report
from v6t.base.errors import UsageError
from v6t.base.files import acquire_lock
from v6t.core.cli import run_console
from v6t.core.config.resolve import resolve_setup
from v6t.core.config.run_setup import make_setup
from v6t.core.runs import dut, results, tester_capacity
from v6t.core.runs.bench import Bench
from v6t.core.runs.events import Listener, RemainingTimeEstimator
from v6t.core.runs.journal import Journal
from v6t.core.runs.plan import Stage
from v6t.core.runs.results import read_results
from v6t.core.runs.rundir import read_run_files, write_run_files
from v6t.core.runs.runner import Runner, execute, resume
from v6t.core.runs.tester_capacity import CAPACITY_FILE, SelfTest
from v6t.procedures.tester_rate import TrialRules
from v6t.procedures.trial_runner import FPS, Progress
from v6t.tests.core.support import (
    SIM,
    measure_run,
    read_comparable,
    read_trial_keys,
    replace_config,
    simulate,
    v6t,
)
from v6t.tests.expect import expect_error
from v6t.tests.settings import resolve
from v6t.trials.connections import PhaseOneResult
from v6t.trials.result import TrialResult
from v6t.trials.trial import Trial


class StopAt(Listener):
    """Stop a run before the trial whose key ends in ``ending``."""

    def __init__(self, ending):
        self.ending = ending

    def on_trial_start(self, current_trial):
        if current_trial.trial.key.endswith(self.ending):
            raise KeyboardInterrupt


def make_run(plugin="mape-br", **options):
    shape = {"modes": ("forward",), "frame_sizes": (104,)}
    quick = {"repetitions": 1, "selftest": "cached"}
    return simulate(plugin=plugin, device=options, procedure=quick, **shape)


def interrupt_run(run, path, ending="s02/a1"):
    with pytest.raises(KeyboardInterrupt):
        execute(make_setup(run), path, StopAt(ending))


def make_trial(key):
    return Trial("throughput", key, 104, 64, "forward", 1000.0, 1.0)


def test_journal_with_lines_of_two_runs_is_rejected_without_manifest(tmp_path):
    path = tmp_path / "journal.jsonl"
    for number, run in enumerate(("first", "second")):
        journal = Journal(path)
        journal.run = run
        journal.append(make_trial(f"t{number}"), TrialResult({}))
        journal.close()
    with expect_error("journal-mismatch"):
        Journal(path)


def test_discarded_trials_are_replaced_in_the_journal(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl", "run")
    for key in ("a", "b", "c"):
        journal.append(make_trial(key), TrialResult({}))
    journal.discard_from("b")
    journal.discard_from("unknown")
    journal.append(make_trial("d"), TrialResult({}))
    journal.close()
    assert list(Journal(tmp_path / "journal.jsonl", "run").entries) == ["a", "d"]


def test_resumed_run_keeps_its_selftest_although_another_is_cached(tmp_path, monkeypatch):
    monkeypatch.setattr(SelfTest, "_is_cacheable", True)
    measure_run(make_run(), tmp_path / "whole")
    interrupt_run(make_run(), tmp_path / "out")
    strict = asdict(TrialRules(1000.0, 0.0, 1.0))
    monkeypatch.setattr(SelfTest, "key", "this self-test")
    cache = {"this self-test": {"fps": 5e6, "when": "later", "rules": strict}}
    monkeypatch.setattr(tester_capacity, "_read_cache", lambda: dict(cache))
    resume(tmp_path / "out", Listener())
    assert read_comparable(tmp_path / "out") == read_comparable(tmp_path / "whole")
    assert read_trial_keys(tmp_path / "out") == read_trial_keys(tmp_path / "whole")


@pytest.mark.parametrize("content", [["x"], {"this self-test": 5}])
def test_damaged_capacity_file_is_reported(content, tmp_path, monkeypatch):
    monkeypatch.setattr(SelfTest, "_is_cacheable", True)
    monkeypatch.setattr(SelfTest, "key", "this self-test")
    interrupt_run(make_run(), tmp_path / "out")
    (tmp_path / "out" / CAPACITY_FILE).write_text(json.dumps(content))
    with expect_error("damaged-file"):
        resume(tmp_path / "out", Listener())


@pytest.mark.parametrize(("plugin", "options", "code"), [
    ("mape-br", {"tester_fps": 200_000, "noisy_at": 1, "noisy_trials": 40}, "tester-fault"),
    ("mape-br", {"mismatch": 3}, "translation-incorrect"),
    ("nat44", {"phase_one_loss": 5, "phase_one_loss_trials": 40}, "phase-one-lost"),
])  # fmt: skip
def test_failed_check_is_measured_again(plugin, options, code, tmp_path):
    path, faults = tmp_path / "out", options.keys() - {"tester_fps"}
    with expect_error(code):
        measure_run(make_run(plugin, **options), path)
    with expect_error(code):  # the fault persists
        resume(path, Listener())

    def remove_faults(config):
        for fault in faults:
            del config["tester"]["options"][fault]

    replace_config(path, remove_faults)
    resume(path, Listener())
    rest = {name: value for name, value in options.items() if name not in faults}
    measure_run(make_run(plugin, **rest), tmp_path / "whole")
    assert read_results(path)["status"] == "complete"
    assert read_comparable(path) == read_comparable(tmp_path / "whole")
    assert read_trial_keys(path) == read_trial_keys(tmp_path / "whole")


def test_fail_below_is_checked_by_resume(tmp_path, monkeypatch):
    monkeypatch.setattr(run_report, "MAX_FIGURES", 0)
    interrupt_run(make_run(), tmp_path / "out")
    assert v6t("resume", tmp_path / "out", "--no-report", "--fail-below", "100G").status == 7
    assert read_results(tmp_path / "out")["fail_below_fps"] == 100e9
    v6t("resume", tmp_path / "out", "--fail-below", "1", "--report")  # is complete
    assert "<failure" not in (tmp_path / "out" / "junit.xml").read_text()
    v6t("resume", tmp_path / "out", "--fail-below", "100G", "--report")
    assert "<failure" in (tmp_path / "out" / "junit.xml").read_text()


def test_results_are_written_under_the_lock_of_the_run(tmp_path, monkeypatch):
    write = Mock(side_effect=results.write_results)

    def check_lock_and_write(directory, content):
        with expect_error("directory-locked"):
            acquire_lock(directory)
        write(directory, content)

    for module in (results, run_console):
        monkeypatch.setattr(module, "write_results", check_lock_and_write)
    words = ("run", "siit", "--tester", "sim", "--mode", "forward", "--reps", 1)
    done = v6t(*words, "--fail-below", "1", "-o", tmp_path / "out")
    assert (done.status, write.call_args.args[1]["fail_below_fps"]) == (0, 1.0), done


def test_command_that_resumes_an_interrupted_run_repeats_its_checks(tmp_path, monkeypatch):
    measure_run(make_run(), tmp_path / "before")

    monkeypatch.setattr(Runner, "_measure", Mock(side_effect=KeyboardInterrupt))
    checks = ["--fail-below", "1234567", "--baseline", str(tmp_path / "before")]
    done = v6t("run", "--plugin", "mape-br", "--tester", "sim", *checks, "-o", tmp_path / "out")
    assert shlex.join(["v6t", "resume", str(tmp_path / "out"), *checks]) in done.err


def test_repeated_run_has_the_same_number_of_connections(tmp_path):
    subscribers = {"subscribers": "1000", "connections_per_subscriber": "200"}
    count = {"connections.count": "100000"}
    run = resolve(plugin="nat44", tester="sim", params=subscribers, procedure=count)
    measured = tmp_path / "config.json"
    measured.write_text(json.dumps(run.to_json()))
    run_file, testbed = read_run_files(tmp_path)
    assert resolve_setup(run_file, testbed).settings == run
    files = write_run_files(tmp_path, tmp_path / "files")
    assert any("count: 100000" in file.read_text() for file in files)


def test_device_is_restored_if_its_description_fails(tmp_path, monkeypatch):
    error, close = UsageError("the device is unknown", code="command-failed"), Mock()
    monkeypatch.setattr(Bench, "describe", Mock(side_effect=error))
    monkeypatch.setattr(Bench, "close", close)
    with expect_error("command-failed"):
        measure_run(make_run(), tmp_path / "out")
    assert close.call_count == 2


def test_dut_verify_reports_lost_connections(monkeypatch):
    lost = TrialResult({}, connections=PhaseOneResult(200, 200, 195))
    monkeypatch.setattr(Bench, "measure", lambda bench, trial: lost)
    with expect_error("phase-one-lost"):
        dut.verify(resolve_setup(None, None, plugin="nat44", dut="nftables", tester="embedded"))


def make_progress(step):
    return Progress("throughput/84/forward", 1, 1, step, 10, 0.0, 1e6, 5e5, unit=FPS)


def test_replayed_stages_do_not_change_the_remaining_time():
    seconds = [100.0]
    sizes = "84/64", "512/492", "1518/1498"
    replayed, current, coming = (Stage("throughput", s, "forward", 50.0, 50.0) for s in sizes)
    remaining = RemainingTimeEstimator([replayed, current, coming], lambda: seconds[0])
    remaining.begin(replayed)
    remaining.record_progress(make_progress(10))
    remaining.begin(current)
    remaining.record_progress(make_progress(6))  # half of its trials are in the journal
    trial = make_trial("throughput/512/forward/r01/s06")
    assert remaining.start_trial(trial, None).remaining_s == pytest.approx(75.0)
    seconds[0] += 5.0
    remaining.record_progress(make_progress(7))
    assert remaining.start_trial(trial, None).remaining_s == pytest.approx(70.0)
    remaining.begin(coming)
    assert remaining.start_trial(trial, None).remaining_s == pytest.approx(50.0)


def test_run_is_resumed_after_tester_failures(tmp_path):
    path = tmp_path / "out"
    done = v6t(*SIM, "--reps", "1", "--no-report", "--set-tester", "crash_at=30", "-o", path)
    assert done.status == 5
    for _ in range(50):
        if done.status == 5:
            done = v6t("resume", path, "--no-report")
    assert done.status == 0, done.err
    assert read_results(path)["status"] == "complete"
