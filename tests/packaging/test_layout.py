"""setup.cfg and the files of the package agree."""

import ast
import importlib
import re
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from setuptools import Distribution
from setuptools.command.build_py import build_py

from .support import CHECKOUT, FOLDERS, list_folders, list_modules, read_setup, split_lines

PROVIDED_BY = {"ruamel": "ruamel.yaml", "pydantic_core": "pydantic"}
"""Distributions with other names than their modules."""

FOREIGN = {f"drivers/trex/client/{name}.py" for name in ("stl", "rpc", "worker")}
"""Modules that run in the interpreter of TRex's client, with its modules."""


def make_package_name(folder):
    return ".".join(["v6t", *folder.parts])


def test_folders_with_code_are_listed_packages():
    packages = split_lines(read_setup()["options"]["packages"])
    assert len(set(packages)) == len(packages)
    expected = {"v6t", *(make_package_name(folder) for folder in list_folders())}
    assert set(packages) == expected
    for folder in list_folders():
        assert (CHECKOUT / folder / "__init__.py").is_file(), f"{folder} is not a package"


def test_listed_packages_are_mapped_to_their_folders():
    """Top-level packages are mapped; setuptools finds their subpackages below their folders."""
    options = read_setup()["options"]
    mapped = dict(line.split(" = ") for line in split_lines(options["package_dir"]))
    assert mapped == {"v6t": "api", **{f"v6t.{room}": room for room in FOLDERS}}
    distribution = Distribution(
        {"packages": split_lines(options["packages"]), "package_dir": mapped}
    )
    command = build_py(distribution)
    command.ensure_finalized()
    for package in split_lines(options["packages"]):
        place = command.get_package_dir(package)
        assert package == ("v6t" if place == "api" else make_package_name(Path(place)))
        assert (CHECKOUT / place / "__init__.py").is_file()


def test_import_contracts_cover_whole_package():
    assert read_setup()["importlinter"]["root_package"] == "v6t"


def test_packages_are_marked_as_typed():
    """The marker of a package applies to its subpackages (PEP 561)."""
    assert [room for room in FOLDERS if not (CHECKOUT / room / "py.typed").is_file()] == []


@pytest.mark.parametrize("group", ["console_scripts", "v6t.plugins"])
def test_entry_points_can_be_loaded(group):
    lines = split_lines(read_setup()["options.entry_points"][group])
    assert lines
    for line in lines:
        name, target = line.split(" = ")
        module, _, attribute = target.partition(":")
        assert getattr(importlib.import_module(module), attribute), name


def test_installed_entry_points_equal_those_of_checkout():
    expected = sorted(split_lines(read_setup()["options.entry_points"]["v6t.plugins"]))
    installed = {
        f"{e.name} = {e.value}"
        for e in entry_points(group="v6t.plugins")
        if e.dist is not None and e.dist.name == "v6t"
    }
    assert sorted(installed) == expected, "install the checkout again"


def list_imports(path):
    """Return the top-level names of everything that a module imports anywhere."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def parse_names(requirements):
    """Return the distributions of a list of requirements."""
    return {re.match(r"[A-Za-z0-9_.-]+", line)[0] for line in split_lines(requirements)}


@pytest.mark.slow
def test_requirements_equal_imports():
    required = parse_names(read_setup()["options"]["install_requires"])
    extras = read_setup()["options.extras_require"]
    optional = {n for extra in extras if extra != "dev" for n in parse_names(extras[extra])}
    actual = {
        PROVIDED_BY.get(name, name)
        for path in list_modules()
        if path.as_posix() not in FOREIGN
        for name in list_imports(CHECKOUT / path)
        if name not in sys.stdlib_module_names and name != "v6t"
    }
    assert actual - optional == required


def test_ruff_targets_oldest_python():
    oldest = read_setup()["options"]["python_requires"].removeprefix(">=")
    ruff = (CHECKOUT / "ruff.toml").read_text()
    assert f'target-version = "py{oldest.replace(".", "")}"' in ruff


@pytest.mark.slow
def test_modules_have_syntax_of_oldest_python():
    oldest = read_setup()["options"]["python_requires"].removeprefix(">=")
    version = tuple(int(n) for n in oldest.split("."))
    for path in list_modules():
        ast.parse((CHECKOUT / path).read_text(encoding="utf-8"), str(path), feature_version=version)
