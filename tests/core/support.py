"""Run the command line in this process, or in a new one where that is necessary."""

import contextlib
import csv
import ctypes
import functools
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from v6t.benchmarks.registry import make_results_schema
from v6t.core.cli import main
from v6t.core.config.run_setup import make_setup
from v6t.core.reporting import write
from v6t.core.runs.events import Listener
from v6t.core.runs.results import read_results
from v6t.core.runs.rundir import CONFIG, CONFIG_DIGEST, MANIFEST, compute_digest
from v6t.core.runs.runner import execute, resume
from v6t.tests.settings import resolve

COMMAND = [sys.executable, "-m", "v6t.core.cli.entry"]
SIM = ["run", "--plugin", "mape-br", "--tester", "sim"]
WAIT_LIMIT_S = 60

RUN_FILES = [
    *(".lock", "config.json", "journal.jsonl", "log.txt", "manifest.json"),
    *("medians.csv", "results.csv", "results.json", "trials.csv"),
]
"""Files of a finished run of one benchmark."""

_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2
_CAPABILITY_VERSION_3 = 0x20080522
_PR_GET_SECUREBITS, _PR_SET_SECUREBITS = 27, 28
_NO_SETUID_FIXUP = 1 << 2


@dataclass(frozen=True)
class CommandResult:
    """Result of a command; ``code`` is the printed error code, which is removed from ``err``."""

    status: int
    out: str
    err: str
    code: str = ""


_CODE = re.compile(r"^(v6t: .*) \[([a-z0-9-]+)\]$", re.MULTILINE)


def parse_result(status: int, out: str, err: str) -> CommandResult:
    """Separate the printed error code from the messages of a command."""
    codes = _CODE.findall(err)
    return CommandResult(status, out, _CODE.sub(r"\1", err), codes[-1][1] if codes else "")


def v6t(*arguments: object) -> CommandResult:
    """Run ``v6t ARGUMENTS`` in this process and directory."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
    ):
        if "V6T_DEBUG" not in os.environ:  # --debug sets it
            patch.setenv("V6T_DEBUG", "")
        try:
            main.main([str(a) for a in arguments])
        except SystemExit as exc:
            status = exc.code
    assert isinstance(status, int)
    return parse_result(status, out.getvalue(), err.getvalue())


def v6t_process(*arguments: object, **environment: str) -> CommandResult:
    """Run ``v6t ARGUMENTS`` in a new process, with changes to the environment."""
    command, environment = [*COMMAND, *map(str, arguments)], {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return parse_result(done.returncode, done.stdout, done.stderr)


def start_v6t(*words: object, network: int | None = None, **pipes: Any) -> subprocess.Popen[str]:
    """Start ``v6t WORDS`` in a new session, in the network namespace of process ``network``."""
    enter = [] if network is None else ["nsenter", f"--net=/proc/{network}/ns/net"]
    command = [*enter, *COMMAND, *map(str, words)]
    return subprocess.Popen(command, text=True, start_new_session=True, **pipes)


def wait_until(condition, process=None):
    """Return the first true value of a function; fail after a time limit or if the process ends."""
    end = time.monotonic() + WAIT_LIMIT_S
    while not (value := condition()):
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end, "no progress"
        time.sleep(0.02)
    return value


def open_page(url, profile, *options):
    """Load a page in Chromium, or skip the test; ``--dump-dom`` prints the document."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        pytest.skip("needs the package chromium")
    command = [
        *(browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--enable-logging=stderr", "--log-level=0", f"--user-data-dir={profile}"),
        *("--disable-background-networking", "--disable-component-update", *options, url),
    ]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if completed.returncode != 0:
        pytest.skip("the browser of the package chromium does not start here")
    return completed


@contextlib.contextmanager
def enforce_permissions() -> Iterator[None]:
    """Apply file permissions also to root, in this thread, until the context ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    # effective, permitted, inheritable: of the first 32 capabilities, then of the others
    current = (ctypes.c_uint32 * 6)()
    if libc.capget(header, current):
        raise OSError(ctypes.get_errno(), "capget")
    limited = (ctypes.c_uint32 * 6)(*current)
    limited[0] &= ~(1 << _CAP_DAC_OVERRIDE | 1 << _CAP_DAC_READ_SEARCH)
    bits = libc.prctl(_PR_GET_SECUREBITS, 0, 0, 0, 0)
    root = os.geteuid() == 0
    # otherwise access(2) would use root's permitted capabilities, not the effective ones
    if root and libc.prctl(_PR_SET_SECUREBITS, bits | _NO_SETUID_FIXUP, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    try:
        if libc.capset(header, limited):
            raise OSError(ctypes.get_errno(), "capset")
        yield
    finally:
        if libc.capset(header, current) or (root and libc.prctl(_PR_SET_SECUREBITS, bits, 0, 0, 0)):
            raise OSError(ctypes.get_errno(), "capset, prctl")


def simulate(*benchmarks, plugin="mape-br", device=None, **flags):
    """Resolve a run with the simulated tester; ``device`` holds the tester's options."""
    flags["tester_options"] = {name: str(value) for name, value in (device or {}).items()}
    return resolve(plugin=plugin, tester="sim", benchmarks=benchmarks, **flags)


def read_journal(path):
    """Read the lines of a run's journal, without an incomplete last line."""
    lines = (path / "journal.jsonl").read_text().split("\n")[:-1]
    return [json.loads(line.partition(" ")[2]) for line in lines]


def replace_config(path, change):
    """Change the stored configuration of a run, and its digest in the manifest."""
    config, manifest = (json.loads((path / n).read_text()) for n in (CONFIG, MANIFEST))
    change(config)
    (path / CONFIG).write_text(json.dumps(config))
    manifest[CONFIG_DIGEST] = compute_digest((path / CONFIG).read_bytes())
    (path / MANIFEST).write_text(json.dumps(manifest))


def remove_crash(path):
    """Remove the simulated crash from the settings of a run."""
    replace_config(path, lambda config: config["tester"]["options"].pop("crash_at"))


def read_trial_keys(path):
    """Read the keys of a run's trials, in order."""
    return [entry["trial"]["key"] for entry in read_journal(path)]


def measure_run(run, path):
    """Execute a resolved run in a directory."""
    return execute(make_setup(run), path, Listener())


@functools.cache
def make_results_validator():
    """Return a validator of results.json with the records of v6t's own benchmarks."""
    return jsonschema.Draft202012Validator(make_results_schema())


def measure_records(path, *benchmarks, **settings):
    """Simulate a run, validate its results.json and return the records by benchmark."""
    measure_run(simulate(*benchmarks, **settings), path)
    content = json.loads((path / "results.json").read_text())
    make_results_validator().validate(content)
    assert content["status"] == "complete"
    return {record["benchmark"]: record for record in content["results"]}


def make_run(path, *benchmarks, device=None, procedure=None, modes=("bidirectional",), **flags):
    """Simulate a run in a new directory; ``device`` and ``procedure`` override default settings."""
    quick = {"repetitions": 6, "resolution_fps": 5_000.0, "trial_duration_s": 1.0}
    run = simulate(
        *(benchmarks or ("throughput",)), device={"capacity_noise": 0.01, **(device or {})},
        procedure={**quick, **(procedure or {})}, modes=modes, **{"seed": 1, **flags},
    )  # fmt: skip
    measure_run(run, path)
    return path


def write_report(path):
    """Write the report of a run as Markdown and return its text."""
    write.write_run_report(path, formats=["md"])
    return (path / "report.md").read_text()


def read_csv(path):
    """Read the rows of a CSV file as dictionaries."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def count_new_trials(path):
    """Resume a run and count the trials that this adds to its journal."""
    before = len(read_journal(path))
    resume(path, Listener())
    return len(read_journal(path)) - before


def read_comparable(path):
    """Read the records of a run without their conditions, which differ between machines."""
    records = read_results(path)["results"]
    return [{k: v for k, v in record.items() if k != "conditions"} for record in records]


def read_reproducible(path):
    """Return the results and the number of CSV lines, which are equal for equal settings."""
    content = json.loads((path / "results.json").read_text())
    del content["run"], content["sha256"]
    return json.dumps(content), (path / "results.csv").read_text().count("\n")


def read_dir(directory: Path) -> dict[str, bytes | None]:
    """Return everything below a directory: file contents by name, None for directories."""
    paths = sorted(directory.rglob("*"))
    return {str(p.relative_to(directory)): None if p.is_dir() else p.read_bytes() for p in paths}


def read_schema(name):
    """Read a published JSON schema."""
    return json.loads(files("v6t.analysis").joinpath(f"schema/{name}.json").read_text("utf-8"))


def read_vectors(name):
    """Read a table of inputs and expected results."""
    return yaml.safe_load((Path(__file__).parent / "vectors" / f"{name}.yaml").read_text())


def read_sample(name):
    """Read a settings file of siitperf, Maptperf or Mapperf."""
    return (Path(__file__).parent / "samples" / f"{name}.conf").read_text()


def write_distribution(directory, name, **entry_points):
    """Write an installed distribution; lines of entry points by group, without ``v6t.``."""
    info = directory / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    groups = [f"[v6t.{group}]\n{lines}\n" for group, lines in entry_points.items()]
    (info / "entry_points.txt").write_text("".join(groups))


def make_all_tables(presentations, records):
    """Make the tables of all measured benchmarks."""
    groups = presentations.group_measured(records)
    return [table for p, group in groups for table in p.make_tables(group)]
