"""Recovery, reset and flows that begin in turn on a real TRex, through the kernel's router."""

import json
import os
import subprocess
import threading
import time
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest
from v6t.core.runs.bench import make_tester
from v6t.profiles import entropy
from v6t.tests.core.support import COMMAND
from v6t.tests.needs import needs_lab, needs_trex
from v6t.trials.device_events import DeviceEvent
from v6t.trials.trial import FlowStarts, Segment

from .lab_testers import TRIES, load, make_tester_setup, measure_passed

pytestmark = [pytest.mark.trex, needs_trex, needs_lab]


@pytest.fixture(scope="module")
def router():
    """Provide a function that returns a tester with loaded flows, and a trial."""
    setup = make_tester_setup("trex", "ipv4-router", dut="linux-router")
    with closing(make_tester(setup)) as tester:
        tester.open()
        yield lambda vary=lambda traffic: traffic: (tester, load(tester, setup, 84, vary))


def test_second_rate_follows_the_first_without_a_gap(router):
    def is_exact(result):
        """Check that a result has the accuracy that a busy machine reaches once in ten times."""
        ways = result.directions.values()
        return all(abs(w.rate_change_error_s) < 0.003 and w.sending_time_s < 3.52 for w in ways)

    changes = {"rate_fps": 4000.0, "duration_s": 1.5, "second_segment": Segment(2000.0, 2.0)}
    result = measure_passed(*router(), tolerance=1.02, is_good=is_exact, **changes)
    for found in result.directions.values():
        assert found.count_frames("sent") == found.count_frames("received") == 10_000
        assert found.checked == found.matched > 50
        assert (found.first_lost_s, found.last_lost_s) == (None, None)


def test_outage_is_seen_in_lost_frames_and_in_silence(router):
    tester, trial = router()
    pid = tester.namespaces()["device"]

    def forward(on):
        command = ["nsenter", "-t", str(pid), "-n", "sysctl", "-qw", f"net.ipv4.ip_forward={on}"]
        subprocess.run(command, check=True)

    def outage():
        time.sleep(2.5)
        forward(0)
        time.sleep(0.8)
        forward(1)

    event = DeviceEvent("software-reset", 2.0)
    trial = replace(trial, rate_fps=2000.0, duration_s=6.0, device_event=event)
    for _ in range(TRIES):  # a busy machine may spoil the first ones
        helper = threading.Thread(target=outage)
        helper.start()
        result = tester.measure(trial)
        helper.join()
        if not result.faults:
            break
    assert not result.faults
    for found in result.directions.values():
        lost = found.count_frames("sent") - found.count_frames("received")
        assert lost > 0
        assert 0 < found.first_lost_s < found.last_lost_s < 6
        # both methods of RFC 6201 report the same outage
        assert found.longest_gap_s == pytest.approx(lost / 2000, rel=0.2)
        assert found.last_lost_s - found.first_lost_s == pytest.approx(lost / 2000, rel=0.05)


def test_flows_begin_one_after_the_other(router):
    changes = {"rate_fps": 4000.0, "duration_s": 2.0, "flow_starts": FlowStarts(40, 0.025)}
    result = measure_passed(*router(partial(entropy.limit_flows, count=40)), **changes)
    for found in result.directions.values():
        # half of the first second's frames belong to flows that have not started
        required = found.count_frames("required")
        assert required == pytest.approx(8000 - 1950, abs=41)
        assert found.count_frames("sent") == found.count_frames("received") == required
        assert found.checked == found.matched > 50


LINKS = """
link add tl type veth peer name left netns {device}
link add tr type veth peer name right netns {device}
link set lo up
link set tl up
link set tr up
"""
ROUTES = """
link set left address 02:00:00:00:01:01 up
link set right address 02:00:00:00:02:01 up
addr add 192.168.18.1/30 dev left
addr add 192.168.19.1/30 dev right
route add 198.18.0.0/24 via 192.168.18.2
route add 198.19.0.0/24 via 192.168.19.2
"""
BED = """
tester:
  kind: trex
  options: {{interfaces: [tl, tr], fence: false}}
dut:
  driver: reference
  options:
    hooks: {{software-reset: "{stopped}"}}
line_rate: 4M
"""
FORWARDING = "sysctl -qw net.ipv4.ip_forward"


@pytest.fixture
def namespaces():
    """Start a tester's and a router's namespace without a driver or static neighbors."""
    keepers = [subprocess.Popen(["unshare", "-n", "sleep", "infinity"]) for _ in range(2)]
    tester, device = (["nsenter", "-t", str(k.pid), "-n"] for k in keepers)
    while any(
        os.readlink(f"/proc/{k.pid}/ns/net") == os.readlink("/proc/self/ns/net") for k in keepers
    ):
        time.sleep(0.01)
    quiet = "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1"
    for way in (tester, device):
        subprocess.run([*way, *quiet.split()], check=True)
    for way, text in ((tester, LINKS.format(device=keepers[1].pid)), (device, ROUTES)):
        subprocess.run([*way, "ip", "-batch", "-"], input=text, text=True, check=True)
    for name in ("tl", "tr"):
        off = ["tx", "off", "gro", "off", "gso", "off", "tso", "off"]
        subprocess.run([*tester, "ethtool", "-K", name, *off], check=True, capture_output=True)
    subprocess.run([*device, *f"{FORWARDING}=1 net.ipv4.conf.all.rp_filter=0".split()], check=True)
    yield tester, device
    for keeper in keepers:
        keeper.kill()
        keeper.wait()


def test_reset_and_flows_from_the_command_line(namespaces, tmp_path):
    """The router stops forwarding for half a second."""
    tester, device = namespaces
    way = " ".join(device)
    script = tmp_path / "stopped"
    script.write_text(f"{way} {FORWARDING}=0\nsleep 0.5\n{way} {FORWARDING}=1\n")
    bed, out = tmp_path / "bed.yaml", tmp_path / "out"
    bed.write_text(BED.format(stopped=f"sh {script}"))
    own = {"trial_duration_s": 0.5, "flows.counts": "[1, 8]", "flows.interval_s": 0.02,
           "sending_time_tolerance": 1.2}  # fmt: skip
    result = subprocess.run(
        [
            *tester, *COMMAND, "run", "--plugin", "ipv4-router", "--testbed", bed,
            "--measure", "throughput,reset,flows", "--mode", "forward", "--frame-size", "84",
            "--reps", "1", "--resolution", "3000", "--output", out, "--no-report",
            *(word for name, value in own.items() for word in ("--set-procedure", f"{name}={value}")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr + result.stdout
    found = json.loads((out / "results.json").read_text())
    assert found["status"] == "complete"
    by_name = {r["benchmark"]: r for r in found["results"]}
    assert set(by_name) == {"throughput", "reset", "flows"}
    assert by_name["throughput"]["matched"] == 1
    outage = by_name["reset"]["directions"]["forward"]
    assert outage["count"] == 2
    assert outage["min"] >= 0.5
    # lost frames and silence show the same outage (RFC 6201)
    assert sum(outage["by_silence"]) / 2 == pytest.approx(outage["average"], rel=0.2)
    points = by_name["flows"]["points"]
    assert [(p["flows"], p["start"]) for p in points] == [
        *((1, "together"), (8, "together"), (8, "successive"))
    ]
    assert all(p["matched"] == 1 and p["median"] > 0 for p in points)
    neighbours = subprocess.run(
        [*device, "ip", "neigh"], capture_output=True, text=True, check=True
    )
    assert "192.168.18.2 dev left lladdr 02:00:00:00:01:02" in neighbours.stdout
    assert "PERMANENT" not in neighbours.stdout
