"""Two real TRex servers through one kernel router, one VPP and one NAT."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from v6t.core.config.resolve import resolve
from v6t.core.config.run_setup import make_setup
from v6t.core.runs.bench import Bench, compile_directions, make_tester
from v6t.drivers.lab.netns import enter
from v6t.procedures.stateful.phases import judge_connections
from v6t.tests.core.support import v6t
from v6t.tests.needs import TREX_DIR, needs_lab, needs_trex
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
SIDES = ("left", "right")
# Network behind each side of the kernel's router, the router's address, and the next hop.
HOSTS = {
    "left": ("198.18.0.0/16", "192.168.18.1/30", "192.168.18.2"),
    "right": ("198.19.0.0/16", "192.168.19.1/30", "192.168.19.2"),
}
VPP_CONFIG = """
unix {{ runtime-dir {place} cli-listen {place}/cli.sock nodaemon poll-sleep-usec 50 }}
api-segment {{ prefix two }}
socksvr {{ socket-name {place}/api.sock }}
statseg {{ socket-name {place}/stats.sock }}
memory {{ main-heap-size 512M main-heap-page-size 4K }}
buffers {{ page-size 4K }}
plugins {{ plugin default {{ disable }} plugin af_packet_plugin.so {{ enable }} plugin map_plugin.so {{ enable }} }}
"""
# The default rule of mape-br.
MAPE_DOMAIN = (
    "ip4-pfx 192.0.2.0/24 ip6-pfx 2001:db8:ce::/51 ip6-src 2001:db8:6::1 ea-bits-len 13 "
    "psid-offset 6 psid-len 5"
)


def run_command(command: str, netns: str | None = None, check: bool = True) -> str:
    within = ["ip", "netns", "exec", netns] if netns else []
    done = subprocess.run([*within, *command.split()], check=check, capture_output=True, text=True)
    return done.stdout


def make_macs(server: int) -> dict[str, dict[str, str]]:
    octets = {"left": f"02:00:00:0{server}:01", "right": f"02:00:00:0{server}:02"}
    return {
        side: {"tester_mac": f"{start}:02", "dut_mac": f"{start}:01"}
        for side, start in octets.items()
    }


class TwoServers:
    """Namespaces of two servers and a device with ports left1, right1, left2 and right2."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.prefix = f"v6ts{os.getpid() % 10_000}"
        self.device = f"{self.prefix}d"
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> TwoServers:
        try:
            run_command(f"ip netns add {self.device}")
            run_command("sysctl -qw net.ipv4.conf.all.rp_filter=0", self.device)
            run_command("sysctl -qw net.ipv4.conf.default.rp_filter=0", self.device)
            for server in (1, 2):
                self._connect(server)
                self.start(server)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for server in (1, 2):
            self.kill(server)
            run_command(f"ip link del {self.prefix}m{server}", check=False)
            run_command(f"ip netns del {self.prefix}{server}", check=False)
        self._kill_all(self.device)
        run_command(f"ip netns del {self.device}", check=False)
        for process in self._processes:
            process.wait(10)

    def _connect(self, server: int) -> None:
        """Connect a server's namespace to the device, and to this one for TRex's client."""
        own, management = f"{self.prefix}{server}", f"{self.prefix}m{server}"
        run_command(f"ip netns add {own}")
        run_command("sysctl -qw net.ipv6.conf.all.disable_ipv6=1", own)
        for side, macs in make_macs(server).items():
            port = f"{side}{server}"
            run_command(
                f"ip -n {own} link add {side} address {macs['tester_mac']} type veth "
                f"peer name {port} address {macs['dut_mac']} netns {self.device}"
            )
            run_command(f"sysctl -qw net.ipv6.conf.{port}.disable_ipv6=1", self.device)
            for name, netns in ((side, own), (port, self.device)):
                run_command(f"ethtool -K {name} tx off gro off gso off tso off", netns)
                run_command(f"ip -n {netns} link set {name} up")
        run_command(f"ip -n {own} link set lo up")
        run_command(f"ip link add {management} type veth peer name manage netns {own}")
        run_command(f"ip addr add 10.77.{server}.1/30 dev {management}")
        run_command(f"ip link set {management} up")
        run_command(f"ip -n {own} addr add 10.77.{server}.2/30 dev manage")
        run_command(f"ip -n {own} link set manage up")

    def start(self, server: int) -> None:
        """Start a server and wait until it answers."""
        config, log = (self.directory / f"{server}.{end}" for end in ("yaml", "log"))
        config.write_text(SERVER.format(core=server - 1, **make_macs(server)))
        options = "--no-scapy-server --no-watchdog"  # the machine may be busy
        command = f"./t-rex-64 -i {options} --software --hdrh -c 1 --cfg {config} --iom 0"
        self._start(f"ip netns exec {self.prefix}{server} {command}", log, TREX_DIR)
        self._wait(lambda: is_listening(f"10.77.{server}.2", 4501), log)

    def kill(self, server: int) -> None:
        self._kill_all(f"{self.prefix}{server}")

    def write_testbed(self, device: str = "") -> Path:
        """Write a testbed file; ``device`` is appended."""
        file = self.directory / "two.yaml"
        values = {"one": make_macs(1), "two": make_macs(2), "device": device}
        file.write_text(TESTBED.format(trex_dir=TREX_DIR, **values))
        return file

    @contextmanager
    def start_router(self, rules: str = "") -> Iterator[None]:
        """Route in the kernel between the two ports of each server."""
        self._add_routes()
        if rules:
            subprocess.run(
                ["ip", "netns", "exec", self.device, "nft", "-f", "-"],
                input=rules, text=True, check=True,
            )  # fmt: skip
        try:
            yield
        finally:
            run_command("sysctl -qw net.ipv4.ip_forward=0", self.device)
            if rules:
                run_command("nft flush ruleset", self.device)
            for server in (1, 2):
                run_command(f"ip -n {self.device} rule del table {server}", check=False)
                run_command(f"ip -n {self.device} rule del table {server}", check=False)
                for side in SIDES:
                    run_command(f"ip -n {self.device} addr flush dev {side}{server}")

    def _add_routes(self) -> None:
        for server in (1, 2):
            for side, other in (SIDES, SIDES[::-1]):
                _, own, _ = HOSTS[side]
                run_command(f"ip -n {self.device} addr add {own} dev {side}{server}")
                network, _, host = HOSTS[other]
                mac = make_macs(server)[other]["tester_mac"]
                run_command(
                    f"ip -n {self.device} neigh replace {host} lladdr {mac} dev {other}{server} "
                    "nud permanent"
                )
                run_command(f"ip -n {self.device} rule add iif {side}{server} table {server}")
                run_command(
                    f"ip -n {self.device} route replace {network} via {host} dev {other}{server} "
                    f"onlink table {server}"
                )
        run_command("sysctl -qw net.ipv4.ip_forward=1", self.device)

    @contextmanager
    def connect_ports(self) -> Iterator[None]:
        """Connect both ports of each server by a bridge instead of a device."""
        for server in (1, 2):
            run_command(f"ip -n {self.device} link add loop{server} type bridge mcast_snooping 0")
            run_command(f"ip -n {self.device} link set loop{server} up")
            # a bridge does not forward frames to its ports' addresses
            for place, side in enumerate(SIDES):
                own = f"address 02:00:00:0{server}:0{place}:99"
                run_command(
                    f"ip -n {self.device} link set {side}{server} {own} master loop{server}"
                )
        try:
            yield
        finally:
            for server in (1, 2):
                run_command(f"ip -n {self.device} link del loop{server}")
                for side, macs in make_macs(server).items():
                    run_command(
                        f"ip -n {self.device} link set {side}{server} address {macs['dut_mac']}"
                    )

    @contextmanager
    def start_vpp(self, program: str) -> Iterator[None]:
        """Run one VPP_CONFIG as a MAP-E border relay, with a table of routes for the ports of each server."""
        config, log = self.directory / "vpp.conf", self.directory / "vpp.log"
        config.write_text(VPP_CONFIG.format(place=self.directory))
        process = self._start(f"ip netns exec {self.device} {program} -c {config}", log)

        def run_cli(command: str) -> str:
            client = Path(program).with_name("vppctl")
            return run_command(f"{client} -s {self.directory}/cli.sock {command}")

        try:
            self._wait((self.directory / "cli.sock").exists, log)
            run_cli(f"map add domain {MAPE_DOMAIN}")
            for server in (1, 2):
                run_cli(f"ip table add {server}")
                run_cli(f"ip6 table add {server}")
                for side, address, host, network in (
                    ("left", "2001:db8:6::1/64", "2001:db8:6::2", "2001:db8:ce::/51"),
                    ("right", "203.0.113.1/24", "203.0.113.56", ""),
                ):
                    name, macs = f"{side}{server}", make_macs(server)[side]
                    port = f"host-{name}"
                    run_cli(
                        f"create host-interface name {name} hw-addr {macs['dut_mac']} cksum-gso-disable"
                    )
                    run_cli(f"set interface ip table {port} {server}")
                    run_cli(f"set interface ip6 table {port} {server}")
                    run_cli(f"set interface state {port} up")
                    run_cli(f"set interface mtu packet 1500 {port}")
                    run_cli(f"set interface ip address {port} {address}")
                    run_cli(f"set ip neighbor {port} {host} {macs['tester_mac']} static")
                    if network:
                        run_cli(f"ip route add {network} table {server} via {host} {port}")
                    run_cli(f"map interface {port}")
            yield
        finally:
            self._kill_all(self.device)
            process.wait(10)
            (self.directory / "cli.sock").unlink(missing_ok=True)

    @contextmanager
    def capture_frames(self, port: str) -> Iterator[list[bytes]]:
        """Capture the frames that arrive at a port of the device."""
        frames: list[bytes] = []
        ended = threading.Event()
        thread = threading.Thread(target=self._capture, args=(port, frames, ended))
        thread.start()
        time.sleep(0.2)
        try:
            yield frames
        finally:
            ended.set()
            thread.join()

    def _capture(self, port: str, frames: list[bytes], ended: threading.Event) -> None:
        # A namespace belongs to a thread: only this one moves.
        with subprocess.Popen(["ip", "netns", "exec", self.device, "sleep", "60"]) as holder:
            while os.readlink(f"/proc/{holder.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
                time.sleep(0.05)
            enter(holder.pid)
            holder.kill()
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as packets:
            packets.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
            packets.bind((port, 3))
            packets.settimeout(0.2)
            while not ended.is_set():
                try:
                    frame, address = packets.recvfrom(2048)
                except TimeoutError:
                    continue
                if address[2] != socket.PACKET_OUTGOING:
                    frames.append(frame)

    def _start(
        self, command: str, log: Path, directory: str | None = None
    ) -> subprocess.Popen[bytes]:
        with log.open("w") as out:
            process = subprocess.Popen(
                command.split(), cwd=directory, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        self._processes.append(process)
        return process

    def _wait(self, ready, log: Path) -> None:
        deadline = time.monotonic() + 60
        while not ready():
            if time.monotonic() > deadline:
                raise AssertionError(log.read_text())
            time.sleep(0.5)

    def _kill_all(self, netns: str) -> None:
        for pid in run_command(f"ip netns pids {netns}", check=False).split():
            os.kill(int(pid), signal.SIGKILL)


def is_listening(host: str, port: int) -> bool:
    """Check whether an address accepts TCP connections."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    with TwoServers(tmp_path_factory.mktemp("servers")) as two:
        yield two


@contextmanager
def open_lab(two, plugin):
    setup = make_setup(resolve(None, two.write_testbed(), plugin=plugin))
    with closing(make_tester(setup)) as tester:
        tester.open()
        yield tester, replace(load(tester, setup, 128), **LOAD)


@pytest.fixture
def router(two):
    with two.start_router(), open_lab(two, "ipv4-router") as lab:
        yield lab


def check_all_matched(result):
    for counted in result.directions.values():
        assert counted.count_frames("sent") == counted.count_frames("received") == 8000
        assert counted.checked == counted.matched > 100
    assert set(result.tester["servers"]) == {"a", "b"}
    assert all(lost == 0 for s in result.tester["servers"].values() for lost in s["lost"].values())


def check_delays(result):
    for counted in result.directions.values():
        assert sum(d.frames + d.lost for d in counted.delays.values()) == 100


def test_frames_and_delays_of_both_servers_are_merged(two, router):
    with two.capture_frames("left1") as first, two.capture_frames("left2") as second:
        check_all_matched(measure_passed(*router))
    addresses = slice(26, 38)  # both IPv4 addresses and both ports of UDP
    flows = [
        {frame[addresses] for frame in frames if frame[12:14] == b"\x08\x00" and frame[23] == 17}
        for frames in (first, second)
    ]
    assert min(map(len, flows)) > 100 and not flows[0] & flows[1]
    check_delays(measure_passed(*router, delays=DelayRequest(tags=100)))


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
    with two.start_vpp(VPP), open_lab(two, "mape-br") as lab:
        check_all_matched(measure_passed(*lab))
        check_delays(measure_passed(*lab, delays=DelayRequest(tags=100)))


def test_connections_are_divided_learned_and_validated(two):
    setup = make_setup(
        resolve(
            None,
            two.write_testbed(HOOKS.format(device=two.device)),
            plugin="nat44",
            params={"subscribers": "1000", "connections_per_subscriber": "200"},
            procedure={"connections.count": str(COUNT)},
        )
    )
    technology = setup.technology
    sizes = technology.make_frame_pair(setup.settings.frame_sizes[0])
    bench = Bench(setup)
    bench.load(compile_directions(technology, sizes, 1))
    connections = Connections(COUNT, 10_000.0, wait_s=1.0, alpha=1.0, purpose="establish")
    trial = Trial("throughput", "t", sizes.ipv6, sizes.ipv4, connections=connections, **LOAD)
    try:
        with two.start_router(NAT):
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
            reused = Connections(COUNT, 10_000.0, wait_s=1.0, reuse=True)
            check_all_matched(measure_passed(bench, trial, connections=reused))
    finally:
        bench.close()


def run_v6t_command(two, *arguments):
    testbed = ("--testbed", two.write_testbed(), "--plugin", "ipv4-router")
    return v6t(*arguments[:1], *testbed, *arguments[1:])


def test_selftest_of_each_server_and_of_both(two):
    with two.connect_ports():
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
    with two.start_router():
        killer.start()
        done = run_v6t_command(two, "run", *quick, "-o", path)
        ended.set()
        killer.join()
        assert done.status not in (0, 1) and "server b" in done.err
        two.start(2)
        done = v6t("resume", path, "--no-report")
    assert done.status == 0, done.err
    assert json.loads((path / "manifest.json").read_text())["status"] == "complete"
