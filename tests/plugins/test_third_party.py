"""A plugin from outside, and a broken one: found by their entry points, nothing else changed."""

import ast
import json
import re
import sys
from pathlib import Path

import pytest
from v6t.audit.auditor import load_suites, select_clauses
from v6t.audit.packet_device.build import build_device
from v6t.core.config import plugins
from v6t.plugins.conformance import assert_conforms
from v6t.tests.audit.in_process import outcomes
from v6t.tests.core.support import v6t
from v6t.tests.packaging.support import lay_out

from .support import BUILT_IN

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("site")]

TESTS = Path(__file__).parents[1]
NAMES = ("plugin", "broken")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Put both into a directory of packages; pip itself installs one in ``tests/packaging``."""
    place = tmp_path_factory.mktemp("site")
    for name in NAMES:
        lay_out(TESTS / f"example_{name}", place)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(place))
        yield
    for module in ("v6t_nptv6", "v6t_broken"):
        sys.modules.pop(module, None)


def test_installed_and_broken_plugins_are_listed():
    rows = {row["name"]: row for row in json.loads(v6t("plugins", "--json").out)}
    assert rows["my-nptv6"]["title"].startswith("NPTv6")
    assert rows["my-nptv6"]["distribution"] == "v6t-nptv6"
    assert "RuntimeError" in rows["broken"]["error"]
    assert all(rows[name]["error"] == "" for name in BUILT_IN)
    listed = v6t("plugins")
    assert listed.status == 0
    assert "BROKEN: " in listed.out
    shown = v6t("plugins", "my-nptv6").out
    assert "internal = fd01:203:405::/48" in shown
    assert "RFC 6296" in shown


def test_broken_plugin_is_refused(tmp_path):
    done = v6t("run", "--plugin", "broken", "--tester", "sim", "-o", tmp_path / "out")
    assert done.status == 2
    assert done.code == "extension-broken"
    assert "Traceback" not in done.err


def test_installed_plugin_is_measured_and_reported(tmp_path):
    out = tmp_path / "out"
    done = v6t("run", "--plugin", "my-nptv6", "--tester", "sim", "--reps", "1", "-o", out)
    assert done.status == 0, done.err
    results = json.loads((out / "results.json").read_text())
    assert results["status"] == "complete"
    assert {r["frame_sizes"]["ipv6"] for r in results["results"]} == {84}
    assert v6t("report", out).status == 0
    page = (out / "report.html").read_text()
    (says,) = re.findall(r'aria-label="(Test setup[^"]*)"', page)
    assert re.findall(r"IPv[46], \d+", says) == ["IPv6, 84"] * 2
    begin = page.index("<svg", page.index('aria-label="Test setup'))
    picture = page[begin : page.index("</svg>", begin)]
    assert re.findall(r">(IPv[46])<", picture) == ["IPv6", "IPv6"]
    assert "IPv4" not in says + picture


def test_tutorial_plugin_is_short_and_imports_names_that_the_tutorial_explains():
    text = (TESTS / "example_plugin" / "v6t_nptv6.py").read_text(encoding="utf-8")
    assert sum(bool(line.strip()) for line in text.splitlines()) <= 100
    module = ast.parse((TESTS / "example_plugin" / "v6t_nptv6.py").read_text(encoding="utf-8"))
    imports = (n for n in ast.walk(module) if isinstance(n, ast.ImportFrom))
    names = {alias.name for n in imports if n.module.startswith("v6t") for alias in n.names}
    page = (TESTS.parent / "docs" / "tutorials" / "plugin.md").read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    words = {word for span in re.findall(r"`[^`]+`", prose) for word in re.findall(r"\w+", span)}
    assert names <= words


def test_tutorial_plugin_conforms_and_is_audited_by_the_clauses_of_its_view():
    assert_conforms(plugins.load_plugin("my-nptv6"))
    nptv6 = plugins.load_plugin("my-nptv6")()
    found = outcomes(build_device(nptv6), select_clauses(load_suites(()), nptv6).clauses)
    assert {o.clause.rfc for o in found} >= {"RFC 6296"}
    assert {o.judgement.verdict for o in found} == {"conforms"}
