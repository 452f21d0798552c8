"""Marks and notes on a published page: differing settings, doubtful rates, and device counters."""

from types import SimpleNamespace

import pytest
from v6t.analysis.record import CPS, FPS, FrameSizes
from v6t.analysis.rundata import RunData, RunTrial
from v6t.analysis.sheet import format_three_digits
from v6t.benchmarks.connections import ConnectionRateRecord
from v6t.benchmarks.delay import PdvRecord
from v6t.benchmarks.throughput import ThroughputRecord
from v6t.tools.publish.device_counts import make_device_table
from v6t.tools.publish.rate_checks import exceeds_forwarding_rate, has_loss_in_delay_trials
from v6t.tools.publish.setting_differences import (
    find_setting_differences,
    format_setting,
    make_difference_table,
)
from v6t.trials.result import ClassCount, DeviceLoad, DirectionResult, TrialResult

HEAD = {
    "title": "T", "direction": "bidirectional", "frame_sizes": FrameSizes(ipv6=84, ipv4=64),
    "trials": ["t"], "invalid_trials": [], "conditions": {}, "repetitions": 1,
    "convention": "per_direction",
}  # fmt: skip


def make_throughput(median=1000.0, **changes):
    values = {**HEAD, "benchmark": "throughput", "unit": FPS, "rates": [median], "resolution_fps": 100.0,
              "tester_limited": False, "upper_bound_hit": False, "loss_tolerance": 0.0,
              "duration_s": 0.5, **changes}  # fmt: skip
    return ThroughputRecord.model_construct(**values)


def make_connection_rate(median, count=40_000, **changes):
    values = {**HEAD, "benchmark": "connection-rate", "unit": CPS, "direction": "connections", "convention": None,
              "rates": [median], "connections": count, "alpha": 1.0, **changes}  # fmt: skip
    return ConnectionRateRecord.model_construct(**values)


def make_pdv(**changes):
    values = {
        **HEAD, "benchmark": "pdv", "unit": "ms", "trials": ["d"], "duration_s": 0.5, **changes,
    }  # fmt: skip
    return PdvRecord.model_construct(**values)


def make_trial(key, rate_fps, lost=0, **load):
    frames = {"fg": ClassCount("foreground", required=1000, sent=1000, received=1000 - lost)}
    directions = {name: DirectionResult(frames, 0.5) for name in ("forward", "reverse")}
    return RunTrial({"key": key, "rate_fps": rate_fps}, TrialResult(directions, device_loads=load))


def make_data(*records, trials=(), params=None, **results):
    config = {
        "plugin": "siit", "line_rate_bps": 1e9, "tester": {"kind": "embedded"},
        "procedure": {"loss_tolerance": 0.0},
    }  # fmt: skip
    return RunData("run", results, records, config, {}, params or {}, trials=trials)


def make_runs(**by_device):
    """Return the runs of one technology, one for each device, and their names by directory."""
    runs = [SimpleNamespace(directory=name, data=data) for name, data in by_device.items()]
    return runs, {name: ("siit", name) for name in by_device}


@pytest.mark.parametrize(("value", "text"), [
    (None, "undefined"), (0.0, "0"), (0.06172, "0.0617"), (0.734, "0.734"), (3.5564, "3.56"),
    (9.999, "10.0"), (-0.00012345, "-0.000123"), (99.96, "100"), (108.2, "108"),
    (1234.5678, "1,235"), (1e-9, "0.000000"),
])  # fmt: skip
def test_format_three_digits(value, text):
    assert format_three_digits(value) == text


def test_differing_parameters_are_listed_briefly():
    entries = [{"ipv4": f"198.18.{n}.0/24", "ipv6": f"2001:db8:{n}::/120"} for n in range(300)]
    usual = {"eam": entries, "prefix": None, "ports": {"max": 7}, "seed": 1}
    runs, names = make_runs(
        odd=make_data(params={"eam": [], "prefix": "64:ff9b::/96", "ports": {"max": 7}, "seed": 2}),
        one=make_data(params=usual),
        two=make_data(params={**usual, "seed": 3}),
    )
    differences = find_setting_differences(runs, names)
    assert list(differences) == ["odd"]
    assert differences["odd"].affect("anything")
    assert [row[2:] for row in make_difference_table(differences.values()).rows] == [
        ("eam", "none", "300, the first: ipv4=198.18.0.0/24 ipv6=2001:db8:0::/120"),
        ("prefix", "64:ff9b::/96", "none"),
    ]
    assert find_setting_differences(runs[1:], names) == {}


def test_differing_condition_affects_one_benchmark():
    runs, names = make_runs(
        most=make_data(make_throughput(), make_connection_rate(5000.0)),
        few=make_data(make_throughput(900.0), make_connection_rate(700.0, count=8000)),
    )
    (differences,) = find_setting_differences(runs, names).values()
    assert (differences.device, differences.affect("connection-rate")) == ("few", True)
    assert not differences.affect("throughput")
    row = ("siit", "few", "connections (connection-rate)", "8,000", "40,000")
    assert list(differences.list_rows()) == [row]


def test_technologies_are_not_compared_with_each_other():
    runs, _ = make_runs(a=make_data(params={"ces": 1}), b=make_data(params={"ces": 2}))
    assert find_setting_differences(runs, {"a": ("a", "vpp"), "b": ("b", "vpp")}) == {}


def test_format_setting_abbreviates_lists_and_booleans():
    assert [format_setting(v) for v in (True, False, [7], [7, 8], "", 41023)] == [
        "yes", "no", "7", "2, the first: 7", "none", "41,023",
    ]  # fmt: skip


@pytest.mark.parametrize(("record", "delay_trial", "expected"), [
    (make_throughput(), make_trial("d", 1000.0, lost=1), True),
    (make_throughput(), make_trial("d", 750.0, lost=1), True),
    (make_throughput(), make_trial("d", 1000.0), False),
    (make_throughput(), make_trial("d", 1001.0, lost=9), False),  # above the throughput
    (make_throughput(direction="forward"), make_trial("d", 1000.0, lost=9), False),
    (make_throughput(not_measured="no rate"), make_trial("d", 1000.0, lost=9), False),
])  # fmt: skip
def test_loss_in_delay_trials_at_or_below_the_rate_is_detected(record, delay_trial, expected):
    data = make_data(record, make_pdv(), trials=[delay_trial])
    assert has_loss_in_delay_trials(data, record) is expected


def test_invalid_trials_and_tolerated_loss_are_ignored():
    record, trials = make_throughput(), [make_trial("d", 1000.0, lost=10)]
    invalid = make_pdv(invalid_trials=[SimpleNamespace(key="d", reasons=["slow"])])
    assert not has_loss_in_delay_trials(make_data(record, invalid, trials=trials), record)
    data = make_data(record, make_pdv(), trials=trials)
    data.config["procedure"]["loss_tolerance"] = 0.01
    assert not has_loss_in_delay_trials(data, record)
    data.config["procedure"]["loss_tolerance"] = 0.009
    assert has_loss_in_delay_trials(data, record)


@pytest.mark.parametrize(("rate_cps", "throughputs", "expected"), [
    (2001.0, [make_throughput()], True),
    (2000.0, [make_throughput()], False),
    (1500.0, [make_throughput(direction="forward")], True),
    (150.0, [make_throughput(0.0)], False),  # no rate passed: upper bound 2 x 100
    (201.0, [make_throughput(0.0)], True),
    (9000.0, [make_throughput(tester_limited=True)], False),  # the device may forward more
    (9000.0, [make_throughput(frame_sizes=FrameSizes(ipv6=128, ipv4=108))], False),
    (9000.0, [make_throughput(not_measured="no rate")], False),
    (9000.0, [], False),
])  # fmt: skip
def test_connection_rate_above_the_forwarding_rate_is_detected(rate_cps, throughputs, expected):
    record = make_connection_rate(rate_cps)
    assert exceeds_forwarding_rate(make_data(record, *throughputs), record) is expected
    assert not any(exceeds_forwarding_rate(make_data(record, *throughputs), r) for r in throughputs)


def make_counters(device="dut", benchmark="throughput", table=None, **drops):
    """Return a device's counts over a benchmark; ``drops`` gives frames and kind by reason."""
    return {
        "device": device, "benchmark": benchmark, "table": table or {},
        "drops": {name: frames for name, (frames, _) in drops.items()},
        "lost_for": {name: why for name, (_, why) in drops.items()},
    }  # fmt: skip


def build_device_table(**by_device):
    return make_device_table(*make_runs(**by_device))


def test_device_table_without_counters_is_omitted():
    quiet = make_data(device=[make_counters(ring=(0.0, "queue"))])
    assert build_device_table(quiet=quiet, unread=make_data()) is None


def test_drops_of_all_benchmarks_are_summed_by_reason():
    table = build_device_table(
        one=make_data(device=[
            make_counters(ring=(5.0, "queue"), all=(9.0, "all"), rule=(0.0, "rule")),
            make_counters(benchmark="pdv", ring=(3.0, "queue"), acl=(1000.0, "rule")),
        ]),
        sums=make_data(device=[make_counters(ring=(1.0, "queue"), errors=(5000.0, "all"))]),
        quiet=make_data(device=[make_counters()]),
    )  # fmt: skip
    assert [c.name for c in table.columns] == ["technology", "device", "dropped", "table"]
    assert table.rows == (
        ("siit", "one", "1,000 acl (rule), 8 ring (queue)", "-"),
        ("siit", "sums", "5,000 errors (any reason), 1 ring (queue)", "-"),
    )


def test_fullest_table_is_shown_for_each_device_of_a_chain():
    before, after = {"used": 200.0, "limit": 40960.0}, {"used": 40000.0, "limit": 40960.0}
    full = {"before": before, "after": after}
    chain = make_counters("clat", ring=(7.0, "queue")), make_counters("plat", table=full)
    table = build_device_table(
        vpp=make_data(device=[make_counters(table=full)]),
        jool=make_data(device=[make_counters(table={"after": {"used": 8000.0}})]),
        chain=make_data(device=[*chain]),
    )
    assert [row[1:] for row in table.rows] == [
        ("vpp", "-", "97.7 % (40,000 entries of 40,960)"),
        ("jool", "-", "8,000 entries"),
        ("chain", "clat: 7 ring (queue)", "plat: 97.7 % (40,000 entries of 40,960)"),
    ]


def test_device_load_is_that_of_the_fastest_trial_up_to_the_throughput():
    trials = [
        make_trial("slow", 500.0, dut=DeviceLoad((1.0,), (10,), (5,))),
        make_trial("found", 900.0, dut=DeviceLoad((1.0, 2.0, 3.0), (90, 97, 98), (40, 50, 60))),
        make_trial("above", 2000.0, dut=DeviceLoad((1.0,), (100,), (100,))),
    ]
    record = make_throughput(trials=["slow", "found", "above"])
    table = build_device_table(tayga=make_data(record, trials=trials))
    assert table.rows == (
        ("siit", "tayga", "-", "-", "busiest core 97 %, all cores 50 %, at 900 fps"),
    )
    assert any("once a second" in note for note in table.notes)


def test_bottleneck_verdict_has_its_own_column():
    entry = {
        "device": "dut", "says": "a queue before it", "judged_at": "above",
        "telemetry": {
            "found": {"cores": {"cpu0": {"busy": 1.0, "softirq": 2.0}}},
            "above": {
                "cores": {"cpu0": {"busy": 90.0, "softirq": 61.0}, "cpu1": {"busy": 9.0}},
                "vectors_per_call": {"ip4-lookup": 200.4, "drop": 3.0},
            },
        },
    }  # fmt: skip
    table = build_device_table(vpp=make_data(bottleneck=[entry]))
    reason = "a queue before it, softirq 61 %, 200 packets a call (ip4-lookup)"
    assert (table.rows, table.columns[-1].name) == ((("siit", "vpp", "-", "-", reason),), "limit")
