"""Means are reported in addition to medians only on request (GEN-20)."""

import json

import pytest
from v6t.analysis.statistics import compute_means
from v6t.core.config.resolve import resolve
from v6t.core.config.run_setup import make_setup
from v6t.core.runs.events import Listener
from v6t.core.runs.runner import execute
from v6t.tests.core.support import v6t


def test_the_formula_of_ipv6net():
    result = compute_means([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert result["mean"] == 5.0
    assert result["margin_99"] == pytest.approx(2.575 * 2.13809 / 8**0.5, rel=1e-5)
    assert result["rsd_percent"] == pytest.approx(42.7618, rel=1e-5)


@pytest.mark.parametrize("values", [[], [5.0], [1.0, None], [1.0, float("inf")], [1.0, -1.0]])
def test_what_has_no_mean(values):
    assert compute_means(values) is None


def results(path, **procedure):
    run = resolve(
        plugin="mape-br",
        tester="sim",
        tester_options={"capacity_noise": "0.05"},
        benchmarks=("throughput", "latency"),
        modes=("forward",),
        procedure={"repetitions": 5, "resolution_fps": 1000.0, **procedure},
    )
    execute(make_setup(run), path, Listener())
    return json.loads((path / "results.json").read_text())["results"]


def test_they_stand_beside_the_median_and_never_instead(tmp_path):
    throughput, latency = results(tmp_path / "with", means=True)
    assert throughput["means"]["mean"] == pytest.approx(sum(throughput["rates"]) / 5)
    assert latency["directions"]["forward"]["tl"]["means"]["rsd_percent"] >= 0
    plain, _ = results(tmp_path / "without")
    assert "means" not in plain
    assert plain["median"] == throughput["median"]


def test_the_terminal_says_what_they_are(tmp_path):
    base = ("run", "--plugin", "mape-br", "--tester", "sim", "--set-tester", "capacity_noise=0.1")
    done = v6t(*base, "--set-procedure", "means=true", "-o", tmp_path / "out")
    assert done.status == 0
    assert "standard deviation" in v6t("show", tmp_path / "out", "--warnings").out
    assert "standard deviation" not in v6t(*base, "-o", tmp_path / "other").out
