"""Settings of benchmarks: their sections, flags and conflicts."""

import sys

from v6t.benchmarks import registry
from v6t.tests.core.support import SIM, v6t, write_distribution
from v6t.tests.expect import expect_refusal

CLASHING = """
from pydantic import Field
from v6t.benchmarks.throughput import Throughput
from v6t.base.strict_model import StrictModel

class Own(StrictModel):
    \"\"\"Other settings.\"\"\"
    tags: int = 1

class Clashing(Throughput):
    name = "clashing"
    section = "latency"
    settings_model = Own
"""


def test_flag_sets_option_of_measured_benchmarks():
    assert registry.list_flags()["--rate"] == ["latency.rate_fps", "delay_variation.rate_fps"]
    done = v6t(*SIM, "--measure", "pdv", "--rate", "2000", "--dry-run", "--json")
    assert done.status == 0, done.err
    refused = v6t(*SIM, "--rate", "2000", "--dry-run")
    expect_refusal(refused, "setting-without-effect")


def test_benchmarks_with_same_settings_section_are_rejected(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    write_distribution(tmp_path, "odd-bench", benchmarks="clashing = odd_bench:Clashing")
    (tmp_path / "odd_bench.py").write_text(CLASHING)
    try:
        said = expect_refusal(v6t(*SIM, "--measure", "clashing", "--dry-run"), "extension-broken")
        assert "clashing" in said
        assert "latency" in said
        assert v6t(*SIM, "--measure", "latency", "--dry-run").status == 0
        rows = {row.name: row for row in registry.list_benchmarks()}
        assert rows["latency"].kind is not None
        assert "odd-bench" in rows["clashing"].error
    finally:
        sys.modules.pop("odd_bench", None)


def test_flags_are_those_of_the_settings_models(tmp_path):
    done = v6t("run", "--help")
    for flag in ("--reps", "--duration", "--search", "--tags", "--rate", "--frame-timeout"):
        assert flag in done.out
    assert "Tagged frames" in done.out
    shown = v6t(*SIM, "--reps", "3", "--set-procedure", "repetitions=4", "--dry-run", "--json")
    assert shown.status == 0, shown.err
