"""Two real TRex servers in namespaces, with four ports at one device."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from v6t.drivers.lab.netns import enter
from v6t.tests.needs import TREX_DIR

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
VPP = """
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

    def testbed(self, device: str = "") -> Path:
        """Write a testbed file; ``device`` is appended."""
        file = self.directory / "two.yaml"
        values = {"one": make_macs(1), "two": make_macs(2), "device": device}
        file.write_text(TESTBED.format(trex_dir=TREX_DIR, **values))
        return file

    @contextmanager
    def router(self, rules: str = "") -> Iterator[None]:
        """Route in the kernel between the two ports of each server."""
        self._route()
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

    def _route(self) -> None:
        for server in (1, 2):
            for side, other in (SIDES, SIDES[::-1]):
                network, own, _ = HOSTS[side]
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
    def cables(self) -> Iterator[None]:
        """Connect both ports of each server by a bridge instead of a device."""
        for server in (1, 2):
            run_command(f"ip -n {self.device} link add loop{server} type bridge mcast_snooping 0")
            run_command(f"ip -n {self.device} link set loop{server} up")
            for place, side in enumerate(
                SIDES
            ):  # a bridge does not forward frames to its ports' addresses
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
    def vpp(self, program: str) -> Iterator[None]:
        """Run one VPP as a MAP-E border relay, with a table of routes for the ports of each server."""
        config, log = self.directory / "vpp.conf", self.directory / "vpp.log"
        config.write_text(VPP.format(place=self.directory))
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
    def captured(self, port: str) -> Iterator[list[bytes]]:
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
