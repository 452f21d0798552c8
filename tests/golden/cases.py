"""Cases of the regression tests, which compute the lines that are compared with stored ones.

Results do not depend on English sentences or on names of keys: documents are compared by their numbers, and warnings
are counted.
"""

import csv
import io
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from v6t.base.errors import EnvironmentLacking, V6tError
from v6t.core.config.run_setup import make_setup
from v6t.core.runs.plan import plan
from v6t.core.runs.results import read_results
from v6t.core.runs.rundir import read_config
from v6t.tests.core.support import v6t
from v6t.tests.core.test_migrate import MAPPERF, NAT64, SIITPERF
from v6t.tests.drivers.duts.cases import CASES as RECORDED_PLANS
from v6t.tests.golden import devices, frames, testers
from v6t.tests.golden.store import Parts

TECHNOLOGIES = (
    "clat", "dns64", "dslite-aftr", "ipv4-router", "ipv4aas", "ipv6-router", "lwaftr", "lwb4", "mape-br", "mape-ce",
    "mapt-br", "mapt-ce", "nat44", "nat46", "nat64", "nat66", "nptv6", "siit",
)  # fmt: skip
SLOW_AUDITS = ("lwaftr",)
PARAMETERS = {
    "mape-br": ("psid_offset=0", "psid_offset=4 iid_format=draft ces=all", "negative_percent=5 n=4 m=3",
                "rule_ipv6=2001:db8:a000::/40 rule_ipv4=198.51.100.0/24 ea_len=16 ces=all"),
    "mapt-br": ("psid_offset=0", "ces=all", "negative_percent=5"),
    "siit": ("ttl=3", "n=2 m=1"),
    "lwaftr": ("negative_percent=5",),
    "mape-ce": ("psid_offset=4",),
    "mapt-ce": ("psid_offset=4",),
    "nat44": (
        'initiator_ports={"min":1024,"max":2047}',
        'enumerate_ports=3 initiator_ports={"min":1024,"max":1500}',
    ),
    "nat64": ("ttl=7",),
}  # fmt: skip
BENCHMARKS = (
    "throughput,frame-loss,back-to-back,latency,pdv,ipdv,flows,reset,system-recovery,throughput-frame-timeout,"
    "frame-loss-frame-timeout,critical-load,reconfiguration"
)
"""All benchmarks of stateless technologies that do not need an optional package."""
CONNECTION_BENCHMARKS = "capacity,connection-rate,teardown,tcp-rate,tcp-capacity,throughput"
SIMULATED_RUNS = {
    "mape-br": f"--plugin mape-br --mode bidirectional --measure {BENCHMARKS} --frame-timeout 5 "
    "--set-tester buffer_frames=500 --set-procedure critical_load.search_s=2",
    "ipv4-router": "--plugin ipv4-router --measure throughput,latency",
    "nat64": f"--plugin nat64 --measure {CONNECTION_BENCHMARKS} --mode forward",
    "nat44": f"--plugin nat44 --measure {CONNECTION_BENCHMARKS} --set-procedure connections.count=2000",
    "soak": "--plugin siit --mode forward --measure soak,throughput-frame-timeout --frame-timeout 5 --soak 20s",
    "rss": "--plugin siit --mode forward --measure rss-probe --set-tester cores=4",
    "names": "--plugin dns64 --measure resolution",
    "repetitions": "--plugin siit --confirm 3 --reps 4 --set-tester capacity_noise=0.05",
    "adaptive": "--plugin siit --adaptive --set-tester capacity_noise=0.02",
    "surplus": "--plugin siit --set-tester surplus=1",
    "late": "--plugin siit --set-tester late=1",
    "mismatch": "--plugin siit --set-tester mismatch=1",
    "negative": "--plugin mape-br --set negative_percent=5 --set-tester forwards_negative=true",
    "tester limit": "--plugin siit --set-tester tester_fps=500000",
    "loss": "--plugin siit --set-tester loss_probability=0.3",
    "imix": "--plugin siit --frame-size imix",
    "MLRsearch": "--plugin siit --measure mlrsearch --mode forward --preset rfc --frame-size 84",
    "tolerance": "--plugin siit --loss-tolerance 0.001",
    "crash": "--plugin siit --set-tester crash_at=9",
    "rfc": "--plugin mape-br --preset rfc --measure throughput,latency --frame-size 104 --mode forward --reps 2",
}
CALCULATIONS = (
    "map --rule-ipv6 2001:db8:ce::/51 --rule-ipv4 192.0.2.0/24 --ea-len 13 --psid-offset 0 --psid 9 "
    "--ipv4 192.0.2.189",
    "map --rule-ipv6 240b:10::/31 --rule-ipv4 106.72.0.0/15 --ea-len 25 --psid-offset 4 --iid-format draft "
    "--ipv6 240b:10:1234:5600::",
    "rfc6052 --prefix 64:ff9b::/96 --ipv4 192.0.2.33",
    "rfc6052 --prefix 2001:db8:122::/48 --ipv4 192.0.2.33",
    "rate --line-rate 10G --frame-size 104",
)
REFUSED = (
    "run --plugin nosuch", "run --plugin mape-br --set nosuch=1", "run --plugin mape-br --set ea_len=99",
    "run nosuch.yaml", "run --plugin mape-br --rate -5", "run --plugin mape-br --frame-size 20",
    "run --plugin mape-br --frame-size 70000", "run --plugin mape-br --set rule_ipv4=192.0.2.1/24",
    "run --plugin mape-br --dut nosuch", "run --plugin siit --set prefix=2001:db8::/33",
    "run --plugin lwaftr --set binding_table=nosuch", "dut plan --driver tayga --plugin mape-br",
    "dut plan --driver vpp --plugin nosuch", "resume nosuch", "report nosuch", "compare nosuch nosuch2",
    "campaign nosuch", "compile --plugin mape-br --format nosuch", "compile --plugin mape-br --direction up",
    "compile --plugin nat64 --expected x.pcap", "calc map --rule-ipv6 2001:db8::/32", "audit --plugin nosuch",
    "audit --plugin mape-br --list --suite nosuch", "explain nosuchword", "init --from-siitperf nosuch", "nosuch",
)  # fmt: skip
CONVERTED_FILES = (
    ("siitperf", "siitperf", SIITPERF), ("siitperf NAT64", "siitperf", NAT64), ("Mapperf", "maptperf", MAPPERF),
)  # fmt: skip
CAMPAIGN = """\
name: small
run: {plugin: mape-br, seed: 1, procedure: {repetitions: 2}}
testbeds:
  model: {tester: {kind: sim, options: {capacity_fps: 400000, capacity_noise: 0.05}}}
experiments:
  - {name: customers, matrix: {params.ces: [64, 256], modes: [forward, reverse]}}
"""


@dataclass(frozen=True)
class Case:
    """One input whose results are stored."""

    family: str  # file in which the results are stored
    name: str  # name of the case in this file
    compute: Callable[[], Parts]  # returns the lines of each part; called in an empty directory
    in_lab: bool = False  # whether it needs network namespaces or device programs
    slow: bool = False  # whether `make test` omits it


def compute(case: Case) -> Parts:
    """Compute a case in a temporary directory that also contains the caches."""
    before, home = Path.cwd(), os.environ.get("XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        os.environ["XDG_CACHE_HOME"] = scratch
        try:
            return case.compute()
        except EnvironmentLacking:
            raise
        except V6tError as exc:
            return {"exit status": [str(exc.exit_code)]}
        finally:
            os.chdir(before)
            os.environ.pop("XDG_CACHE_HOME")
            if home is not None:
                os.environ["XDG_CACHE_HOME"] = home


def iterate_leaves(value: Any) -> Iterator[Any]:
    """Yield all values of a document that are neither mappings nor lists."""
    if isinstance(value, dict):
        for item in value.values():
            yield from iterate_leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from iterate_leaves(item)
    else:
        yield value


def list_numbers(value: Any) -> list[str]:
    """Return all numbers of a document in ascending order."""
    result = sorted(float(x) for x in iterate_leaves(value) if isinstance(x, bool | int | float))
    return [f"{number:.10g}" for number in result]


def count_sentences(value: Any) -> str:
    """Return the number of texts of several words, such as warnings, notes and titles."""
    return str(sum(isinstance(x, str) and x.count(" ") > 2 for x in iterate_leaves(value)))


def read_table_numbers(text: str) -> list[str]:
    """Return the numbers in each row of Markdown tables."""
    rows = []
    for line in text.splitlines():
        if line.startswith("|"):
            cells = (re.sub(r"[,*%\s]|fps|ms|us|s$", "", cell) for cell in line.split("|"))
            values = [cell for cell in cells if re.fullmatch(r"[-+]?\d[\d.e+-]*", cell)]
            rows.append(" ".join(values))
    return [row for row in rows if row]


def run_command(*arguments: object) -> tuple[Parts, str]:
    """Run a v6t command and return its exit status, as a part, and its standard output."""
    done = v6t(*arguments)
    return {"exit status": [str(done.status)]}, done.out


def read_run_directory(path: Path) -> Parts:
    """Return every trial, the numbers of every record and the tables of a run."""
    parts: Parts = {}
    if not (path / "results.json").exists():
        return parts
    journal = (path / "journal.jsonl").read_text().splitlines()
    trials = [json.loads(line[line.index("{") :]) for line in journal if "{" in line]
    parts["trials"] = [" ".join(list_numbers(trial)) for trial in trials]
    document = read_results(path)  # each record contains the common conditions
    sections = [value for value in document.values() if isinstance(value, list)]
    records = [item for section in sections for item in section if isinstance(item, dict)]
    parts["records"] = [" ".join(list_numbers(record)) for record in records]
    parts["estimate"] = list_numbers(plan(make_setup(read_config(path))).to_json())
    parts["warnings"] = [count_sentences(document), *map(count_sentences, records)]
    for table in sorted(path.glob("*.csv")):
        rows = list(csv.reader(io.StringIO(table.read_text())))
        values = [[c for c in row if re.fullmatch(r"-?[\d.]+(e-?\d+)?", c)] for row in rows]
        parts.setdefault("CSV", []).extend(" ".join(row) for row in values if row)
    v6t("report", path, "--format", "md", "--figures", "none", "-o", "pages")
    pages = [page.read_text() for page in sorted(Path("pages").glob("*.md"))]
    parts["report"] = [row for page in pages for row in read_table_numbers(page)]
    return parts


def simulate(arguments: str) -> Parts:
    if "mlrsearch" in arguments and find_spec("MLRsearch") is None:
        raise EnvironmentLacking("the package MLRsearch is not installed")
    fixed = ("--tester", "sim", "--seed", 1, "--no-report", "-o", "run")
    parts, _ = run_command("run", *arguments.split(), *fixed)
    return parts | read_run_directory(Path("run"))


def resume_and_compare() -> Parts:
    """Cut a run in half, resume it, compare it with another run and look for a trend."""
    for name, noise in (("one", "0.05"), ("two", "0.2")):
        v6t("run", "--plugin", "siit", "--tester", "sim", "--seed", 1, "--set-tester",
            f"capacity_noise={noise}", "--label", name, "--no-report", "-o", name)  # fmt: skip
    parts: Parts = {}
    for verb in ("compare", "trend"):
        status, text = run_command(verb, "one", "two", "--json")
        parts[verb] = status["exit status"] + (list_numbers(json.loads(text)) if text else [])
    journal = Path("one/journal.jsonl")
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[: len(lines) // 2]))
    for path in (Path("one/results.json"), *Path("one").glob("*.csv")):
        path.unlink()
    status, _ = run_command("resume", "one", "--no-report")
    return parts | status | read_run_directory(Path("one"))


def run_campaign() -> Parts:
    Path("campaign.yaml").write_text(CAMPAIGN)
    parts, _ = run_command("campaign", "campaign.yaml", "--no-report", "-o", "out")
    summary = Path("out/summary.json")
    if summary.exists():
        parts["summary"] = list_numbers(json.loads(summary.read_text()))
    for results in sorted(Path("out").rglob("results.json")):
        numbers = list_numbers(json.loads(results.read_text()))
        parts.setdefault("records", []).append(" ".join(numbers))
    return parts


def convert(tester: str, text: str) -> Parts:
    """Convert a file of another tester and return the values in the run file and the testbed file."""
    Path("other.conf").write_text(text)
    parts, _ = run_command("init", f"--from-{tester}", "other.conf", "--dir", "here")
    for path in sorted(Path("here").glob("*.yaml")):
        document = YAML(typ="safe").load(path.read_text())
        parts[path.name] = [str(value) for value in iterate_leaves(document)]
    return parts


def calculate(line: str) -> Parts:
    """Return the values of a calculation without sentences."""
    parts, text = run_command("calc", *line.split(), "--json")
    values = iterate_leaves(json.loads(text)) if text else ()
    return parts | {"values": sorted(str(x) for x in values if str(x).count(" ") < 3)}


def run_refused(line: str) -> Parts:
    """Return the exit status of a command that must fail."""
    done = v6t(*line.split())
    return {"": [str(done.status), str("Traceback" in done.err), str(bool(done.out))]}


def list_settings() -> Parts:
    """Return the name, kind and default of each setting."""
    status, text = run_command("explain", "--all", "--json")
    rows = json.loads(text)
    return status | {"settings": [f"{r['name']} {r['kind']} {r['default']}" for r in rows]}


def list_parameters(technology: str) -> Parts:
    """Return the name and default of each parameter, and all numbers of a technology's description."""
    status, text = run_command("plugins", technology, "--json")
    document = json.loads(text)
    rows = [f"{row['name']} {row['default']}" for row in document["parameters"]]
    return status | {"parameters": rows, "numbers": list_numbers(document)}


def list_cases() -> Iterator[Case]:
    for t in TECHNOLOGIES:
        yield Case("settings", t, partial(list_parameters, t))
        audit = partial(devices.audit_models, t)
        yield Case("clauses", t, audit, slow=t in SLOW_AUDITS)
        yield Case("frames", t, partial(frames.exchange_frames, t))
        for chosen in ("", *PARAMETERS.get(t, ())):
            words = [word for pair in chosen.split() for word in ("--set", pair)]
            yield Case("compile", f"{t} {chosen}".strip(), partial(frames.compile_all, t, words))
        for name, shape in frames.SHAPES.items():
            yield Case("compile", f"{t}, {name}", partial(frames.compile_all, t, shape.split()))
        yield Case("plans", t, partial(devices.plan_technology, t, ""))
        yield Case("plans", f"{t}, VLANs", partial(devices.plan_technology, t, frames.TESTBED))
    prefix = partial(devices.plan_technology, "siit", "", eam="[]", prefix="2001:db8:64::/96")
    yield Case("plans", "siit, prefix", prefix)
    for recorded in RECORDED_PLANS:
        yield Case("plans", recorded.name, partial(devices.plan_recorded, recorded))
    for name, arguments in SIMULATED_RUNS.items():
        yield Case("runs", name, partial(simulate, arguments))
    yield Case("runs", "resume, compare and trend", resume_and_compare)
    yield Case("runs", "campaign", run_campaign)
    for name, tester, text in CONVERTED_FILES:
        yield Case("runs", name, partial(convert, tester, text))
    for line in CALCULATIONS:
        yield Case("settings", f"calc {line}", partial(calculate, line))
    for line in REFUSED:
        yield Case("settings", line, partial(run_refused, line))
    yield Case("settings", "settings", list_settings)
    for t in testers.TECHNOLOGIES:
        yield Case("testers", t, partial(testers.describe_trials, t))
    yield Case("testers", "orders, shells and devices", testers.describe_parts)
    for technology, device in devices.LAB_AUDITS:
        audit = partial(devices.audit_in_lab, technology, device)
        yield Case("lab", f"{technology} {device}", audit, in_lab=True)
