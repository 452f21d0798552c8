"""Two real TRex servers through one kernel router, one VPP and one NAT."""

import json
import os
import threading
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from v6t.base.errors import TesterError
from v6t.core.config.resolve import resolve
from v6t.core.config.run_setup import make_setup
from v6t.core.runs.bench import Bench, compile_directions, make_tester
from v6t.procedures.stateful.phases import judge_connections
from v6t.tests.core.support import v6t
from v6t.tests.drivers.two_servers import TwoServers, run_command
from v6t.tests.needs import needs_lab, needs_trex
from v6t.trials.connections import Connections
from v6t.trials.trial import DelayRequest, Trial

from .lab_testers import load, measure_passed

pytestmark = [pytest.mark.trex, pytest.mark.timeout(400), needs_trex, needs_lab]

VPP = os.environ.get("V6T_VPP", "")
NAT = """
table ip nat {
  chain post {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr 198.18.0.0/16 ip protocol udp snat to 198.19.1.0-198.19.1.3:1024-65535
  }
}
"""
COUNT = 200_000
LOAD = {"mode": "bidirectional", "rate_fps": 4000.0, "duration_s": 2.0, "residual_wait_s": 0.5}
HOOKS = """
dut:
  options:
    hooks:
      flush: ip netns exec {device} conntrack -F
      count-states: ip netns exec {device} conntrack -C
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    with TwoServers(tmp_path_factory.mktemp("servers")) as two:
        yield two


@contextmanager
def open_lab(two, plugin):
    setup = make_setup(resolve(None, two.testbed(), plugin=plugin))
    with closing(make_tester(setup)) as tester:
        tester.open()
        yield tester, replace(load(tester, setup, 128), **LOAD)


@pytest.fixture
def router(two):
    with two.router(), open_lab(two, "ipv4-router") as lab:
        yield lab


def check_all_matched(result):
    for counted in result.directions.values():
        assert counted.count_frames("sent") == counted.count_frames("received") == 8000
        assert counted.checked == counted.matched > 100
    assert set(result.tester["servers"]) == {"a", "b"}
    assert all(lost == 0 for s in result.tester["servers"].values() for lost in s["lost"].values())


def test_all_frames_of_both_servers_match(router):
    check_all_matched(measure_passed(*router))


def test_delays_of_both_servers_are_merged(router):
    result = measure_passed(*router, delays=DelayRequest(tags=100))
    for counted in result.directions.values():
        assert sum(d.frames + d.lost for d in counted.delays.values()) == 100


def test_servers_send_disjoint_flows(two, router):
    with two.captured("left1") as first, two.captured("left2") as second:
        measure_passed(*router)
    addresses = slice(26, 38)  # both IPv4 addresses and both ports of UDP
    flows = [
        {frame[addresses] for frame in frames if frame[12:14] == b"\x08\x00" and frame[23] == 17}
        for frames in (first, second)
    ]
    assert min(map(len, flows)) > 100 and not flows[0] & flows[1]


def test_frames_dropped_on_one_link_are_lost(two, router):
    tester, trial = router
    run_command(f"ip -n {two.device} rule add iif left2 blackhole priority 1")
    try:
        result = tester.measure(trial)
    finally:
        run_command(f"ip -n {two.device} rule del priority 1")
    forward = result.directions["forward"]
    assert forward.count_frames("sent") == 8000
    assert forward.count_frames("received") == 4000
    assert result.tester["servers"]["a"]["lost"]["forward"] == 0
    assert result.tester["servers"]["b"]["lost"]["forward"] == 4000


@pytest.mark.skipif(not VPP, reason="needs VPP: set V6T_VPP to its program")
def test_mape_relay_of_one_vpp_is_measured_by_both_servers(two):
    with two.vpp(VPP), open_lab(two, "mape-br") as lab:
        check_all_matched(measure_passed(*lab))
        result = measure_passed(*lab, delays=DelayRequest(tags=100))
    for counted in result.directions.values():
        assert sum(d.frames + d.lost for d in counted.delays.values()) == 100


def test_connections_are_divided_learned_and_validated(two):
    setup = make_setup(
        resolve(
            None,
            two.testbed(HOOKS.format(device=two.device)),
            plugin="nat44",
            params={"subscribers": "1000", "connections_per_subscriber": "200"},
            procedure={"connections.count": str(COUNT)},
        )
    )
    technology = setup.technology
    sizes = technology.make_frame_pair(setup.settings.frame_sizes[0])
    bench = Bench(setup)
    bench.load(compile_directions(technology, sizes, 1))
    asked = Connections(COUNT, 10_000.0, wait_s=1.0, alpha=1.0, purpose="establish")
    trial = Trial("throughput", "t", sizes.ipv6, sizes.ipv4, connections=asked, **LOAD)
    try:
        with two.router(NAT):
            for _ in range(6):
                result = bench.measure(trial)
                verdict = judge_connections(trial, result, sending_time_tolerance=1.5)
                if verdict.passed:
                    break
            counted = result.connections
            assert verdict.passed, (verdict, result.faults)
            assert (counted.established, counted.validated) == (COUNT, COUNT)
            assert int(run_command("conntrack -C", two.device)) == COUNT
            for way in result.directions.values():
                assert way.count_frames("sent") == way.count_frames("received") == COUNT
                assert way.checked == way.matched > 100
            again = Connections(COUNT, 10_000.0, wait_s=1.0, reuse=True)
            check_all_matched(measure_passed(bench, trial, connections=again))
    finally:
        bench.close()


def run_v6t_command(two, *arguments):
    testbed = ("--testbed", two.testbed(), "--plugin", "ipv4-router")
    return v6t(*arguments[:1], *testbed, *arguments[1:])


def test_selftest_of_each_server_and_of_both(two):
    with two.cables():
        done = run_v6t_command(two, "selftest", "--mode", "forward", "--json")
    assert done.status == 0, done.err
    rows = json.loads(done.out)
    assert [row.get("server") for row in rows] == ["a", "b", None]
    assert all(row["capacity_fps"] > 0 for row in rows)


def test_run_whose_server_was_killed_is_resumed(two, tmp_path):
    path = tmp_path / "run"
    journal = path / "journal.jsonl"
    quick = ("--mode", "forward", "--frame-size", "128", "--reps", 10, "--no-report")

    def kill_late(ended):
        while not ended.wait(0.2):
            if journal.exists() and journal.read_text().count("\n") >= 3:
                two.kill(2)
                return

    ended = threading.Event()
    killer = threading.Thread(target=kill_late, args=(ended,))
    with two.router():
        killer.start()
        done = run_v6t_command(two, "run", *quick, "-o", path)
        ended.set()
        killer.join()
        assert done.status not in (0, 1) and "server b" in done.err
        two.start(2)
        done = v6t("resume", path, "--no-report")
    assert done.status == 0, done.err
    assert json.loads((path / "manifest.json").read_text())["status"] == "complete"


def test_killed_server_is_named(two):
    with two.router(), open_lab(two, "ipv4-router") as (tester, trial):
        timer = threading.Timer(1.0, two.kill, [2])
        timer.start()
        with pytest.raises(TesterError, match="server b"):
            tester.measure(trial)
        timer.join()
