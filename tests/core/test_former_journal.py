"""A journal with the packed timelines of version 0.1 is resumed and reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from v6t.core.reporting.write import write
from v6t.core.runs.events import Listener
from v6t.core.runs.results import load_run
from v6t.core.runs.runner import resume

from .reportruns import made

STORED = Path(__file__).with_name("journal-0.1.jsonl")
MARK = "ded830d74fa50374"


@pytest.fixture
def former(tmp_path):
    """A run whose journal is the stored one."""
    run = made(tmp_path / "run", "throughput", "system-recovery", plugin="siit", modes=("forward",),
               frame_sizes=(84,), procedure={"repetitions": 1, "resolution_fps": 100_000.0})  # fmt: skip
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "run": MARK}))
    (run / "journal.jsonl").write_bytes(STORED.read_bytes())
    return run


def test_former_journal_is_resumed_without_a_new_trial(former):
    (former / "results.json").unlink()
    assert resume(former, Listener()).status == "complete"
    assert (former / "journal.jsonl").read_bytes() == STORED.read_bytes()
    assert len(json.loads((former / "results.json").read_text())["results"]) == 2


def test_former_timelines_are_reported(former):
    timeline = load_run(former).trials[-1].result.directions["forward"].timeline
    assert timeline.received[:3] == (50210, 50211, 50210)
    assert sum(timeline.received) == 1543208
    assert sum(timeline.lost) == 1617000 - 1543208
    assert write(former, formats=("html",)) == [former / "report.html"]
