"""The tutorials show the packages beside the tests, and those work."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from v6t.drivers.lab.privilege import available
from v6t.tests.packaging.support import pip_install

from .pages import CHECKOUT, DOCS, blocks

pytestmark = pytest.mark.slow

POSSIBLE, WHY = available()
TESTS = CHECKOUT / "tests"
EXAMPLES = {
    "plugin": TESTS / "example_plugin" / "v6t_nptv6.py",
    "driver": TESTS / "example_driver" / "v6t_nftfilter.py",
    "benchmark": TESTS / "example_benchmark" / "v6t_mrr.py",
    "tester": TESTS / "example_tester" / "v6t_impaired.py",
}
lab = pytest.mark.skipif(not POSSIBLE, reason=WHY)


def code(tutorial: str) -> str:
    shown = [
        b.text
        for b in blocks(DOCS / "tutorials" / f"{tutorial}.md")
        if b.language == "python" and not b.reason
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
    """The packages with the modules as the tutorials print them, installed by pip."""
    site = tmp_path_factory.mktemp("site")
    work = tmp_path_factory.mktemp("sources")
    for name, module in EXAMPLES.items():
        shown = shutil.copytree(module.parent, work / name)
        (shown / module.name).write_text(code(name))
    folders = [work / name for name in EXAMPLES]
    pip_install(folders, work / "build", "--no-deps", "--target", site)
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
    assert v6t("plugins", "--check", "nptv6").startswith("nptv6 conforms: ")
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


MRR = ("--plugin", "siit", "--measure", "throughput,mrr", "--tester", "sim", "--frame-size", "84")


def test_the_printed_benchmark_is_a_working_benchmark(site):
    """Planned, measured, written, shown, explained, compared: nobody had heard of it."""
    del site
    planned = json.loads(v6t("run", *MRR, "--preset", "rfc", "--dry-run", "--json"))
    (point, *_) = [p for p in planned["points"] if p["benchmark"] == "mrr"]
    assert point["trials"] == 10
    v6t("run", *MRR, "--set-procedure", "mrr.trials=4", "-o", "out")
    content = json.loads(Path("out/results.json").read_text())
    found = [r for r in content["results"] if r["benchmark"] == "mrr"]
    assert [r["direction"] for r in found] == ["bidirectional", "forward", "reverse"]
    capacity_fps = 1e6  # of the simulated device, whatever it is offered
    for record in found:
        assert record["rate"] > capacity_fps
        assert all(f["values"] == [capacity_fps] * 4 for f in record["directions"].values())
        assert record["above_usable"] == [record["rate"]]
    jsonschema.validate(content, json.loads(results_schema_with("mrr")))
    rows = list(csv.DictReader(Path("out/mrr.csv").read_text().splitlines()))
    assert len(rows) == 4 * (2 + 1 + 1)
    v6t("report", "out")
    report = Path("out/report.html").read_text()
    for part in ("Maximum receive rate (MRR)", "with the rate that was offered", "CSIT, MRR"):
        assert part in report
    assert "Times the rate is offered." in v6t("explain", "procedure.mrr.trials")
    assert "MRR forward" in v6t("compare", "out", "out")
    assert "mrr" in v6t("run", "--help")


def test_a_run_with_the_printed_benchmark_is_resumed(site):
    del site
    v6t("run", *MRR, "-o", "out")
    whole = Path("out/results.json").read_bytes()
    journal = Path("out/journal.jsonl")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-2]))
    Path("out/results.json").unlink()
    v6t("resume", "out")
    assert Path("out/results.json").read_bytes() == whole


def test_a_run_is_read_after_its_benchmark_is_gone(site, monkeypatch):
    del site
    v6t("run", *MRR, "-o", "out")
    monkeypatch.delenv("PYTHONPATH")
    v6t("report", "out")
    assert "Maximum receive rate (MRR)" in Path("out/report.html").read_text()
    assert "Maximum receive rate (MRR)" in v6t("resume", "out")
    wrong = v6t("run", *MRR, status=2)
    assert "there is no benchmark 'mrr'" in wrong


def results_schema_with(name: str) -> str:
    """The JSON schema as the command line sees it."""
    code = (
        "import json; from v6t.core.benchmarks.registry import results_schema; "
        "print(json.dumps(results_schema()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert name in done.stdout
    return done.stdout


def test_the_printed_tester_is_a_working_tester(site):
    del site
    found = []
    for lossy in ((), ("--set-tester", "one_in=50000")):
        run = ("run", "--plugin", "ipv4-router", "--tester", "impaired", "--reps", "1")
        fine = ("--mode", "forward", "--frame-size", "84", "--resolution", "1000")
        v6t(*run, *fine, *lossy, "-o", f"out{len(found)}")
        content = json.loads(Path(f"out{len(found)}/results.json").read_text())
        found.append(content["results"][0]["median"])
    assert content["status"] == "complete"
    assert "the line loses one frame in 50000" in content["caveats"]
    alone, lossy_fps = found
    assert 90_000 < alone <= 100_000
    assert 60_000 < lossy_fps < 50_000 / 0.7
    said = v6t(
        "run", "--plugin", "ipv4-router", "--tester", "impaired", "--measure", "latency", status=3
    )
    assert "impaired tester cannot measure latency" in said
    asked = ("run", "--plugin", "ipv4-router", "--tester", "impaired", "--set-tester")
    assert "no option 'one_im'" in v6t(*asked, "one_im=3", status=2)
    assert "tester.options.one_in" in v6t("explain", "one_in")
