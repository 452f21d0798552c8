"""The packages of the tutorials work after pip has installed them in a fresh environment."""

import csv
import functools
import json
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
from v6t.drivers.lab.privilege import check_availability
from v6t.tests.core.support import v6t as v6t_here

from .support import CHECKOUT, LENIENT, SLOW_BED, leave_checkout, make_environment, pip_install, run

pytestmark = pytest.mark.slow

POSSIBLE, WHY = check_availability()
TESTS = CHECKOUT / "tests"
lab = pytest.mark.skipif(not POSSIBLE, reason=WHY)


@pytest.fixture(scope="session")
def programs(installed_bin, tmp_path_factory):
    """Provide an environment with the packages of the tutorials, which finds the installed v6t."""
    (site,) = installed_bin.parent.glob("lib/python*/site-packages")
    dependencies = (site / "dependencies.pth").read_text().splitlines()
    bin_ = make_environment(tmp_path_factory.mktemp("extended") / "venv", site, *dependencies)
    packages = ("plugin", "driver", "benchmark", "tester", "6rd")
    folders = [TESTS / f"example_{name}" for name in packages]
    pip_install(folders, tmp_path_factory.mktemp("sources"), bin_ / "python")
    return bin_


COMMANDS = """
import importlib, json, os, pkgutil, sys
import matplotlib.figure, scapy.layers.inet, v6t
from v6t.core.cli import entry
for module in pkgutil.walk_packages(v6t.__path__, "v6t."):
    importlib.import_module(module.name)
for line in sys.stdin:
    if not os.fork():
        for descriptor in (1, 2):
            os.dup2(os.open("output", os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        directory, *sys.argv = json.loads(line)
        os.chdir(directory)
        entry.main()
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
"""Runs each command in a fork of one process, because importing v6t takes most of a command's time."""


@pytest.fixture(scope="session")
def commands(programs, tmp_path_factory):
    """Provide a function that runs commands in this environment, and returns their output."""
    home = tmp_path_factory.mktemp("commands")
    rest = leave_checkout(home)
    rest["env"] |= {"V6T_REPORT": "0", "OPENBLAS_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([programs / "python", "-c", COMMANDS], **pipes, **rest) as process:

        def start(directory: Path, *arguments: str, status: int = 0) -> str:
            (home / "output").write_text("")
            print(json.dumps([str(directory), "v6t", *arguments]), file=process.stdin, flush=True)
            try:
                found = int(process.stdout.readline())
            except BaseException:  # the next command must not read this one's status
                process.kill()
                raise
            output = (home / "output").read_text()
            assert found == status, output
            return output

        yield start


@pytest.fixture
def v6t(commands, tmp_path, monkeypatch):
    """Provide v6t of this environment, with an empty current directory."""
    monkeypatch.chdir(tmp_path)
    Path("bed.yaml").write_text(SLOW_BED)
    return functools.partial(commands, tmp_path)


QUICK = ("--reps", "1", "--duration", "0.2", "--mode", "forward", "--testbed", "bed.yaml", *LENIENT)
"""Settings of a short run that checks frames and not rates."""


def test_every_installed_module_can_be_imported(v6t):
    """The process that runs commands imports all of them first."""
    assert v6t("--version")


def test_tutorial_plugin_compiles_and_measures(v6t):
    assert v6t("plugins", "my-nptv6").startswith("my-nptv6: NPTv6: a site's IPv6 prefix")
    assert "IPv6.src" in v6t("compile", "--plugin", "my-nptv6", "--format", "text")
    v6t("compile", "--plugin", "my-nptv6", "--format", "pcap", "--count", "100", "-o", "nptv6.pcap")
    v6t("run", "--plugin", "my-nptv6", "--tester", "sim", "--reps", "1", "-o", "out")
    assert json.loads(Path("out/results.json").read_text())["status"] == "complete"
    assert "/48" in v6t("run", "--plugin", "my-nptv6", "--set", "internal=fd01::/56", status=2)


@lab
@pytest.mark.lab
def test_commands_in_new_processes_succeed(programs, tmp_path):
    """Commands in new processes import all modules that they need."""
    (tmp_path / "bed.yaml").write_text(SLOW_BED)
    measure = ("run", "--plugin", "my-nptv6", *QUICK, "--no-report", "-o", "out")
    check = ("plugins", "--check", "sixrd-br")
    checked, *_ = [
        run(programs / "python", "-m", "v6t.core.cli.entry", *command, **leave_checkout(tmp_path))
        for command in (check, measure, ("report", "out"), ("resume", "out"))
    ]
    assert "sixrd-br conforms: " in checked
    assert (tmp_path / "out/report.html").exists()
    (record,) = json.loads((tmp_path / "out/results.json").read_text())["results"]
    assert record["matched"] == 1.0
    assert record["checked"] > 0


@lab
@pytest.mark.lab
def test_tutorial_plugin_finds_wrong_frames(v6t):
    output = v6t(
        "run", "--plugin", "my-nptv6", *QUICK, "--set-dut", "external=2001:db8:2::/48", status=6
    )
    assert "expected" in output
    assert "received" in output


@lab
@pytest.mark.lab
def test_sixrd_is_measured_in_three_modes_with_negative_traffic(v6t):
    negative = ("--set", "negative_percent=5", "--reps", "1", "--duration", "0.3")
    v6t("run", "--plugin", "sixrd-br", *negative, *LENIENT, "--testbed", "bed.yaml", "-o", "out")
    results = json.loads(Path("out/results.json").read_text())
    assert results["status"] == "complete"
    assert {r["direction"] for r in results["results"]} == {"bidirectional", "forward", "reverse"}
    for record in results["results"]:
        assert record["frame_sizes"] == {"ipv6": 84, "ipv4": 104}
        assert record["matched"] == 1.0
        assert record["checked"] > 0
    rows = csv.DictReader(Path("out/trials.csv").read_text().splitlines())
    spoofed = [r for r in rows if r["class"] == "spoof" and not r["key"].startswith("selftest")]
    assert sum(int(row["sent"]) for row in spoofed) > 0
    assert sum(int(row["received"]) for row in spoofed) == 0
    v6t("report", "out")
    page = Path("out/report.html").read_text()
    picture = re.search(r'aria-label="Test setup[^"]*"', page)[0]
    assert re.findall(r"IPv[46], \d+", picture) == ["IPv4, 104", "IPv6, 84"]
    assert "UDP over IPv6 over IPv4" in page


def test_tutorial_drivers_plan_and_reject(v6t):
    plan = v6t("dut", "plan", "--driver", "my-tayga", "--plugin", "siit")
    assert "map 198.18.0.0/24 2001:2::/120" in plan
    masquerade = ("--plugin", "nat66", "--set-dut", "masquerade=true")
    assert "-j MASQUERADE" in v6t("dut", "plan", "--driver", "ip6tables-snat", *masquerade)
    assert "my-tayga" in v6t("dut", "plan", "--driver", "my-tayga", "--plugin", "nat66", status=2)
    assert "'my-tayga'" in v6t("run", "--plugin", "siit", "--dut", "my-tyga", status=2)


@lab
@pytest.mark.lab
@pytest.mark.parametrize(
    ("driver", "program", "plugin", "more"),
    [
        ("my-tayga", "tayga", "siit", ()),
        ("ip6tables-snat", "ip6tables", "nat66", ()),
        (
            *("ip6tables-snat", "ip6tables", "nat66"),
            ("--set-dut", "masquerade=true", "--set", "pool_first=2001:2:0:f001::1"),
        ),
    ],
)
def test_tutorial_driver_configures_real_device(v6t, driver, program, plugin, more):
    if shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
        pytest.skip(f"needs {program}")
    output = v6t("dut", "verify", "--driver", driver, "--plugin", plugin, *more)
    assert "both ways" in output


@lab
@pytest.mark.lab
@pytest.mark.skipif(shutil.which("tayga", path="/usr/sbin:/usr/bin:/sbin:/bin") is None,
                    reason="needs tayga")  # fmt: skip
def test_tutorial_tayga_is_measured(v6t):
    v6t("run", "--dut", "my-tayga", "--plugin", "siit", *QUICK, "-o", "out")
    (record,) = json.loads(Path("out/results.json").read_text())["results"]
    assert record["matched"] == 1.0


MRR = ("--plugin", "siit", "--measure", "throughput,mrr", "--tester", "sim", "--frame-size", "84")


def test_tutorial_benchmark_measures_and_reports(v6t, programs):
    """Plan, measure, write, show, explain and compare a benchmark unknown to v6t."""
    planned = json.loads(v6t("run", *MRR, "--preset", "rfc", "--dry-run", "--json"))
    (point, *_) = [p for p in planned["points"] if p["benchmark"] == "mrr"]
    assert point["trials"] == 10
    v6t("run", *MRR, "--set-procedure", "mrr.trials=4", "-o", "out")
    content = json.loads(Path("out/results.json").read_text())
    matching = [r for r in content["results"] if r["benchmark"] == "mrr"]
    assert [r["direction"] for r in matching] == ["bidirectional", "forward", "reverse"]
    capacity_fps = 1e6  # of the simulated device at any offered rate
    for record in matching:
        assert record["rate"] > capacity_fps
        assert all(f["values"] == [capacity_fps] * 4 for f in record["directions"].values())
        assert record["above_usable"] == [record["rate"]]
    jsonschema.validate(content, make_results_schema(programs, "mrr"))
    rows = list(csv.DictReader(Path("out/mrr.csv").read_text().splitlines()))
    assert len(rows) == 4 * (2 + 1 + 1)
    v6t("report", "out")
    report = Path("out/report.html").read_text()
    for part in ("Maximum receive rate (MRR)", "CSIT, MRR"):
        assert part in report
    assert "Times the rate" in v6t("explain", "procedure.mrr.trials")
    assert "MRR forward" in v6t("compare", "out", "out")
    assert "mrr" in v6t("run", "--help")


@pytest.fixture(scope="session")
def measured(commands, tmp_path_factory):
    """Provide the results of a run with the tutorial's benchmark."""
    home = tmp_path_factory.mktemp("measured")
    commands(home, "run", *MRR, "-o", "out")
    return home / "out"


def test_run_with_tutorial_benchmark_is_resumed(v6t, measured):
    shutil.copytree(measured, "out")
    complete = Path("out/results.json").read_bytes()
    journal = Path("out/journal.jsonl")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-2]))
    Path("out/results.json").unlink()
    v6t("resume", "out")
    assert Path("out/results.json").read_bytes() == complete


def test_run_of_uninstalled_benchmark_is_readable(measured, tmp_path, monkeypatch):
    """This process runs without the package of the benchmark."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(measured, "out")
    assert v6t_here("report", "out").status == 0
    assert "(MRR)" in Path("out/report.html").read_text()
    assert "(MRR)" in v6t_here("resume", "out").out
    wrong = v6t_here("run", *MRR)
    assert (wrong.status, wrong.code) == (2, "unknown-name")


def make_results_schema(bin_: Path, name: str) -> object:
    """Return the JSON schema as that environment's command line builds it."""
    code = (
        "import json; from v6t.benchmarks.registry import make_results_schema; "
        "print(json.dumps(make_results_schema()))"
    )
    shown = run(bin_ / "python", "-c", code, **leave_checkout(Path.cwd()))
    assert name in shown
    return json.loads(shown)


def test_tutorial_tester_measures_lossy_line(v6t):
    found = []
    for lossy in ((), ("--set-tester", "one_in=50000")):
        run = ("run", "--plugin", "ipv4-router", "--tester", "impaired", "--reps", "1")
        fine = ("--mode", "forward", "--frame-size", "84", "--resolution", "1000")
        v6t(*run, *fine, *lossy, "-o", f"out{len(found)}")
        content = json.loads(Path(f"out{len(found)}/results.json").read_text())
        found.append(content["results"][0]["median"])
    assert content["status"] == "complete"
    assert any("50000" in text for text in content["caveats"])
    alone, lossy_fps = found
    assert 90_000 < alone <= 100_000
    assert 60_000 < lossy_fps < 50_000 / 0.7
    output = v6t(
        "run", "--plugin", "ipv4-router", "--tester", "impaired", "--measure", "latency", status=3
    )
    assert "[unsupported-by-tester]" in output
    requested = ("run", "--plugin", "ipv4-router", "--tester", "impaired", "--set-tester")
    assert "no option 'one_im'" in v6t(*requested, "one_im=3", status=2)
    assert "tester.options.one_in" in v6t("explain", "one_in")


def test_plugins_list_their_distributions(v6t):
    rows = json.loads(v6t("plugins", "--json"))
    assert {r["distribution"] for r in rows} == {"v6t", "v6t-nptv6", "v6t-sixrd"}


def test_installed_plugin_conforms(v6t):
    assert "my-nptv6 conforms: " in v6t("plugins", "--check", "my-nptv6")
