"""Clock steps on the host of v6t and on the device, both in a virtual machine."""

import json
import re
import shlex
import signal
import time

import pytest
from v6t.tests.core.support import COMMAND
from v6t.tests.drivers.duts.remote_site import wait_until
from v6t.tests.drivers.duts.test_guard import make_step
from v6t.tests.needs import mark_make_target

from .guest import Operator, run_guest

pytestmark = mark_make_target("trexvm", "test-trex-vm", "V6T_TREX_VM", 1800)
HOUR_S, DAY_S = 3600, 86400
UNDO_AFTER_S = 10
CLOCK_STEP = re.compile(r"the clock was stepped by (\S+) s")
DIRECTORY = "/run/place"
RUN = (
    # the reference device: configuration commands would exceed their deadlines on an emulated CPU
    *("run", "--plugin", "ipv4-router", "--testbed", f"{DIRECTORY}/bed.yaml", "--mode", "forward"),
    *("--frame-size", "128", "--reps", "6", "--measure", "latency"),
    # trials much longer than the gaps between them, so that most steps fall into a trial
    *("--set-procedure", "latency.rate_fps=100", "--set-procedure", "latency.duration_s=12"),
    *("--set-procedure", "latency.tags=40", "--set-procedure", "latency.first_tag_s=1"),
    *("--set-procedure", "invalid_retries=5"),
    # an emulated CPU may be busy: use a small load, and let sending take twice as long
    *("--duration", "3", "--set-procedure", "sending_time_tolerance=2"),
    *("--no-report", "-o", f"{DIRECTORY}/out"),
)
STATE = (
    "ip -o link show v6tdummy >/dev/null 2>&1 && echo configured; readlink /run/v6t/lock; "
    "[ ! -e /run/reached ] || echo reached; date; true"
)


@pytest.fixture(scope="module")
def machine():
    with run_guest(cpus=2, mib=2048) as guest:
        guest.run_checked(f"modprobe veth; mkdir {DIRECTORY}")
        yield guest


def step_clock(machine, seconds):
    """Step the machine's clock; return the date before and after."""
    return machine.run_checked(f"date; date -s @$(($(date +%s) + {seconds}))")


def read_journal(machine):
    """Return the trials of the journal."""
    lines = machine.run(f"cat {DIRECTORY}/out/journal.jsonl").out.splitlines()
    return [json.loads(line.partition(" ")[2]) for line in lines]


def list_latency_trials(machine):
    """Return the latency trials of the journal."""
    return [e for e in read_journal(machine) if e["trial"]["key"].startswith("latency")]


def list_clock_steps(machine):
    """Return the clock steps that v6t detected [s]."""
    faults = [fault for entry in read_journal(machine) for fault in entry["result"]["faults"]]
    print(faults)
    return [float(match[1]) for match in map(CLOCK_STEP.match, faults) if match]


def read_exit_status(machine):
    """Return the exit status of v6t, or an empty string while it runs."""
    return machine.run(f"cat {DIRECTORY}/status").out.strip()


def test_clock_step_on_tester_invalidates_trial(machine):
    """A trial with a clock step is invalid and repeated; no delay contains the step."""
    line = f"{shlex.join([*COMMAND, *RUN])} >{DIRECTORY}/output 2>&1; echo $? >{DIRECTORY}/status"
    machine.run_checked(
        f"echo '{{tester: {{kind: embedded}}, line_rate: 1M}}' >{DIRECTORY}/bed.yaml"
    )
    machine.run_checked(f"setsid sh -c {shlex.quote(line)} </dev/null >/dev/null 2>&1 &")

    wait_until(lambda: list_latency_trials(machine) or read_exit_status(machine), "a trial", 1500)
    assert not read_exit_status(machine), machine.run(f"cat {DIRECTORY}/output").out
    for seconds in (HOUR_S, -HOUR_S):
        # `date -s` sets whole seconds, and takes time itself
        while not any(abs(step - seconds) < 60 for step in list_clock_steps(machine)):
            print(step_clock(machine, seconds))
            trials = len(list_latency_trials(machine))
            wait_until(
                lambda trials=trials: (
                    len(list_latency_trials(machine)) > trials or read_exit_status(machine)
                ),
                "a trial",
                1500,
            )
            assert not read_exit_status(machine), machine.run(f"cat {DIRECTORY}/output").out
    wait_until(lambda: read_exit_status(machine), "the run's end", 1500)
    output = machine.run_checked(f"cat {DIRECTORY}/output")
    print(output)
    assert read_exit_status(machine) == "0", output
    results = json.loads(machine.run_checked(f"cat {DIRECTORY}/out/results.json"))
    assert results["status"] == "complete"
    delays = results["results"][0]["directions"]["forward"]["tl"]
    print(delays)
    assert 0 < delays["p1"] <= delays["p99"] < 2000, "delays in microseconds"


def test_clock_steps_on_device_keep_lock_and_rollback_timer(machine, tmp_path):
    """Lock and rollback timer use a monotonic clock, so a killed v6t is rolled back in time."""
    steps = [make_step("waits", deadline_s=240)]
    operator = Operator(machine, tmp_path, steps, undo_after_s=UNDO_AFTER_S)

    def has_output(word):
        return word in machine.run_checked(STATE)

    process = operator.start("commit")
    wait_until(lambda: has_output("reached"), "the step that waits", 300)
    for seconds in (HOUR_S, -HOUR_S, -DAY_S, DAY_S):
        step_clock(machine, seconds)
        time.sleep(UNDO_AFTER_S / 3)
        state = machine.run_checked(STATE)
        print(f"{seconds:+} s:", state)
        assert "configured" in state and f"process {process.pid}" in state
    process.send_signal(signal.SIGKILL)
    process.communicate()
    step_clock(machine, -DAY_S)
    wait_until(lambda: not has_output("configured"), "the device's timer", 120)
    print(machine.run_checked(f"{STATE}; cat /run/v6t/guard/fired"))
    status, output = operator.run("rollback")
    assert status == 0, output
    assert machine.run_checked("ls -A /run/v6t").strip() == ""
