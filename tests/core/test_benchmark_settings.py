"""Benchmarks' own settings: where they stand, where they stood, their flags, and two in one place."""

import json
import sys

import pytest
from v6t.core.benchmarks import kinds
from v6t.core.config.settings import saved_run
from v6t.profiles.errors import UsageError

from .support import SIM, complaint, v6t, v6t_process
from .test_config import resolved

OLD = """\
procedure:
  rate_fps: 5000
  frame_timeout_ms: 7
  connections:
    count: 1000
    teardown_repetitions: 3
    capacity: {first: 10, most: 50}
"""
CLASHING = """
from pydantic import Field
from v6t.core.benchmarks.throughput import Throughput
from v6t.profiles.strict_model import StrictModel

class Own(StrictModel):
    \"\"\"Other settings.\"\"\"
    tags: int = 1

class Clashing(Throughput):
    name = "clashing"
    section = "latency"
    model = Own
"""


def test_a_file_of_an_earlier_version_says_the_same(tmp_path):
    p = resolved(tmp_path, OLD).procedure
    assert (p.latency.rate_fps, p.delay_variation.rate_fps) == (5000.0, 5000.0)
    assert p.frame_timeout.deadline_ms == 7.0
    assert (p.teardown.repetitions, p.connections.count) == (3, 1000)
    assert (p.capacity.first, p.capacity.most) == (10, 50)


def test_a_run_that_was_saved_by_an_earlier_version_is_read(tmp_path):
    run = resolved(tmp_path, "seed: 1")
    values = json.loads(run.model_dump_json())
    for name in ("capacity", "teardown", "frame_timeout"):
        del values["procedure"][name]
    values["procedure"] |= {"rate_fps": None, "frame_timeout_ms": 9.0}
    values["procedure"]["connections"] |= {"teardown_repetitions": None, "capacity": {"first": 7}}
    again = saved_run(values)
    assert again.procedure.capacity.first == 7
    assert again.procedure.frame_timeout.deadline_ms == 9.0
    assert again.procedure.latency == run.procedure.latency


@pytest.mark.parametrize(
    ("old", "new"), [("first: 10", "first: 0"), ("rate_fps: 5000", "rate_fps: -1")]
)
def test_a_wrong_value_in_the_former_place_is_told_with_its_line(old, new, tmp_path):
    text = OLD.replace(old, new)
    line = next(n for n, row in enumerate(text.splitlines(), 1) if new in row)
    path = "connections.capacity.first" if "first" in old else "rate_fps"
    with pytest.raises(UsageError, match=rf"run\.yaml:{line}: procedure\.{path}: it must be"):
        resolved(tmp_path, text)


def test_a_flag_stands_for_the_settings_of_what_is_measured():
    assert kinds.flags()["--rate"] == ["latency.rate_fps", "delay_variation.rate_fps"]
    done = v6t(*SIM, "--measure", "pdv", "--rate", "2000", "--dry-run", "--json")
    assert done.status == 0, done.err
    refused = v6t(*SIM, "--rate", "2000", "--dry-run")
    assert "--rate is for latency, pdv, ipdv" in complaint(refused)


@pytest.mark.slow
def test_two_benchmarks_with_settings_in_one_place(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    info = tmp_path / "odd_bench-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-bench\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[v6t.benchmarks]\nclashing = odd_bench:Clashing\n")
    (tmp_path / "odd_bench.py").write_text(CLASHING)
    try:
        # processes of their own: what `run --help` lists is made once in a process
        said = complaint(v6t_process(*SIM, "--measure", "clashing", "--dry-run"))
        assert "'clashing' of odd-bench stand below procedure.latency" in said
        assert "'latency' of v6t" in said
        assert v6t_process(*SIM, "--measure", "latency", "--dry-run").status == 0
        rows = {row.name: row for row in kinds.listing()}
        assert rows["latency"].kind is not None
        assert "odd-bench" in rows["clashing"].error
    finally:
        sys.modules.pop("odd_bench", None)


def test_flags_are_those_of_the_settings_models(tmp_path):
    done = v6t("run", "--help")
    for flag in ("--reps", "--duration", "--search", "--tags", "--rate", "--frame-timeout"):
        assert flag in done.out
    assert "Tagged frames of a stream and direction." in done.out
    shown = v6t(*SIM, "--reps", "3", "--set-procedure", "repetitions=4", "--dry-run", "--json")
    assert shown.status == 0, shown.err
