"""The clock of the machine v6t runs on is stepped, for real: in a virtual machine, which nobody else needs.

v6t, its lab and the device's timer are all within the machine.
"""

from __future__ import annotations

import json
import os
import shlex

import pytest
from v6t.tests.core.support import COMMAND
from v6t.tests.drivers.duts.field import until
from v6t.tests.machine.image import Image, lacking

from .guest import GUEST, Guest

pytestmark = [
    pytest.mark.trexvm,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        os.environ.get("V6T_TREX_VM") != "1",
        reason="`make test-trex-vm` asks for it (V6T_TREX_VM=1)",
    ),
]
HOUR_S, DAY_S = 3600, 86400
LIMIT_S = 10
PLACE = "/run/place"
BED = {
    "tester": {"kind": "embedded"},
    "dut": {
        "driver": "linux-router",
        "options": {"ssh": {"lab": "clock"}, "undo_after_s": LIMIT_S},
    },
    "line_rate": "400k",
}
RUN = (
    *("run", "--plugin", "ipv4-router", "--mode", "forward", "--frame-size", "128", "--reps", "9"),
    *("--measure", "latency", "--set-procedure", "latency.rate_fps=100"),
    *("--set-procedure", "latency.duration_s=4", "--set-procedure", "latency.tags=40"),
    *("--set-procedure", "latency.first_tag_s=1"),
    *("--testbed", f"{PLACE}/bed.json", "--no-report", "-o", f"{PLACE}/out"),
)


@pytest.fixture(scope="module")
def machine():
    if lacking():
        pytest.skip(f"apt-get install {' '.join(lacking())}")
    image: Image = GUEST.image()
    made = Guest(image, [], cpus=2, mib=2048)
    try:
        made.start()
        made.done(
            f"modprobe veth; mkdir {PLACE}; echo {shlex.quote(json.dumps(BED))} >{PLACE}/bed.json"
        )
        yield made
    finally:
        made.stop()


def start(machine, *words):
    """v6t within the machine, in a session of its own."""
    line = f"echo $$ >{PLACE}/pid; exec {shlex.join([*COMMAND, *words])}"
    machine.done(
        f"rm -f {PLACE}/pid; (setsid sh -c {shlex.quote(line)} </dev/null >{PLACE}/said 2>&1; "
        f"echo $? >{PLACE}/status) </dev/null >/dev/null 2>&1 & rm -f {PLACE}/status"
    )


def ended(machine):
    """Its exit status and what it said; None while it goes on."""
    status = machine.run(f"cat {PLACE}/status").out.strip()
    return (int(status), machine.done(f"cat {PLACE}/said")) if status else None


def entries(machine):
    """Trials through the device, with the faults they ended with."""
    lines = machine.run(f"cat {PLACE}/out/journal.jsonl").out.splitlines()
    found = [json.loads(line.partition(" ")[2]) for line in lines]
    return [e for e in found if e["trial"]["key"].startswith(("throughput", "latency"))]


def step(machine, seconds):
    """The clock goes on from another time."""
    machine.done(f"date -s @$(($(date +%s) + {seconds}))")


def configured(machine):
    """Whether the lab's device is; its namespaces outlive a v6t that is killed."""
    return "192.168.18.1" in inside(machine, "ip addr show dev left")


def inside(machine, command):
    """What a command prints on the device."""
    pid = "$(cut -d' ' -f1 /run/v6t-lab-clock/pid)"
    return machine.run(f"nsenter -t {pid} -n -m {command}").out


def more(machine, number):
    """Wait for further trials."""
    known = len(entries(machine))
    until(lambda: len(entries(machine)) >= known + number or ended(machine), "further trials", 600)
    assert ended(machine) is None, ended(machine)


def test_steps_of_the_clock(machine):
    """Trials in which one falls count for nothing; timer and lock count seconds, not times of day."""
    start(machine, *RUN)
    more(machine, 1)
    for seconds in (HOUR_S, -HOUR_S):
        step(machine, seconds)
        more(machine, 1)
    assert configured(machine)
    known = machine.done(f"cat {PLACE}/out/journal.jsonl")
    machine.done(f"kill -s STOP -- -$(cat {PLACE}/pid)")
    step(machine, -DAY_S)
    until(lambda: not configured(machine), "the device's timer", 300)
    until(lambda: not inside(machine, "readlink /run/v6t/lock"), "the lock", 300)
    step(machine, 2 * DAY_S)
    machine.done(f"kill -s CONT -- -$(cat {PLACE}/pid)")
    until(lambda: ended(machine), "the run's end", 600)
    status, said = ended(machine)
    print(said)
    assert status == 4, said
    assert "it may no longer be configured" in said
    assert machine.done(f"cat {PLACE}/out/journal.jsonl").startswith(known)
    start(machine, "resume", f"{PLACE}/out", "--no-report")
    step(machine, -HOUR_S)
    until(lambda: ended(machine), "the run's end", 1200)
    status, said = ended(machine)
    print(said)
    assert status == 0, said
    assert machine.done(f"cat {PLACE}/out/journal.jsonl").startswith(known)
    found = json.loads(machine.done(f"cat {PLACE}/out/results.json"))
    assert found["status"] == "complete"
    said = [e["result"]["faults"] for e in entries(machine) if e["result"]["faults"]]
    print(said)
    assert all("the clock was stepped by" in f or "sending took" in f for row in said for f in row)
    delays = found["results"][0]["directions"]["forward"]["tl"]
    print(delays)
    assert 0 < delays["p1"] <= delays["p99"] < 1000, "milliseconds, no hours"
