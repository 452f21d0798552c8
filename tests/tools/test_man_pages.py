"""Manual pages: one for each command, with the options that are loaded when they are used."""

import os
import subprocess
import sys

from v6t.core.cli.main import COMMANDS


def test_man_pages_of_all_commands_list_lazy_options(tmp_path):
    subprocess.run([sys.executable, "-m", "v6t.tools.man_pages", tmp_path], check=True)
    pages = {name.removesuffix(".1") for name in os.listdir(tmp_path)}
    assert {"v6t", *(f"v6t-{name}" for name in COMMANDS), "v6t-dut-plan"} <= pages
    text = (tmp_path / "v6t-run.1").read_text().replace("\\", "")
    for option in ("--reps", "--fail-below", "--color"):
        assert option in text
