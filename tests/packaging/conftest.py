"""Shared fixtures: a wheel of the checkout, and a fresh environment with it."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from .support import CHECKOUT, run

ignore_generated = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")
TOP_LEVEL_OUTPUT = {"build", "dist", "out", "runs"}
"""Directories that tools create at the top; further below, these names may be packages."""


def not_shipped(folder, names):
    """Return what a checkout contains but its repository does not."""
    return ignore_generated(folder, names) | (
        TOP_LEVEL_OUTPUT if Path(folder) == CHECKOUT else set()
    )


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Provide a directory with the sdist and the wheel made from it, built without a network."""
    home = tmp_path_factory.mktemp("packaging")
    shutil.copytree(CHECKOUT, home / "source", ignore=not_shipped)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", home / "dist", home / "source")
    return home / "dist"


@pytest.fixture(scope="session")
def wheel(built):
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def fresh(wheel, tmp_path_factory):
    """Provide a function that creates an environment with the wheel and the installed dependencies."""

    def make(name: str) -> Path:
        home = tmp_path_factory.mktemp(name) / "venv"
        venv.create(home, with_pip=False, symlinks=True)
        python = home / "bin" / "python"
        pip = (sys.executable, "-m", "pip", "--python", python)
        run(*pip, "install", "--no-deps", "--no-index", wheel)
        # Python ignores .pth files in directories named by a .pth file, so the editable v6t stays out
        where = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        (Path(where) / "dependencies.pth").write_text("\n".join(sorted(paths)) + "\n")
        return home / "bin"

    return make


@pytest.fixture(scope="session")
def installed(fresh):
    """Provide a fresh environment with the wheel."""
    return fresh("fresh")
