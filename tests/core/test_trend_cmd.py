"""``v6t trend``: order, omitted runs, exit status and files."""

import json
import shutil

import jsonschema
import pytest
from v6t.core.cli.results_commands import WORSE_STATUS
from v6t.tests.core.support import read_schema, replace_config, v6t
from v6t.tests.expect import expect_refusal

pytestmark = pytest.mark.slow

RUNS = 18
VERSIONS = ("26.02", "26.6", "26.10")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Provide eighteen runs, slower from the tenth on, and one of another technology."""
    home = tmp_path_factory.mktemp("runs")
    for number in range(RUNS):
        capacity = 1_000_000 - 3000 * (number % 3) - 50_000 * (number >= RUNS // 2)
        one(home / f"r{number:02d}", "siit", capacity, VERSIONS[number // 6], number)
    one(home / "stranger", "ipv6-router", 1_000_000, "25.0", 0)
    return home


def one(path, plugin, capacity, label, number):
    done = v6t(
        *("run", "--plugin", plugin, "--tester", "sim", "--mode", "forward", "--reps", 1),
        *("--measure", "throughput", "--resolution", 500, "--label", label, "--no-report"),
        *("--set-tester", f"capacity_fps={capacity}", "-o", path),
    )
    assert done.status == 0, done.err
    manifest = path / "manifest.json"
    content = json.loads(manifest.read_text())
    content["created"] = f"2026-11-{number + 1:02d}T00:00:00+00:00"
    manifest.write_text(json.dumps(content))


def own(runs):
    return [runs / f"r{number:02d}" for number in range(RUNS)]


def test_decrease_has_its_own_exit_status(runs):
    done = v6t("trend", *own(runs))
    assert done.status == WORSE_STATUS
    assert "-5.0 % from r09" in " ".join(done.out.split())
    assert v6t("trend", *reversed(own(runs))).status == WORSE_STATUS  # by time, however given
    assert v6t("trend", "--by", "given", *reversed(own(runs))).status == 0  # now it is better
    assert v6t("trend", "--least", 6, *own(runs)).status == 0
    assert v6t("trend", *own(runs)[:9]).status == 0


def test_directory_series_skips_other_devices(runs, tmp_path):
    for place in own(runs):
        shutil.copytree(place, tmp_path / place.name)
    replace_config(tmp_path / "r03", lambda config: config["dut"].update(driver="tayga"))
    told = json.loads(v6t("trend", "--json", tmp_path).out)
    assert told["runs"] == [p.name for p in own(runs) if p.name != "r03"]
    (left_out,) = told["left_out"]
    assert left_out.startswith("r03: ")
    assert left_out.endswith("reference and tayga")


def test_json_has_the_values_in_order(runs):
    told = json.loads(v6t("trend", "--json", *own(runs)[::-1]).out)
    jsonschema.validate(told, read_schema("trend-1"))
    assert told["runs"] == [p.name for p in own(runs)]
    (series,) = told["series"]
    assert [v["run"] for v in series["values"]] == told["runs"]
    (change,) = series["changes"]
    assert (change["run"], change["better"], told["worse"]) == ("r09", False, True)
    assert change["before"] > change["after"] > 0
    assert (series["resolution"], series["least_percent"]) == (500, 1)
    assert series["resolution_percent"] == pytest.approx(0.05, rel=0.1)
    assert "unseen" not in series["words"]


def test_changes_below_resolution_are_reported(runs, tmp_path):
    fine = ("trend", "--least", 0.01, *own(runs))
    hidden = "changes below 500 fps, 0.05"
    assert hidden in json.loads(v6t(*fine, "--json").out)["series"][0]["words"]
    said = " ".join(v6t(*fine).out.split())
    assert "1 of 1" in said
    assert "0.01%" in said
    v6t(*fine, "-o", tmp_path / "trend.html")
    assert (tmp_path / "trend.html").read_text().count(hidden) >= 2  # table and figure


def test_versions_are_ordered_numerically(runs):
    told = json.loads(v6t("trend", "--json", "--by", "label", *own(runs)).out)
    labels = [v["when"] for v in told["series"][0]["values"]]
    assert list(dict.fromkeys(labels)) == ["26.02", "26.6", "26.10"]


def test_directory_selects_its_comparable_runs(runs):
    told = json.loads(v6t("trend", "--json", runs).out)
    assert len(told["runs"]) == RUNS
    assert told["left_out"][0].startswith("stranger: ")
    assert "siit and ipv6-router" in told["left_out"][0]


def test_files(runs, tmp_path):
    page = tmp_path / "trend.html"
    done = v6t("trend", *own(runs), "-o", page)
    assert done.status == WORSE_STATUS
    text = page.read_text()
    assert text.count("<svg") == 1
    assert "from r09 on" in text
    v6t("trend", *own(runs), "-o", tmp_path / "trend.json")
    assert json.loads((tmp_path / "trend.json").read_text())["schema"] == "v6t-trend/1"


def test_invalid_or_short_series_are_reported(runs, tmp_path):
    expect_refusal(v6t("trend", tmp_path), "no-such-run")
    expect_refusal(v6t("trend", runs / "r00", "-o", tmp_path / "x.pdf"), "wrong-kind-of-file")
    two = v6t("trend", runs / "r00", runs / "r01")
    assert two.status == 0
    assert "2 runs: too few" in " ".join(two.out.split())
