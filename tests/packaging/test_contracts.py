"""The import contracts hold, and the one against circles notices a circle that is made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("base", "core", "plugins", "profiles", "procedures", "drivers", "analysis", "tests")
MADE = {
    "core": ("core/config/flags.py", "from v6t.core.runs.wording import duration"),
    "drivers": (
        "drivers/lab/netns.py",
        "from v6t.drivers.duts.session import Session",
    ),
    "plugins": ("plugins/common/text.py", "from v6t.plugins.map.rules import MapRule"),
    "inner": ("drivers/duts/commands.py", "from v6t.drivers.duts.session import Session"),
}

pytestmark = pytest.mark.skipif(not (ROOT / "setup.cfg").exists(), reason="no checkout")


@pytest.fixture
def copy(tmp_path):
    """The sources under the package's name."""
    for room in ROOMS:
        shutil.copytree(
            ROOT / room, tmp_path / "v6t" / room, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    return tmp_path


def lint(place: Path) -> subprocess.CompletedProcess[str]:
    """The contract against circles, in a copy."""
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--config", "setup.cfg", "--contract", "acyclic", "--no-cache"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_there_is_no_circle(copy):
    done = lint(copy)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("where", MADE)
def test_a_circle_breaks_the_contract(where, copy):
    file, line = MADE[where]
    path = copy / "v6t" / file
    path.write_text(f"{path.read_text()}\n{line}\n")
    done = lint(copy)
    assert done.returncode == 1, done.stdout
    assert "No cycles are allowed in v6t." in done.stdout
