"""Two real TRex servers in namespaces, through one kernel router with four ports."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from v6t.base.errors import TesterError
from v6t.core.config.bound import bind
from v6t.core.config.resolve import resolve
from v6t.core.config.settings import Flags
from v6t.core.runs.bench import compile_point, make_tester
from v6t.tests.needs import TREX_DIR, needs_lab, needs_trex
from v6t.trials.trial import DelayRequest, Trial
from v6t.trials.verdict import assess_trial

pytestmark = [pytest.mark.trex, pytest.mark.timeout(300), needs_trex, needs_lab]

CONFIG = """
- version: 2
  port_limit: 2
  low_end: true
  low_end_core: {core}
  prefix: v6t{core}
  interfaces: ["--vdev=net_af_packet0,iface=left,framecnt=8192",
               "--vdev=net_af_packet1,iface=right,framecnt=8192"]
  port_info:
    - {{src_mac: "{left}", dest_mac: "{dut_left}"}}
    - {{src_mac: "{right}", dest_mac: "{dut_right}"}}
"""
ROUTES = {"left": ("198.18.0.0/16", "192.168.18.2"), "right": ("198.19.0.0/16", "192.168.19.2")}
PREFIX = f"v6ts{os.getpid() % 10_000}"
ROUTER = f"{PREFIX}r"


def run(command, netns=None):
    within = ["ip", "netns", "exec", netns] if netns else []
    subprocess.run([*within, *command.split()], check=True, capture_output=True)


def make_macs(server):
    left, right = (f"02:00:00:0{server}:0{side}:" for side in (1, 2))
    return {
        "left": {"tester_mac": f"{left}02", "dut_mac": f"{left}01"},
        "right": {"tester_mac": f"{right}02", "dut_mac": f"{right}01"},
    }


def connect(server):
    """Join a server's namespace with the router, and with this one for TRex's client."""
    own, macs = f"{PREFIX}{server}", make_macs(server)
    run(f"ip netns add {own}")
    for side, addresses in (("left", "192.168.18.1/30"), ("right", "192.168.19.1/30")):
        mac, port = macs[side], f"{side}{server}"
        run(
            f"ip -n {own} link add {side} address {mac['tester_mac']} type veth "
            f"peer name {port} address {mac['dut_mac']} netns {ROUTER}"
        )
        run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1", own)
        run(f"ethtool -K {side} tx off gro off gso off tso off", own)
        run(f"ethtool -K {port} tx off gro off gso off tso off", ROUTER)
        run(f"ip -n {own} link set {side} up")
        run(f"ip -n {ROUTER} link set {port} up")
        run(f"ip -n {ROUTER} addr add {addresses} dev {port}")
    # what a server sends leaves by the other port of the same server
    for side, far in (("left", "right"), ("right", "left")):
        network, host = ROUTES[far]
        run(
            f"ip -n {ROUTER} neigh replace {host} lladdr {macs[far]['tester_mac']} "
            f"dev {far}{server} nud permanent"
        )
        run(f"ip -n {ROUTER} rule add iif {side}{server} table {server}")
        run(
            f"ip -n {ROUTER} route add {network} via {host} dev {far}{server} onlink table {server}"
        )
    run(f"ip -n {own} link set lo up")
    management = f"{PREFIX}m{server}"
    run(f"ip link add {management} type veth peer name manage netns {own}")
    run(f"ip addr add 10.77.{server}.1/30 dev {management}")
    run(f"ip link set {management} up")
    run(f"ip -n {own} addr add 10.77.{server}.2/30 dev manage")
    run(f"ip -n {own} link set manage up")


def start_server(server, directory):
    own, macs = f"{PREFIX}{server}", make_macs(server)
    config = directory / f"{server}.yaml"
    config.write_text(
        CONFIG.format(
            core=server - 1,
            left=macs["left"]["tester_mac"],
            dut_left=macs["left"]["dut_mac"],
            right=macs["right"]["tester_mac"],
            dut_right=macs["right"]["dut_mac"],
        )
    )
    command = f"ip netns exec {own} ./t-rex-64 -i --software --hdrh -c 1 --cfg {config} --iom 0"
    with (directory / f"{server}.log").open("w") as log:
        process = subprocess.Popen(
            [*command.split(), "--no-scapy-server"],
            cwd=TREX_DIR,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection((f"10.77.{server}.2", 4501), timeout=1).close()
        except OSError:
            time.sleep(0.5)
        else:
            return process
    raise AssertionError((directory / f"{server}.log").read_text())


def kill_all(netns):
    found = subprocess.run(
        ["ip", "netns", "pids", netns], check=False, capture_output=True, text=True
    )
    for pid in found.stdout.split():
        os.kill(int(pid), signal.SIGKILL)


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    directory = tmp_path_factory.mktemp("servers")
    processes = []
    try:
        run(f"ip netns add {ROUTER}")
        for setting in ("ip_forward=1", "conf.all.rp_filter=0", "conf.default.rp_filter=0"):
            run(f"sysctl -qw net.ipv4.{setting}", ROUTER)
        for server in (1, 2):
            connect(server)
            processes.append(start_server(server, directory))
        yield directory
    finally:
        for server in (1, 2):
            kill_all(f"{PREFIX}{server}")
            subprocess.run(
                ["ip", "link", "del", f"{PREFIX}m{server}"], check=False, capture_output=True
            )
            subprocess.run(
                ["ip", "netns", "del", f"{PREFIX}{server}"], check=False, capture_output=True
            )
        subprocess.run(["ip", "netns", "del", ROUTER], check=False, capture_output=True)
        for process in processes:
            process.wait(10)


def make_testbed(directory):
    one, two = make_macs(1), make_macs(2)
    file = Path(directory) / "two.yaml"
    file.write_text(f"""
tester:
  kind: trex
  options:
    trex_dir: {TREX_DIR}
    start: never
    max_skew: 0.2
    servers:
      - {{name: a, server: 10.77.1.2}}
      - {{name: b, server: 10.77.2.2, left: {two["left"]}, right: {two["right"]}}}
links: {{left: {one["left"]}, right: {one["right"]}}}
line_rate: 100M
""")
    return file


@pytest.fixture(scope="module")
def tester(servers):
    bound = bind(resolve(None, make_testbed(servers), Flags(plugin="ipv4-router")))
    tester = make_tester(bound)
    tester.open()
    technology = bound.technology
    tester.load(compile_point(technology, technology.sizes_of(128), 1), technology)
    yield tester
    tester.close()


def make_trial(**changes):
    return Trial("throughput", "t", 128, 128, "bidirectional", 4000.0, 2.0, 0.5, 0.1, **changes)


def measure_valid(tester, trial):
    """Measure until a trial passes: a busy machine may spoil the first ones."""
    for _ in range(8):
        result = tester.measure(trial)
        verdict = assess_trial(trial, result, sending_time_tolerance=1.1)
        if verdict.valid:
            break
    assert verdict.passed, (verdict, result.faults, result.tester)
    return result


def test_all_frames_of_both_servers_match(tester):
    result = measure_valid(tester, make_trial())
    for counted in result.directions.values():
        assert counted.count_frames("sent") == counted.count_frames("received") == 8000
        assert counted.checked == counted.matched > 100
    assert set(result.tester["servers"]) == {"a", "b"}


def test_delays_of_both_servers_are_merged(tester):
    result = measure_valid(tester, make_trial(delays=DelayRequest(tags=100)))
    for counted in result.directions.values():
        assert sum(d.frames + d.lost for d in counted.delays.values()) == 100


def test_frames_dropped_on_one_link_are_lost(tester):
    run(f"ip -n {ROUTER} rule add iif left2 blackhole priority 1")
    try:
        result = tester.measure(make_trial())
    finally:
        run(f"ip -n {ROUTER} rule del priority 1")
    forward = result.directions["forward"]
    assert forward.count_frames("sent") == 8000
    assert forward.count_frames("received") == 4000
    assert result.tester["servers"]["a"]["lost"]["forward"] == 0
    assert result.tester["servers"]["b"]["lost"]["forward"] == 4000


def test_killed_server_is_named(tester):
    timer = threading.Timer(1.0, kill_all, [f"{PREFIX}2"])
    timer.start()
    with pytest.raises(TesterError, match="server b"):
        tester.measure(make_trial())
    timer.join()
