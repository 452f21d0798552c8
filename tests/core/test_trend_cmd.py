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
        make_labelled_run(home / f"r{number:02d}", "siit", capacity, VERSIONS[number // 6], number)
    make_labelled_run(home / "stranger", "ipv6-router", 1_000_000, "25.0", 0)
    return home


def make_labelled_run(path, plugin, capacity, label, number):
    done = v6t(
        *("run", "--plugin", plugin, "--tester", "sim", "--mode", "forward", "--reps", 1),
        *("--measure", "throughput", "--resolution", 500, "--label", label, "--no-report"),
        *("--set-tester", f"capacity_fps={capacity}", "-o", path),
    )
    assert done.status == 0, done.err
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["created"] = f"2026-11-{number + 1:02d}T00:00:00+00:00"
    (path / "manifest.json").write_text(json.dumps(manifest))


def list_series(runs):
    return [runs / f"r{number:02d}" for number in range(RUNS)]


def trend_json(*words):
    return json.loads(v6t("trend", "--json", *words).out)


def test_decrease_has_its_own_exit_status(runs):
    series = list_series(runs)
    done = v6t("trend", *series)
    assert done.status == WORSE_STATUS
    assert "-5.0 % from r09" in " ".join(done.out.split())
    for words, status in (
        (series[::-1], WORSE_STATUS),  # by time, in any order
        (["--by", "given", *series[::-1]], 0),  # an increase
        (["--least", 6, *series], 0),
        (series[:9], 0),
    ):
        assert v6t("trend", *words).status == status


def test_directory_selects_its_comparable_runs(runs):
    content = trend_json(runs)
    assert content["runs"] == [path.name for path in list_series(runs)]
    (left_out,) = content["left_out"]
    assert left_out.startswith("stranger: ")
    assert "siit and ipv6-router" in left_out


def test_directory_leaves_out_runs_of_other_devices(runs, tmp_path):
    for path in list_series(runs):
        shutil.copytree(path, tmp_path / path.name)
    replace_config(tmp_path / "r03", lambda config: config["dut"].update(driver="tayga"))
    content = trend_json(tmp_path)
    assert content["runs"] == [path.name for path in list_series(runs) if path.name != "r03"]
    (left_out,) = content["left_out"]
    assert left_out.startswith("r03: ")
    assert left_out.endswith("reference and tayga")


def test_json_has_the_values_in_order(runs):
    content = trend_json(*list_series(runs)[::-1])
    jsonschema.validate(content, read_schema("trend-1"))
    assert content["runs"] == [path.name for path in list_series(runs)]
    (series,) = content["series"]
    assert [v["run"] for v in series["values"]] == content["runs"]
    (change,) = series["changes"]
    assert (change["run"], change["better"], content["worse"]) == ("r09", False, True)
    assert change["before"] > change["after"] > 0
    assert (series["resolution"], series["least_percent"]) == (500, 1)
    assert series["resolution_percent"] == pytest.approx(0.05, rel=0.1)
    assert "unseen" not in series["words"]


def test_versions_are_ordered_numerically(runs):
    values = trend_json("--by", "label", *list_series(runs))["series"][0]["values"]
    assert list(dict.fromkeys(value["when"] for value in values)) == ["26.02", "26.6", "26.10"]


def test_trend_with_changes_below_the_resolution_is_written_to_a_file(runs, tmp_path):
    page, document = tmp_path / "trend.html", tmp_path / "trend.json"
    words = ("trend", "--least", 0.01, *list_series(runs))
    stdout = " ".join(v6t(*words).out.split())
    assert "1 of 1" in stdout and "0.01%" in stdout
    assert v6t(*words, "-o", page).status == WORSE_STATUS
    assert page.read_text().count("<svg") == 1
    assert "from r09 on" in page.read_text()
    unseen = "changes below 500 fps, 0.05"
    assert page.read_text().count(unseen) >= 2  # table and figure
    v6t(*words, "-o", document)
    content = json.loads(document.read_text())
    assert content["schema"] == "v6t-trend/1"
    assert unseen in content["series"][0]["words"]


def test_invalid_or_short_series_are_reported(runs, tmp_path):
    expect_refusal(v6t("trend", tmp_path), "no-such-run")
    expect_refusal(v6t("trend", runs / "r00", "-o", tmp_path / "x.pdf"), "wrong-kind-of-file")
    done = v6t("trend", runs / "r00", runs / "r01")
    assert done.status == 0
    assert "2 runs: too few" in " ".join(done.out.split())
