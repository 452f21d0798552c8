"""Comparisons and trends: comparable points, verdicts, published references, changes."""

import json
import re
import shutil

import jsonschema
import pytest
from v6t.analysis.published.library import collect_facts
from v6t.core.cli.results_commands import WORSE_STATUS
from v6t.core.reporting import write
from v6t.core.reporting.compare import compare_runs
from v6t.core.reporting.trend import _make_natural_key
from v6t.core.runs.results import load_run, read_results
from v6t.tests.core.support import make_run, read_dir, read_schema, replace_config, v6t
from v6t.tests.expect import expect_refusal
from v6t.tests.needs import needs_lab

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Provide two runs of the same device, one of a slower device and one of a later one."""
    home = tmp_path_factory.mktemp("runs")
    benchmarks = ("throughput", "latency", "frame-loss", "back-to-back")
    procedure = {"frame_loss": {"repetitions": 6}, "back_to_back": {"repetitions": 6}}
    devices = {"first": {}, "again": {}, "slow": {"capacity_fps": 5e5}, "late": {"delay_us": 60}}
    for seed, (name, options) in enumerate(devices.items(), 1):
        device = {"buffer_frames": 20_000, **options}
        make_run(home / name, *benchmarks, seed=seed, procedure=procedure, device=device)
    return home


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("plain") / "a", procedure={"repetitions": 1})


def compare(first, second):
    """Return the lines of a comparison by benchmark and quantity."""
    lines = compare_runs([load_run(first), load_run(second)], False).lines
    return {(line.benchmark, line.what): line for line in lines}


def test_same_device_shows_no_difference(runs):
    lines = compare(runs / "first", runs / "again")
    line = lines["throughput", "rate"]
    assert line.verdict == "no difference" and line.words.startswith("no difference")
    assert line.effect.low <= 1 <= line.effect.high and line.effect.coverage >= 0.95
    assert {line.verdict for line in lines.values()} <= {"no difference", "undecided"}


@pytest.mark.parametrize(("name", "quantity", "verdict", "factor"), [
    ("slow", ("throughput", "rate"), "less", 0.5),
    ("late", ("latency", "TL forward"), "more", 65 / 25),
])  # fmt: skip
def test_worse_device_has_a_factor_with_its_interval(name, quantity, verdict, factor, runs):
    line = compare(runs / "first", runs / name)[quantity]
    assert (line.verdict, line.kind, line.improved) == (verdict, "factor", False)
    assert "worse" in line.words and "times" in line.words
    # tests/analysis/test_comparison.py checks how often the interval contains the true factor
    assert line.effect.estimate == pytest.approx(factor, rel=0.05 if name == "slow" else 0.02)
    assert line.effect.high - line.effect.low < 0.05
    reverse = compare(runs / name, runs / "first")[quantity]
    assert reverse.effect.estimate == pytest.approx(1 / line.effect.estimate, rel=1e-3)
    assert "better" in reverse.words


def test_loss_is_compared_by_differences(runs):
    lines = compare(runs / "first", runs / "slow")
    losses = [line for (benchmark, _), line in lines.items() if benchmark == "frame-loss"]
    assert {line.kind for line in losses} == {"difference"}
    assert any(line.verdict == "more" and "worse" in line.words for line in losses)


def test_few_repetitions_propose_more(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    make_run(a, procedure={"repetitions": 2})
    make_run(b, procedure={"repetitions": 2}, device={"capacity_fps": 500_000})
    (line,) = compare(a, b).values()
    assert (line.verdict, line.improved) == ("undecided", None)
    assert "2 repetitions" in line.words and "67%" in line.words
    stdout = v6t("compare", a, b).out
    assert re.search(r"^1 \w+ against a: 1 ", stdout, re.MULTILINE)
    assert f"  v6t run {a} --reps 4 -o {a}-again\n" in stdout
    assert stdout.endswith(f"  v6t compare {a}-again {b}-again\n")
    assert v6t("compare", a, a).out.count(f"-o {a}-again\n") == 1


def test_runs_limited_by_the_tester_propose_a_faster_tester(tmp_path):
    for seed, name in enumerate("ab"):
        options = {"procedure": {"repetitions": 2}, "device": {"capacity_fps": 1e9}}
        make_run(tmp_path / name, seed=seed, **options)
    (line,) = compare(tmp_path / "a", tmp_path / "b").values()
    assert (line.limited, line.verdict) == ((True, True), "undecided")
    assert "limit" in line.words
    stdout = v6t("compare", tmp_path / "a", tmp_path / "b").out
    assert "--reps" not in stdout and "faster tester" in stdout


def test_latencies_at_different_rates_propose_the_lower_rate(runs):
    stdout = v6t("compare", runs / "first", runs / "slow").out
    commands = [line.split() for line in stdout.splitlines() if line.startswith("  v6t run")]
    rates = [words[words.index("--rate") + 1] for words in commands]
    assert len(rates) == 2 and set(rates) <= {"490000", "500000"}
    assert "rates differ" in stdout


def test_run_of_a_directory_is_repeated_with_other_options(tmp_path):
    make_run(tmp_path / "a", params={"ces": "100"}, procedure={"repetitions": 2})
    done = v6t("run", tmp_path / "a", "--reps", "3", "-o", tmp_path / "b", "--no-report")
    assert done.status == 0, done.err
    first, second = (json.loads((tmp_path / name / "config.json").read_text()) for name in "ab")
    assert second["procedure"].pop("repetitions") == 3
    first["procedure"].pop("repetitions")
    assert first == second


def test_difference_below_resolution_is_no_difference(tmp_path):
    for name, fps in (("a", 1_000_000), ("b", 1_150_000)):
        device = {"capacity_noise": 0.0, "capacity_fps": fps}
        make_run(tmp_path / name, device=device, procedure={"resolution_fps": 300_000.0})
    line = compare(tmp_path / "a", tmp_path / "b")["throughput", "rate"]
    assert line.first != line.second and line.verdict == "no difference"


@pytest.mark.parametrize(("change", "words"), [
    ({"plugin": "mapt-br", "frame_sizes": (84,)}, ["technology: mape-br and mapt-br"]),
    ({"params": {"n": "10", "m": "9"}}, ["parameter m: 2 and 9"]),
    ({"frame_sizes": (168,)}, ["104/64 bidirectional: only in a"]),
    ({"modes": ("forward",)}, ["104/64 bidirectional: only in a"]),
    ({"params": {"ces": "100"}, "procedure": {"loss_tolerance": 0.001}},
     ["parameter ces: 1000 and 100", "loss tolerance: 0.0 and 0.001"]),
    ({"procedure": {"trial_duration_s": 2.0}}, ["duration s: "]),
    ({"procedure": {"search": "mlrsearch"}}, ["search: binary and mlrsearch"]),
])  # fmt: skip
def test_incomparable_runs_are_compared_only_with_anyway(change, words, plain, tmp_path):
    procedure = {"repetitions": 1, **change.pop("procedure", {})}
    make_run(tmp_path / "b", procedure=procedure, **change)
    command = ("compare", plain, tmp_path / "b")
    stderr = expect_refusal(v6t(*command), "not-comparable")
    assert words[0] in stderr
    anyway = v6t(*command, "--anyway")
    is_compared = not words[0].startswith(("technology", "104/64"))  # the sizes differ
    assert (anyway.status in (0, 7)) == ("--anyway" in stderr) == is_compared
    assert all(text in anyway.out for text in ("throughput", *words)) == is_compared


def test_points_of_only_one_run_are_listed(runs, tmp_path):
    make_run(tmp_path / "more", "throughput", modes=("bidirectional", "forward"))
    done = v6t("compare", runs / "first", tmp_path / "more")
    assert done.status in (0, 7), done.err
    assert re.search(r"^\W*throughput 104/64 forward: .* more", done.out, re.MULTILINE)
    assert re.search(r"^\W*frame-loss 104/64 bidirectional: .* first", done.out, re.MULTILINE)


def test_several_runs_are_compared_with_the_first(runs):
    done = v6t("compare", runs / "first", runs / "again", runs / "slow")
    assert done.status == 7
    assert "again against first" in done.out and "slow against first" in done.out


def test_comparison_is_written_to_a_page_markdown_or_json(runs, tmp_path):
    created = json.loads((runs / "slow" / "manifest.json").read_text())["created"]
    title = "MAP-E border relay on reference device"
    for suffix, expected in {"html": [title, created[:10], "<svg"], "md": [], "json": []}.items():
        path = tmp_path / f"out.{suffix}"
        done = v6t("compare", runs / "first", runs / "slow", "-o", path)
        assert (done.status, done.out) == (7, "")
        for text in ("worse", *expected):
            assert text in path.read_text()


def test_json_follows_its_schema_and_replaces_an_earlier_comparison(runs, tmp_path):
    path = tmp_path / "results.json"
    path.write_text("{}")
    content = json.loads(v6t("compare", runs / "first", runs / "slow", "--json", "-o", path).out)
    jsonschema.validate(content, read_schema("comparison-1"))
    assert content["runs"] == ["first", "slow"]
    assert json.loads(path.read_text()) == content


@pytest.mark.parametrize(("command", "name"), [
    *(("compare", f"{name}.json") for name in ("config", "manifest", "results", "campaign")),
    ("trend", "report.html"),
])  # fmt: skip
def test_file_of_a_run_is_not_replaced(name, command, runs):
    before = read_dir(runs)
    done = v6t(command, runs / "first", runs / "again", "-o", runs / "first" / name)
    expect_refusal(done, "file-exists")
    assert read_dir(runs) == before


def test_invalid_arguments_are_rejected(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, again = runs / "first", runs / "again"
    for words, code in (
        (("compare", first), "no-such-run"),
        (("compare", first, tmp_path), "no-such-run"),
        (("compare", tmp_path, "again"), "file-not-found"),
        (("compare", "again", tmp_path), "file-not-found"),
        (("trend", tmp_path, "again"), "file-not-found"),
        (("compare", first, "--published", "--json"), "conflicting-options"),
    ):
        expect_refusal(v6t(*words), code)
    done = v6t("compare", first, again, "-o", tmp_path / "out.pdf")
    assert ".html" in expect_refusal(done, "wrong-kind-of-file")


def test_simulated_run_has_no_published_reference(runs):
    done = v6t("compare", runs / "first", "--published")
    assert done.status == 0
    assert "frames: sent" in done.out and "doi 10.1109/ACCESS.2025.3587302" in done.out


def make_measured_run(path, dut, **settings):
    """Make a run as if frames had been sent for as long as in the papers."""
    make_run(path, **settings)
    results = read_results(path)
    for record in results["results"]:
        record.update(duration_s=60.0, median=2_000_000.0, repetitions=20)
    (path / "results.json").write_text(json.dumps(results))
    replace_config(path, lambda c: c.update(tester={"kind": "trex", "options": {}}, dut=dut))
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["setup"]["simulated"] = False
    (path / "manifest.json").write_text(json.dumps(manifest))


VPP = {"driver": "vpp", "options": {"left": "a", "right": "b", "workers": "1"}}


def test_run_under_published_conditions_has_a_reference_line(tmp_path):
    path = tmp_path / "run"
    make_measured_run(path, VPP)
    stdout = v6t("compare", path, "--published").out
    assert "Measured and published in mapperf-2025" in stdout and "2,531,239" in stdout
    assert "9,198,715" not in stdout.partition("no reference")[0]  # of four workers
    assert "cores: 4 published" in stdout
    write.write_run_report(path, formats=["html"], figures="none")
    assert "2,531,239" in (path / "report.html").read_text()


@pytest.mark.parametrize(("params", "driver", "words"), [
    *(({}, name, f"published, {name} here") for name in ("jool", "reference", "command")),
    ({"ces": "100"}, "vpp", "CEs: 1000 published, 100 here"),
    ({"rule_ipv6": "2001:db8:ff::/51"}, "vpp", "rule: 2001:db8:ce::/51 192.0.2.0/24 EA 13"),
    ({"n": "10", "m": "9"}, "vpp", "traffic: bidirectional 100% fg published, 9 of 10"),
])  # fmt: skip
def test_published_result_with_other_conditions_is_skipped(params, driver, words, tmp_path):
    make_measured_run(tmp_path / "run", {**VPP, "driver": driver}, params=params)
    stdout = v6t("compare", tmp_path / "run", "--published").out
    assert "Measured and published" not in stdout
    assert words in stdout


@pytest.mark.lab
@pytest.mark.alone
@needs_lab
def test_slowed_lab_device_has_a_lower_rate(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # a rate that a busy machine can send, and a device that sleeps for each frame
    bed = "line_rate: 16M\ndut: {options: {faults: {slow_ns: %d}}}\n"
    procedure = ("residual_wait_s=0.1", "pause_s=0", "sending_time_tolerance=10", "selftest=cached")
    settings = [word for setting in procedure for word in ("--set-procedure", setting)]
    for name, slow_ns in (("reference", 0), ("slowed", 900_000)):
        (tmp_path / "bed.yaml").write_text(bed % slow_ns)
        done = v6t(
            *("run", "--plugin", "mape-br", "--mode", "forward", "--reps", 4, "--duration", 0.1),
            *("--resolution", 2200, *settings, "--testbed", tmp_path / "bed.yaml"),
            *("--no-report", "-o", tmp_path / name),
        )
        assert done.status == 0, done.err
    line = compare(tmp_path / "reference", tmp_path / "slowed")["throughput", "rate"]
    assert (line.verdict, line.kind) == ("less", "factor")
    assert line.effect.coverage >= 0.95
    assert line.effect.low < line.effect.estimate < line.effect.high < 0.5 and "worse" in line.words


@pytest.mark.parametrize(("parts", "cores"), [
    ({"napt": 16, "ce": None, "br": 4}, 4), ({"clat": 16, "plat": 2}, 2),
    ({"clat": 16, "plat": None}, None),
])  # fmt: skip
def test_cores_of_a_chain_are_those_of_the_providers_edge(parts, cores):
    """The paper varies only the cores of the provider's edge."""
    options = {name: {"options": {"cores": n} if n else {}} for name, n in parts.items()}
    dut = {"driver": "chain", "options": {"parts": options}}
    config = {"plugin": "ipv4aas", "procedure": {}, "dut": dut}
    config = json.loads(json.dumps(config, sort_keys=True))  # in the order of a run's file
    assert collect_facts(config, {}, simulated=False)["cores"] == cores


SERIES_LENGTH = 18
VERSIONS = ("26.02", "26.6", "26.10")


@pytest.fixture(scope="module")
def series_runs(tmp_path_factory):
    """Provide 18 runs, slower from the tenth on, as copies of six measured runs."""
    home, procedure = tmp_path_factory.mktemp("series"), {"repetitions": 1, "resolution_fps": 500.0}
    for number, path in enumerate(list_series(home)):
        slowness, change = number % 3, number >= SERIES_LENGTH // 2
        fps, first = 1_000_000 - 3000 * slowness - 50_000 * change, home / f"{slowness}{change}"
        if not first.exists():
            device = {"capacity_fps": fps, "capacity_noise": 0.0}
            make_run(first, plugin="siit", modes=("forward",), device=device, procedure=procedure)
        shutil.copytree(first, path)
        replace_config(path, lambda config, n=number: config.update(label=VERSIONS[n // 6]))
        manifest = json.loads((path / "manifest.json").read_text())
        manifest["created"] = f"2026-11-{number + 1:02d}T00:00:00+00:00"
        (path / "manifest.json").write_text(json.dumps(manifest))
    return home


def list_series(series_runs):
    return [series_runs / f"r{number:02d}" for number in range(SERIES_LENGTH)]


def read_trend(*words):
    return json.loads(v6t("trend", "--json", *words).out)


def test_decrease_has_its_own_exit_status(series_runs):
    series = list_series(series_runs)
    done = v6t("trend", *series)
    assert done.status == WORSE_STATUS
    assert "-5.0 % from r09" in " ".join(done.out.split())
    for words, status in (
        (series[::-1], WORSE_STATUS),  # sorted by time
        (["--by", "given", *series[::-1]], 0),  # an increase
        (["--least", 6, *series], 0),
        (series[:9], 0),
    ):
        assert v6t("trend", *words).status == status


@pytest.mark.parametrize(("setting", "words"), [
    ({"plugin": "ipv6-router"}, "siit and ipv6-router"),
    ({"dut": {"driver": "tayga"}}, "reference and tayga"),
])  # fmt: skip
def test_directory_leaves_out_incomparable_runs(setting, words, series_runs, tmp_path):
    for path in list_series(series_runs):
        shutil.copytree(path, tmp_path / path.name)
    replace_config(tmp_path / "r03", lambda config: config.update(setting))
    content = read_trend(tmp_path)
    assert content["runs"] == [path.name for path in list_series(series_runs) if path.name != "r03"]
    (left_out,) = content["left_out"]
    assert left_out.startswith("r03: ")
    assert words in left_out


def test_trend_json_has_values_in_order_of_time(series_runs):
    runs = list_series(series_runs)
    content = read_trend(*runs[::-1], runs[0])  # a run that is named twice counts once
    jsonschema.validate(content, read_schema("trend-1"))
    assert content["runs"] == [path.name for path in list_series(series_runs)]
    (series,) = content["series"]
    assert [v["run"] for v in series["values"]] == content["runs"]
    (change,) = series["changes"]
    assert (change["run"], change["better"], content["worse"]) == ("r09", False, True)
    assert change["before"] > change["after"] > 0
    assert (series["resolution"], series["least_percent"]) == (500, 1)
    assert series["resolution_percent"] == pytest.approx(0.05, rel=0.1)
    assert "unseen" not in series["words"]


def test_versions_are_ordered_numerically(series_runs):
    values = read_trend("--by", "label", *list_series(series_runs))["series"][0]["values"]
    assert list(dict.fromkeys(value["when"] for value in values)) == ["26.02", "26.6", "26.10"]


def test_superscript_digits_in_labels_are_text():
    assert sorted(["v10", "v9", "²"], key=_make_natural_key) == ["v9", "v10", "²"]


def test_trend_with_changes_below_the_resolution_is_written_to_a_file(series_runs, tmp_path):
    page, document = tmp_path / "trend.html", tmp_path / "trend.json"
    words = ("trend", "--least", 0.01, *list_series(series_runs))
    stdout = " ".join(v6t(*words).out.split())
    assert "1 of 1" in stdout and "0.01%" in stdout
    assert v6t(*words, "-o", page).status == WORSE_STATUS
    assert page.read_text().count("<svg") == 1 and "from r09 on" in page.read_text()
    unseen = "changes below 500 fps, 0.05"
    assert page.read_text().count(unseen) >= 2  # table and figure
    v6t(*words, "-o", document)
    content = json.loads(document.read_text())
    assert content["schema"] == "v6t-trend/1"
    assert unseen in content["series"][0]["words"]


def test_invalid_or_short_series_are_reported(series_runs, tmp_path):
    expect_refusal(v6t("trend", tmp_path), "no-such-run")
    first, second = (series_runs / name for name in ("r00", "r01"))
    expect_refusal(v6t("trend", first, "-o", tmp_path / "x.pdf"), "wrong-kind-of-file")
    done = v6t("trend", first, second)
    assert done.status == 0
    assert "2 runs: too few" in " ".join(done.out.split())
