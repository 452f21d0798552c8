"""One or two real TRex servers in the lab at low rates; TREX_DIR names the installation."""

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from v6t.base.errors import TesterError
from v6t.core.runs.bench import make_tester
from v6t.drivers.several.tester import SeveralTesters
from v6t.drivers.trex.options import TrexOptions
from v6t.drivers.trex.tester import TrexTester
from v6t.profiles import entropy
from v6t.tests.core.support import v6t_process
from v6t.tests.needs import needs_lab, needs_trex
from v6t.trials.trial import DelayRequest, DeviceEvent, FlowStarts, Segment
from v6t.trials.verdict import assess_trial

from . import faketrex, matrix
from .duts.remote_site import wait_until
from .lab_testers import TRIES, load, make_tester_setup, measure_passed, open_tester
from .run_facts import Run, assert_timed

pytestmark = [pytest.mark.trex, needs_trex, needs_lab]


@pytest.fixture
def cable():
    """Provide TRex without a device, its ports connected by cables, and a forward trial."""
    with open_tester("trex", loopback=True) as (tester, trial):
        yield tester, replace(trial, mode="forward", rate_fps=4000.0)


def test_server_of_lab_is_unreachable_from_outside(cable):
    tester, _ = cable
    assert "namespace" in tester.describe()["reached_by"]
    lab = tester._bed.lab
    _, ports = lab.tester.ask("run", command=["ss", "-Hltn", "sport = :4501"])
    assert "4501" in ports
    _, addresses = lab.tester.ask("run", command=["ip", "-br", "addr"])
    assert [line.split()[0] for line in addresses.splitlines() if "/" in line] == ["lo"]


@pytest.mark.parametrize("victim", ["worker", "server", "interface"])
def test_failure_during_trial_ends_it_soon_with_the_cause(victim):
    with open_tester("trex") as (tester, trial):
        pids = {part: getattr(tester.attachment, part).process.pid for part in ("worker", "server")}
        processes = [p for pid in pids.values() for p in (pid, *faketrex.list_descendants(pid))]

        def fail():
            if victim == "interface":
                command = ["ip", "link", "set", "dev", "left", "down"]
                tester._bed.lab.tester.ask("run", command=command)
                return
            for pid in faketrex.list_descendants(pids[victim]) or [pids[victim]]:
                # a shell cleans up after TRex
                if Path(f"/proc/{pid}/comm").read_text() != "sh\n":
                    os.kill(pid, signal.SIGKILL)

        timer = threading.Timer(1.0, fail)
        timer.start()
        long, began = replace(trial, duration_s=4.0), time.monotonic()
        if victim == "interface":
            assert not assess_trial(long, tester.measure(long), sending_time_tolerance=1.1).passed
        else:
            with pytest.raises(TesterError, match="died|ended|gone|answer"):
                tester.measure(long)
            assert time.monotonic() - began < 1.0 + 5.0 + 1.0
        timer.join()
    assert all(faketrex.has_ended(p) for p in processes)
    assert not list(Path("/var/run/dpdk").glob(f"v6t{os.getpid()}n*")), "leftover DPDK files"


def test_server_without_delay_histograms_is_rejected():
    with open_tester("trex", loopback=True, options={"counting": "ports"}) as (host, trial):
        options = TrexOptions(ports=(0, 1), start="never")
        with closing(
            TrexTester(options, host.attachment._links, loopback=True, delays=True)
        ) as guest:
            guest.attachment.find_namespace_pid = host.attachment.find_namespace_pid
            with pytest.raises(TesterError, match="keeps no delay histograms") as caught:
                guest.open()
        assert "restart" in caught.value.hint
        # the first tester, which owns the ports, is not disturbed
        counted = measure_passed(host, trial, mode="forward").directions["forward"]
        assert set(counted.classes) == {"test frames"}
        assert counted.count_frames("received") == 3000


def test_burst_that_took_too_long_is_invalid():
    """A veth pair carries less than three million frames per second, so sending takes longer."""
    with open_tester("trex", loopback=True) as (tester, trial):
        fast = replace(trial, mode="forward", rate_fps=3e6, duration_s=0.1)
        result = tester.measure(fast)
        counted = result.directions["forward"]
        assert result.tester["counting"] == "marks"
        assert counted.count_frames("sent") == counted.count_frames("required")
        assert counted.sending_time_s - counted.sending_time_error_s > 1.5 * fast.duration_s
        assert not assess_trial(fast, result, sending_time_tolerance=1.5).valid
        measure_passed(tester, trial)


def test_frames_without_stamps_are_identified_by_marks_and_compared():
    with open_tester("trex", options={"marks": "true"}) as (tester, trial):
        result = measure_passed(tester, trial, search_limit_fps=1e8)
        assert (result.tester["counting"], result.tester["timed"]) == ("marks", "none")
        for counted in result.directions.values():
            assert counted.count_frames("received") == counted.count_frames("sent") == 3000
            assert counted.checked == counted.matched > 50
        steering, cpus = tester.describe()["receive_packet_steering"], tester.describe()["cpus"]
        others = set(os.sched_getaffinity(0)) - set(cpus["data path"])
        is_shared = len({cpus["master"], cpus["latency"], *cpus["data path"]}) < 3
        if os.geteuid() == 0 and is_shared and others:  # the default if threads share CPUs
            assert set(steering["cpus"]) == others
            assert steering["interfaces"] and "trouble" not in steering
        else:
            assert steering == "off" or set(steering["cpus"]) <= others
        timed = measure_passed(tester, trial, rate_fps=1000.0, delays=DelayRequest())
        assert timed.tester["timed"] == "every frame"


def test_frame_lost_on_cable_is_a_tester_fault(cable):
    """Otherwise frames that stay in a send ring would be sent in the next trial."""
    tester, trial = cable
    for rate in (50_000.0, 400_000.0, 2_000.0):
        result = tester.measure(replace(trial, mode="bidirectional", rate_fps=rate))
        for counted in result.directions.values():
            (count,) = counted.classes.values()
            assert not count.surplus
            assert count.received == count.required or result.faults


@pytest.fixture(scope="module")
def router():
    """Provide a function that returns a tester with loaded flows, and a trial."""
    setup = make_tester_setup("trex", "ipv4-router", dut="linux-router")
    with closing(make_tester(setup)) as tester:
        tester.open()
        yield lambda vary=lambda traffic: traffic: (tester, load(tester, setup, 84, vary))


def test_second_rate_follows_the_first_without_a_gap(router):
    def is_exact(result):
        """Check whether a result has the accuracy that a busy machine reaches in one of ten trials."""
        counts = result.directions.values()
        return all(abs(c.rate_change_error_s) < 0.003 and c.sending_time_s < 3.52 for c in counts)

    changes = {"rate_fps": 4000.0, "duration_s": 1.5, "second_segment": Segment(2000.0, 2.0)}
    result = measure_passed(*router(), tolerance=1.02, is_good=is_exact, **changes)
    for counted in result.directions.values():
        assert counted.count_frames("sent") == counted.count_frames("received") == 10_000
        assert counted.checked == counted.matched > 50
        assert (counted.first_lost_s, counted.last_lost_s) == (None, None)


def test_outage_duration_agrees_with_lost_frames_and_gap(router):
    tester, trial = router()
    forwarding = "sysctl -qw net.ipv4.ip_forward"
    outage = f"sleep 2.5; {forwarding}=0; sleep 0.8; {forwarding}=1"
    enter = ["nsenter", "-t", str(tester.list_namespaces()["device"]), "-n", "sh", "-ec"]
    event = DeviceEvent("software-reset", 2.0)
    trial = replace(trial, rate_fps=2000.0, duration_s=6.0, device_event=event)
    for _ in range(TRIES):  # trials may be invalid on a busy machine
        with subprocess.Popen([*enter, outage]) as process:
            result = tester.measure(trial)
        assert process.returncode == 0
        if not result.faults:
            break
    assert not result.faults
    for counted in result.directions.values():
        lost = counted.count_frames("sent") - counted.count_frames("received")
        assert lost > 0
        assert 0 < counted.first_lost_s < counted.last_lost_s < 6
        # both methods of RFC 6201 report the same outage
        assert counted.longest_gap_s == pytest.approx(lost / 2000, rel=0.2)
        assert counted.last_lost_s - counted.first_lost_s == pytest.approx(lost / 2000, rel=0.05)


def test_flows_start_at_intervals(router):
    changes = {"rate_fps": 4000.0, "duration_s": 2.0, "flow_starts": FlowStarts(40, 0.025)}
    result = measure_passed(*router(partial(entropy.limit_flows, count=40)), **changes)
    for counted in result.directions.values():
        # in the first second, half of the frames belong to flows that have not started
        required = counted.count_frames("required")
        assert required == pytest.approx(8000 - 1950, abs=41)
        assert counted.count_frames("sent") == counted.count_frames("received") == required
        assert counted.checked == counted.matched > 50


# TRex needs a CPU for each thread. A preloaded library reports more CPUs than the machine has and lets threads share
# them. That is slow, so the test with several cores ignores times and verdicts.
CORES = 3


def measure_sent(tester, trial):
    """Repeat a trial until all frames are sent; a busy machine may delay some."""
    for _ in range(5):
        result = tester.measure(trial)
        if all(d.count_frames("sent") == trial.frames for d in result.directions.values()):
            break
    assert (result.tester["counting"], result.tester["timed"]) == ("ports", "tagged frames")
    for counted in result.directions.values():
        assert counted.count_frames("required") == counted.count_frames("received") == trial.frames
        assert counted.checked == counted.matched > 50
    for direction, stamped in result.tester["stamped"].items():
        assert direction in result.directions
        assert 50 < stamped["captured"] <= stamped["received"]
    return result


def test_frames_and_delays_of_two_servers_are_merged(router):
    setup, tester = make_tester_setup("trex", "ipv4-router"), router()[0]
    with open_tester("trex", "ipv4-router", 84) as (other, _):
        both = SeveralTesters("trex", {"a": tester, "b": other}, max_skew_share=0.2)
        trial = replace(load(both, setup, 84), rate_fps=4000.0, duration_s=2.0)
        for delays in (None, DelayRequest(tags=100)):
            result = measure_passed(both, trial, delays=delays)
            for counted in result.directions.values():
                assert counted.count_frames("sent") == counted.count_frames("received") == 8000
                assert counted.checked == counted.matched > 100
                assert delays is None or counted.delays["fg"].frames == 100
            servers = result.tester["servers"].items()
            lost = [(name, *figures["lost"].values()) for name, figures in servers]
            assert lost == [("a", 0, 0), ("b", 0, 0)]


@pytest.fixture
def cores(tmp_path, monkeypatch):
    """Provide a tester whose cores are connected by memif, and a slow trial."""
    source, library = Path(__file__).with_name("more_cpus.c"), tmp_path / "more_cpus.so"
    command = ["cc", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    ends = "role=client,socket=/run/v6t-cores.sock,socket-abstract=no,rsize=13"
    memif = [f"--vdev=net_memif{n},id={n},{ends}" for n in (0, 1)]
    cores = {"cores": str(CORES), "core_list": str(list(range(CORES + 2)))}
    options = {**cores, "interfaces": json.dumps(memif)}
    with open_tester("trex", loopback=True, options=options) as (tester, trial):
        yield tester, replace(trial, rate_fps=500.0, duration_s=4.0, residual_wait_s=1.0)


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_every_core_sends_its_share_and_one_stamps_frames(cores, monkeypatch):
    tester, trial = cores
    assert tester.describe()["data_path_cores"] == CORES
    assert tester.capabilities == {"tags", "every-frame"}
    for mode in ("forward", "bidirectional"):
        measure_sent(tester, replace(trial, mode=mode))
    answers, ask = [], tester.attachment.ask

    def record(op, **arguments):
        answers.append(ask(op, **arguments))
        return answers[-1]

    monkeypatch.setattr(tester.attachment, "ask", record)
    # every seventh frame from the first tag on, or all frames of one core
    for request, frames, share in (
        (DelayRequest(tags=200, first_tag_s=1.0), 200, 1 / 7),
        (DelayRequest(), 2000 // CORES, 1 / CORES),
    ):
        result = measure_sent(tester, replace(trial, delays=request))
        groups = next(a["groups"] for a in reversed(answers) if isinstance(a, dict))
        least_us = {group["min_delay_us"] for group in groups.values()}
        for counted in result.directions.values():
            (delays,) = counted.delays.values()
            assert (delays.frames, delays.lost) == (frames, 0)
            assert delays.minimum_ns / 1000 in least_us
            assert delays.maximum_ns < 5e9
            assert counted.timed_of == "load"
            assert counted.timed_share == pytest.approx(share, rel=0.02)


PAGE = Path(__file__).parents[2] / "docs" / "guides" / "tuning.md"
VPP = matrix.find_program("vpp")
MISSING = matrix.find_missing("trex", next(r for r in matrix.ROWS if r.device == "vpp"))


def write_from_page(name, where):
    """Write a file of the manual page, with another directory; return its path."""
    (text,) = re.findall(rf"```\w+\n# {name}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    path = where / name
    path.write_text(text.replace("/var/lib/vpp", str(where)))
    return path


@pytest.fixture
def vpp(tmp_path):
    write_from_page("memif.vpp", tmp_path)
    program = [VPP, "-c", str(write_from_page("vpp.conf", tmp_path))]
    path = tmp_path / "log"
    with path.open("w") as log, subprocess.Popen(program, stdout=log, stderr=log) as vpp:
        try:
            wait_until((tmp_path / "memif.sock").exists, f"VPP; see {log.name}", 30)
            yield tmp_path
        finally:
            vpp.terminate()


@pytest.mark.lab
@pytest.mark.vpp
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
@pytest.mark.parametrize("plugin", ["mape-br", "lwaftr"])
def test_vpp_example_of_tuning_page_is_measured(vpp, plugin):
    bed, run_file = write_from_page("memif.yaml", vpp), vpp / "run.yaml"
    text = bed.read_text().replace("{start", f"{{vppctl: {VPP}ctl, start")
    bed.write_text(f"{text}line_rate: 30M\n")
    run_file.write_text(matrix.format_run_file(matrix.Row("vpp", plugin, "over memif")))
    result = v6t_process("run", run_file, "--testbed", bed, "-o", vpp / "run")
    assert result.status == 0, result.err[-4000:] + result.out
    run = Run(vpp / "run")
    run.describe_fact("measured")
    records = {(point["benchmark"], point["direction"]): point for point in run.points}
    for mode in matrix.MODES:
        assert ("throughput", mode) in records
        for benchmark in ("latency", "pdv"):
            assert_timed(records[benchmark, mode])
    assert run.compared_frames > 500
