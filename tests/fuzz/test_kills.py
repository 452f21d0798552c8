"""kill -9 at random moments: a resumed run ends as if nothing had happened.

Some moments are tried by `make test`; V6T_KILLS says how many (`make kills`: 100).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest
from v6t.drivers.lab.privilege import check_availability
from v6t.drivers.lab.workers import PROCESS_TITLE
from v6t.tests.core.support import COMMAND

pytestmark = pytest.mark.slow

FEW = 6
KILLS = int(os.environ.get("V6T_KILLS", FEW))
SEED = int(os.environ.get("V6T_SEED", "16"))
SIM = (
    *("--plugin", "mape-br", "--tester", "sim", "--set-tester", "capacity_noise=0.05"),
    *("--reps", "3", "--mode", "forward", "--no-report", "--measure", "throughput,frame-loss"),
    *("--set-tester", "trial_delay_s=0.01"),
)
QUERIES = (
    *("--plugin", "dns64", "--tester", "sim", "--set-tester", "capacity_noise=0.05"),
    *("--reps", "3", "--cached", "[50]", "--own-aaaa", "[40]", "--no-report"),
    *("--set-tester", "trial_delay_s=0.01"),
)
LAB = (
    *("--plugin", "ipv4-router", "--mode", "forward", "--frame-size", "128", "--reps", "1"),
    *("--duration", "0.2", "--resolution", "100", "--no-report", "--testbed", "gentle.yaml"),
)
GENTLE_BED = "line_rate: 3M\n"
"""Other tests run at the same time: the tester's own limit is not measured."""
SERVER = (
    *("--plugin", "dns64", "--dut", "unbound", "--reps", "2", "--duration", "0.3"),
    *("--resolution-qps", "2000", "--no-report"),
)


def whole(path):
    """Return the results that must be reproduced; they contain no time."""
    return (path / "results.json").read_bytes(), (path / "results.csv").read_text().count("\n")


def kill_at_random(words, path, dice, longest_s):
    """Start, kill at a random time, and check what is left; return whether it had ended."""
    process = subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        err = process.communicate(timeout=dice.uniform(0, longest_s))[1]
        assert process.returncode == 0, err
        ended = True
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        ended = process.returncode == 0
    for made in path.glob("*.json"):
        json.loads(made.read_text())  # a file is whole, or not there
    return ended


def command_for(path, words):
    """Return the arguments that begin a run, or resume it if it has begun."""
    begun = (path / "config.json").exists()
    return ["resume", str(path), "--no-report"] if begun else ["run", *words, "-o", str(path)]


def carried_out(words, path, dice, longest_s, kills):
    """Kill and resume a run until it ends; return the number of kills."""
    count = 0
    while True:
        again = command_for(path, words)
        if count >= kills:
            done = subprocess.run([*COMMAND, *again], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return count
        if kill_at_random(again, path, dice, longest_s):
            return count
        count += 1


@pytest.mark.parametrize("words", [SIM, QUERIES], ids=["frames", "queries"])
def test_a_rehearsal_killed_at_random(words, tmp_path):
    """Octet for octet what an undisturbed run gives."""
    dice = random.Random(SEED)
    began = time.monotonic()
    subprocess.run(
        [*COMMAND, "run", *words, "-o", str(tmp_path / "whole")], check=True, capture_output=True
    )
    longest_s = time.monotonic() - began
    expected, count, runs = whole(tmp_path / "whole"), 0, 0
    wanted = KILLS // 2
    while count < wanted:
        path = tmp_path / f"{runs}"
        count += carried_out(words, path, dice, longest_s, wanted - count)
        assert whole(path) == expected
        runs += 1
    print(f"{count} kills, {runs} runs, all results equal")


def leftovers():
    """Return the command lines of processes that this test's lab has left behind."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"/proc/{entry.name}/cmdline", "rb") as file:
                    words = file.read()
                with open(f"/proc/{entry.name}/environ", "rb") as file:
                    ours = b"python" in words or words.startswith(PROCESS_TITLE.encode())
                    if MARK.encode() in file.read() and ours:
                        found.append(words.replace(b"\0", b" "))
            except OSError:
                continue
    return found


MARK = f"V6T_TEST_KILLS={os.getpid()}"


@pytest.mark.lab
@pytest.mark.parametrize("lab", [LAB, SERVER], ids=["frames", "queries"])
def test_a_lab_killed_at_random(lab, tmp_path, monkeypatch):
    """Trials on disk are never measured again; nothing of the lab is left."""
    can, why = check_availability()
    if not can:
        pytest.skip(f"no network namespaces here: {why}")
    if lab is SERVER and (KILLS <= FEW or shutil.which("unbound") is None):
        pytest.skip("`make kills` asks for it, where unbound is installed")
    monkeypatch.setenv(*MARK.split("="))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gentle.yaml").write_text(GENTLE_BED)
    dice = random.Random(SEED + 1)
    count, runs = 0, 0
    wanted = max(2, KILLS // 2)
    while count < wanted:
        path = tmp_path / f"{runs}"
        known: list[bytes] = []
        while True:
            words = command_for(path, lab)
            ended = kill_at_random(words, path, dice, 4.0) if count < wanted else True
            if count >= wanted:
                subprocess.run([*COMMAND, *words], check=True, capture_output=True)
            count += not ended
            journal = path / "journal.jsonl"
            lines = journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []
            assert lines[: len(known)] == known, "a finished trial was lost or measured again"
            known = lines
            end = time.monotonic() + 20
            while (left := leftovers()) and time.monotonic() < end:
                time.sleep(0.1)
            assert left == []
            if ended:
                break
        results = json.loads((path / "results.json").read_text())
        assert results["status"] == "complete"
        before = whole(path)
        resume = [*COMMAND, *command_for(path, lab)]
        again = subprocess.run(resume, capture_output=True, text=True, check=False)
        assert again.returncode == 0
        assert "nothing was measured" in again.stderr
        assert whole(path) == before
        runs += 1
    print(f"{count} kills, {runs} runs, nothing lost")
