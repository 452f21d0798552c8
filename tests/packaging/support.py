"""Files of the checkout, and functions to build and install its packages."""

import configparser
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
"""Root of the packages."""

SLOW_BED = "line_rate: 1M\n"
"""Testbed with a low line rate, so that searches do not take all cores."""
LENIENT = ("--set-procedure", "sending_time_tolerance=1.5", "--set-procedure", "invalid_retries=10")
"""Settings that tolerate trials disturbed by other tests."""

FOLDERS = (
    "analysis", "audit", "base", "benchmarks", "core", "drivers", "intent", "packets", "plugins", "procedures",
    "profiles", "trials",
)  # fmt: skip
"""Folders with packages of the product."""


def read_setup():
    """Load setup.cfg."""
    parser = configparser.ConfigParser(delimiters=("=",))
    assert parser.read(CHECKOUT / "setup.cfg"), "not a checkout"
    return parser


def split_lines(text):
    """Return the lines of a setup.cfg value."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def list_folders():
    """List the folders of packages with Python, relative to the checkout."""
    return sorted(
        {p.parent.relative_to(CHECKOUT) for top in FOLDERS for p in (CHECKOUT / top).rglob("*.py")}
    )


def list_modules():
    """List the modules of the packages, relative to the checkout."""
    return sorted(
        p.relative_to(CHECKOUT) for top in FOLDERS for p in (CHECKOUT / top).rglob("*.py")
    )


def run(*command, **rest):
    """Run a program that must succeed, and return its output."""
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, check=False, **rest
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def leave_checkout(tmp_path):
    """Return subprocess options for an empty directory and an environment without the checkout."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "V6T_"))}
    return {"cwd": tmp_path, "env": clean}


BUILD = """
import os, sys
from setuptools import build_meta

_, place, *folders = sys.argv  # the backend changes sys.argv
for folder in folders:
    os.chdir(folder)
    build_meta.build_wheel(place)
"""
"""Build wheels in one process; pip starts three processes for each folder."""


def pip_install(folders, work, python):
    """Build the wheels of copies of packages, without a network, and install them with pip."""
    copies = [work / folder.name for folder in folders]
    for folder, copy in zip(folders, copies, strict=True):
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("__pycache__"))
    run(sys.executable, "-c", BUILD, work, *copies)
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-index")
    run(*pip, *sorted(work.glob("*.whl")))


def make_environment(home: Path, *paths: str | Path) -> Path:
    """Make an environment that also finds the packages in these folders; return its programs."""
    venv.create(home, with_pip=False, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages")
    # Python ignores .pth files in directories named by a .pth file, so the editable v6t stays out
    (site / "dependencies.pth").write_text("".join(f"{path}\n" for path in paths))
    return home / "bin"


def install_without_pip(folder, place):
    """Install the modules, metadata and entry points of a package without pip."""
    text = (folder / "pyproject.toml").read_text()
    name, version = (re.search(rf'^{key} = "(.+)"', text, re.M)[1] for key in ("name", "version"))
    info = place / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + lines.replace('"', "")
            for group, lines in re.findall(r'entry-points\."(.+)"\]\n((?:.+\n)+)', text)
        )
    )
    for module in folder.glob("*.py"):
        shutil.copy(module, place)
