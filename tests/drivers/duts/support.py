"""Helpers for tests of drivers: plans without a device, captured outputs, and runs."""

import functools
import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from v6t.base.errors import DutError
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.session import Session
from v6t.drivers.duts.session.undo_store import PROGRESS, UndoRecord, build_undo_script
from v6t.drivers.lab import netns
from v6t.drivers.transport.process import LocalTransport
from v6t.tests.core.support import start_v6t, v6t
from v6t.tests.needs import needs_lab

from . import sshserver
from .intents import ROUTER4

in_lab = [pytest.mark.lab, needs_lab]


def mark_lab_test(*conditions):
    """Return the decorator of a single test that uses the lab under further conditions."""
    return lambda test: functools.reduce(lambda t, mark: mark(t), (*in_lab, *conditions), test)


MISSING = sshserver.find_missing()
needs_sshd = pytest.mark.skipif(MISSING is not None, reason=f"needs {MISSING}")
over_ssh = [pytest.mark.lab, needs_sshd]
needs_nft = pytest.mark.skipif(
    not shutil.which("nft", path="/usr/sbin:/sbin"), reason="needs nftables"
)
# Step of the command driver that adds an interface.
DUMMY = {
    "command": "ip link add v6tdummy type veth peer name v6tpeer", "why": "an interface",
    "undo": "ip link del v6tdummy", "before": "ip -o link show dev v6tdummy 2>/dev/null || true",
    "was": "foreign", "check": {"command": "ip -o link show dev v6tdummy", "contains": "v6tdummy"},
}  # fmt: skip
# Step of the command driver that changes a kernel setting.
FORWARDING = {
    "command": "sysctl -q -w net.ipv4.conf.lo.forwarding=1", "why": "a kernel setting",
    "undo": "sysctl -q -w net.ipv4.conf.lo.forwarding={words}",
    "before": "sysctl -n net.ipv4.conf.lo.forwarding",
    "check": {"command": "sysctl -n net.ipv4.conf.lo.forwarding", "equals": "1"},
}  # fmt: skip
# Options of a short run, with tolerance for a busy machine.
SHORT_RUN = (
    *("--reps", "1", "--duration", "0.2", "--resolution", "500", "--no-report"),
    *("--set-procedure", "selftest=cached"),
    *("--set-procedure", "sending_time_tolerance=1.5", "--set-procedure", "invalid_retries=10"),
)
# Program on the device that injects faults.
FAULTS = Path(__file__).with_name("faults.sh")


def find_missing_package(driver):
    """Return the Debian package of a program that a driver needs and this machine lacks, or None."""
    for program, package in {"sysctl": "procps", **driver.programs}.items():
        if shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/bin") is None:
            return package
    return None


def needs_device(name, *, over_ssh=False):
    """Return the mark of a test that needs a driver's programs on this machine, and possibly sshd."""
    missing = find_missing_package(make_driver(name, {})) or (MISSING if over_ssh else None)
    return pytest.mark.skipif(missing is not None, reason=f"needs {missing}")


def write_testbed(path, driver, tester=None, **options):
    """Write a testbed file, by default with the embedded tester on a slow medium; return its path."""
    dut = {"driver": driver, "options": options}
    bed = {"tester": tester or {"kind": "embedded"}, "line_rate": "1M", "dut": dut}
    path.write_text(json.dumps(bed))
    return path


def read_captured(name):
    return (Path(__file__).parent / "captured" / name).read_text()


def make_plan(driver, intent, changes=None, **options):
    """Plan the configuration of a device with the example facts, of which some may be changed."""
    loaded = make_driver(driver, options)
    return loaded.plan(intent, replace(loaded.make_example_facts(intent), **(changes or {})))


@contextmanager
def in_network_of(pid):
    """Run in the network namespace of a process; 0 means the current one."""
    if pid:
        netns.enter(pid)
    try:
        yield
    finally:
        if pid:
            netns.enter(os.getppid())  # the parent is in the original namespace


def attempt(action):
    """Return message and hint of the DutError that an action raises, or an empty string."""
    try:
        action()
    except DutError as exc:
        return f"{exc.message} | {exc.hint}"
    return ""


def run_v6t(*words, network=0, status=0):
    """Run v6t in this process, optionally in another network namespace, and check its exit status."""
    with in_network_of(network):
        result = v6t(*words)
    assert result.status == status, result.err
    return result


@contextmanager
def start_run(*words):
    """Start a run; yield its process once its devices are configured."""
    with start_v6t(*words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "self-test of the tester" in line:
                break
        else:
            pytest.fail("".join(lines))
        yield process


def run_shell(line, text="", *, sh=("sh",), check=True, **options):
    options = {"capture_output": True, "text": True, "timeout": 60, **options}
    result = subprocess.run([*sh, "-c", line], input=text, check=False, **options)
    assert not check or result.returncode == 0, result.stderr
    return result


class ChangedTransport(LocalTransport):
    """Transport to this machine that replaces the commands that contain certain texts."""

    def __init__(self):
        super().__init__("a machine")
        self.replacements = {}

    def run(self, command, text="", deadline_s=None):
        for part, replacement in self.replacements.items():
            if part in command:
                return replacement(command, text, deadline_s)
        return super().run(command, text, deadline_s)


def make_file_step(place, name, **changes):
    return {
        "command": f"touch {place}/{name}", "why": name, "undo": f"rm {place}/{name}",
        "before": f"ls {place}/{name} 2>/dev/null || true",
        "check": {"command": f"ls {place}", "contains": name}, **changes,
    }  # fmt: skip


def make_file_session(place, *steps, transport=None, ssh=None, state="state", **options):
    """Make a session with a directory as device; the default configuration creates two files."""
    steps = steps or [make_file_step(place, name) for name in ("one", "two")]
    login = {"host": "dut.example.net", **(ssh or {})}
    settings = {"base": False, "steps": steps, "state_dir": f"{place}/{state}", "ssh": login}
    driver = make_driver("command", settings)
    return Session(driver, transport or LocalTransport("a machine"), ROUTER4, **options)


def make_record(place, *entries, boot="boot", **changes):
    return UndoRecord("me", boot, "command", "x", "now", str(place), entries, **changes)


def run_undo_script(record, *begun):
    """Run a record's undo script after these steps have begun; it must succeed without output."""
    (Path(record.directory) / PROGRESS).write_text("".join(f"{number}\n" for number in begun))
    result = run_shell(build_undo_script(record), check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
