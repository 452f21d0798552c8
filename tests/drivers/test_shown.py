"""Runs show what they did and nothing else, and pages say of a device what a test has seen of it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from v6t.core.runs.journal import Journal
from v6t.tests.core.support import SIM, v6t

from . import machines, shown
from .shown import FACTS, Run

NAME = "ssh root@vm"
WHEN = "2026-11-23T08:27:43.870+00:00"
CONFIGURED = f"{NAME}: configured as mape-br in 7 steps"
READ_BACK = f"{NAME}: 9 read-backs agree"
UNDONE = f"{NAME}: what root@here process 12 did is undone"
PART = {
    "kind": "vpp",
    "device": NAME,
    "commands": ["true"],
    "version": "1.2",
    "system": "Linux 6.1",
}
ROW = "jool-debian siit"


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    path = tmp_path_factory.mktemp("shown") / "run"
    what = ("--measure", "throughput", "--mode", "forward", "--reps", "1", "--frame-size", "104")
    done = v6t(*SIM, *what, "--no-report", "-o", path)
    assert done.status == 0, done.err
    # simulated frames are not compared
    changed(path / "results.json", every_point({"checked": 300, "matched": 1.0}))
    return path


def changed(path, change):
    """A file of JSON, with something done to it."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def every_point(values):
    def change(content):
        for point in content["results"]:
            point.update(values)

    return change


@pytest.fixture
def ran(simulated, tmp_path):
    """A run like that of a device between the cables, which says so in these lines."""

    def made(lines=(CONFIGURED, READ_BACK, UNDONE), device=PART):
        path = tmp_path / "run"
        shutil.copytree(simulated, path)
        changed(path / "manifest.json", lambda c: c["tester"].update(kind="trex", device=device))
        (path / "log.txt").write_text("".join(f"{WHEN} {line}\n" for line in lines))
        return Run(path)

    return made


def two(name=NAME, **more):
    return {"kind": "chain", "parts": {"ce": {**PART, "device": name}, "pe": {**PART, **more}}}


def test_all_four_are_told(ran):
    told = ran().proven()
    assert tuple(told) == FACTS
    assert told["configured"].startswith("7 steps, 9 ")
    assert told["verified by frames"].startswith("all of ")
    assert told["measured"] == "throughput"
    assert told["restored"] == "as before"


def test_of_parts_all_must_be(ran):
    lines = (CONFIGURED, CONFIGURED, READ_BACK, READ_BACK, UNDONE, UNDONE)
    assert "14 steps, 18" in ran(lines, two()).proven()["configured"]


def test_the_reference_translation_has_no_commands(ran):
    told = ran((), {"kind": "reference"}).proven()
    assert (told["configured"], told["restored"]) == ("nothing to do", "nothing to do")


@pytest.mark.parametrize(
    ("fact", "lines", "device"),
    [
        ("configured", (READ_BACK, UNDONE), PART),
        ("configured", (CONFIGURED, UNDONE), PART),
        ("configured", (CONFIGURED, READ_BACK, READ_BACK), two()),
        ("configured", (CONFIGURED, CONFIGURED, READ_BACK), two()),
        ("configured", (CONFIGURED, READ_BACK), two(name="ssh root@other")),
        ("configured", (CONFIGURED, READ_BACK), {"kind": "reference"}),
        ("restored", (CONFIGURED, READ_BACK), PART),
        ("restored", (CONFIGURED, CONFIGURED, UNDONE), PART),
        ("restored", (CONFIGURED, CONFIGURED, UNDONE), two()),
    ],
)
def test_what_the_log_does_not_say_of_every_device_is_not_shown(ran, fact, lines, device):
    with pytest.raises(AssertionError):
        ran(lines, device).fact(fact)


@pytest.mark.parametrize(
    "change",
    [
        every_point({"matched": 0.99}),
        every_point({"checked": 0}),
        every_point({"median": 0}),
        lambda content: content.update(status="running"),
        lambda content: content.update(results=[]),
    ],
)
def test_results_that_are_none_show_nothing(ran, change):
    run = ran()
    changed(run.path / "results.json", change)
    with pytest.raises(AssertionError):
        run.fact("measured")


@pytest.mark.parametrize("counts", [{"matched": 0}, {"matched": 0, "checked": 0}])
def test_frames_that_differ_or_were_not_compared_verify_nothing(ran, counts, monkeypatch):
    def read(path):
        journal = Journal(path)
        for key, result in journal.entries.items():
            ways = {way: replace(c, **counts) for way, c in result.directions.items()}
            journal.entries[key] = replace(result, directions=ways)
        return journal

    monkeypatch.setattr(shown, "Journal", read)
    with pytest.raises(AssertionError):
        ran().fact("verified by frames")


@pytest.fixture
def record(tmp_path, monkeypatch):
    """An empty one, that is written to."""
    path = tmp_path / "machines.json"
    path.write_text("{}")
    monkeypatch.setattr(machines, "RECORD", path)
    monkeypatch.setenv("V6T_RECORD", "1")
    return path


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def row_of(name):
    (number,) = (n for n, row in enumerate(machines.ROWS) if row.name == name)
    return cells(list(machines.table())[2 + number])


def test_what_no_test_has_seen_is_not_run(record):
    header, _, *lines = machines.table()
    assert len(lines) == len(machines.ROWS) > 0
    for line in lines:
        found = dict(zip(cells(header), cells(line), strict=True))
        assert {found[fact] for fact in FACTS} == {"not run"}
        assert (found["version"], found["date"]) == ("", "")
        assert found["how"].endswith("would") or "no test" in found["how"]


def test_a_run_is_kept_fact_by_fact(record, ran):
    machines.note(ROW, ran(), "QEMU 1.0, TCG", where=" beside it")
    facts, how, version = row_of(ROW)[2:6], *row_of(ROW)[6:8]
    assert "7 steps, 9" in facts[0]
    assert facts[3] == "as before"
    assert how == "SSH; QEMU 1.0, TCG; TRex beside it"
    assert version == "1.2; Linux 6.1"


@pytest.mark.parametrize(
    ("version", "system", "told"),
    [
        ("6.1", "Linux 6.1", "Linux 6.1"),
        ("BSD 7.6 (built of its sources)", "BSD 7.6", "BSD 7.6 (built of its sources)"),
    ],
)
def test_a_version_and_a_system_of_one_name_are_said_once(record, ran, version, system, told):
    machines.note(ROW, ran(device={**PART, "system": system}), "QEMU", version=version)
    assert machines.recorded()[ROW]["version"] == told
    assert "not run" in row_of("jool-debian clat")


def test_what_was_seen_before_does_not_stand_for_what_is_not_seen_now(record, ran):
    record.write_text(json.dumps({ROW: dict.fromkeys(FACTS, "once")}))
    with pytest.raises(AssertionError):
        machines.note(ROW, ran((CONFIGURED, READ_BACK)), "QEMU")
    assert "7 steps, 9" in row_of(ROW)[2]
    assert row_of(ROW)[5] == "not run"


def test_without_being_asked_nothing_is_kept(record, ran, monkeypatch):
    monkeypatch.delenv("V6T_RECORD")
    machines.note(ROW, ran(), "QEMU")
    assert record.read_text() == "{}"


def test_a_row_that_there_is_not_is_an_error(record, ran):
    with pytest.raises(ValueError, match="unpack"):
        machines.note("jool-debian nat66", ran(), "QEMU")
    assert record.read_text() == "{}"


def test_only_rows_of_the_page_are_kept_and_each_whole():
    rows = {row.name for row in machines.ROWS}
    assert len(rows) == len(machines.ROWS)
    seen = machines.recorded()
    assert set(seen) <= rows
    for kept in seen.values():
        assert set(kept) == {*FACTS, "how", "version", "date"}
