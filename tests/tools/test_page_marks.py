"""Marks on a page of results: differences of rows, sustained rates and device counters."""

from types import SimpleNamespace

import pytest
from v6t.analysis.record import CPS, FPS, FrameSizes
from v6t.analysis.rundata import RunData, RunTrial
from v6t.analysis.sheet import format_three_digits
from v6t.benchmarks.connections import ConnectionRateRecord
from v6t.benchmarks.delay import PdvRecord
from v6t.benchmarks.throughput import ThroughputRecord
from v6t.tools.publish.device_counts import device_sheet
from v6t.tools.publish.differing import brief, differing, differing_sheet
from v6t.tools.publish.doubts import is_queued, loses_elsewhere
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.timeline import DeviceLoad

HEAD = {
    "title": "T", "direction": "bidirectional", "frame_sizes": FrameSizes(ipv6=84, ipv4=64),
    "trials": ["t"], "invalid_trials": [], "conditions": {}, "repetitions": 1,
    "convention": "per_direction",
}  # fmt: skip


def throughput(median=1000.0, **changes):
    values = {**HEAD, "benchmark": "throughput", "unit": FPS, "rates": [median], "resolution_fps": 100.0,
              "tester_limited": False, "upper_bound_hit": False, "loss_tolerance": 0.0,
              "duration_s": 0.5, **changes}  # fmt: skip
    return ThroughputRecord.model_construct(**values)


def connections(median, count=40_000, **changes):
    values = {**HEAD, "benchmark": "connection-rate", "unit": CPS, "direction": "connections", "convention": None,
              "rates": [median], "connections": count, "alpha": 1.0, **changes}  # fmt: skip
    return ConnectionRateRecord.model_construct(**values)


def pdv(**changes):
    values = {
        **HEAD,
        "benchmark": "pdv",
        "unit": "ms",
        "trials": ["d"],
        "duration_s": 0.5,
        **changes,
    }
    return PdvRecord.model_construct(**values)


def trial(key, rate_fps, lost=0, **load):
    frames = {"fg": ClassCount("foreground", required=1000, sent=1000, received=1000 - lost)}
    directions = {way: DirectionResult(frames, 0.5) for way in ("forward", "reverse")}
    return RunTrial({"key": key, "rate_fps": rate_fps}, TrialResult(directions, device_loads=load))


def data_of(*records, trials=(), params=None, **results):
    config = {
        "plugin": "siit", "line_rate_bps": 1e9, "tester": {"kind": "embedded"},
        "procedure": {"loss_tolerance": 0.0},
    }  # fmt: skip
    return RunData("run", results, records, config, {}, params or {}, trials=trials)


def runs_of(**by_device):
    """Return the runs of one technology, one for each device, and the function that names them."""
    made = [SimpleNamespace(directory=name, data=data) for name, data in by_device.items()]
    return made, lambda run: ("siit", run.directory)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "undefined"), (0.0, "0"), (0.06172, "0.0617"), (0.734, "0.734"), (3.5564, "3.56"),
        (9.999, "10.0"), (-0.00012345, "-0.000123"), (99.96, "100"), (108.2, "108"),
        (1234.5678, "1,235"), (1e-9, "0.000000"),
    ],
)  # fmt: skip
def test_measured_numbers_have_three_digits(value, words):
    assert format_three_digits(value) == words


def test_what_differs_from_most_rows_is_listed_in_few_words():
    several = [{"ipv4": f"198.18.{n}.0/24", "ipv6": f"2001:db8:{n}::/120"} for n in range(300)]
    usual = {"eam": several, "prefix": None, "ports": {"max": 7}, "seed": 1}
    made, named = runs_of(
        odd=data_of(params={"eam": [], "prefix": "64:ff9b::/96", "ports": {"max": 7}, "seed": 2}),
        one=data_of(params=usual),
        two=data_of(params={**usual, "seed": 3}),
    )
    found = differing(made, named)
    assert list(found) == ["odd"]  # the first of three, and the two that are alike are most
    assert found["odd"].concerns("anything")
    table = differing_sheet(found.values())
    assert [row[2:] for row in table.rows] == [
        ("eam", "none", "300, the first: ipv4=198.18.0.0/24 ipv6=2001:db8:0::/120"),
        ("prefix", "64:ff9b::/96", "none"),
    ]
    assert differing(made[1:], named) == {}


def test_a_benchmark_of_another_condition_concerns_its_own_rows_only():
    made, named = runs_of(
        most=data_of(throughput(), connections(5000.0)),
        few=data_of(throughput(900.0), connections(700.0, count=8000)),
    )
    (odd,) = differing(made, named).values()
    assert (odd.device, odd.concerns("connection-rate")) == ("few", True)
    assert not odd.concerns("throughput")
    assert list(odd.rows()) == [("siit", "few", "connections (connection-rate)", "8,000", "40,000")]


def test_technologies_are_not_set_beside_one_another():
    made, _ = runs_of(a=data_of(params={"ces": 1}), b=data_of(params={"ces": 2}))
    assert differing(made, lambda run: (run.directory, "vpp")) == {}


def test_lists_and_switches_are_said_briefly():
    assert [brief(v) for v in (True, False, [7], [7, 8], "", 41023)] == [
        "yes", "no", "7", "2, the first: 7", "none", "41,023",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("found", "delays", "doubted"),
    [
        (throughput(), trial("d", 1000.0, lost=1), True),
        (throughput(), trial("d", 750.0, lost=1), True),
        (throughput(), trial("d", 1000.0), False),
        (throughput(), trial("d", 1001.0, lost=9), False),  # above what was found
        (throughput(direction="forward"), trial("d", 1000.0, lost=9), False),
        (throughput(not_measured="no rate"), trial("d", 1000.0, lost=9), False),
    ],
)
def test_a_rate_at_which_other_trials_lose_frames_is_marked(found, delays, doubted):
    assert loses_elsewhere(data_of(found, pdv(), trials=[delays]), found) is doubted


def test_neither_invalid_trials_nor_tolerated_losses_tell_of_a_device():
    found, delays = throughput(), trial("d", 1000.0, lost=10)
    faltered = pdv(invalid_trials=[SimpleNamespace(key="d", reasons=["slow"])])
    assert not loses_elsewhere(data_of(found, faltered, trials=[delays]), found)
    data = data_of(found, pdv(), trials=[delays])
    data.config["procedure"]["loss_tolerance"] = 0.01
    assert not loses_elsewhere(data, found)
    data.config["procedure"]["loss_tolerance"] = 0.009
    assert loses_elsewhere(data, found)


@pytest.mark.parametrize(
    ("rate_cps", "forwarded", "queued"),
    [
        (2001.0, [throughput()], True),
        (2000.0, [throughput()], False),
        (1500.0, [throughput(direction="forward")], True),
        (150.0, [throughput(0.0)], False),  # none passed: it forwards less than twice 100
        (201.0, [throughput(0.0)], True),
        (9000.0, [throughput(tester_limited=True)], False),  # the device may forward more
        (9000.0, [throughput(frame_sizes=FrameSizes(ipv6=128, ipv4=108))], False),
        (9000.0, [throughput(not_measured="no rate")], False),
        (9000.0, [], False),
    ],
)
def test_connections_faster_than_frames_were_queued(rate_cps, forwarded, queued):
    record = connections(rate_cps)
    assert is_queued(data_of(record, *forwarded), record) is queued
    assert not any(is_queued(data_of(record, *forwarded), r) for r in forwarded)


def counted(device="dut", benchmark="throughput", table=None, **drops):
    """Return a device's counts over a benchmark; ``drops`` gives frames and kind by reason."""
    return {
        "device": device, "benchmark": benchmark, "table": table or {},
        "drops": {name: frames for name, (frames, _) in drops.items()},
        "lost_for": {name: why for name, (_, why) in drops.items()},
    }  # fmt: skip


def told(**by_device):
    made, named = runs_of(**by_device)
    return device_sheet(made, named)


def test_devices_that_counted_nothing_have_no_table():
    assert told(quiet=data_of(device=[counted(ring=(0.0, "queue"))]), unread=data_of()) is None


def test_drops_of_all_benchmarks_are_summed_and_sums_of_reasons_left_out():
    table = told(
        one=data_of(device=[
            counted(ring=(5.0, "queue"), all=(9.0, "all"), rule=(0.0, "rule")),
            counted(benchmark="pdv", ring=(3.0, "queue"), acl=(1000.0, "rule")),
        ]),
        sums=data_of(device=[counted(ring=(1.0, "queue"), errors=(5000.0, "all"))]),
        quiet=data_of(device=[counted()]),
    )  # fmt: skip
    assert [c.name for c in table.columns] == ["technology", "device", "dropped", "table"]
    assert table.rows == (
        ("siit", "one", "1,000 acl (rule), 8 ring (queue)", "-"),
        ("siit", "sums", "5,000 errors (any reason), 1 ring (queue)", "-"),
    )


def test_a_table_is_told_as_full_as_it_was_and_parts_of_a_chain_by_name():
    full = {
        "before": {"used": 200.0, "limit": 40960.0},
        "after": {"used": 40000.0, "limit": 40960.0},
    }
    table = told(
        vpp=data_of(device=[counted(table=full)]),
        jool=data_of(device=[counted(table={"after": {"used": 8000.0}})]),
        chain=data_of(device=[counted("clat", ring=(7.0, "queue")), counted("plat", table=full)]),
    )
    assert [row[1:] for row in table.rows] == [
        ("vpp", "-", "97.7 % (40,000 entries of 40,960)"),
        ("jool", "-", "8,000 entries"),
        ("chain", "clat: 7 ring (queue)", "plat: 97.7 % (40,000 entries of 40,960)"),
    ]


def test_the_load_is_of_the_fastest_watched_trial_that_is_not_above_what_was_found():
    trials = [
        trial("slow", 500.0, dut=DeviceLoad((1.0,), (10,), (5,))),
        trial("found", 900.0, dut=DeviceLoad((1.0, 2.0, 3.0), (90, 97, 98), (40, 50, 60))),
        trial("above", 2000.0, dut=DeviceLoad((1.0,), (100,), (100,))),
    ]
    record = throughput(trials=["slow", "found", "above"])
    table = told(tayga=data_of(record, trials=trials))
    assert table.rows == (
        ("siit", "tayga", "-", "-", "busiest core 97 %, all cores 50 %, at 900 fps"),
    )
    assert any("once a second" in note for note in table.notes)


def test_the_verdict_of_a_bottleneck_stands_beside_what_was_counted():
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
    table = told(vpp=data_of(bottleneck=[entry]))
    assert table.rows == (
        (
            "siit",
            "vpp",
            "-",
            "-",
            "a queue before it, softirq 61 %, 200 packets a call (ip4-lookup)",
        ),
    )
    assert table.columns[-1].name == "limit"
