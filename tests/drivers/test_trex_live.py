"""A real TRex in the lab, wherever TREX_DIR names an installation. Rates stay dependable ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from v6t.base.errors import TesterError
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.bench import compile_point, make_tester
from v6t.tests.needs import needs_lab, needs_trex
from v6t.trials.trial import DelayRequest, Trial
from v6t.trials.verdict import assess_trial

from . import faketrex
from .test_trex_control_frames import OWN

pytestmark = [pytest.mark.trex, needs_trex, needs_lab]


def opened(plugin="mape-br", *, loopback=False, params=None, dut_params=None, options=None):
    run = resolve(
        flags=Flags(
            plugin=plugin,
            tester="trex",
            tester_options={"lab": "true", **(options or {})},
            params=params or {},
            dut_params=dut_params or {},
        )
    )
    tester = make_tester(bind(run), loopback=loopback)
    tester.open()
    technology_ = bind(run).technology
    sizes = technology_.make_frame_pair(104)
    tester.load(compile_point(technology_, sizes, run.seed), technology_)
    return tester


def trial(mode="bidirectional", rate=4000.0, duration=1.0):
    return Trial("throughput", "t", 104, 64, mode, rate, duration, 0.4, 0.1)


def valid(tester, asked):
    """The result of a trial that passes; a busy machine may spoil the first ones."""
    for _ in range(10):
        result = tester.measure(asked)
        verdict = assess_trial(asked, result, sending_time_tolerance=1.1)
        if verdict.valid:
            break
    assert verdict.passed, verdict
    return result


@pytest.mark.parametrize("loopback", [True, False], ids=["cable", "reference BR"])
def test_all_frames_come_back_and_match(loopback):
    with closing(opened(loopback=loopback, params={"n": "10", "m": "9"})) as tester:
        for mode in ("bidirectional", "forward", "reverse"):
            result = valid(tester, trial(mode))
            for counted in result.directions.values():
                assert counted.checked == counted.matched > 50
                assert {c.role for c in counted.classes.values()} == {"foreground", "background"}
                assert counted.delay_us["min"] <= counted.delay_us["p50"]
                assert counted.sending_time_s == pytest.approx(1.0, abs=0.1)
                assert counted.sending_time_error_s > 0


def test_nobody_else_reaches_a_server_of_the_lab():
    with closing(opened(loopback=True)) as tester:
        assert "namespace" in tester.describe()["reached_by"]
        lab = tester._bed.lab
        _, ports = lab.tester.ask("run", command=["ss", "-Hltn", "sport = :4501"])
        assert "4501" in ports
        _, found = lab.tester.ask("run", command=["ip", "-br", "addr"])
        assert [line.split()[0] for line in found.splitlines() if "/" in line] == ["lo"]


def test_a_wrong_bit_in_the_devices_rule_is_seen():
    with closing(opened(dut_params={"rule_ipv6": "2001:db8:ce:2000::/51"})) as tester:
        result = tester.measure(trial("reverse"))
        counted = result.directions["reverse"]
        assert counted.mismatch is not None
        assert counted.matched == 0


def test_spoofed_frames_are_counted_for_themselves():
    with closing(opened(params={"negative_percent": "10"})) as tester:
        result = valid(tester, trial("forward"))
        negative = [
            c for c in result.directions["forward"].classes.values() if c.role == "negative"
        ]
        assert sum(c.sent for c in negative) == sum(c.required for c in negative) > 300
        assert sum(c.received for c in negative) == 0


def _later(seconds, act):
    timer = threading.Timer(seconds, act)
    timer.start()
    return timer


@pytest.mark.parametrize("victim", ["worker", "server", "interface"])
def test_pulling_the_plug_ends_soon_with_the_cause(victim):
    tester = opened(loopback=False)
    processes = [
        p
        for g in (tester.attachment.worker.pid, tester.attachment.server.pid)
        for p in faketrex.children(g)
    ]

    def pull():
        if victim == "interface":
            lab = tester._bed.lab
            lab.tester.ask("run", command=["ip", "link", "set", "dev", "left", "down"])
        else:
            guard = tester.attachment.worker if victim == "worker" else tester.attachment.server
            for pid in faketrex.children(guard.pid):
                if Path(f"/proc/{pid}/comm").read_text() != "sh\n":  # which cleans up after TRex
                    os.kill(pid, signal.SIGKILL)

    timer = _later(1.0, pull)
    asked = trial(duration=4.0)
    began = time.monotonic()
    try:
        if victim == "interface":
            result = tester.measure(asked)
            assert not assess_trial(asked, result, sending_time_tolerance=1.1).passed
        else:
            with pytest.raises(TesterError, match="died|ended|gone|answer"):
                tester.measure(asked)
            assert time.monotonic() - began < 1.0 + 5.0 + 1.0
    finally:
        timer.join()
        tester.close()
    assert all(faketrex.gone(p) for p in processes)
    assert not list(Path("/var/run/dpdk").glob(f"v6t{os.getpid()}n*")), "megabytes of every server"


def test_stolen_ports_end_the_trial():
    from v6t.drivers.trex.channel import ClientWorker

    tester = opened(loopback=False)
    thief = ClientWorker(
        tester.attachment.client["executable"], namespace_pid=tester.attachment.namespace()
    )
    try:
        thief.ask("hello", trex_dir=tester.attachment._directory, deadline_s=60)
        thief.ask("connect", server="127.0.0.1", rpc_port=4501, pub_port=4500, timeout_s=3)
        with pytest.raises(TesterError, match="already owned"):
            thief.ask("acquire", ports=[0, 1], force=False)
        timer = _later(0.8, lambda: thief.ask("acquire", ports=[0, 1], force=True))
        with pytest.raises(TesterError, match="another user"):
            tester.measure(trial(duration=4.0))
        timer.join()
    finally:
        thief.close()
        tester.close()


def test_a_server_that_cannot_give_delays_is_refused_at_once():
    from v6t.drivers.trex.options import TrexOptions
    from v6t.drivers.trex.tester import TrexTester

    host = opened(loopback=True, options={"counting": "ports"})
    guest = TrexTester(TrexOptions(start="never", ports=(0, 1)), host._links, delays=True)
    guest.attachment.namespace = host.attachment.namespace
    try:
        with pytest.raises(TesterError, match="keeps no delay histograms") as caught:
            guest.open()
        assert "restart" in caught.value.hint
        # the owner is not disturbed, and counts by its ports
        result = valid(host, trial("forward"))
        counted = result.directions["forward"]
        assert set(counted.classes) == {"test frames"}
        assert counted.count_frames("received") == 4000
    finally:
        guest.close()
        host.close()


CHATTER = """
import socket, sys
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(("right", 0))
for _ in range(20):
    for frame in sys.argv[1:]:
        out.send(bytes.fromhex(frame))
"""


def test_a28_ports_do_not_count_what_devices_say_of_their_own():
    said = [bytes(frame).hex() for name, frame in OWN.items() if "VLAN" not in name]
    with closing(opened(options={"counting": "ports"})) as tester:
        device, done = tester._bed.lab.device, []

        def talk():
            time.sleep(1.0)
            done.append(device.ask("run", command=[sys.executable, "-c", CHATTER, *said]))

        speaker = threading.Thread(target=talk)
        speaker.start()
        asked = trial("forward", rate=500.0, duration=4.0)
        result = tester.measure(asked)
        speaker.join()
        assert done == [(0, "")]
        counted = result.directions["forward"]
        assert result.tester["counting"] == "ports"
        assert counted.control == 20 * len(said)
        assert counted.count_frames("surplus") == 0
        assert counted.count_frames("received") == counted.count_frames("sent")


def test_a_server_is_restarted_when_nobody_uses_it():
    from v6t.drivers.lab.namespaces import LEFT, RIGHT
    from v6t.drivers.trex.options import TrexOptions
    from v6t.drivers.trex.tester import TrexTester

    host = opened(loopback=True, options={"counting": "ports"})
    options = TrexOptions(restart=True, interfaces=(LEFT, RIGHT), ports=(0, 1))
    guest = TrexTester(options, host._links, loopback=True, delays=True)
    guest.attachment.namespace = host.attachment.namespace
    try:
        with pytest.raises(TesterError, match=r"is in use \(port 0: "):
            guest.open()
        valid(host, trial("forward"))
        host.attachment.worker.close()  # its ports are free; the server goes on
        assert host.attachment.server.is_alive
        guest.open()
        assert not host.attachment.server.is_alive
        technology = bind(resolve(flags=Flags(plugin="mape-br"))).technology
        guest.load(compile_point(technology, technology.make_frame_pair(104), 1), technology)
        result = valid(guest, replace(trial("forward"), delays=DelayRequest()))
        (delays,) = result.directions["forward"].delays.values()
        assert (delays.frames, delays.lost) == (4000, 0)
    finally:
        guest.close()
        host.close()


ARRIVALS = """
import json, socket, struct, sys, time
ETH_P_ALL, SO_TIMESTAMPNS, wanted = 3, 35, int(sys.argv[1])
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
link.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
link.bind(("right", 0))
link.settimeout(6)
print("ready", flush=True)
found = []
try:
    while len(found) < wanted:
        frame, said, _, where = link.recvmsg(2048, 64)
        if where[2] != 4:  # not what the port itself sends
            s, ns = struct.unpack("qq", said[0][2])
            found.append(s + ns / 1e9)
except TimeoutError:
    pass
print(json.dumps(found))
"""


def arrivals(tester, asked):
    """When the frames of a trial came to the right port, by the kernel's clock."""
    enter = ["nsenter", "-t", str(tester.namespaces()["tester"]), "-n"]
    with subprocess.Popen(
        [*enter, sys.executable, "-c", ARRIVALS, str(asked.frames)],
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout.readline() == "ready\n"
        result = tester.measure(asked)
        return result, np.array(json.loads(watching.stdout.readline()))


def off_time(when, rate_fps):
    """How far each arrival is from its frame's own time, in slots: 0 are those that were on time."""
    slots = (np.sort(when) - when.min()) * rate_fps - np.arange(len(when))
    return np.abs(slots - np.median(slots))


def test_a_frame_behind_its_predecessor_is_off_time():
    """Every fourth at the wrong time leaves mean and median of the gaps as they were."""
    on_time = np.arange(400) / 1000
    moved = on_time - np.where(np.arange(400) % 4 == 3, 0.0009, 0.0)
    gaps = np.diff(moved) * 1000
    assert (np.median(gaps), np.mean(gaps)) == (pytest.approx(1.0), pytest.approx(1.0, abs=0.01))
    assert np.percentile(off_time(on_time, 1000.0), 90) < 1e-9
    assert np.percentile(off_time(moved, 1000.0), 90) > 0.3


@pytest.mark.alone
def test_tags_change_no_frames_time():
    """Every frame arrives when its place in the stream says, before the first tag and from it on."""
    with closing(opened(loopback=True)) as tester:
        # every fourth frame from the middle on is a tag
        asked = replace(trial("forward", 1000.0, 4.0), delays=DelayRequest(500, first_tag_s=2.0))
        for _ in range(10):  # the machine may be busy
            result, when = arrivals(tester, asked)
            parts = np.split(off_time(when, asked.rate_fps), 2)
            late = [float(np.percentile(part, 90)) for part in parts]
            if max(late) < 0.3:
                break
        assert len(when) == asked.frames
        assert max(late) < 0.3
        (delays,) = result.directions["forward"].delays.values()
        assert delays.frames + delays.lost == 500
        (count,) = result.directions["forward"].classes.values()
        assert (count.sent, count.received) == (4000, 4000)


@pytest.mark.parametrize(("counting", "told"), [("trailer", "marks"), ("ports", "ports")])
def test_a_burst_that_took_too_long_is_invalid_however_frames_are_told_apart(counting, told):
    """No veth pair carries three million frames per second: TRex stretches the burst."""
    with closing(opened(loopback=True, options={"counting": counting})) as tester:
        asked = trial("forward", 3e6, 0.02)
        result = tester.measure(asked)
        counted = result.directions["forward"]
        assert result.tester["counting"] == told
        assert counted.count_frames("sent") == counted.count_frames("required")
        assert counted.sending_time_s - counted.sending_time_error_s > 1.5 * asked.duration_s
        verdict = assess_trial(asked, result, sending_time_tolerance=1.5)
        assert not verdict.valid
        valid(tester, trial("forward"))


def test_beyond_what_trex_can_stamp_frames_are_counted_by_ports(monkeypatch):

    from v6t.drivers.trex import bursts

    monkeypatch.setattr(bursts, "MAX_STAMPED_FPS", 4000.0)
    with closing(opened(loopback=True)) as tester:
        asked = trial(rate=4000.0, duration=1.0)
        result = valid(tester, asked)
        assert result.tester["counting"] == "ports"
        for counted in result.directions.values():
            assert counted.count_frames("received") == counted.count_frames("sent") == 4000
            assert counted.checked == counted.matched > 50
        below = valid(tester, replace(asked, rate_fps=1000.0, search_limit_fps=4000.0))
        assert below.tester["counting"] == "ports"
        assert valid(tester, replace(asked, rate_fps=1000.0)).tester["counting"] == "trailer"
        result = valid(tester, replace(asked, delays=DelayRequest()))
        for counted in result.directions.values():
            assert sum(d.frames for d in counted.delays.values()) == 2000
        assert result.tester["timed"] == "tagged frames"


def test_frames_that_nothing_times_are_told_by_marks_and_compared():
    with closing(opened(options={"marks": "true"})) as tester:
        asked = trial(rate=4000.0, duration=1.0)
        result = valid(tester, replace(asked, search_limit_fps=1e8))
        assert (result.tester["counting"], result.tester["timed"]) == ("marks", "none")
        for counted in result.directions.values():
            assert counted.count_frames("received") == counted.count_frames("sent") == 4000
            assert counted.checked == counted.matched > 50
        steered = tester.describe()["receive_packet_steering"]
        cpus = tester.describe()["cpus"]
        alone = set(os.sched_getaffinity(0)) - set(cpus["data path"])
        crowded = len({cpus["master"], cpus["latency"], *cpus["data path"]}) < 3 and alone
        if os.geteuid() == 0 and crowded:  # what v6t does by itself where threads share CPUs
            assert set(steered["cpus"]) == alone
            assert steered["interfaces"] and "trouble" not in steered
        else:
            assert steered == "off" or set(steered["cpus"]) <= alone
        timed = valid(tester, replace(asked, rate_fps=1000.0, delays=DelayRequest()))
        assert timed.tester["timed"] == "every frame"


def test_over_a_cable_what_is_missing_is_the_testers_fault():
    """Also frames that stood in a send ring when the trial ended, and would have begun the next one."""
    with closing(opened(loopback=True)) as tester:
        for rate in (50_000.0, 400_000.0, 2_000.0):
            result = tester.measure(trial(rate=rate))
            for one in result.directions.values():
                (count,) = one.classes.values()
                assert not count.surplus
                assert count.received == count.required or result.faults


def test_what_the_kernel_puts_into_a_second_queue_is_lost(monkeypatch):
    """Why ``qpairs`` is refused: TRex reads the first queue alone."""
    from v6t.drivers.trex import attachment

    one = attachment.make_port
    monkeypatch.setattr(attachment, "make_port", lambda *a, **k: f"{one(*a, **k)},qpairs=2")
    with closing(opened(loopback=True)) as tester:
        counts = [
            (count.sent, count.received)
            for _ in range(4)
            for count in tester.measure(trial("forward")).directions["forward"].classes.values()
        ]
        print(counts)
        # flows go to a queue by their hash, as long as it has room
        assert all(0.25 * sent < received < 0.75 * sent for sent, received in counts[:2])


def test_a_router_without_static_neighbours(tmp_path):
    """It learns the hosts before the first trial, and is answered when it asks again during one."""
    bed = tmp_path / "bed.yaml"
    bed.write_text(
        "tester: {kind: trex, options: {lab: true}}\n"
        "dut: {driver: linux-router, options: {neighbours: resolved}}\n"
    )
    run = resolve(testbed=bed, flags=Flags(plugin="ipv4-router"))
    bound = bind(run)
    with closing(make_tester(bound)) as tester:
        tester.open()
        sizes = bound.technology.make_frame_pair(84)
        tester.load(compile_point(bound.technology, sizes, run.seed), bound.oracle)
        # the kernel asks again 5 s after it has used an entry that was not confirmed
        for duration, answered in ((1.0, 0), (7.0, 2)):
            asked = Trial("throughput", "t", 84, 64, "bidirectional", 1000.0, duration, 0.4, 0.2)
            result = valid(tester, asked)
            assert sum(result.tester["answered"].values()) >= answered
            assert sum(d.control for d in result.directions.values()) >= answered
        assert tester.describe()["answers_on"] == tester.describe()["learning_on"] == [0, 1]
        _, told = tester._bed.lab.device.ask(
            "run", command=["ip", "neigh", "show", "nud", "permanent"]
        )
        assert told == ""


def test_a_router_learns_the_hosts_of_a_tester_that_answers_nobody(tmp_path):
    """TRex is given the frames by its client, as a server on another host would be."""
    bed = tmp_path / "bed.yaml"
    silent = "{answers: false, learning: true}"
    bed.write_text(
        "tester: {kind: trex, options: {lab: true}}\n"
        "dut: {driver: linux-router, options: {neighbours: resolved}}\n"
        f"links: {{left: {silent}, right: {silent}}}\n"
    )
    run = resolve(testbed=bed, flags=Flags(plugin="ipv6-router"))
    bound = bind(run)
    with closing(make_tester(bound)) as tester:
        tester.open()
        sizes = bound.technology.make_frame_pair(84)
        tester.load(compile_point(bound.technology, sizes, run.seed), bound.oracle)
        asked = Trial("throughput", "t", 84, 84, "bidirectional", 1000.0, 1.0, 0.4, 0.2)
        result = valid(tester, asked)
        assert [d.count_frames("received") for d in result.directions.values()] == [1000, 1000]
        assert not any(result.tester["answered"].values())
        assert (tester.describe()["answers_on"], tester.describe()["learning_on"]) == ([], [0, 1])
