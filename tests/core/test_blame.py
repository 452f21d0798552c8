"""Errors in the code of a plugin or driver name its distribution and the place."""

from __future__ import annotations

import importlib
import json
import re
import sys
import tempfile
from pathlib import Path

import click
import pytest
from v6t.core.cli.help_commands import plugins_command
from v6t.drivers.duts.registry import DRIVERS
from v6t.drivers.lab.privilege import check_availability
from v6t.tests.core.support import v6t, write_distribution
from v6t.tests.expect import expect_refusal

PLUGIN = """
from v6t.plugins.mape_br import MapEBorderRelay
from v6t.plugins.mape_br import MapEParams
from pydantic import field_validator

class Params(MapEParams):
    @field_validator("seed_of_trouble", mode="after", check_fields=False)
    @classmethod
    def _odd(cls, value):
        return {}["validators"]

    seed_of_trouble: int = 0

class Faulty(MapEBorderRelay):
    name = "faulty"
    params_model = Params
"""
FAULTS = {
    "constructor": "def __init__(self, params, links=None):\n        {}['here']",
    "build_traffic": "def build_traffic(self, direction, sizes, seed=1):\n        {}['here']",
    "make_dut_intent": "def make_dut_intent(self):\n        {}['here']",
}
ASKED = """def build_traffic(self, direction, sizes, seed=1):
        self.make_frame_pair(5)  # here"""
CAN, WHY = check_availability()
lab = pytest.mark.skipif(not CAN, reason=WHY)
RUN = ("run", "--plugin", "faulty", "--reps", "1", "--duration", "0.2", "--mode", "forward")


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Provide a function that installs a module as a distribution with a technology and a driver."""
    importlib.import_module(
        "v6t.core.cli.run_commands"
    )  # its help names what is there: for all tests after this
    directory = Path(tempfile.mkdtemp(dir=tmp_path))  # loaded classes are cached by sys.path
    monkeypatch.syspath_prepend(str(directory))
    monkeypatch.setenv("PYTHONPATH", str(directory))

    def make(text: str, **points: str) -> Path:
        write_distribution(directory, "odd-things", **points)
        module = directory / "odd_things.py"
        module.write_text(text)
        return module

    yield make
    sys.modules.pop("odd_things", None)


def place_of(module: Path, text: str) -> str:
    """Return where an error is: the module, and the line with this text."""
    lines = module.read_text().splitlines()
    number = next(number for number, line in enumerate(lines, 1) if text in line)
    return f"{module}, line {number}"


def install_plugin(install, method=""):
    """Install the technology 'faulty' with one more method."""
    return install(f"{PLUGIN}\n    {method}\n", plugins="faulty = odd_things:Faulty")


@pytest.mark.parametrize("where", FAULTS)
def test_error_in_plugin_code_names_distribution(where, install, tmp_path):
    module = install_plugin(install, FAULTS[where])
    more = ["--dry-run"] if where == "make_dut_intent" else ["-o", str(tmp_path / "out")]
    said = expect_refusal(v6t(*RUN, "--tester", "sim", *more))
    for part in ("'faulty' of odd-things", place_of(module, "here"), "not of v6t"):
        assert part in said
    assert "defect of v6t" not in said


# the receiver asks for one frame at a time, the device for many
RECEIVER = "def expect(self, direction, frames):\n        {}['here']"
DEVICE = (
    "def expect(self, direction, frames):\n        if len(frames) > 1:\n"
    "            {}['here']\n        return super().expect(direction, frames)"
)


@lab
@pytest.mark.lab
@pytest.mark.parametrize("method", [RECEIVER, DEVICE], ids=["receiver", "device"])
def test_plugin_error_in_another_process_is_reported(method, install, tmp_path):
    module = install_plugin(install, method)
    done = v6t(*RUN, "-o", str(tmp_path / "out"))
    assert done.status == 2, done.err
    assert "'faulty' of odd-things" in done.err
    assert place_of(module, "here") in done.err
    assert "defect of v6t" not in done.err


def test_usage_error_caused_by_plugin_names_it(install, tmp_path):
    module = install_plugin(install, ASKED)
    place = f"'faulty' of odd-things caused it ({place_of(module, 'here')})"
    run = (*RUN, "--tester", "sim", "-o", str(tmp_path / "out"))
    for command in (run, ("compile", "--plugin", "faulty")):
        assert place in expect_refusal(v6t(*command), "frame-too-small")


def test_usage_error_caused_by_user_names_no_plugin(install):
    install_plugin(install)
    done = v6t(*RUN, "--tester", "sim", "--set", "rule_ipv6=foo", "--dry-run")
    assert "odd" not in expect_refusal(done, "not-a-prefix")


def test_error_in_a_module_of_two_plugins_names_the_distribution(install):
    text = PLUGIN + f"\n    {FAULTS['build_traffic']}\n\nclass Other(Faulty):\n    name = 'other'\n"
    module = install(text, plugins="faulty = odd_things:Faulty\nother = odd_things:Other")
    done = v6t(*RUN, "--tester", "sim", "--dry-run")
    said = expect_refusal(done, "extension-broken")
    assert "odd-things" in said
    assert f"({place_of(module, 'here')})" in said


def test_an_error_of_a_validator(install):
    module = install_plugin(install)
    done = v6t(*RUN, "--tester", "sim", "--set", "seed_of_trouble=1", "--dry-run")
    assert f"({place_of(module, 'validators')})" in expect_refusal(done)


MRR = Path(__file__).parents[1] / "example_benchmark" / "v6t_mrr.py"
BROKEN_SHEET = """

def _sheet(self, records):
    return {}["here"]


Mrr.make_main_table = _sheet
"""


def test_failing_table_keeps_other_tables(install, tmp_path):
    module = install(MRR.read_text() + BROKEN_SHEET, benchmarks="mrr = odd_things:Mrr")
    out = tmp_path / "out"
    run = ("run", "--plugin", "mape-br", "--tester", "sim", "--mode", "forward", "-o", out)
    done = v6t(*run, "--measure", "throughput,mrr", "--no-report")
    said = f"'mrr' of odd-things failed: KeyError: 'here' ({module}, line"
    assert done.status == 0, done.err
    assert said in done.out
    assert "median fps" in done.out
    assert v6t("report", out, "--format", "md").status == 0
    assert said in (out / "report.md").read_text().replace("\\", "")


def test_plugin_name_must_equal_entry_point(install):
    install(PLUGIN, plugins="other = odd_things:Faulty")
    done = v6t("plugins", "--check", "other")
    assert done.status == 2
    assert "its name is faulty, its entry point other" in done.out


def error_of_plugin(install, text):
    """Install a module as the technology 'faulty'; return what `v6t plugins` says of it."""
    install(text, plugins="faulty = odd_things:Faulty")
    done = v6t("plugins", "--json")
    assert done.status == 0
    (row,) = [row for row in json.loads(done.out) if row["name"] == "faulty"]
    assert row["distribution"] == "odd-things"
    return row["error"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import json\n\n1 / 0\n", "ZeroDivisionError"),
        ("import json\n\nraise SystemExit(7)\n", "SystemExit: 7"),
    ],
)
def test_load_error_names_file_and_line(text, error, install):
    said = error_of_plugin(install, text)
    assert error in said
    assert "/odd_things.py, line 3)" in said


def test_incomplete_plugin_class_error_lists_missing_methods(install):
    said = error_of_plugin(
        install,
        "from v6t.plugins.base import Technology\nclass Faulty(Technology):\n    name = 'faulty'\n",
    )
    lacking = {"make_dut_intent", "expect", "ip_versions", "overhead", "title"}
    assert lacking <= set(re.findall(r"\w+", said))


def test_doctor_lists_a_broken_driver(install):
    install("1 / 0\n", duts="faulty = odd_things:Faulty")
    said = v6t("doctor").out
    assert "device driver faulty" in said
    assert "'faulty' of odd-things" in said
    assert "ZeroDivisionError" in said
    rows = {row.name: row for row in DRIVERS.list_rows()}
    assert rows["faulty"].kind is None
    assert rows["nftables"].kind is not None
    refused = v6t("dut", "plan", "--plugin", "nat44", "--driver", "faulty")
    assert refused.status == 2
    assert "ZeroDivisionError" in expect_refusal(refused)


def test_completion_lists_a_broken_one_with_its_error(install):
    install("1 / 0\n", plugins="faulty = odd_things:Faulty")
    context = click.Context(plugins_command)
    items = {i.value: i.help for i in plugins_command.params[0].shell_complete(context, "")}
    assert items["faulty"].startswith("BROKEN: the plugin 'faulty' of odd-things")
    assert items["mape-br"] is None
