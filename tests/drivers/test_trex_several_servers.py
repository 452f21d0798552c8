"""Two real TRex servers through one kernel router and one NAT."""

import os
import re
import subprocess
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial

import pytest
from v6t.core.config.resolve import resolve
from v6t.core.config.run_setup import make_setup
from v6t.core.runs.bench import Bench, compile_directions, make_tester
from v6t.drivers.trex.client.host import is_reachable
from v6t.procedures.stateful.phases import judge_connections
from v6t.tests.needs import TREX_DIR, needs_lab, needs_trex
from v6t.trials.connections import Connections
from v6t.trials.trial import DelayRequest, Trial

from .duts.field import wait_until
from .lab_testers import load, measure_passed, write_testbed

pytestmark = [pytest.mark.trex, pytest.mark.timeout(400), needs_trex, needs_lab]

NAT = """
table ip nat {
  chain post {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr 198.18.0.0/16 ip protocol udp snat to 198.19.1.0-198.19.1.3:1024-65535
  }
}
"""
# Sets of the flows that arrive from each server.
FLOW = "ip saddr . ip daddr . udp sport . udp dport"
FLOWS = "".join(
    f"""
    set flows{n} {{ typeof {FLOW}; flags dynamic; size 65536; }}
    chain left{n} {{ type filter hook ingress device left{n} priority 0; add @flows{n} {{ {FLOW} }}; }}
    """
    for n in (1, 2)
)
LIST_FLOWS = "ip netns exec $device nft -n list set netdev capture flows$n"
COUNT = 200_000
LOAD = {"mode": "bidirectional", "rate_fps": 4000.0, "duration_s": 2.0, "residual_wait_s": 0.5}
HOOKS = """
dut:
  options:
    hooks:
      flush: ip netns exec {device} conntrack -F
      count-states: ip netns exec {device} conntrack -C
"""

SERVER = """
- version: 2
  port_limit: 2
  low_end: true
  low_end_core: {core}
  prefix: v6t{core}
  interfaces: ["--vdev=net_af_packet0,iface=left,framecnt=8192",
               "--vdev=net_af_packet1,iface=right,framecnt=8192"]
  port_info:
    - {{src_mac: "{left[tester_mac]}", dest_mac: "{left[dut_mac]}"}}
    - {{src_mac: "{right[tester_mac]}", dest_mac: "{right[dut_mac]}"}}
"""
TESTBED = """
tester:
  kind: trex
  options:
    trex_dir: {trex_dir}
    start: never
    max_skew: 0.2
    servers:
      - {{name: a, server: 10.77.1.2}}
      - {{name: b, server: 10.77.2.2, left: {two[left]}, right: {two[right]}}}
links: {{left: {one[left]}, right: {one[right]}}}
line_rate: 100M
{device}
"""
DEVICE = f"v6ts{os.getpid() % 10_000}"
# Namespaces of the device and of both servers, whose ports the device connects as left1, right1, left2
# and right2. Each server has a table of routes. TRex's client reaches the servers from this namespace.
NETWORK = """
ip netns add $device
ip netns exec $device sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
    net.ipv6.conf.all.disable_ipv6=1 net.ipv4.ip_forward=1

port() {  # SIDE MAC NETWORK OTHER-SIDE
    mac=02:00:00:0$n:$2
    ip -n $own link add $1 address $mac:02 type veth \
        peer name $1$n address $mac:01 netns $device
    for end in $own:$1 $device:$1$n; do
        ip netns exec ${end%:*} ethtool -K ${end#*:} tx off gro off gso off tso off
        ip -n ${end%:*} link set ${end#*:} up
    done
    ip -n $device addr add 192.168.$3.1/30 dev $1$n
    ip -n $device neigh add 192.168.$3.2 lladdr $mac:02 dev $1$n nud permanent
    ip -n $device rule add iif $4$n table $n priority 10
    ip -n $device route add 198.$3.0.0/16 via 192.168.$3.2 dev $1$n onlink table $n
}
for n in 1 2; do
    own=$device$n
    ip netns add $own
    ip netns exec $own sysctl -qw net.ipv6.conf.all.disable_ipv6=1
    port left 01 18 right
    port right 02 19 left
    ip -n $own link set lo up
    ip link add ${device}m$n type veth peer name manage netns $own
    ip addr add 10.77.$n.1/30 dev ${device}m$n
    ip link set ${device}m$n up
    ip -n $own addr add 10.77.$n.2/30 dev manage
    ip -n $own link set manage up
done
"""
START = f"""
cd {TREX_DIR}
ip netns exec $device$n ./t-rex-64 -i --software --hdrh -c 1 --iom 0 --cfg $config \\
    --no-scapy-server --no-watchdog </dev/null >$log 2>&1 &  # the machine may be busy
"""
REMOVE = """
set +e
for n in 1 2; do
    ip netns pids $device$n | xargs -r kill -9
    ip link del $device"m"$n
    ip netns del $device$n
done
ip netns del $device
true
"""


def run(program, **variables):
    """Run a shell program with these variables and return its output."""
    given = "".join(f"{name}={value}\n" for name, value in variables.items())
    command = ["sh", "-ec", f"device={DEVICE}\n{given}{program}"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def apply_rules(rules):
    """Apply rules of nftables in the device."""
    run(f"ip netns exec $device nft -f - <<.\n{rules}\n.")
    try:
        yield
    finally:
        run("ip netns exec $device nft flush ruleset")


def make_macs(server):
    octets = {"left": f"02:00:00:0{server}:01", "right": f"02:00:00:0{server}:02"}
    return {
        side: {"tester_mac": f"{start}:02", "dut_mac": f"{start}:01"}
        for side, start in octets.items()
    }


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Start both servers, and wait until they answer; yield their directory."""
    directory = tmp_path_factory.mktemp("servers")
    try:
        run(NETWORK)
        for n in (1, 2):
            config, log = (directory / f"{n}.{end}" for end in ("yaml", "log"))
            config.write_text(SERVER.format(core=n - 1, **make_macs(n)))
            run(START, n=n, config=config, log=log)
            wait_until(partial(is_reachable, (f"10.77.{n}.2", 4501)), f"server {n}, see {log}")
        yield directory
    finally:
        run(REMOVE)


def write_bed(directory, device=""):
    """Write a testbed file with both servers; ``device`` is a part of it."""
    macs = {"one": make_macs(1), "two": make_macs(2)}
    return write_testbed(directory, TESTBED.format(trex_dir=TREX_DIR, device=device, **macs))


@pytest.fixture
def router(servers):
    """Provide a tester of both servers, and its trial."""
    setup = make_setup(resolve(None, write_bed(servers), plugin="ipv4-router"))
    with closing(make_tester(setup)) as tester:
        tester.open()
        yield tester, replace(load(tester, setup, 128), **LOAD)


def check_all_matched(result):
    for counted in result.directions.values():
        assert counted.count_frames("sent") == counted.count_frames("received") == 8000
        assert counted.checked == counted.matched > 100
    assert set(result.tester["servers"]) == {"a", "b"}
    assert all(lost == 0 for s in result.tester["servers"].values() for lost in s["lost"].values())


def test_frames_and_delays_of_both_servers_are_merged(router):
    with apply_rules(f"table netdev capture {{ {FLOWS} }}"):
        check_all_matched(measure_passed(*router))
        first, second = (
            {*re.findall(r"[\d.]+ \. [\d.]+ \. \d+ \. \d+", run(LIST_FLOWS, n=n))} for n in (1, 2)
        )
    assert min(len(first), len(second)) > 100
    assert first.isdisjoint(second)
    timed = measure_passed(*router, delays=DelayRequest(tags=100))
    for counted in timed.directions.values():
        assert sum(d.frames + d.lost for d in counted.delays.values()) == 100


def test_connections_are_divided_learned_and_validated(servers):
    resolved = resolve(
        None, write_bed(servers, HOOKS.format(device=DEVICE)), plugin="nat44",
        params={"subscribers": "1000", "connections_per_subscriber": "200"},
        procedure={"connections.count": str(COUNT)},
    )  # fmt: skip
    setup = make_setup(resolved)
    sizes = setup.technology.make_frame_pair(setup.settings.frame_sizes[0])
    connections = Connections(COUNT, 10_000.0, wait_s=1.0, alpha=1.0, purpose="establish")
    trial = Trial("throughput", "t", sizes.ipv6, sizes.ipv4, connections=connections, **LOAD)
    with closing(Bench(setup)) as bench, apply_rules(NAT):
        bench.load(compile_directions(setup.technology, sizes, 1))
        for _ in range(6):
            result = bench.measure(trial)
            verdict = judge_connections(trial, result, sending_time_tolerance=1.5)
            if verdict.passed:
                break
        assert verdict.passed, (verdict, result.faults)
        counted = result.connections
        assert (counted.established, counted.validated) == (COUNT, COUNT)
        assert int(run("ip netns exec $device conntrack -C")) == COUNT
        for validated in result.directions.values():
            assert validated.count_frames("sent") == COUNT
            assert validated.count_frames("received") == COUNT
            assert validated.checked == validated.matched > 100
        reused = Connections(COUNT, 10_000.0, wait_s=1.0, reuse=True)
        check_all_matched(measure_passed(bench, trial, connections=reused))
