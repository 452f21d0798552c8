"""Data that a run stores with its trials: the journal, steal time, and counters of the device."""

import json
import os
import re
from contextlib import closing

import pytest
from v6t.analysis.results_schema import DeviceCounts
from v6t.base.errors import DutError
from v6t.core.runs import trials
from v6t.core.runs.device import DeviceCountRecorder
from v6t.core.runs.journal import Journal
from v6t.core.runs.trials import find_steal_time, list_steal_time_warnings, with_steal_time
from v6t.drivers.duts.readings import LossReason, Reading
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.telemetry import Sample
from v6t.tests.core.support import v6t, v6t_process, write_report
from v6t.tests.drivers.duts import intents
from v6t.tests.needs import needs_lab
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import Trial


def make_trial(number):
    return Trial("throughput", f"t{number}", 104, 64, "forward", 1000.0, 1.0)


def make_result(received=1000):
    count = ClassCount("foreground", 1000, 1000, received)
    return TrialResult({"forward": DirectionResult({"fg": count}, 1.0)})


@pytest.mark.slow
def test_truncated_journal_keeps_complete_lines(tmp_path):
    with closing(Journal(tmp_path / "j")) as journal:
        for number in range(3):
            journal.append(make_trial(number), make_result(1000 - number))
    data = (tmp_path / "j").read_bytes()
    ends = [i + 1 for i, octet in enumerate(data) if octet == 10]
    assert Journal(tmp_path / "j").entries == {f"t{n}": make_result(1000 - n) for n in range(3)}
    for size in range(len(data) + 1):
        path = tmp_path / "cut"
        path.write_bytes(data[:size])
        journal = Journal(path)
        assert len(journal.entries) == sum(end <= size for end in ends)
        assert journal.torn == (size not in (0, *ends))
        journal.append(make_trial(99), make_result())
        journal.close()
        again = Journal(path)
        assert list(again.entries)[-1] == "t99"
        assert not again.torn
        again.close()


BEFORE = "cpu  100 0 100 700 50 0 50 1000 7 7\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
AFTER = "cpu  130 0 120 720 50 0 60 1020 99 99\n"
EMPTY = TrialResult(directions={}, tester={"forward": {"ring_drops": 3}})


@pytest.fixture
def measure_steal_time(monkeypatch, tmp_path):
    """Provide a function that measures a trial during which the kernel's counters change."""
    stat = tmp_path / "stat"
    monkeypatch.setattr(trials, "PROC_STAT", stat)

    def write(text):
        if text is not None:
            stat.write_text(text)

    def measure(before, after, **options):
        def measure_trial(trial):
            write(after)
            return EMPTY

        write(before)
        return with_steal_time(measure_trial, **options)(None)

    return measure


def test_steal_time_is_a_share_of_all_time_without_guests(measure_steal_time):
    result = measure_steal_time(BEFORE, AFTER)
    assert result.tester == {"forward": {"ring_drops": 3}, "stolen": 0.2}
    assert find_steal_time(result) == 0.2


@pytest.mark.parametrize(("before", "after", "options"), [
    (BEFORE, BEFORE, {}), (BEFORE, "", {}), (BEFORE, "cpu 1 2 3\n", {}), (None, None, {}),
    (BEFORE, AFTER, {"in_lab": False}),
])  # fmt: skip
def test_unknown_steal_time_is_left_out(measure_steal_time, before, after, options):
    assert measure_steal_time(before, after, **options) is EMPTY
    assert find_steal_time(EMPTY) is None


@pytest.mark.parametrize(("shares", "percents"), [
    ([], []), ([0.0, 0.04, 0.005], []), ([0.02, 0.02, 0.03], ["2%", "3%"]),
    ([0.0, 0.0, 0.75], ["0%", "75%"]),
])  # fmt: skip
def test_considerable_steal_time_gives_a_warning(shares, percents):
    assert re.findall(r"\d+%", " ".join(list_steal_time_warnings(shares))) == percents


READINGS = make_driver("nftables", {}).get_telemetry_readings(intents.make_nat44())
QUEUE = Reading("cat queue", float, loss_reasons={"dropped": LossReason.QUEUE})
POINT = {"benchmark": "throughput", "frame_sizes": {"ipv6": 84, "ipv4": 64}, "direction": "forward"}


class Device:
    """Device that drops seven frames and keeps ten more connections between any two readings."""

    def __init__(self, *, silent=False):
        self.read_s = 0
        self.silent = silent

    def get_sessions(self):
        return [("nat", self)]

    def read_sample(self):
        if self.silent:
            raise DutError("it does not answer", code="command-failed")
        self.read_s += 1
        figures = {
            "link left": {"rx.dropped": 7.0 * self.read_s, "rx.packets": 99.0},
            "table": {"used": 10.0 * self.read_s, "limit": 1000.0},
            "queue": {"waiting": 5.0 - self.read_s, "dropped": 0.0},
        }
        return Sample(figures, 2.0 * self.read_s, {**READINGS, "queue": QUEUE})


def count_benchmark(device, recorder, trial_count=1, **point):
    for _ in range(trial_count):
        recorder.begin(device)
    recorder.end(device, {**POINT, **point})


def test_benchmark_is_counted_from_its_first_to_its_last_trial():
    device, recorder = Device(), DeviceCountRecorder(())
    count_benchmark(device, recorder, trial_count=3)
    assert device.read_s == 2
    device.read_s += 5  # it dropped 35 frames between the benchmarks
    count_benchmark(device, recorder, direction="reverse")
    assert device.read_s == 9
    first, second = recorder.entries
    assert first["drops"] == second["drops"] == {"link left rx.dropped": 7.0}
    assert first["lost_for"] == {"link left rx.dropped": "queue"}
    assert first["changes"] == {"queue waiting": -1.0}
    assert (first["seconds"], first["direction"]) == (2.0, "forward")
    assert (second["table"]["before"]["used"], second["direction"]) == (80.0, "reverse")
    assert first["table"]["after"] == {"used": 20.0, "limit": 1000.0, "full": 2.0}
    assert DeviceCounts.model_validate(json.loads(json.dumps(first))).to_json() == first


def test_benchmark_without_trial_has_no_entry():
    device, recorder = Device(), DeviceCountRecorder(())
    count_benchmark(device, recorder, trial_count=0)
    assert (recorder.entries, device.read_s) == ([], 0)
    count_benchmark(device, recorder)
    count_benchmark(device, recorder, trial_count=0, benchmark="ipdv")
    assert [e["benchmark"] for e in recorder.entries] == ["throughput"]
    assert device.read_s == 2


def test_repeated_benchmark_replaces_its_entry():
    before = DeviceCountRecorder(())
    count_benchmark(Device(), before)
    (entry,) = before.entries
    empty = {**entry, "drops": {}}
    recorder = DeviceCountRecorder([empty, {**empty, "benchmark": "latency"}])
    count_benchmark(Device(), recorder)
    drops = [(e["benchmark"], len(e["drops"])) for e in recorder.entries]
    assert drops == [("throughput", 1), ("latency", 0)]


@pytest.mark.parametrize("device", [None, Device(silent=True)], ids=["none", "silent"])
def test_unreadable_device_has_no_entry(device):
    recorder = DeviceCountRecorder(())
    count_benchmark(device, recorder)
    assert recorder.entries == []


@pytest.mark.lab
@pytest.mark.slow
@needs_lab
def test_run_stores_device_counters(tmp_path):
    procedure = {
        "repetitions": 1, "trial_duration_s": 0.2, "pause_s": 0.0, "residual_wait_s": 0.1,
        "resolution_ratio": 0.5, "sending_time_tolerance": 2.0,
    }  # fmt: skip
    run, bed, out = tmp_path / "run.yaml", tmp_path / "testbed.yaml", tmp_path / "out"
    content = {"plugin": "ipv4-router", "modes": ["forward"], "procedure": procedure}
    run.write_text(json.dumps(content))
    bed.write_text(json.dumps({"dut": {"driver": "linux-router"}, "line_rate": "1M"}))
    done = (v6t if os.geteuid() == 0 else v6t_process)("run", run, "--testbed", bed, "-o", out)
    assert done.status == 0, done.err
    assert "What the device counted over all trials of each benchmark" in write_report(out)
    (entry,) = json.loads((out / "results.json").read_text())["device"]
    assert (entry["benchmark"], entry["direction"]) == ("throughput", "forward")
    assert entry["seconds"] > 0
    assert set(entry) == {"device", *POINT, "seconds", "drops", "lost_for", "changes", "table"}
