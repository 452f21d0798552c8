"""Counters of a device over each benchmark."""

import json
import os

import pytest
from v6t.analysis.results_schema import DeviceCounts as Entry
from v6t.base.errors import DutError
from v6t.core.runs.device import DeviceCountRecorder
from v6t.drivers.duts.readings import LossReason, Reading
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.telemetry import Sample
from v6t.drivers.lab.privilege import check_availability
from v6t.tests.core.support import v6t, v6t_process
from v6t.tests.drivers.duts import intents

READINGS = make_driver("nftables", {}).get_telemetry_readings(intents.nat44())
QUEUE = Reading("cat queue", float, loss_reasons={"dropped": LossReason.QUEUE})
WHERE = {"benchmark": "throughput", "frame_sizes": {"ipv6": 84, "ipv4": 64}, "direction": "forward"}
POSSIBLE, WHY = check_availability()


class Device:
    """Drops seven frames between each two readings, and keeps ten connections more."""

    def __init__(self, *, silent=False):
        self.read_s = 0
        self.silent = silent

    def get_sessions(self):
        return [("nat", self)]

    def read_sample(self):
        if self.silent:
            raise DutError("it does not answer", code="command-failed")
        self.read_s += 1
        table = {"used": 10.0 * self.read_s, "limit": 1000.0}
        figures = {
            "link left": {"rx.dropped": 7.0 * self.read_s, "rx.packets": 99.0},
            "table": table,
            "queue": {"waiting": 5.0 - self.read_s, "dropped": 0.0},
        }
        return Sample(figures, 2.0 * self.read_s, {**READINGS, "queue": QUEUE})


def test_benchmark_is_counted_from_its_first_to_its_last_trial():
    device, counts = Device(), DeviceCountRecorder(())
    counts.end(device, WHERE)
    assert counts.entries == [] and device.read_s == 0, "no trial was made"
    for _ in range(3):
        counts.begin(device)
    assert device.read_s == 1
    counts.end(device, WHERE)
    device.read_s += 5  # it dropped 35 frames between the benchmarks
    counts.begin(device)
    counts.end(device, {**WHERE, "direction": "reverse"})
    assert device.read_s == 9
    first, second = counts.entries
    assert first["drops"] == second["drops"] == {"link left rx.dropped": 7.0}
    assert first["lost_for"] == {"link left rx.dropped": "queue"}
    assert first["changes"] == {"queue waiting": -1.0}
    assert (first["seconds"], first["direction"]) == (2.0, "forward")
    assert (second["table"]["before"]["used"], second["direction"]) == (80.0, "reverse")
    assert first["table"]["after"] == {"used": 20.0, "limit": 1000.0, "full": 2.0}
    assert Entry.model_validate(json.loads(json.dumps(first))).to_json() == first


def test_benchmark_without_trial_has_no_entry():
    device, counts = Device(), DeviceCountRecorder(())
    counts.begin(device)
    counts.end(device, WHERE)
    counts.end(device, {**WHERE, "benchmark": "ipdv"})
    assert [e["benchmark"] for e in counts.entries] == ["throughput"]
    assert device.read_s == 2


def test_repeated_benchmark_replaces_its_entry():
    before = DeviceCountRecorder(())
    before.begin(Device())
    before.end(Device(), WHERE)
    held = [{**before.entries[0], "drops": {}}, {**before.entries[0], "benchmark": "latency"}]
    counts, device = DeviceCountRecorder(held), Device()
    counts.begin(device)
    counts.end(device, WHERE)
    assert [(e["benchmark"], len(e["drops"])) for e in counts.entries] == [
        ("throughput", 1),
        ("latency", 0),
    ]


def test_unreadable_device_has_no_entry():
    for session in (None, Device(silent=True)):
        counts = DeviceCountRecorder(())
        counts.begin(session)
        counts.end(session, WHERE)
        assert counts.entries == []


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.skipif(not POSSIBLE, reason=WHY)
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
    results = json.loads((out / "results.json").read_text())
    assert v6t("report", out, "--format", "md").status == 0
    title = "What the device counted over all trials of each benchmark"
    assert title in (out / "report.md").read_text()
    (entry,) = results["device"]
    assert (entry["benchmark"], entry["direction"]) == ("throughput", "forward")
    assert entry["seconds"] > 0
    assert set(entry) == {
        *("device", "benchmark", "frame_sizes", "direction"),
        *("seconds", "drops", "lost_for", "changes", "table"),
    }
