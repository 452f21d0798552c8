"""A real Snabb lwAFTR in the lab, in PATH or named by V6T_SNABB."""

import pytest
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from v6t.drivers.duts.bottleneck import judge_device
from v6t.drivers.duts.session.telemetry import summarize_samples
from v6t.tests.drivers import matrix

from . import intents
from .bench import open_bed
from .support import in_lab

PROGRAM = matrix.find_program("snabb-lwaftr")
OWN = {"program": PROGRAM}
pytestmark = [
    *in_lab,
    pytest.mark.alone,
    pytest.mark.skipif(not PROGRAM, reason="no snabb in PATH; V6T_SNABB may name one"),
]


def test_unfetched_frames_are_counted_as_device_losses():
    """Stop the worker: a polling core always looks busy."""
    intent = intents.lwaftr()
    link = intent.links.left
    with open_bed("snabb-lwaftr", intent, **OWN) as bed:
        shell = bed.session.transport
        frame = bytes(
            Ether(src=link.tester_mac, dst=link.dut_mac) / IPv6(dst="2001:db8:6::1", nh=4)
        )
        samples = [bed.session.read_sample()]
        worker = "$(ps -o pid= --ppid $(cat /run/v6t/snabb.pid))"
        assert shell.run(f"kill -STOP {worker}").status == 0
        for _ in range(3000):
            bed.left.send(frame)
        samples.append(bed.session.read_sample())
        shell.run(f"kill -CONT {worker}")
    summary = summarize_samples(samples)
    assert summary.polls and summary.cores
    assert summary.drops["sockets dropped"] > 1000
    verdict = judge_device(samples, lost=3000)
    assert verdict.limited_by == "cpu", verdict
    assert "it polls" in verdict.explanation
