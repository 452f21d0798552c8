"""Extensions: their lists, broken ones and duplicates; errors name distribution and place."""

import importlib
import json
import sys
import tempfile
from pathlib import Path

import click
import pytest
from v6t.benchmarks import registry
from v6t.core.cli.help_commands import plugins_command
from v6t.core.config import plugins
from v6t.drivers.duts.registry import DRIVERS
from v6t.drivers.tester_kind import TesterKind
from v6t.plugins.mape_br import MapEBorderRelay
from v6t.tests.core.support import SIM, v6t, write_distribution
from v6t.tests.expect import expect_error, expect_refusal
from v6t.tests.needs import needs_lab

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
FAILING = "{}['here']"
FAULTS = {
    "constructor": f"def __init__(self, params, links=None):\n        {FAILING}",
    "build_traffic": f"def build_traffic(self, direction, sizes, seed=1):\n        {FAILING}",
    "make_dut_intent": f"def make_dut_intent(self):\n        {FAILING}",
}
RUN = ("run", "--plugin", "faulty", "--reps", "1", "--duration", "0.2", "--mode", "forward")
FAULTY_RUN = (*RUN, "--tester", "sim")


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Provide a function that installs a module as a distribution with a technology and a driver."""
    # its help lists the plugins that are installed when it is imported
    importlib.import_module("v6t.core.cli.run_commands")
    directory = Path(tempfile.mkdtemp(dir=tmp_path))  # loaded classes are cached by sys.path
    monkeypatch.syspath_prepend(str(directory))
    monkeypatch.setenv("PYTHONPATH", str(directory))

    def install_module(text="", distribution="odd-things", **entry_points: str) -> Path:
        write_distribution(directory, distribution, **entry_points)
        module = directory / "odd_things.py"
        module.write_text(text)
        return module

    yield install_module
    sys.modules.pop("odd_things", None)


def find_place(module: Path, text: str) -> str:
    """Return the module, and the line with this text."""
    lines = module.read_text().splitlines()
    number = next(number for number, line in enumerate(lines, 1) if text in line)
    return f"{module}, line {number}"


def install_plugin(install, method=""):
    """Install the technology 'faulty' with one more method."""
    return install(f"{PLUGIN}\n    {method}\n", plugins="faulty = odd_things:Faulty")


@pytest.mark.parametrize("method", FAULTS)
def test_error_in_plugin_code_names_distribution(method, install, tmp_path):
    module = install_plugin(install, FAULTS[method])
    more = ["--dry-run"] if method == "make_dut_intent" else ["-o", tmp_path / "out"]
    message = expect_refusal(v6t(*FAULTY_RUN, *more))
    for part in ("'faulty' of odd-things", find_place(module, "here"), "not of v6t"):
        assert part in message
    assert "defect of v6t" not in message


# the receiver calls expect() with single frames, the device with many
RECEIVER = f"def expect(self, direction, frames):\n        {FAILING}"
DEVICE = (
    "def expect(self, direction, frames):\n        if len(frames) > 1:\n"
    f"            {FAILING}\n        return super().expect(direction, frames)"
)


@needs_lab
@pytest.mark.lab
@pytest.mark.parametrize("method", [RECEIVER, DEVICE], ids=["receiver", "device"])
def test_plugin_error_in_another_process_is_reported(method, install, tmp_path):
    module = install_plugin(install, method)
    done = v6t(*RUN, "-o", tmp_path / "out")
    assert done.status == 2, done.err
    assert "'faulty' of odd-things" in done.err
    assert find_place(module, "here") in done.err
    assert "defect of v6t" not in done.err


def test_usage_error_caused_by_plugin_names_it(install, tmp_path):
    module = install_plugin(install, """def build_traffic(self, direction, sizes, seed=1):
        self.make_frame_pair(5)  # here""")  # fmt: skip
    cause = f"'faulty' of odd-things caused it ({find_place(module, 'here')})"
    for command in ((*FAULTY_RUN, "-o", tmp_path / "out"), ("compile", "--plugin", "faulty")):
        assert cause in expect_refusal(v6t(*command), "frame-too-small")


def test_usage_error_caused_by_user_names_no_plugin(install):
    install_plugin(install)
    done = v6t(*FAULTY_RUN, "--set", "rule_ipv6=foo", "--dry-run")
    assert "odd" not in expect_refusal(done, "not-a-prefix")


def test_error_in_a_module_of_two_plugins_names_the_distribution(install):
    text = PLUGIN + f"\n    {FAULTS['build_traffic']}\n\nclass Other(Faulty):\n    name = 'other'\n"
    module = install(text, plugins="faulty = odd_things:Faulty\nother = odd_things:Other")
    message = expect_refusal(v6t(*FAULTY_RUN, "--dry-run"), "extension-broken")
    assert "odd-things" in message and f"({find_place(module, 'here')})" in message


def test_error_of_a_validator_names_its_place(install):
    module = install_plugin(install)
    message = expect_refusal(v6t(*FAULTY_RUN, "--set", "seed_of_trouble=1", "--dry-run"))
    assert f"({find_place(module, 'validators')})" in message


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
    error = f"'mrr' of odd-things failed: KeyError: 'here' ({module}, line"
    assert done.status == 0, done.err
    assert error in done.out
    assert "median fps" in done.out
    assert v6t("report", out, "--format", "md").status == 0
    assert error in (out / "report.md").read_text().replace("\\", "")


def test_plugin_name_must_equal_entry_point(install):
    install(PLUGIN, plugins="other = odd_things:Faulty")
    done = v6t("plugins", "--check", "other")
    assert done.status == 2 and "its name is faulty, its entry point other" in done.out


@pytest.mark.parametrize(("text", "parts"), [
    ("import json\n\n1 / 0\n", {"ZeroDivisionError", "/odd_things.py, line 3)"}),
    ("import json\n\nraise SystemExit(7)\n", {"SystemExit: 7", "/odd_things.py, line 3)"}),
    ("from v6t.plugins.base import Technology\nclass Faulty(Technology):\n    name = 'faulty'\n",
     {" expect, ip_versions, make_dut_intent, overhead, ", ", title"}),
])  # fmt: skip
def test_load_error_names_file_and_line_or_missing_methods(text, parts, install):
    install(text, plugins="faulty = odd_things:Faulty")
    done = v6t("plugins", "--json")
    assert done.status == 0
    (row,) = [row for row in json.loads(done.out) if row["name"] == "faulty"]
    assert row["distribution"] == "odd-things"
    assert [part for part in parts if part not in row["error"]] == []


def test_tester_that_defines_prober_is_refused():
    """It is now ``make_prober``; the old method would be ignored."""
    with pytest.raises(TypeError, match="make_prober"):
        type("Old", (TesterKind,), {"prober": None})


def test_doctor_lists_a_broken_driver(install):
    install("1 / 0\n", duts="faulty = odd_things:Faulty")
    text = v6t("doctor").out
    for part in ("device driver faulty", "'faulty' of odd-things", "ZeroDivisionError"):
        assert part in text
    rows = {row.name: row for row in DRIVERS.list_rows()}
    assert rows["faulty"].kind is None and rows["nftables"].kind is not None
    plan = v6t("dut", "plan", "--plugin", "nat44", "--driver", "faulty")
    assert "ZeroDivisionError" in expect_refusal(plan)


def test_completion_lists_a_broken_plugin_with_its_error(install):
    install("1 / 0\n", plugins="faulty = odd_things:Faulty")
    context = click.Context(plugins_command)
    items = {i.value: i.help for i in plugins_command.params[0].shell_complete(context, "")}
    assert items["faulty"].startswith("BROKEN: the plugin 'faulty' of odd-things")
    assert items["mape-br"] is None


CLASHING = """
from pydantic import Field
from v6t.benchmarks.throughput import Throughput
from v6t.base.strict_model import StrictModel

class Own(StrictModel):
    \"\"\"Other settings.\"\"\"
    tags: int = 1

class Clashing(Throughput):
    name = "clashing"
    section = "latency"
    settings_model = Own
"""


def test_benchmarks_with_same_settings_section_are_rejected(install):
    install(CLASHING, benchmarks="clashing = odd_things:Clashing")
    run = ("run", "mape-br", "--tester", "sim", "--dry-run", "--measure")
    message = expect_refusal(v6t(*run, "clashing"), "extension-broken")
    assert "clashing" in message and "latency" in message
    assert v6t(*run, "latency").status == 0
    rows = {row.name: row for row in registry.list_benchmarks()}
    assert rows["latency"].kind is not None and "odd-things" in rows["clashing"].error


GOOD = "v6t.plugins.mape_br:MapEBorderRelay"

BROKEN = {
    "no-module": "nowhere_at_all:Plugin", "no-reference": "my-pkg.module:Plugin",
    "no-name": "v6t.plugins.mape_br:Absent", "no-class": "v6t.core.cli.calc_command:calc_map",
    "no-technology": "v6t.plugins.base:Link", "raises": "odd_things:Plugin",
}  # fmt: skip


def test_plugin_names_equal_entry_points():
    for row in plugins.list_rows():
        assert row.error == ""
        assert plugins.load_technology_type(row.name).name == row.name


def test_unknown_plugin_error_lists_names():
    with expect_error("unknown-name") as caught:
        plugins.load_technology_type("zzz")
    assert caught.value.hint == "installed: " + ", ".join(plugins.list_names())


@pytest.mark.parametrize("entry_point", BROKEN.values(), ids=BROKEN)
def test_broken_plugin_is_listed_with_its_error(entry_point, install):
    install("1 / 0\n", plugins=f"broken = {entry_point}\nanother = {GOOD}")
    done = v6t("plugins")
    assert done.status == 0
    lines = {line.split()[0]: line for line in done.out.splitlines()}
    assert "BROKEN: " in lines["broken"] and "MAP-E border relay" in lines["another"]
    assert lines["another"].endswith("(odd-things)") and lines["mape-br"].endswith("[RFC 7597]")
    rows = {row["name"]: row for row in json.loads(v6t("plugins", "--json").out)}
    assert rows["broken"]["error"]
    assert rows["mape-br"]["error"] == rows["another"]["error"] == ""
    for words in (["plugins", "broken"], ["run", "--plugin", "broken", "--dry-run"]):
        expect_refusal(v6t(*words), "extension-broken")
    assert v6t(*SIM, "--dry-run").status == 0


def test_two_plugins_of_one_name_are_rejected(install):
    install(plugins="mape-br = nowhere:Plugin")
    done = v6t("plugins")
    assert done.status == 0 and done.out.count("'mape-br': from ") == 2
    stderr = expect_refusal(v6t(*SIM, "--dry-run"), "duplicate")
    assert all(text in stderr for text in ("odd-things", "v6t", "uninstall one"))


def test_duplicate_distribution_is_listed_once(install):
    """An editable install next to its checkout lists the same entry points twice."""
    install(distribution="v6t", plugins=f"mape-br = {GOOD}")
    assert [row.name for row in plugins.list_rows()].count("mape-br") == 1
    assert plugins.load_technology_type("mape-br") is MapEBorderRelay


def test_listing_plugin_names_does_not_import_plugins(install):
    install(plugins="broken = nowhere_at_all:Plugin")
    assert "broken" in plugins.list_names()


def test_plugin_is_described_as_text():
    done = v6t("plugins", "mape-br")
    assert done.status == 0
    for text in ("RFC 7597", "40 octets longer", "psid_offset=6", "rule_ipv6=2001:db8:ce::/51"):
        assert text in done.out


def test_plugin_is_described_as_json_with_valid_defaults():
    content = json.loads(v6t("plugins", "mape-br", "--json").out)
    assert (content["name"], content["overhead"]) == ("mape-br", 40)
    assert content["stateful"] is False
    model = MapEBorderRelay.params_model
    defaults = {p["name"]: p["default"] for p in content["parameters"]}
    assert set(defaults) == set(model.model_fields)
    assert all(p["description"] for p in content["parameters"])
    del defaults["domains"]
    assert model.model_validate(defaults).model_dump() == model().model_dump()
