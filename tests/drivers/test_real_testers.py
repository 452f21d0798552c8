"""Real frames of the embedded tester and of TRex: counts, comparison and neighbor resolution."""

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from v6t.trials.verdict import assess_trial

from .fault_injection import wait_for_frames
from .lab_testers import REAL, measure_passed, open_tester, write_testbed
from .test_trex_counting import CONTROL_FRAMES

pytestmark = pytest.mark.parametrize("kind", REAL)
RESOLVED = "dut: {driver: linux-router, options: {neighbours: resolved}}\n"
# Sends frames from the device's right interface.
CONTROL_TRAFFIC = """
import socket, sys
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("right", 0))
for _ in range(20):
    for frame in sys.argv[1:]:
        out.send(bytes.fromhex(frame))
"""


def test_wrong_bit_of_rule_is_shown_with_expected_frame(kind):
    with open_tester(kind, dut_params={"rule_ipv6": "2001:db8:ce:2000::/51"}) as (tester, trial):
        short = replace(trial, mode="reverse", duration_s=0.3)
        counted = tester.measure(short).directions["reverse"]
        assert counted.matched == 0
        wrong = counted.mismatch
        assert "IPv6 destination" in wrong["why"]
        assert len(wrong["expected"]) == len(wrong["received"])
        assert wrong["expected"] != wrong["received"]


def test_negative_traffic_is_counted_apart_and_dropped(kind):
    with open_tester(kind, params={"negative_percent": "20"}) as (tester, trial):
        result = measure_passed(tester, trial, mode="forward", duration_s=0.5)
        classes = result.directions["forward"].classes.values()
        negative = [c for c in classes if c.role == "negative"]
        assert sum(c.sent for c in negative) == sum(c.required for c in negative) >= 250
        assert sum(c.received for c in negative) == 0


def test_router_without_static_neighbors_learns_the_hosts(kind, tmp_path):
    bed = write_testbed(tmp_path, RESOLVED)
    with open_tester(kind, "ipv4-router", 84, testbed=bed) as (tester, trial):
        device = tester._bed.lab.device
        # the kernel repeats requests for unconfirmed entries
        for name in ("left", "right"):
            values = {f"net/ipv{v}/neigh/{name}/delay_first_probe_time": "1" for v in (4, 6)}
            device.ask("set", values=values)
        result = measure_passed(tester, trial, rate_fps=500.0, duration_s=3.0)
        assert sum(d.control for d in result.directions.values()) >= 2
        assert all(d.checked == d.matched > 0 for d in result.directions.values())
        assert device.ask("run", command=["ip", "neigh", "show", "nud", "permanent"]) == (0, "")


@pytest.mark.parametrize(("plugin", "learning", "received"), [
    ("ipv4-router", "true", 500), ("ipv6-router", "true", 500), ("ipv6-router", "false", 0),
])  # fmt: skip
def test_router_needs_learning_frames_of_tester_without_answers(
    kind, plugin, learning, received, tmp_path
):
    """RFC 2544, section 23 b."""
    silent = f"{{answers: false, learning: {learning}}}"
    bed = write_testbed(tmp_path, f"{RESOLVED}links: {{left: {silent}, right: {silent}}}\n")
    with open_tester(kind, plugin, 84, testbed=bed) as (tester, trial):
        result = tester.measure(replace(trial, rate_fps=1000.0, duration_s=0.5))
        assert [d.count_frames("received") for d in result.directions.values()] == [received] * 2
        assert tester.describe()["answers_on"] == []
        assert bool(tester.describe()["learning_on"]) == (learning == "true")


def test_frames_originated_by_device_are_not_counted(kind):
    """TRex counts by ports, whose counters include control frames."""
    options = {"counting": "ports"} if kind == "trex" else {}
    frames = [bytes(frame).hex() for name, frame in CONTROL_FRAMES.items() if "VLAN" not in name]
    with open_tester(kind, options=options) as (tester, trial):

        def send_control_frames():
            wait_for_frames(tester.list_namespaces()["device"])
            command = [sys.executable, "-IS", "-c", CONTROL_TRAFFIC, *frames]
            return tester._bed.lab.device.ask("run", command=command)

        slow = replace(trial, mode="forward", rate_fps=500.0, duration_s=2.5)
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(send_control_frames)
            result = tester.measure(slow)
        assert answer.result() == (0, "")
        counted = result.directions["forward"]
        assert counted.control == 20 * len(frames)
        assert counted.count_frames("surplus") == 0
        assert counted.count_frames("received") <= counted.count_frames("required")
        assert not any("surplus" in r for r in assess_trial(slow, result).reasons)
