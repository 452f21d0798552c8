"""The RSS probe and the flows of RFC 8219, section 10, in complete runs."""

import pytest
from v6t.analysis.record import FrameSizes
from v6t.benchmarks import registry
from v6t.core.config.run_setup import make_setup
from v6t.core.runs.plan import plan
from v6t.tests.core import support

pytestmark = pytest.mark.slow


def resolve_run(benchmark, plugin="ipv4-router", *, device=None, params=None, **procedure):
    return support.simulate(
        benchmark, plugin=plugin, device=device, params=params or {}, modes=("forward",),
        procedure={"repetitions": 1, "resolution_fps": 20_000.0, **procedure},
    )  # fmt: skip


def measure(path, benchmark, *plugin, **settings):
    """Measure a run and return its only record."""
    (record,) = support.measure_run(resolve_run(benchmark, *plugin, **settings), path).records
    return record


@pytest.mark.parametrize(("hashes", "use"), [
    ("ports", "ports"), ("addresses", "addresses"), ("both", "both"), ("none", "ports"),
])  # fmt: skip
def test_probe_finds_hash_fields_of_device(tmp_path, hashes, use):
    device = {"cores": 8, "hashes": hashes, "capacity_fps": 400_000}
    record = measure(tmp_path / "out", "rss-probe", device=device)
    assert record.use == use
    rates = {case: result.median for case, result in record.cases.items()}
    assert rates["fixed"] == pytest.approx(400_000, abs=20_000)
    reached = rates[use if hashes != "none" else "both"] / rates["fixed"]
    assert (reached > 5) is (hashes != "none")
    assert len(set(record.trials)) == len(record.trials)
    assert all(result.decisive_trials for result in record.cases.values())
    rows = support.read_csv(tmp_path / "out" / "rss-probe.csv")
    assert {row["case"] for row in rows} == {"fixed", "ports", "addresses", "both"}
    printed = support.v6t("show", tmp_path / "out", "--warnings").out
    assert ("hash includes ports" in printed) is (hashes == "ports")


@pytest.mark.parametrize("tester_fps", [300_000, 1e12])
def test_probe_limited_by_tester_or_medium_has_no_recommendation(tmp_path, tester_fps):
    device = {"cores": 8, "capacity_fps": 1e9, "tester_fps": tester_fps}
    record = measure(tmp_path / "out", "rss-probe", device=device)
    assert record.use is None and "tester" in record.why


def test_probe_of_map_e_does_not_reach_inner_ports(tmp_path):
    device = {"cores": 8, "hashes": "ports", "capacity_fps": 400_000}
    record = measure(tmp_path / "out", "rss-probe", "mape-br", device=device)
    # the ports are behind the inner header, which this device does not hash
    assert record.cases["ports"].median < 500_000


def test_probe_varies_addresses_unless_they_are_set():
    run = resolve_run("rss-probe")
    assert run.params["left_hosts"] == {"policy": "random"}
    assert resolve_run("throughput").params == {}
    run = resolve_run("rss-probe", params={"left_hosts": "{policy: inc, min: 2, max: 9}"})
    assert run.params["left_hosts"]["policy"] == "inc"


def test_benchmarks_of_section_7_are_measured_with_each_number_of_flows(tmp_path):
    """RFC 8219, section 10.2.1; a degradation is negated if lower values are better."""
    device = {"cores": 4, "hashes": "ports", "capacity_fps": 400_000}
    also = ["latency", "pdv", "ipdv", "frame-loss", "system-recovery", "back-to-back"]
    record = measure(
        tmp_path / "out", "flows", device=device, params={"left_hosts": "{policy: fixed}"},
        flows={"counts": [64], "starts": ["together", "successive"], "interval_s": 0.01,
               "also": also, "quarters": True},
    )  # fmt: skip
    assert [p.flows for p in record.points] == [1, 16, 32, 48, 64, 16, 32, 48, 64]
    one, *points = record.points
    assert one.degradation_percent == 0.0
    for point in points:
        assert point.median > 2 * one.median
        xpd = (one.median - point.median) / one.median * 100  # RFC 8219 section 10.2.1
        assert point.degradation_percent == pytest.approx(xpd)
    assert record.points[-1].duration_s == pytest.approx(record.points[4].duration_s + 63 * 0.01)
    rates = {(p.flows, p.start): p.median for p in record.points}
    assert {f.benchmark for f in record.figures} == set(also)
    for name in also:  # bursts cannot start flows successively, since they would have gaps
        starts = {f.start for f in record.figures if f.benchmark == name}
        expected = {"together"} if name == "back-to-back" else {"together", "successive"}
        assert starts == expected, name
    names = {f.figure.rpartition(" ")[0] for f in record.figures if f.benchmark == "ipdv"}
    assert names == {"IPDV min", "IPDV median", "IPDV max"}
    bases = {(f.benchmark, f.figure): f.median for f in record.figures if f.flows == 1}
    for f in record.figures:
        if f.benchmark in ("latency", "pdv"):
            assert f.rate == rates[f.flows, f.start if f.flows > 1 else "together"]
        base = bases.get((f.benchmark, f.figure))
        if not base:
            assert f.degradation_percent is None
            continue
        assert f.more_is_better is False or f.benchmark == "back-to-back"
        worse = (base - f.median if f.more_is_better else f.median - base) / base * 100
        assert f.degradation_percent == pytest.approx(worse)
    lost = [f for f in record.figures if f.benchmark == "frame-loss" and f.degradation_percent]
    assert lost
    assert all(f.degradation_percent < 0 for f in lost)  # more flows use more cores
    assert {k.split("/")[0] for k in record.trials} >= {
        "flows1-latency", "flows64-latency", "flows64-pdv", "successive64-pdv"
    }  # fmt: skip
    presentations = registry.load_presentations()
    titles = [t.title for t in support.make_all_tables(presentations, [record])]
    assert len(titles) == 1 + len(also)
    assert titles[1].endswith("Xpd = (Xn - X1) / X1 * 100 %")
    report = support.write_report(tmp_path / "out")
    assert "network flows" in report and "IPDV median" in report
    rows = support.read_csv(tmp_path / "out" / "flows-degradation.csv")
    written = [float(r["Xpd_percent"]) if r["Xpd_percent"] else None for r in rows]
    assert written == [f.degradation_percent for f in (*record.points, *record.figures)]
    assert {r["interval_s"] for r in rows if r["start"] == "successive"} == {"0.01"}
    other = record.model_copy(update={"frame_sizes": FrameSizes(ipv6=1500, ipv4=1500)})
    by_size = {t.title: t for t in support.make_all_tables(presentations, [record, other])}
    table = by_size["ipdv by network flows, Xpd % at the applied fps per direction, by frame size"]
    assert [c.name for c in table.columns][-2:] == [record.sizes, other.sizes]
    worst = next(f for f in record.figures if f.benchmark == "ipdv" and f.start == "successive")
    assert f"{worst.degradation_percent:+.2f} at {worst.rate:,.0f}" in {r[-1] for r in table.rows}


def test_capabilities_follow_from_also_benchmarks_and_starts():
    def list_needs(**flows):
        setup = make_setup(resolve_run("flows", flows=flows))
        return registry.load("flows").list_capabilities(setup)

    needs = list_needs(also=["ipdv"])
    assert {"ipdv", "every-frame", "flow-starts", "timed-flow-starts"} <= needs
    for starts in ("starts", "also_starts"):
        assert "timed-flow-starts" not in list_needs(also=["ipdv"], **{starts: ["together"]})
    assert list_needs(also=["back-to-back"]) == {"flow-starts"}


@pytest.mark.parametrize(("name", "seconds"), [
    ("latency", (1.0,)), ("pdv", (0.6,)), ("frame-loss", (0.4,)), ("system-recovery", (1.0, 1.0)),
])  # fmt: skip
def test_trials_with_successive_flows_are_longer(name, seconds, tmp_path):
    """RFC 8219 section 10.2.2: longer by (n - 1) t; delays are timed after all flows have begun."""
    flows = {"counts": [16], "starts": ["successive"], "interval_s": 0.02, "also": [name]}
    measure(tmp_path / "out", "flows", flows=flows)
    trials = {}
    for entry in support.read_journal(tmp_path / "out"):
        trials.setdefault(entry["trial"]["key"].split("/")[0], entry["trial"])
    one, many = trials[f"flows1-{name}"], trials[f"successive16-{name}"]
    assert one["duration_s"] == seconds[0]
    assert many["duration_s"] == pytest.approx(seconds[0] + 15 * 0.02)
    assert many["starts"] == {"flows": 16, "interval_s": 0.02}
    assert "starts" not in one
    if name == "latency":
        later = many["delays"]["first_tag_s"] - one["delays"]["first_tag_s"]
        assert later == pytest.approx(15 * 0.02)
    for second_segment_s in seconds[1:]:
        assert many["then"]["duration_s"] == second_segment_s


@pytest.mark.parametrize(("benchmark", "searches"), [("rss-probe", 4), ("flows", 2)])
def test_variants_are_planned(benchmark, searches):
    runs = [resolve_run(name, flows={"starts": ["together"]}) for name in ("throughput", benchmark)]
    single, variants = (plan(make_setup(run)) for run in runs)
    assert variants.trial_count == searches * single.trial_count
    assert variants.duration_s == pytest.approx(searches * single.duration_s)


def test_variants_are_compared_one_by_one(tmp_path):
    def list_quantities(record):
        return list(registry.load_presentations().find(record).list_quantities(record))

    flows = list_quantities(measure(tmp_path / "flows", "flows", flows={"counts": [4]}))
    assert [q.name for q in flows] == [
        "rate, 1 flows, together", "rate, 4 flows, together", "rate, 4 flows, successive"
    ]  # fmt: skip
    cases = list_quantities(measure(tmp_path / "probe", "rss-probe"))
    assert len(cases) == 4
    assert all(len(q.values) == 1 and q.resolution == 20_000.0 for q in cases)
