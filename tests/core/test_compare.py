"""Comparisons: comparable points, verdicts and published references."""

import json
import re

import jsonschema
import pytest
from v6t.analysis.published.library import collect_facts
from v6t.core.reporting import write
from v6t.core.reporting.compare import compare_runs
from v6t.core.runs.results import load_run, read_results
from v6t.drivers.lab import privilege
from v6t.tests.core.reportruns import make_run
from v6t.tests.core.support import read_schema, replace_config, tree, v6t, v6t_process
from v6t.tests.expect import expect_refusal

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    home = tmp_path_factory.mktemp("runs")
    wanted = ("throughput", "latency", "frame-loss", "back-to-back")
    loss = {"frame_loss": {"repetitions": 6}, "back_to_back": {"repetitions": 6}}
    buffer = {"buffer_frames": 20_000}
    make_run(home / "first", *wanted, seed=1, procedure=loss, device=buffer)
    make_run(home / "again", *wanted, seed=2, procedure=loss, device=buffer)
    slow = {**buffer, "capacity_fps": 500_000}
    make_run(home / "slow", *wanted, seed=3, procedure=loss, device=slow)
    late = {**buffer, "delay_us": 60}
    make_run(home / "late", *wanted, seed=4, procedure=loss, device=late)
    return home


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("plain") / "a", procedure={"repetitions": 1})


def lines(*paths, anyway=False):
    found = compare_runs([*map(load_run, paths)], anyway).lines
    return {(line.benchmark, line.what): line for line in found}


def test_the_same_device_shows_no_difference(runs):
    found = lines(runs / "first", runs / "again")
    line = found["throughput", "rate"]
    assert line.verdict == "no difference"
    assert line.words.startswith("no difference")
    assert line.effect.low <= 1 <= line.effect.high
    assert line.effect.coverage >= 0.95
    assert {v.verdict for v in found.values()} <= {"no difference", "undecided"}


def test_a_slower_device_has_a_factor_with_its_interval(runs):
    line = lines(runs / "first", runs / "slow")["throughput", "rate"]
    assert (line.verdict, line.kind) == ("less", "factor")
    # how often the interval holds the true factor: tests/analysis/test_comparison.py
    assert line.effect.estimate == pytest.approx(0.5, rel=0.05)
    assert line.effect.high - line.effect.low < 0.05
    assert "times" in line.words
    assert "worse" in line.words
    back = lines(runs / "slow", runs / "first")["throughput", "rate"]
    assert back.effect.estimate == pytest.approx(1 / line.effect.estimate, rel=1e-3)
    assert "better" in back.words


def test_a_longer_delay_is_worse(runs):
    line = lines(runs / "first", runs / "late")["latency", "TL forward"]
    assert line.verdict == "more"
    assert "worse" in line.words
    assert line.effect.estimate == pytest.approx(65 / 25, rel=0.02)


def test_loss_is_compared_by_differences(runs):
    found = lines(runs / "first", runs / "slow")
    losses = [line for (name, _), line in found.items() if name == "frame-loss"]
    assert losses
    assert {line.kind for line in losses} == {"difference"}
    assert any(line.verdict == "more" and "worse" in line.words for line in losses)


def make_slower(tmp_path, repetitions):
    """Make a run and one of a device half as fast; compare their throughput."""
    few = {"procedure": {"repetitions": repetitions}}
    make_run(tmp_path / "a", **few)
    make_run(tmp_path / "b", device={"capacity_fps": 500_000}, **few)
    return lines(tmp_path / "a", tmp_path / "b")["throughput", "rate"]


def test_single_repetitions_are_undecided(tmp_path):
    line = make_slower(tmp_path, 1)
    assert line.verdict == "undecided"
    assert "one repetition" in line.words


def test_few_repetitions_are_undecided(tmp_path):
    line = make_slower(tmp_path, 2)
    assert (line.verdict, line.improved) == ("undecided", None)
    assert "2 repetitions" in line.words
    assert "67%" in line.words
    said = v6t("compare", tmp_path / "a", tmp_path / "b").out
    assert re.search(r"^1 \w+ against a: 1 ", said, re.MULTILINE)
    assert f"  v6t run {tmp_path}/a --reps 4 -o {tmp_path}/a-again\n" in said
    assert said.endswith(f"  v6t compare {tmp_path}/a-again {tmp_path}/b-again\n")


def test_runs_limited_by_the_tester_propose_no_more_repetitions(tmp_path):
    fast = {"procedure": {"repetitions": 2}, "device": {"capacity_fps": 1e9}}
    make_run(tmp_path / "a", seed=1, **fast)
    make_run(tmp_path / "b", seed=2, **fast)
    (line,) = lines(tmp_path / "a", tmp_path / "b").values()
    assert (line.limited, line.verdict) == ((True, True), "undecided")
    assert "limit" in line.words
    said = v6t("compare", tmp_path / "a", tmp_path / "b").out
    assert "--reps" not in said
    assert "faster tester" in said


def test_latencies_at_different_rates_propose_the_lower_rate(runs):
    said = v6t("compare", runs / "first", runs / "slow").out
    commands = [line.split() for line in said.splitlines() if line.startswith("  v6t run")]
    rates = [words[words.index("--rate") + 1] for words in commands]
    assert len(rates) == 2 and set(rates) <= {"490000", "500000"}
    assert "rates differ" in said


def test_directory_of_a_run_is_run_again_with_other_options(tmp_path):
    make_run(tmp_path / "a", params={"ces": "100"}, procedure={"repetitions": 2})
    assert (
        v6t("run", tmp_path / "a", "--reps", "3", "-o", tmp_path / "b", "--no-report").status == 0
    )
    first, second = (json.loads((tmp_path / n / "config.json").read_text()) for n in "ab")
    assert second["procedure"].pop("repetitions") == 3
    first["procedure"].pop("repetitions")
    assert first == second


def test_page_of_a_comparison_names_the_runs_and_draws_factors(runs, tmp_path):
    v6t("compare", runs / "first", runs / "slow", "-o", tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text()
    created = json.loads((runs / "slow" / "manifest.json").read_text())["created"]
    for text in ("MAP-E border relay on reference device", created[:10], "<svg"):
        assert text in page


def test_difference_below_resolution_is_no_difference(tmp_path):
    coarse = {"procedure": {"resolution_fps": 300_000.0}}
    make_run(tmp_path / "a", device={"capacity_noise": 0.0}, **coarse)
    make_run(tmp_path / "b", device={"capacity_noise": 0.0, "capacity_fps": 1_150_000}, **coarse)
    line = lines(tmp_path / "a", tmp_path / "b")["throughput", "rate"]
    assert line.first != line.second
    assert line.verdict == "no difference"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"plugin": "mapt-br", "frame_sizes": (84,)}, "technology: mape-br and mapt-br"),
        ({"params": {"ces": "100"}}, "parameter ces: 1000 and 100"),
        ({"params": {"n": "10", "m": "9"}}, "parameter m: 2 and 9"),
        ({"frame_sizes": (168,)}, "104/64 bidirectional: only in a"),
        ({"modes": ("forward",)}, "104/64 bidirectional: only in a"),
        ({"procedure": {"loss_tolerance": 0.001}}, "loss tolerance: 0.0 and 0.001"),
        ({"procedure": {"trial_duration_s": 2.0}}, "duration s: "),
        ({"procedure": {"search": "mlrsearch"}}, "search: binary and mlrsearch"),
    ],
)
def test_unlike_runs_are_rejected(change, words, plain, tmp_path):
    procedure = {"repetitions": 1, **change.pop("procedure", {})}
    make_run(tmp_path / "b", procedure=procedure, **change)
    said = expect_refusal(v6t("compare", plain, tmp_path / "b"), "not-comparable")
    assert words in said
    assert "--anyway" in said


def test_anyway_compares_unlike_runs_and_lists_differences(plain, tmp_path):
    different = {"repetitions": 1, "loss_tolerance": 0.001}
    make_run(tmp_path / "b", params={"ces": "100"}, procedure=different)
    done = v6t("compare", plain, tmp_path / "b", "--anyway")
    assert done.status == 0
    assert "ces: 1000 and 100" in done.out
    assert "tolerance: 0.0 and 0.001" in done.out
    assert "throughput" in done.out


def test_points_of_one_run_only_are_named(runs, tmp_path):
    make_run(tmp_path / "more", "throughput", modes=("bidirectional", "forward"))
    done = v6t("compare", runs / "first", tmp_path / "more")
    assert done.status in (0, 7), done.err
    assert re.search(r"^\W*throughput 104/64 forward: .* more", done.out, re.MULTILINE)
    assert re.search(r"^\W*frame-loss 104/64 bidirectional: .* first", done.out, re.MULTILINE)


def test_several_runs_are_set_against_the_first(runs):
    done = v6t("compare", runs / "first", runs / "again", runs / "slow")
    assert done.status == 7
    assert "again against first" in done.out
    assert "slow against first" in done.out


def test_json_follows_its_schema(runs):
    done = v6t("compare", runs / "first", runs / "slow", "--json")
    content = json.loads(done.out)
    jsonschema.validate(content, read_schema("comparison-1"))
    assert content["runs"] == ["first", "slow"]


@pytest.mark.parametrize("suffix", ["html", "md", "json"])
def test_comparisons_can_be_kept(suffix, runs, tmp_path):
    target = tmp_path / f"out.{suffix}"
    done = v6t("compare", runs / "first", runs / "slow", "-o", target)
    assert (done.status, done.out) == (7, "")
    assert "worse" in target.read_text()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *(("compare", f"{name}.json") for name in ("config", "manifest", "results", "campaign")),
        ("trend", "report.html"),
    ],
)
def test_a_file_of_a_run_is_not_replaced(name, command, runs):
    before = tree(runs)
    done = v6t(command, runs / "first", runs / "again", "-o", runs / "first" / name)
    expect_refusal(done, "file-exists")
    assert tree(runs) == before


def test_an_earlier_comparison_is_replaced(runs, tmp_path):
    target = tmp_path / "results.json"
    target.write_text("{}")
    assert v6t("compare", runs / "first", runs / "again", "-o", target).code == ""
    assert json.loads(target.read_text())["runs"] == ["first", "again"]


def test_refusals(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where `make demo` was, one run is compared with that
    expect_refusal(v6t("compare", runs / "first"), "no-such-run")
    expect_refusal(v6t("compare", runs / "first", tmp_path), "no-such-run")
    for words in (("compare", tmp_path, "again"), ("compare", "again", tmp_path),
                  ("trend", tmp_path, "again")):  # fmt: skip
        expect_refusal(v6t(*words), "file-not-found")
    out = tmp_path / "out.pdf"
    assert ".html" in expect_refusal(
        v6t("compare", runs / "first", runs / "again", "-o", out), "wrong-kind-of-file"
    )


def test_comparison_is_written_to_a_file_and_printed_as_json(runs, tmp_path):
    done = v6t("compare", runs / "first", runs / "again", "--json", "-o", tmp_path / "all.json")
    assert json.loads(done.out) == json.loads((tmp_path / "all.json").read_text())


def test_published_comparison_as_json_is_rejected(runs):
    done = v6t("compare", runs / "first", "--published", "--json")
    expect_refusal(done, "conflicting-options")


def test_simulated_run_has_no_published_reference(runs):
    done = v6t("compare", runs / "first", "--published")
    assert done.status == 0
    assert "frames: sent" in done.out
    assert "doi 10.1109/ACCESS.2025.3587302" in done.out


def pretended(path, content, config):
    """Change a run directory as if frames had been sent for as long as in the papers."""
    results = read_results(path)
    for record in results["results"]:
        record.update(content)
    (path / "results.json").write_text(json.dumps(results))
    changes = {"tester": {"kind": "trex", "options": {}}, **config}
    replace_config(path, lambda settings: settings.update(changes))
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["setup"]["simulated"] = False
    (path / "manifest.json").write_text(json.dumps(manifest))


VPP = {"driver": "vpp", "options": {"left": "a", "right": "b", "workers": "1"}}
PUBLISHED = {"duration_s": 60.0, "median": 2_000_000.0, "repetitions": 20}


def test_a_run_under_published_conditions_has_a_reference_line(tmp_path):
    path = make_run(tmp_path / "run")
    pretended(path, PUBLISHED, {"dut": VPP})
    done = v6t("compare", path, "--published")
    assert "Measured beside mapperf-2025" in done.out
    assert "2,531,239" in done.out
    assert "9,198,715" not in done.out.partition("no reference")[0]  # of four workers
    assert "cores: 4 published" in done.out
    write.write_run_report(path, formats=["html"], figures="none")
    assert "2,531,239" in (path / "report.html").read_text()


@pytest.mark.parametrize(
    ("params", "driver", "words"),
    [
        *(({}, name, f"published, {name} here") for name in ("jool", "reference", "command")),
        ({"ces": "100"}, "vpp", "CEs: 1000 published, 100 here"),
        ({"rule_ipv6": "2001:db8:ff::/51"}, "vpp", "rule: 2001:db8:ce::/51 192.0.2.0/24 EA 13"),
        ({"n": "10", "m": "9"}, "vpp", "traffic: bidirectional 100% fg published, 9 of 10"),
    ],
)
def test_published_result_with_other_conditions_is_skipped(params, driver, words, tmp_path):
    path = make_run(tmp_path / "run", params=params)
    pretended(path, PUBLISHED, {"dut": {**VPP, "driver": driver}})
    done = v6t("compare", path, "--published")
    assert "Measured beside" not in done.out
    assert words in done.out


LAB_RUN = """\
plugin: mape-br
modes: [forward]
procedure:
  repetitions: 4
  trial_duration_s: 0.1
  residual_wait_s: 0.1
  pause_s: 0
  resolution_fps: 400
  sending_time_tolerance: 10
"""
LAB_BED = """\
tester: {kind: embedded}
line_rate: 20M
dut: {options: {faults: {slow_ns: %d}}}
"""
"""A medium that a busy machine can fill, and a device that is slower by what it sleeps."""


@pytest.mark.lab
@pytest.mark.alone
def test_slowed_device_is_found_slower(tmp_path):
    can, how = privilege.check_availability()
    if not can:
        pytest.skip(how)
    (tmp_path / "run.yaml").write_text(LAB_RUN)
    for name, slow_ns in (("reference", 0), ("slowed", 900_000)):
        (tmp_path / "bed.yaml").write_text(LAB_BED % slow_ns)
        done = v6t_process("run", tmp_path / "run.yaml", "--testbed", tmp_path / "bed.yaml",
                           "-o", tmp_path / name)  # fmt: skip
        assert done.status == 0, done.err
    line = lines(tmp_path / "reference", tmp_path / "slowed")["throughput", "rate"]
    assert (line.verdict, line.kind) == ("less", "factor")
    assert line.effect.coverage >= 0.95
    assert line.effect.low < line.effect.estimate < line.effect.high < 0.5
    assert "worse" in line.words


@pytest.mark.parametrize(
    ("parts", "cores"),
    [
        ({"napt": 16, "ce": None, "br": 4}, 4),
        ({"clat": 16, "plat": 2}, 2),
        ({"clat": 16, "plat": None}, None),
    ],
)
def test_of_two_devices_the_cores_of_the_providers_edge_count(parts, cores):
    """As the paper varies them: the customer's edge has all of its cores."""
    options = {name: {"options": {"cores": n} if n else {}} for name, n in parts.items()}
    config = {
        "plugin": "ipv4aas",
        "procedure": {},
        "dut": {"driver": "chain", "options": {"parts": options}},
    }
    config = json.loads(json.dumps(config, sort_keys=True))  # as a run's file has it
    assert collect_facts(config, {}, simulated=False)["cores"] == cores
