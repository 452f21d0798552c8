"""The wheel is complete and works outside of the checkout."""

import json
import tarfile
import zipfile
from email.parser import Parser

import pytest

from .support import FOLDERS, leave_checkout, list_modules, read_setup, run, split_lines

pytestmark = pytest.mark.slow


def test_wheel_contains_every_module(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in list_modules():
        assert f"v6t/{path.as_posix()}" in names
    for room in FOLDERS:
        assert f"v6t/{room}/py.typed" in names


def test_wheel_contains_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {"v6t/__init__.py", "v6t/py.typed"} <= set(names)
    for name in names:
        top, _, rest = name.partition("/")
        assert top == "v6t" or top.endswith(".dist-info"), name
        if top == "v6t":
            assert rest.partition("/")[0] in (*FOLDERS, "__init__.py", "py.typed"), name


def test_sdist_contains_build_files_and_modules(distributions):
    (path,) = distributions.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"setup.cfg", "pyproject.toml", "README.md", "LICENSE"} <= names
    assert {path.as_posix() for path in list_modules()} <= names


def test_wheel_metadata_equals_setup(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
    metadata = Parser().parsestr(archive.read(name).decode())
    assert metadata["Name"] == "v6t"
    assert metadata["Version"] == read_setup()["metadata"]["version"]
    assert metadata["License-Expression"] or metadata["License"] == "GPL-2.0-or-later"
    assert metadata["Requires-Python"] == read_setup()["options"]["python_requires"]
    needed = [r for r in metadata.get_all("Requires-Dist") if "extra ==" not in r]
    assert sorted(needed) == sorted(split_lines(read_setup()["options"]["install_requires"]))
    assert "RFC 8219" in metadata.get_payload()
    (licence,) = [n for n in archive.namelist() if n.endswith("/LICENSE")]
    assert "GENERAL PUBLIC LICENSE" in archive.read(licence).decode()


def test_installed_command_measures_and_reports_in_empty_directory(installed_bin, tmp_path):
    rest = leave_checkout(tmp_path)
    where = run(installed_bin / "python", "-c", "import v6t.core as c; print(c.__file__)", **rest)
    assert where.startswith(str(installed_bin.parent))
    printed = run(
        *(installed_bin / "v6t", "run", "--plugin", "mape-br", "--tester", "sim", "--json"),
        *("-o", "out"),
        **rest,
    )
    assert json.loads(printed) == json.loads((tmp_path / "out" / "results.json").read_text())
    assert json.loads(printed)["status"] == "complete"
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["source_commit"] is None
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "--version",
        "plugins",
        "init",
        "campaign --list",
        "dut plan --driver vpp --plugin mape-br",
    ],
)
def test_installed_command_prints_and_succeeds(command, installed_bin, tmp_path):
    assert run(installed_bin / "v6t", *command.split(), **leave_checkout(tmp_path))
