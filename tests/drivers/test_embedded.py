"""The embedded tester and its lab with real frames: what is counted, noticed, and left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.bench import compile_point, make_tester
from v6t.drivers import clock
from v6t.drivers.lab.privilege import available
from v6t.drivers.lab.workers import TITLE
from v6t.trials.trial import DelayRequest, FlowStarts, Segment, Trial
from v6t.trials.verdict import assess_trial

from . import faketrex

LAB, WHY = available()
pytestmark = [pytest.mark.lab, pytest.mark.skipif(not LAB, reason=f"needs a lab: {WHY}")]


class Bench:
    """An opened tester with everything loaded."""

    def __init__(self, *, loopback=False, size=104, bed=None, **flags):
        self.run = resolve(None, bed, Flags(plugin="mape-br", frame_sizes=(size,), **flags))
        self.plugin = bind(self.run).technology
        self.tester = make_tester(bind(self.run), loopback=loopback)
        self.tester.open()
        self.sizes = self.plugin.make_frame_pair(size)
        self.tester.load(compile_point(self.plugin, self.sizes, 1), self.plugin)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tester.close()

    def trial(self, mode="bidirectional", rate=3000.0, duration=0.5, residual=0.3):
        return Trial(
            "throughput", "t", self.sizes.ipv6, self.sizes.ipv4, mode, rate, duration, residual, 0.1
        )

    def measure(self, **options):
        asked = self.trial(**options)
        return asked, self.tester.measure(asked)

    def passes(self, **options):
        """Whether one of a few trials passes: a busy machine may spoil some."""
        for _ in range(4):
            asked, result = self.measure(**options)
            if assess_trial(asked, result, sending_time_tolerance=1.2).passed:
                return result
        return None


@pytest.mark.alone  # a kernel that is late with its own frames has them counted
@pytest.mark.parametrize("loopback", [True, False])
def test_nothing_is_lost_and_all_matches(loopback):
    with Bench(loopback=loopback) as bench:
        result = bench.passes()
        assert result is not None
        for counted in result.directions.values():
            assert counted.checked == counted.matched == 1500
            assert counted.control == 0


def test_one_wrong_bit_is_shown_beside_what_was_expected():
    with Bench(dut_params={"rule_ipv6": "2001:db8:ce:2000::/51"}) as bench:
        _, result = bench.measure(mode="reverse")
        counted = result.directions["reverse"]
        assert counted.matched == 0
        wrong = counted.mismatch
        assert "IPv6 destination" in wrong["why"]
        assert len(wrong["expected"]) == len(wrong["received"])
        assert wrong["expected"] != wrong["received"]
        _, result = bench.measure(mode="forward")
        missing = result.directions["forward"].missing
        assert missing["why"]


def faulty(tmp_path, text):
    bed = tmp_path / "bed.yaml"
    bed.write_text(dedent(text))
    return bed


def test_duplicates_are_surplus_never_loss(tmp_path):
    bed = faulty(tmp_path, "dut: {options: {faults: {duplicate_every: 10}}}\n")
    with Bench(bed=bed) as bench:
        asked, result = bench.measure(rate=1000.0)
        verdict = assess_trial(asked, result, sending_time_tolerance=1.2)
        assert any("surplus of 50 frames" in r for r in verdict.reasons), verdict
        assert result.directions["forward"].count_frames("received") == 500


def test_drops_are_loss_with_an_example(tmp_path):
    bed = faulty(tmp_path, "dut: {options: {faults: {drop_every: 100}}}\n")
    with Bench(bed=bed) as bench:
        _, result = bench.measure(rate=1000.0)
        counted = result.directions["forward"]
        assert counted.count_frames("received") == 495
        assert counted.missing["received"] == ""
        assert counted.first_lost_s == pytest.approx(0.099, abs=0.001)
        assert counted.last_lost_s == pytest.approx(0.499, abs=0.001)


def test_a_corrupted_octet_is_named(tmp_path):
    bed = faulty(tmp_path, "dut: {options: {faults: {corrupt_octet: 16}}}\n")
    with Bench(bed=bed) as bench:
        _, result = bench.measure(mode="forward")
        assert "IPv4 total length" in result.directions["forward"].mismatch["why"]


@pytest.mark.parametrize("n", [1, 2])
def test_flows_begin_one_after_the_other(n):
    """SC-04: of five flows of 400 fps together, flow i has no frames in its first i*50 ms."""
    with Bench(size=128, params={"n": str(n), "m": "1"}) as bench:
        asked = replace(bench.trial(rate=2000.0, residual=0.5), flow_starts=FlowStarts(5, 0.05))
        result = next(filter(None, (whole(bench, asked) for _ in range(4))), None)
        assert result is not None
        for counted in result.directions.values():
            assert counted.count_frames("required") == counted.count_frames("sent") == 800
            assert {c.required for c in counted.classes.values()} == {800 // n}
            assert counted.checked == counted.matched > 0


def test_delays_while_flows_begin_one_after_the_other():
    """RFC 8219 section 10.2.2: every sent frame is timed, pairs are of frames sent one after the other."""
    with Bench(size=128, params={"n": "2", "m": "1"}) as bench:
        plain = bench.trial(rate=2000.0, residual=0.5)
        asked = replace(plain, flow_starts=FlowStarts(5, 0.05), delays=DelayRequest(ipdv=True))
        result = next(filter(None, (whole(bench, asked) for _ in range(4))), None)
        assert result is not None
        for counted in result.directions.values():
            for name, each in counted.classes.items():
                assert (counted.delays[name].frames, counted.delays[name].lost) == (
                    each.required,
                    0,
                )
                assert (counted.ipdv[name].frames, counted.ipdv[name].lost) == (
                    each.required - 1,
                    0,
                )
            assert counted.first_lost_s is counted.last_lost_s is None
        then = replace(plain, flow_starts=FlowStarts(5, 0.05), second_segment=Segment(1000.0, 0.2))
        result = next(filter(None, (whole(bench, then) for _ in range(4))), None)
        assert result is not None
        for counted in result.directions.values():
            assert counted.count_frames("required") == counted.count_frames("sent") == 800 + 200
            assert counted.last_lost_s is None


def whole(bench, asked):
    """The result of a trial that passed; None if a busy machine spoilt it."""
    result = bench.tester.measure(asked)
    return result if assess_trial(asked, result, sending_time_tolerance=1.2).passed else None


CHATTER = """
import socket, sys
from scapy.layers.l2 import ARP, Ether
from scapy.layers.inet import ICMP, IP
from scapy.layers.inet6 import ICMPv6ND_NS, ICMPv6ND_RA, IPv6
mac = "02:00:00:00:02:01"
frames = [
    Ether(src=mac, dst="ff:ff:ff:ff:ff:ff") / ARP(pdst="192.0.2.1", psrc="192.0.2.2", hwsrc=mac),
    Ether(src=mac, dst="33:33:00:00:00:01") / IPv6(src="fe80::1", dst="ff02::1") / ICMPv6ND_RA(),
    Ether(src=mac, dst="33:33:ff:00:00:01") / IPv6(src="fe80::1", dst="ff02::1:ff00:1")
    / ICMPv6ND_NS(tgt="fe80::2"),
    Ether(src=mac, dst="01:80:c2:00:00:0e", type=0x88CC) / (b"\\x02\\x07\\x04" + bytes(40)),
    Ether(src=mac, dst="02:00:00:00:02:02") / IP(src="192.0.2.2", dst="192.0.2.1") / ICMP()
    / bytes(range(40)),
]
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((sys.argv[1], 0))
for _ in range(20):
    for frame in frames:
        out.send(bytes(frame))
"""


def test_a28_what_devices_say_of_their_own_is_never_counted():
    with Bench() as bench:
        device = bench.tester._bed.lab.device
        said = []

        def talk():
            said.append(device.ask("run", command=[sys.executable, "-c", CHATTER, "right"]))

        speaker = threading.Thread(target=talk)
        speaker.start()
        asked, result = bench.measure(rate=500.0, duration=3.0)
        speaker.join()
        assert said == [(0, "")]
        counted = result.directions["forward"]
        assert counted.control == 100
        assert counted.count_frames("surplus") == 0
        assert counted.count_frames("received") <= counted.count_frames("required") == 1500
        assert not any("surplus" in r for r in assess_trial(asked, result).reasons)


@pytest.mark.alone  # stops the receiver in the middle of a trial
def test_an_overflow_of_the_testers_own_ring_is_an_invalid_trial():
    with Bench(loopback=True) as bench:
        receiver = bench.tester._workers["right receiver"]
        bench.measure(mode="forward", rate=1000.0, duration=0.2)  # all is warm
        stop = threading.Timer(0.25, lambda: os.kill(receiver.pid, signal.SIGSTOP))
        go = threading.Timer(2.6, lambda: os.kill(receiver.pid, signal.SIGCONT))
        stop.start()
        go.start()
        asked, result = bench.measure(mode="forward", rate=60_000.0, duration=2.0, residual=1.0)
        go.join()
        verdict = assess_trial(asked, result, sending_time_tolerance=1.5)
        assert not verdict.valid
        assert any("receive ring overflowed" in f for f in result.faults), result.faults


def test_vlans(tmp_path):
    bed = faulty(tmp_path, "links: {left: {vlan: 7}, right: {vlan: 9}}\n")
    with Bench(bed=bed, size=108) as bench:
        result = bench.passes()
        assert result is not None
        assert all(d.checked == d.matched > 0 for d in result.directions.values())


def test_jumbo_frames(tmp_path):
    bed = faulty(tmp_path, "links: {left: {mtu: 9216}, right: {mtu: 9216}}\n")
    with Bench(bed=bed, size=9000) as bench:
        result = bench.passes(rate=300.0)
        assert result is not None
        assert all(d.checked == d.matched > 0 for d in result.directions.values())


@pytest.mark.parametrize("plugin", ["ipv4-router", "ipv6-router"])
def test_a_router_without_static_neighbours(tmp_path, plugin):
    """It learns the hosts before the first trial, and is answered when it asks again during one."""
    bed = tmp_path / "bed.yaml"
    bed.write_text("dut: {driver: linux-router, options: {neighbours: resolved}}\n")
    run = resolve(testbed=bed, flags=Flags(plugin=plugin, tester="embedded"))
    bound = bind(run)
    with closing(make_tester(bound)) as tester:
        tester.open()
        sizes = bound.technology.make_frame_pair(84)
        tester.load(compile_point(bound.technology, sizes, run.seed), bound.oracle)
        device = tester._bed.lab.device
        # the kernel asks again this time after it has used an entry that was not confirmed
        for name in ("left", "right"):
            values = {f"net/ipv{v}/neigh/{name}/delay_first_probe_time": "1" for v in (4, 6)}
            assert device.ask("set", values=values) == []
        asked = Trial(
            "throughput", "t", sizes.ipv6, sizes.ipv4, "bidirectional", 1000.0, 2.0, 0.3, 0.1
        )
        for _ in range(4):  # a busy machine may spoil a trial
            result = tester.measure(asked)
            verdict = assess_trial(asked, result, sending_time_tolerance=1.2)
            if verdict.passed:
                break
        assert verdict.passed, verdict
        for way, counted in result.directions.items():
            assert 1 <= result.tester[way]["answered"] <= counted.control
            assert counted.checked == counted.matched > 0
        show = ["ip", "neigh", "show", "nud", "permanent"]
        assert device.ask("run", command=show) == (0, "")


def test_a_router_learns_the_hosts_of_a_tester_that_answers_nobody(tmp_path):
    """RFC 2544 section 23 b: learning frames alone; without them nothing is forwarded."""
    received = {}
    for learning in ("true", "false"):
        bed = tmp_path / "bed.yaml"
        silent = f"{{answers: false, learning: {learning}}}"
        bed.write_text(
            "dut: {driver: linux-router, options: {neighbours: resolved}}\n"
            f"links: {{left: {silent}, right: {silent}}}\n"
        )
        run = resolve(testbed=bed, flags=Flags(plugin="ipv4-router", tester="embedded"))
        bound = bind(run)
        with closing(make_tester(bound)) as tester:
            tester.open()
            sizes = bound.technology.make_frame_pair(84)
            tester.load(compile_point(bound.technology, sizes, run.seed), bound.oracle)
            result = tester.measure(
                Trial("throughput", "t", 84, 64, "bidirectional", 1000.0, 1.0, 0.3, 0.1)
            )
        ways = result.directions
        assert all(result.tester[way]["answered"] == 0 for way in ways)
        received[learning] = [d.count_frames("received") for d in ways.values()]
    assert received == {"true": [1000, 1000], "false": [0, 0]}


def test_spoofed_frames_must_not_come_back():
    with Bench(params={"negative_percent": "20"}) as bench:
        result = bench.passes(mode="forward")
        assert result is not None
        negative = [
            c for c in result.directions["forward"].classes.values() if c.role == "negative"
        ]
        assert sum(c.sent for c in negative) >= 250
        assert sum(c.received for c in negative) == 0


def workers(directory):
    """Children of the lab of a v6t that was started in a directory."""
    found = set()
    for entry in os.listdir("/proc"):
        try:
            words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            started_in = os.readlink(f"/proc/{entry}/cwd")
        except OSError:
            continue
        ours = words[0] == TITLE.encode() and started_in == str(directory)
        if ours and not faketrex.gone(int(entry)):
            found.add(int(entry))
    return found


def network_namespaces(processes):
    """Identify the network namespaces of the processes that still exist."""
    namespaces = set()
    for process in processes:
        with contextlib.suppress(OSError):
            namespaces.add(os.readlink(f"/proc/{process}/ns/net"))
    return namespaces


def left_behind(processes, namespaces):
    """List the processes that still run and the namespaces, with their interfaces, that still exist."""
    everyone = {int(entry) for entry in os.listdir("/proc") if entry.isdigit()}
    running = {process for process in processes if not faketrex.gone(process)}
    return running | namespaces & network_namespaces(everyone)


def test_nothing_is_left_after_kill_9(tmp_path):
    command = [sys.executable, "-m", "v6t.core.cli.main", "run", "--plugin", "mape-br", "-o", "out"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 60
        while len(workers(tmp_path)) < 6 and time.monotonic() < until:
            time.sleep(0.1)
        made = workers(tmp_path)
        assert len(made) >= 6
        namespaces = network_namespaces(made) - network_namespaces({os.getpid()})
        assert len(namespaces) >= 2
    finally:
        process.kill()
        process.wait()
    until = time.monotonic() + 30
    while left_behind(made, namespaces) and time.monotonic() < until:
        time.sleep(0.05)
    assert left_behind(made, namespaces) == set()


AS_NOBODY = """
set -e
keep=$(mktemp -d); mount -t tmpfs -o mode=755 tmpfs "$keep"
number=0
for path in "$@"; do
    [ "$path" = -- ] && break
    number=$((number + 1)); mkdir "$keep/$number"; mount --bind "$path" "$keep/$number"
done
number=0
while [ "$1" != -- ]; do
    number=$((number + 1))
    top=/$(echo "$1" | cut -d/ -f2)
    mountpoint -q "$top/.v6t" 2>/dev/null || [ -e "$top/.v6t" ] || {
        mount -t tmpfs -o mode=1777 tmpfs "$top"; touch "$top/.v6t"; }
    mkdir -p "$1"; mount --bind "$keep/$number" "$1"
    shift
done
shift
mkdir -p /tmp/v6t-nobody; chown 65534:65534 /tmp/v6t-nobody; cd /tmp/v6t-nobody
exec setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/tmp/v6t-nobody "$@"
"""


@pytest.mark.skipif(
    os.geteuid() != 0, reason="already an ordinary user: every other test is this one"
)
def test_an_ordinary_user_gets_a_lab_through_a_user_namespace():
    needed = _hidden([sys.prefix, sys.base_prefix, str(Path(__file__).parents[2])])
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", AS_NOBODY, "sh", *needed, "--",
         sys.executable, "-c", ORDINARY],
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["user namespace True"], done.stdout + done.stderr


ORDINARY = """
import os
assert os.geteuid() == 65534
from v6t.drivers.lab.privilege import acquire
how = acquire()
from v6t.tests.drivers.test_embedded import Bench
with Bench() as bench:
    print(how, bench.passes(rate=1000.0) is not None)
"""


def _hidden(paths):
    """Directories an ordinary user cannot reach, without those inside others."""
    found = []
    for path in dict.fromkeys(str(Path(p).resolve()) for p in paths):
        parents = [Path(path), *Path(path).parents]
        if all(p.stat().st_mode & 1 for p in parents):
            continue
        if not any(path.startswith(other + "/") for other in found):
            found.append(path)
    return found


def test_a_stepped_clock_makes_a_trial_invalid(monkeypatch):
    """Frames are stamped with the time of day: what was under way has a wrong delay."""
    real = time.time_ns
    with Bench(loopback=True) as bench:
        assert bench.passes() is not None
        calls = []

        def stepped():
            calls.append(1)
            return real() + (3_000_000_000 if len(calls) > clock.READINGS else 0)

        monkeypatch.setattr(time, "time_ns", stepped)
        asked, result = bench.measure()
        verdict = assess_trial(asked, result)
        assert not verdict.valid
        assert any("the clock was stepped by +3.000000 s" in fault for fault in result.faults)
        assert result.is_disturbed
        monkeypatch.undo()
        assert bench.passes() is not None, "the next trial is as good as ever"
