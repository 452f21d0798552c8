"""What devices say of themselves: recorded outputs read, watched every second."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.bottleneck import check_watchable
from v6t.drivers.duts.facts import parse_linux_facts
from v6t.drivers.duts.kinds import jool_instances
from v6t.drivers.duts.kinds.linux import telemetry
from v6t.drivers.duts.kinds.netfilter import conntrack, nat
from v6t.drivers.duts.kinds.vpp import outputs as vpp_outputs
from v6t.drivers.duts.os.linux import make_neighbors_step
from v6t.drivers.duts.readings import Reading
from v6t.drivers.duts.session.telemetry import TelemetryWatcher, build_watch_script, read_samples
from v6t.drivers.transport.here import HereTransport
from v6t.tests.expect import expect_error

from .support import read_captured, run_shell

POOL = nat.NatPool(("198.18.0.0/24",), ("198.19.0.1",), 1024, 65535)


JOOL = "JSTAT_SESSIONS,200\nJSTAT64_TTL,3\nJSTAT_NEVER_SEEN,1\nsomething,else\n"


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (telemetry.parse_cpu_ticks, read_captured("proc-stat.txt"), {
            "cpu0.idle": 1639652 + 1144, "cpu1.softirq": 28756,
            "cpu0.total": 326019 + 81788 + 74542 + 1639652 + 1144 + 28363 + 581}),
        (telemetry.parse_softnet, read_captured("softnet_stat.txt"),
         {"dropped": 0.0, "squeezed": 0x0C + 0x0E}),
        (telemetry.parse_link, read_captured("ip-s-o-link.txt"),
         {"rx.packets": 3, "tx.packets": 6, "rx.dropped": 0, "tx.errors": 0}),
        (conntrack.parse_conntrack_statistics,
         read_captured("conntrack-S.txt").replace(" insert_failed=0", " insert_failed=2"),
         {"insert_failed": 4, "drop": 0, "early_drop": 0, "chaintoolong": 0}),
        (telemetry.parse_schedstat,
         "12 1000 200 3\n13 5 6 7\nnr_periods 9\nnr_throttled 4\nthrottled_time 3\n",
         {"12.run_ns": 1000.0, "12.wait_ns": 200.0, "13.run_ns": 5.0, "13.wait_ns": 6.0,
          "quota.periods": 9.0, "quota.throttled": 4.0}),
        (jool_instances.parse_statistics, JOOL,
         {"JSTAT_SESSIONS": 200.0, "JSTAT64_TTL": 3.0, "JSTAT_NEVER_SEEN": 1.0}),
        (jool_instances.parse_packet_fates, JOOL,
         {"sessions": 200.0, "dropped: its hop limit is at its end (JSTAT64_TTL)": 3.0,
          "dropped (JSTAT_NEVER_SEEN)": 1.0}),
        (jool_instances.parse_occupancy, JOOL, {"used": 200.0}),
    ],
)  # fmt: skip
def test_figures_are_read(parse, text, expected):
    figures = parse(text)
    assert {name: figures[name] for name in expected} == expected
    assert parse("") in ({}, {"dropped": 0.0, "squeezed": 0.0})
    assert not any(name.startswith("cpu.") for name in figures)


def test_interfaces_of_a_linux():
    sections = {"system": "Linux 6.1", "links": read_captured("ip-j-link.json"), "user": "0"}
    facts = parse_linux_facts(sections, "6.1")
    assert facts.interfaces["left"].mac == "02:00:00:00:01:01"
    assert facts.interfaces["right"].has_carrier
    assert facts.is_root


@pytest.mark.parametrize(
    ("sections", "code"),
    [
        ({"system": "Darwin 23.1"}, "wrong-system"),
        ({"system": "Linux 6.1", "links": "[{"}, "unexpected-answer"),
    ],
)
def test_what_is_no_linux_is_refused(sections, code):
    with expect_error(code):
        parse_linux_facts(sections, "")


def test_a_permanent_neighbour_reads_back_and_a_stale_one_does_not():
    check = make_neighbors_step({"198.18.0.2": "02:00:00:00:01:02"}, "left").check
    text = read_captured("ip-neigh.txt")
    assert check.find_problem(text) is None
    assert check.find_problem(text.replace("01:02", "01:03"))
    assert check.find_problem("")


RUNTIME = """\
Time 10.0, 10 sec internal node vector rate 201.00 loops/sec 1234.00
  vector rates in 2.0e5, out 2.0e5, drop 0.0000e0, punt 0.0000e0
             Name                 State         Calls          Vectors        Suspends         Clocks       Vectors/Call
ip6-map                          active              100           24100               0          1.00e2          241.00
unix-epoll-input                 polling            1000               0               0          1.00e2            0.00
"""


def test_vectors_per_call_of_a_vpp():
    found = vpp_outputs.parse_runtime(f"Thread 0 vpp_main\n{RUNTIME}Thread 1 vpp_wk_0\n{RUNTIME}")
    assert found["node.ip6-map.vectors_per_call"] == 241.0
    assert found["thread1.node.ip6-map.calls"] == 100.0
    assert found["thread1.node.ip6-map.vectors"] == 24100.0
    assert found["thread1.vector_rate_in"] == 2e5


def test_the_processes_that_one_forked_are_read_with_it(tmp_path):
    """Those of a resolver that forks one for each core: the first may be the idlest."""
    pid_file = tmp_path / "pid"
    script = f"echo $$ >{pid_file}; sleep 60 & sleep 60 & echo $! ready; wait"
    with subprocess.Popen(
        ["sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as leader:
        try:
            child = leader.stdout.readline().split()[0]
            reading = telemetry.make_process_reading(str(pid_file))
            said = run_shell(reading.command)
        finally:
            os.killpg(leader.pid, signal.SIGKILL)
    threads = {name.partition(".")[0] for name in reading.parse(said.stdout)} - {"quota"}
    assert {str(leader.pid), child} < threads
    assert len(threads) == 3


def test_a_device_without_driver_cannot_be_watched():
    with expect_error("missing-driver"):
        check_watchable(bind(resolve(flags=Flags("siit"))))


# ------------------------------------------------------------------ watcher


def watch_here(readings):
    process = HereTransport("here").hold(build_watch_script(readings, 0.01))
    return TelemetryWatcher(read_samples(process, readings), process.release)


def test_a_watcher_takes_a_sample_each_interval_and_ends_its_loop(tmp_path):
    counter = tmp_path / "n"
    counter.write_text("0\n")
    seen = tmp_path / "seen"
    command = f"n=$(($(cat {counter}) + 1)); echo $n | tee {counter}; echo $n >>{seen}"
    readings = {"count": Reading(command, lambda text: {"n": float(text or "nan")})}
    watcher = watch_here(readings)
    while len(seen.read_text().split() if seen.exists() else []) < 4:
        pass
    samples = watcher.stop()
    values = [s.figures["count"]["n"] for s in samples]
    assert values[:3] == [1.0, 2.0, 3.0]
    after = seen.read_text()
    assert json.loads(after.split()[-1]) >= len(values)


def test_a_watcher_whose_loop_dies_keeps_what_it_saw(tmp_path, monkeypatch):
    monkeypatch.setattr("v6t.drivers.duts.session.telemetry.LINE_DEADLINE_S", 0.5)
    counter = tmp_path / "n"
    counter.write_text("0\n")
    command = (
        f"n=$(($(cat {counter}) + 1)); echo $n >{counter}; [ $n -lt 4 ] || kill -9 $$; echo $n"
    )
    readings = {"count": Reading(command, lambda text: {"n": float(text or "nan")})}
    watcher = watch_here(readings)
    watcher._thread.join()
    assert [s.figures["count"]["n"] for s in watcher.stop()] == [1.0, 2.0, 3.0]
