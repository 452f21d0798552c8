"""The RSS probe (GEN-12) and the flows of RFC 8219 section 10 (SC-04) in complete runs."""

import json

import pytest
from v6t.analysis.record import FrameSizes
from v6t.benchmarks import registry
from v6t.benchmarks.flows import FlowsRecord
from v6t.core.config.run_setup import make_setup
from v6t.core.config.warnings import list_setting_warnings
from v6t.core.reporting import write
from v6t.core.runs.plan import plan
from v6t.tests.core.support import (
    make_all_tables,
    measure_run,
    read_csv,
    read_journal,
    simulate,
    v6t,
)
from v6t.tests.expect import expect_error

pytestmark = pytest.mark.slow

PROBE = ("run", "--plugin", "ipv4-router", "--tester", "sim", "--measure", "rss-probe")


def wanted(benchmark, plugin="ipv4-router", *, device=None, params=None, **procedure):
    return simulate(
        benchmark, plugin=plugin, device=device, params=params or {}, modes=("forward",),
        procedure={"repetitions": 1, "resolution_fps": 20_000.0, **procedure},
    )  # fmt: skip


def only(path):
    (record,) = json.loads((path / "results.json").read_text())["results"]
    return record


@pytest.mark.parametrize(
    ("hashes", "use"),
    [("ports", "ports"), ("addresses", "addresses"), ("both", "both"), ("none", "ports")],
)
def test_probe_finds_hash_fields_of_device(tmp_path, hashes, use):
    device = {"cores": 8, "hashes": hashes, "capacity_fps": 400_000}
    measure_run(wanted("rss-probe", device=device), tmp_path / "out")
    record = only(tmp_path / "out")
    assert record["use"] == use
    rates = {case: found["median"] for case, found in record["cases"].items()}
    assert rates["fixed"] == pytest.approx(400_000, abs=20_000)
    reached = rates[use if hashes != "none" else "both"] / rates["fixed"]
    assert (reached > 5) is (hashes != "none")
    assert len(set(record["trials"])) == len(record["trials"])
    assert all(found["decisive_trials"] for found in record["cases"].values())


def test_tester_limited_probe_has_no_recommendation(tmp_path):
    device = {"cores": 8, "capacity_fps": 1e9, "tester_fps": 300_000}
    measure_run(wanted("rss-probe", device=device), tmp_path / "out")
    record = only(tmp_path / "out")
    assert record["use"] is None
    assert "tester" in record["why"]


def test_the_probe_of_customers_behind_ipv6(tmp_path):
    device = {"cores": 8, "hashes": "ports", "capacity_fps": 400_000}
    measure_run(wanted("rss-probe", "mape-br", device=device), tmp_path / "out")
    # the ports are behind the inner header, where this device does not look
    assert only(tmp_path / "out")["cases"]["ports"]["median"] < 500_000


def test_the_probe_varies_addresses_on_tester_and_device():
    run = wanted("rss-probe")
    assert run.params["left_hosts"] == {"policy": "random"}
    assert wanted("throughput").params == {}
    own = wanted("rss-probe", params={"left_hosts": "{policy: inc, min: 2, max: 9}"})
    assert own.params["left_hosts"]["policy"] == "inc"


FLOWS = ("run", "--plugin", "mape-br", "--tester", "sim", "--measure", "flows")


@pytest.mark.parametrize(
    ("command", "arguments", "says"),
    [
        (PROBE, ["--plugin", "mape-ce"],
         "the addresses of mape-ce's forward traffic do not vary"),
        (PROBE, ["--measure", "latency"], "rss-probe cannot share a run"),
        (PROBE, ["--set", "right_hosts.policy=fixed", "--set", "left_hosts.policy=fixed"],
         "do not vary"),
        (FLOWS, ["--set-procedure", "flows.counts=[0]"], "flows.counts"),
        (FLOWS, ["--set-procedure", "flows.counts=[60000]", "--set", "ces=10"], "have at most"),
        (FLOWS, ["--set-procedure", "flows.interval_s=0"], "interval_s"),
        (FLOWS, ["--set-procedure", "flows.starts=[later]"], "flows.starts"),
    ],
)  # fmt: skip
def test_probes_and_flows_that_cannot_be(tmp_path, command, arguments, says):
    done = v6t(*command, *arguments, "-o", tmp_path / "out")
    assert done.status == 2
    assert says in done.err
    assert not (tmp_path / "out").exists()


def test_the_probe_on_a_terminal(tmp_path):
    device = ("--set-tester", "cores=4", "--set-tester", "capacity_fps=400000")
    done = v6t(*PROBE, *device, "--mode", "forward", "-o", tmp_path / "out")
    assert done.status == 0
    assert "hash sees ports" in v6t("show", tmp_path / "out", "--warnings").out
    rows = read_csv(tmp_path / "out" / "rss-probe.csv")
    assert {row["case"] for row in rows} == {"fixed", "ports", "addresses", "both"}


def test_flows_and_their_degradation(tmp_path):
    device = {"cores": 4, "hashes": "ports", "capacity_fps": 400_000}
    run = wanted(
        "flows", device=device, flows={"counts": [1, 64], "interval_s": 0.01},
        params={"left_hosts": "{policy: fixed}"},
    )  # fmt: skip
    measure_run(run, tmp_path / "out")
    points = only(tmp_path / "out")["points"]
    assert [(p["flows"], p["start"]) for p in points] == [
        (1, "together"), (64, "together"), (64, "successive")
    ]  # fmt: skip
    one = points[0]["median"]
    assert points[0]["degradation_percent"] == 0.0
    for point in points[1:]:
        assert point["median"] > 2 * one
        xpd = (one - point["median"]) / one * 100  # RFC 8219 section 10.2.1
        assert point["degradation_percent"] == pytest.approx(xpd)
    assert points[2]["duration_s"] == pytest.approx(points[1]["duration_s"] + 63 * 0.01)


def test_the_benchmarks_of_section_7_with_each_number_of_flows(tmp_path):
    """RFC 8219, section 10.2.1: lower is better with the other sign; each at its own throughput."""
    device = {"cores": 4, "hashes": "ports", "capacity_fps": 400_000}
    also = ["latency", "pdv", "ipdv", "frame-loss", "system-recovery", "back-to-back"]
    run = wanted(
        "flows", device=device, params={"left_hosts": "{policy: fixed}"},
        flows={"counts": [64], "starts": ["together", "successive"], "interval_s": 0.01,
               "also": also, "quarters": True},
    )  # fmt: skip
    measure_run(run, tmp_path / "out")
    record = FlowsRecord.model_validate(only(tmp_path / "out"))
    assert [p.flows for p in record.points] == [1, 16, 32, 48, 64, 16, 32, 48, 64]
    rates = {(p.flows, p.start): p.median for p in record.points}
    assert {f.benchmark for f in record.figures} == set(also)
    for name in also:  # a burst without the frames of flows yet to begin would have gaps
        known = {f.start for f in record.figures if f.benchmark == name}
        assert known == {"together"} if name == "back-to-back" else {"together", "successive"}
    assert {f.figure.rpartition(" ")[0] for f in record.figures if f.benchmark == "ipdv"} == {
        "IPDV min", "IPDV median", "IPDV max",
    }  # fmt: skip
    for f in record.figures:
        (base,) = [
            b for b in record.figures if (b.benchmark, b.figure, b.flows) == (f.benchmark, f.figure, 1)
        ] or [None]  # fmt: skip
        if f.benchmark in ("latency", "pdv"):
            assert f.rate == rates[f.flows, f.start if f.flows > 1 else "together"]
        if base is None or not base.median:
            assert f.degradation_percent is None
            continue
        change = (f.median - base.median) / base.median * 100
        if f.benchmark == "back-to-back" and f.more_is_better:
            assert f.degradation_percent == pytest.approx(-change)
            continue
        assert not f.more_is_better
        assert f.degradation_percent == pytest.approx(change)
    lost = [f for f in record.figures if f.benchmark == "frame-loss" and f.degradation_percent]
    assert lost
    assert all(f.degradation_percent < 0 for f in lost)  # with flows for all cores fewer are lost
    keys = set(record.trials)
    assert {k.split("/")[0] for k in keys} >= {
        "flows1-latency", "flows64-latency", "flows64-pdv", "successive64-pdv"
    }  # fmt: skip
    tables = [t.title for t in make_all_tables(registry.load_presentations(), [record])]
    assert len(tables) == 1 + len(also)
    assert tables[1].endswith("Xpd = (Xn - X1) / X1 * 100 %")
    write.write_run_report(tmp_path / "out", formats=["md"])
    report = (tmp_path / "out" / "report.md").read_text()
    assert "network flows" in report
    assert "IPDV median" in report
    rows = read_csv(tmp_path / "out" / "flows-degradation.csv")
    assert len(rows) == len(record.points) + len(record.figures)
    told = [float(r["Xpd_percent"]) if r["Xpd_percent"] else None for r in rows]
    assert told == [f.degradation_percent for f in (*record.points, *record.figures)]
    assert {r["interval_s"] for r in rows if r["start"] == "successive"} == {"0.01"}
    other = record.model_copy(update={"frame_sizes": FrameSizes(ipv6=1500, ipv4=1500)})
    by_size = {t.title: t for t in make_all_tables(registry.load_presentations(), [record, other])}
    table = by_size["ipdv by network flows, Xpd % at the applied fps per direction, by frame size"]
    assert [c.name for c in table.columns][-2:] == [record.sizes, other.sizes]
    worst = next(f for f in record.figures if f.benchmark == "ipdv" and f.start == "successive")
    assert f"{worst.degradation_percent:+.2f} at {worst.rate:,.0f}" in {r[-1] for r in table.rows}


def test_invalid_also_benchmarks_are_rejected():
    def list_needs(**flows):
        return registry.load("flows").list_capabilities(make_setup(wanted("flows", flows=flows)))

    for name in ("teardown", "flows"):
        with expect_error("unknown-name", mentions=name):
            wanted("flows", flows={"also": [name]})
    needs = list_needs(also=["ipdv"])
    assert {"ipdv", "every-frame", "flow-starts", "timed-flow-starts"} <= needs
    for starts in ("starts", "also_starts"):
        assert "timed-flow-starts" not in list_needs(also=["ipdv"], **{starts: ["together"]})
    assert list_needs(also=["back-to-back"]) == {"flow-starts"}


@pytest.mark.parametrize(
    ("name", "seconds"),
    [("latency", (1.0,)), ("pdv", (0.6,)), ("frame-loss", (0.4,)), ("system-recovery", (1.0, 1.0))],
)
def test_trials_with_successive_flows_are_longer(name, seconds, tmp_path):
    """RFC 8219 section 10.2.2: by (n - 1) t; delays are those of the traffic of all flows."""
    flows = {"counts": [16], "starts": ["successive"], "interval_s": 0.02, "also": [name]}
    measure_run(wanted("flows", flows=flows), tmp_path / "out")
    asked = {}
    for entry in read_journal(tmp_path / "out"):
        asked.setdefault(entry["trial"]["key"].split("/")[0], entry["trial"])
    one, many = asked[f"flows1-{name}"], asked[f"successive16-{name}"]
    assert one["duration_s"] == seconds[0]
    assert many["duration_s"] == pytest.approx(seconds[0] + 15 * 0.02)
    assert many["starts"] == {"flows": 16, "interval_s": 0.02}
    assert "starts" not in one
    if name == "latency":
        later = many["delays"]["first_tag_s"] - one["delays"]["first_tag_s"]
        assert later == pytest.approx(15 * 0.02)
    for rest in seconds[1:]:
        assert many["then"]["duration_s"] == rest


def test_settings_of_also_benchmarks_give_no_warning():
    changed = {"latency": {"tags": 400}}
    said = [" ".join(list_setting_warnings(make_setup(wanted("flows", flows={"also": also}, **changed))))
            for also in (["latency"], [])]  # fmt: skip
    assert ["procedure.latency is set" in s for s in said] == [False, True]


def test_variants_are_planned():
    probe, flows = plan(make_setup(wanted("rss-probe"))), plan(make_setup(wanted("flows")))
    assert probe.trial_count == 4 * plan(make_setup(wanted("throughput"))).trial_count
    assert flows.trial_count == 3 * plan(make_setup(wanted("throughput"))).trial_count


def test_variants_are_compared_one_by_one(tmp_path):
    known = registry.load_presentations()

    def quantities(path):
        record = known.read_record(only(path))
        return list(known.find(record).list_quantities(record))

    measure_run(wanted("flows", flows={"counts": [4]}), tmp_path / "flows")
    assert [q.name for q in quantities(tmp_path / "flows")] == [
        "rate, 1 flows, together", "rate, 4 flows, together", "rate, 4 flows, successive"
    ]  # fmt: skip
    measure_run(wanted("rss-probe"), tmp_path / "probe")
    found = quantities(tmp_path / "probe")
    assert len(found) == 4
    assert all(len(q.values) == 1 and q.resolution == 20_000.0 for q in found)
