"""What the tutorials build is built and installed by pip, in a fresh environment, and runs."""

from __future__ import annotations

import json

import pytest

from .support import CHECKOUT, elsewhere, pip_install, run

pytestmark = pytest.mark.slow

TESTS = CHECKOUT / "tests"


@pytest.fixture(scope="session")
def extended(fresh, tmp_path_factory):
    """A fresh environment with v6t and the packages of the tutorials."""
    bin_ = fresh("extended")
    packages = ("plugin", "driver", "benchmark", "tester", "6rd")
    folders = [TESTS / f"example_{name}" for name in packages]
    pip_install(folders, tmp_path_factory.mktemp("sources"), python=bin_ / "python")
    return bin_


def test_the_plugin_of_the_tutorial(extended, tmp_path):
    rest = elsewhere(tmp_path)
    shown = run(extended / "v6t", "plugins", "nptv6", **rest)
    assert shown.startswith("nptv6: NPTv6: a site's IPv6 prefix translated to a provider's")
    run(
        *(extended / "v6t", "run", "--plugin", "nptv6", "--tester", "sim", "--reps", "1"),
        *("-o", "out"),
        **rest,
    )
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["status"] == "complete"
    assert {r["frame_sizes"]["ipv6"] for r in results["results"]} == {84}


def test_the_driver_of_the_tutorial(extended, tmp_path):
    driven = ("--driver", "nft-filter", "--plugin", "ipv4-router", "--set-dut", "rules=3")
    plan = run(extended / "v6t", "dut", "plan", *driven, **elsewhere(tmp_path))
    assert plan.count(" drop\n") == 3


def test_the_benchmark_of_the_tutorial(extended, tmp_path):
    rest = elsewhere(tmp_path)
    measured = ("--plugin", "siit", "--measure", "mrr", "--tester", "sim", "--frame-size", "84")
    run(extended / "v6t", "run", *measured, "-o", "out", **rest)
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["status"] == "complete"
    assert {r["benchmark"] for r in results["results"]} == {"mrr"}


def test_the_tester_of_the_tutorial(extended, tmp_path):
    measured = ("run", "--plugin", "ipv4-router", "--tester", "impaired", "--reps", "1")
    run(extended / "v6t", *measured, "--mode", "forward", "-o", "out", **elsewhere(tmp_path))
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["tester"]["kind"] == "impaired"
    assert json.loads((tmp_path / "out" / "results.json").read_text())["status"] == "complete"


def test_each_comes_from_its_own_distribution(extended, tmp_path):
    rows = json.loads(run(extended / "v6t", "plugins", "--json", **elsewhere(tmp_path)))
    assert {r["distribution"] for r in rows} == {"v6t", "v6t-nptv6", "v6t-sixrd"}


@pytest.mark.parametrize("name", ["nptv6", "sixrd-br"])
def test_they_conform_where_they_are_installed(name, extended, tmp_path):
    said = run(extended / "v6t", "plugins", "--check", name, **elsewhere(tmp_path))
    assert said.startswith(f"{name} conforms: ")
