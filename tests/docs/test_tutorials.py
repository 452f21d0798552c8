"""The tutorials show the packages beside the tests, and those work."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from v6t.drivers.lab.privilege import available
from v6t.tests.packaging.support import pip_install

from .pages import CHECKOUT, DOCS, blocks

POSSIBLE, WHY = available()
TESTS = CHECKOUT / "tests"
EXAMPLES = {
    "plugin": TESTS / "example_plugin" / "v6t_nptv6.py",
    "driver": TESTS / "example_driver" / "v6t_nftfilter.py",
}
lab = pytest.mark.skipif(not POSSIBLE, reason=WHY)


def code(tutorial: str) -> str:
    shown = [
        b.text for b in blocks(DOCS / "tutorials" / f"{tutorial}.md") if b.language == "python"
    ]
    return "\n".join(shown)


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("tutorial", EXAMPLES)
def test_the_tutorial_shows_the_whole_module_and_nothing_else(tutorial):
    assert lines(code(tutorial)) == lines(EXAMPLES[tutorial].read_text(encoding="utf-8"))


@pytest.mark.parametrize("tutorial", EXAMPLES)
def test_the_tutorial_shows_the_package(tutorial):
    (shown,) = [b for b in blocks(DOCS / "tutorials" / f"{tutorial}.md") if b.language == "toml"]
    assert shown.text == (EXAMPLES[tutorial].parent / "pyproject.toml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Both packages with the modules as the tutorials print them, installed by pip."""
    site = tmp_path_factory.mktemp("site")
    for name, module in EXAMPLES.items():
        work = tmp_path_factory.mktemp("sources")
        shown = shutil.copytree(module.parent, work / "shown")
        (shown / module.name).write_text(code(name))
        pip_install(shown, work / "build", "--no-deps", "--target", site)
    return site


@pytest.fixture
def site(packages, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(packages))
    monkeypatch.chdir(tmp_path)
    return packages


def v6t(*arguments: str, status: int = 0) -> str:
    command = [sys.executable, "-m", "v6t.core.cli.main", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


QUICK = ("--reps", "1", "--duration", "0.2", "--mode", "forward")
"""As short as a run can be: whether frames are right, not how many."""


def test_the_printed_plugin_is_a_working_plugin(site):
    del site
    assert v6t("plugins", "nptv6").startswith("nptv6: NPTv6: a site's IPv6 prefix")
    assert "IPv6.src" in v6t("compile", "--plugin", "nptv6", "--format", "text")
    v6t("compile", "--plugin", "nptv6", "--format", "pcap", "--count", "100", "-o", "nptv6.pcap")
    v6t("run", "--plugin", "nptv6", "--tester", "sim", "--reps", "1", "-o", "out")
    assert json.loads(Path("out/results.json").read_text())["status"] == "complete"
    assert "both prefixes must be /48" in v6t(
        *("run", "--plugin", "nptv6", "--set", "internal=fd01::/56"), status=2
    )


@lab
@pytest.mark.lab
def test_the_printed_plugin_judges_real_frames(site):
    del site
    v6t("run", "--plugin", "nptv6", *QUICK, "-o", "out")
    (record,) = json.loads(Path("out/results.json").read_text())["results"]
    assert record["matched"] == 1.0
    assert record["checked"] > 0
    said = v6t(
        *("run", "--plugin", "nptv6", *QUICK, "--set-dut", "external=2001:db8:2::/48"), status=6
    )
    assert "expected" in said
    assert "received" in said


def test_the_printed_driver_is_a_working_driver(site):
    del site
    plan = v6t(
        *("dut", "plan", "--driver", "nft-filter", "--plugin", "ipv4-router"),
        *("--set-dut", "rules=3"),
    )
    assert "3 rules that no test frame matches" in plan
    assert plan.count(" drop\n") == 3
    refused = v6t("dut", "plan", "--driver", "nft-filter", "--plugin", "mape-br", status=2)
    assert "nft-filter" in refused
    wrong = v6t("run", "--plugin", "ipv4-router", "--dut", "nft-filtre", status=2)
    assert "did you mean 'nft-filter'?" in wrong


@lab
@pytest.mark.lab
@pytest.mark.skipif(shutil.which("nft", path="/usr/sbin:/usr/bin:/sbin:/bin") is None,
                    reason="needs nftables")  # fmt: skip
def test_the_printed_driver_makes_a_device(site):
    del site
    driven = ("--plugin", "ipv4-router", "--set-dut", "rules=300")
    said = v6t("dut", "verify", "--driver", "nft-filter", *driven)
    assert "frames came back as the reference translation both ways" in said
    v6t("run", "--dut", "nft-filter", *driven, *QUICK, "-o", "out")
    (record,) = json.loads(Path("out/results.json").read_text())["results"]
    assert record["matched"] == 1.0
