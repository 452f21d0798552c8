"""Shared fixtures: a wheel of the checkout, and a fresh environment with it."""

import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from .support import CHECKOUT, make_environment, run

ignore_generated = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")
TOP_LEVEL_OUTPUT = {"build", "dist", "out", "runs"}
"""Directories that tools create at the top; further below, these names may be packages."""


def ignore_unshipped(folder, names):
    """Return files of the checkout that are not in its repository."""
    return ignore_generated(folder, names) | (
        TOP_LEVEL_OUTPUT if Path(folder) == CHECKOUT else set()
    )


@pytest.fixture(scope="session")
def distributions(tmp_path_factory):
    """Provide a directory with the sdist and the wheel made from it, built without a network."""
    home = tmp_path_factory.mktemp("packaging")
    shutil.copytree(CHECKOUT, home / "source", ignore=ignore_unshipped)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", home / "dist", home / "source")
    return home / "dist"


@pytest.fixture(scope="session")
def wheel(distributions):
    (path,) = distributions.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def installed_bin(wheel, tmp_path_factory):
    """Provide a fresh environment with the wheel, and this one's dependencies."""
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    bin_ = make_environment(tmp_path_factory.mktemp("fresh") / "venv", *sorted(paths))
    pip = (sys.executable, "-m", "pip", "--python", bin_ / "python")
    run(*pip, "install", "--no-deps", "--no-index", wheel)
    return bin_
