"""The script that takes everything back, run by a shell."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest
from v6t.drivers.duts.plan import Step
from v6t.drivers.duts.undo_record import PROGRESS, Record, here_document, script, undo_of


@pytest.mark.parametrize(
    "undo",
    [
        "printf 'b\\na\\n' | while read n; do touch $n; done",
        "echo b >names; while read n; do touch $n a; done <names; rm names",
        "touch a b",
        "touch a\ntouch b",
    ],
    ids=["pipeline", "list", "command", "lines"],
)
def test_every_part_of_an_undo_command_has_its_effect(undo, tmp_path):
    entry = undo_of(1, Step("true", "an example", undo=undo), "")
    record = Record("me", "boot", "command", "x", "now", str(tmp_path), (entry,))
    (tmp_path / PROGRESS).write_text("1\n")
    done = subprocess.run(["sh"], input=script(record), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {p.name for p in tmp_path.iterdir()} == {"a", "b", PROGRESS, "undone"}
    (tmp_path / "a").unlink()
    again = subprocess.run(
        ["sh"], input=script(replace(record, owner="you")), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert again.returncode == 0
    assert not (tmp_path / "a").exists()


def test_a_command_reads_its_own_input_or_none():
    assert here_document("cat", "") == "cat </dev/null"
    for command, text, said in (
        ("cat", "x\n", "x\n"),
        ("cat | cat", "", ""),
        ("cat; cat", "x", "x\n"),
    ):
        shell = here_document(command, text)
        done = subprocess.run(
            ["sh", "-c", shell], input="not this", capture_output=True, text=True, check=False
        )
        assert done.stdout == said, shell
