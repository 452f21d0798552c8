"""Kill runs with SIGKILL at random times; resumed runs must have the results of uninterrupted ones.

``make test`` kills runs a few times, ``make kills`` V6T_KILLS times.
"""

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
from v6t.tests.core.support import COMMAND, read_reproducible, v6t

pytestmark = pytest.mark.slow

DEFAULT_KILLS = 4
KILLS = int(os.environ.get("V6T_KILLS", DEFAULT_KILLS))
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
    *("--duration", "0.2", "--resolution", "100", "--no-report", "--testbed", "slow.yaml"),
)
SLOW_TESTBED = "line_rate: 3M\n"
"""A rate below the tester's limit, which other tests may lower meanwhile."""
SERVER = (
    *("--plugin", "dns64", "--dut", "unbound", "--reps", "2", "--duration", "0.3"),
    *("--resolution-qps", "2000", "--no-report"),
)


def read_result_files(path):
    return [(path / name).read_bytes() for name in ("results.json", "results.csv")]


def kill_at_random(words, path, rng, longest_s):
    """Run a command, kill it at a random time and check its JSON files; return whether it had ended."""
    process = subprocess.Popen(
        [*COMMAND, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        err = process.communicate(timeout=rng.uniform(0, longest_s))[1]
        assert process.returncode == 0, err
        ended = True
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        ended = process.returncode == 0
    for file in path.glob("*.json"):
        json.loads(file.read_text())  # files are complete or absent
    return ended


def make_command(path, words):
    """Return the arguments that start or resume a run."""
    return (
        ["resume", str(path), "--no-report"]
        if (path / "config.json").exists()
        else ["run", *words, "-o", str(path)]
    )


def run_with_kills(words, path, rng, longest_s, kills):
    """Kill and resume a run until it ends, at most ``kills`` times; return the number of kills."""
    count = 0
    while True:
        command = make_command(path, words)
        if count >= kills:
            done = v6t(*command)
            assert done.status == 0, done.err
            return count
        if kill_at_random(command, path, rng, longest_s):
            return count
        count += 1


@pytest.mark.parametrize("words", [SIM, QUERIES], ids=["frames", "queries"])
def test_killed_simulated_run_has_results_of_uninterrupted_run(words, tmp_path):
    rng = random.Random(SEED)
    start = time.monotonic()
    command = [*COMMAND, "run", *words, "-o", str(tmp_path / "uninterrupted")]
    subprocess.run(command, check=True, capture_output=True)
    longest_s = time.monotonic() - start
    expected, count, runs = read_reproducible(tmp_path / "uninterrupted"), 0, 0
    target = KILLS // 2
    while count < target:
        path = tmp_path / f"{runs}"
        count += run_with_kills(words, path, rng, longest_s, target - count)
        assert read_reproducible(path) == expected
        runs += 1
    print(f"{count} kills, {runs} runs, all results equal")


def list_lab_processes():
    """Return the command lines of running processes of this test's lab."""
    processes = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"/proc/{entry.name}/cmdline", "rb") as file:
                    words = file.read()
                with open(f"/proc/{entry.name}/environ", "rb") as file:
                    is_lab = b"python" in words or words.startswith(PROCESS_TITLE.encode())
                    if MARK.encode() in file.read() and is_lab:
                        processes.append(words.replace(b"\0", b" "))
            except OSError:
                continue
    return processes


MARK = f"V6T_TEST_KILLS={os.getpid()}"


@pytest.mark.lab
@pytest.mark.parametrize("lab", [LAB, SERVER], ids=["frames", "queries"])
def test_killed_lab_run_keeps_its_trials_and_leaves_no_processes(lab, tmp_path, monkeypatch):
    is_available, reason = check_availability()
    if not is_available:
        pytest.skip(f"needs network namespaces: {reason}")
    if lab is SERVER and (KILLS <= DEFAULT_KILLS or shutil.which("unbound") is None):
        pytest.skip("run by `make kills` if unbound is installed")
    monkeypatch.setenv(*MARK.split("="))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.yaml").write_text(SLOW_TESTBED)
    rng = random.Random(SEED + 1)
    count, runs = 0, 0
    target = max(2, KILLS // 2)
    while count < target:
        path = tmp_path / f"{runs}"
        known: list[bytes] = []
        while True:
            words = make_command(path, lab)
            ended = kill_at_random(words, path, rng, 4.0) if count < target else True
            if count >= target:
                subprocess.run([*COMMAND, *words], check=True, capture_output=True)
            count += not ended
            journal = path / "journal.jsonl"
            lines = journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []
            assert lines[: len(known)] == known, "a finished trial was lost or measured again"
            known = lines
            end = time.monotonic() + 20
            while (processes := list_lab_processes()) and time.monotonic() < end:
                time.sleep(0.1)
            assert processes == []
            if ended:
                break
        assert json.loads((path / "results.json").read_text())["status"] == "complete"
        results_before = read_result_files(path)
        done = v6t(*make_command(path, lab))
        assert done.status == 0 and "nothing was measured" in done.err
        assert read_result_files(path) == results_before
        runs += 1
    print(f"{count} kills, {runs} runs, nothing lost")
