"""Clocks that are really stepped: of the machine v6t runs on, and of the device it has configured.

Both are a virtual machine, whose clock nobody else needs. Without hardware acceleration it takes minutes.
"""

import json
import re
import shlex
import signal
import time

import pytest
from v6t.tests.core.support import COMMAND
from v6t.tests.drivers.duts.field import wait_until
from v6t.tests.drivers.duts.test_guard import make_step
from v6t.tests.needs import asked_for

from .guest import Operator, running_guest

pytestmark = asked_for("trexvm", "test-trex-vm", "V6T_TREX_VM", 1800)
HOUR_S, DAY_S = 3600, 86400
LIMIT_S = 10
STEPPED = re.compile(r"the clock was stepped by (\S+) s")
PLACE = "/run/place"
RUN = (
    # the reference device: commands to one that is configured pass their limits on a processor that is a program
    *("run", "--plugin", "ipv4-router", "--testbed", f"{PLACE}/bed.yaml", "--mode", "forward"),
    *("--frame-size", "128", "--reps", "6", "--measure", "latency"),
    # much longer than what lies between two: most steps fall into one
    *("--set-procedure", "latency.rate_fps=100", "--set-procedure", "latency.duration_s=12"),
    *("--set-procedure", "latency.tags=40", "--set-procedure", "latency.first_tag_s=1"),
    *("--set-procedure", "invalid_retries=5"),
    # an emulated processor may be busy elsewhere: the load is small and may take twice its time
    *("--duration", "3", "--set-procedure", "sending_time_tolerance=2"),
    *("--no-report", "-o", f"{PLACE}/out"),
)
LOOK = (
    "ip -o link show v6tdummy >/dev/null 2>&1 && echo configured; readlink /run/v6t/lock; "
    "[ ! -e /run/reached ] || echo reached; date; true"
)


@pytest.fixture(scope="module")
def machine():
    with running_guest(cpus=2, mib=2048) as guest:
        guest.done(f"modprobe veth; mkdir {PLACE}")
        yield guest


def stepped(machine, seconds):
    """Step the machine's clock; return its time before and after."""
    return machine.done(f"date; date -s @$(($(date +%s) + {seconds}))")


def entries(machine):
    """Return the trials of the journal."""
    lines = machine.run(f"cat {PLACE}/out/journal.jsonl").out.splitlines()
    return [json.loads(line.partition(" ")[2]) for line in lines]


def delayed(machine):
    """Return the trials that time frames."""
    return [e for e in entries(machine) if e["trial"]["key"].startswith("latency")]


def steps_seen(machine):
    """Return the length of each clock step that v6t noticed [s]."""
    faults = [fault for entry in entries(machine) for fault in entry["result"]["faults"]]
    print(faults)
    return [float(seen[1]) for seen in map(STEPPED.match, faults) if seen]


def ended(machine):
    """Return the exit status of v6t; empty while it runs."""
    return machine.run(f"cat {PLACE}/status").out.strip()


def test_the_clock_of_the_machine_that_measures(machine):
    """A trial in which it is stepped counts for nothing and is repeated; no delay is an hour."""
    line = f"{shlex.join([*COMMAND, *RUN])} >{PLACE}/said 2>&1; echo $? >{PLACE}/status"
    machine.done(f"echo '{{tester: {{kind: embedded}}, line_rate: 1M}}' >{PLACE}/bed.yaml")
    machine.done(f"setsid sh -c {shlex.quote(line)} </dev/null >/dev/null 2>&1 &")

    wait_until(lambda: delayed(machine) or ended(machine), "a trial", 1500)
    assert not ended(machine), machine.run(f"cat {PLACE}/said").out
    for seconds in (HOUR_S, -HOUR_S):
        # to whole seconds, and the command takes time itself
        while not any(abs(step - seconds) < 60 for step in steps_seen(machine)):
            print(stepped(machine, seconds))
            known = len(delayed(machine))  # of those the next one saw the step, if any did
            wait_until(
                lambda known=known: len(delayed(machine)) > known or ended(machine), "a trial", 1500
            )
            assert not ended(machine), machine.run(f"cat {PLACE}/said").out
    wait_until(lambda: ended(machine), "the run's end", 1500)
    said = machine.done(f"cat {PLACE}/said")
    print(said)
    assert ended(machine) == "0", said
    found = json.loads(machine.done(f"cat {PLACE}/out/results.json"))
    assert found["status"] == "complete"
    delays = found["results"][0]["directions"]["forward"]["tl"]
    print(delays)
    assert 0 < delays["p1"] <= delays["p99"] < 2000, "delays in microseconds"


def test_the_clock_of_the_device(machine, tmp_path):
    """Lock and timer count seconds, not times of day: a killed v6t's changes are undone in time."""
    steps = [make_step("waits", deadline_s=240)]
    operator = Operator(machine, tmp_path, steps, undo_after_s=LIMIT_S)

    def seen(word):
        return word in machine.done(LOOK)

    process = operator.start("commit")
    wait_until(lambda: seen("reached"), "the step that waits", 300)
    for seconds in (HOUR_S, -HOUR_S, -DAY_S, DAY_S):
        stepped(machine, seconds)
        time.sleep(LIMIT_S / 3)
        now = machine.done(LOOK)
        print(f"{seconds:+} s:", now)
        assert "configured" in now and f"process {process.pid}" in now
    process.send_signal(signal.SIGKILL)
    process.communicate()
    stepped(machine, -DAY_S)
    wait_until(lambda: not seen("configured"), "the device's timer", 120)
    print(machine.done(f"{LOOK}; cat /run/v6t/guard/fired"))
    status, said = operator.v6t("rollback")
    assert status == 0, said
    assert machine.done("ls -A /run/v6t").strip() == ""
