"""A real Snabb lwAFTR in the lab, in PATH or named by V6T_SNABB."""

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from v6t.drivers.duts.bottleneck import judge_device
from v6t.drivers.duts.telemetry_summary import summarize_samples
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


def test_snabb_keeps_ttl_counts_packets_and_is_restored():
    intent = intents.lwaftr()
    link = intent.links.left
    with open_bed("snabb-lwaftr", intent, **OWN) as bed:
        inner = IP(src="192.0.2.80", dst="203.0.113.56", ttl=64) / UDP(sport=2000, dport=53)
        outer = IPv6(src="2001:db8:b400::c000:250:0", dst="2001:db8:6::1", nh=4)
        frame = Ether(src=link.tester_mac, dst=link.dut_mac) / outer / inner / b"out of the tunnel"
        bed.left.send(bytes(frame))
        out = bed.right.await_udp(b"out of the tunnel", seconds=10.0)
        assert out is not None, "frame dropped"
        assert (out[IP].src, out[IP].ttl) == ("192.0.2.80", 64)
        back = bed.forward("reverse", "203.0.113.56", "192.0.2.80", 53, 2000, b"into the tunnel")
        assert back is not None, "answer dropped"
        assert (back[IPv6].dst, back[IPv6].hlim) == ("2001:db8:b400::c000:250:0", 255)
        assert back[IP].ttl == 63
        assert bed.dut.report()["snabb"]["in-ipv6-packets"] >= 1
        assert any("undone" in line for line in bed.session.rollback())
        left = bed.session.transport.run("ls -A /run/v6t /var/run/snabb; ps -eo args").out
        assert "lwaftr" not in left
        assert "[snabb" not in left
        assert "hugetlbfs" not in left


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
