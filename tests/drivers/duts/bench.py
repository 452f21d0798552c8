"""Lab devices for tests: single frames through a device, and trials with traffic classes."""

import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import numpy as np
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs.bench import Bench, compile_directions
from v6t.core.runs.preflight import with_preflight_setup
from v6t.drivers.duts.lab.device import LabDut
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.lab import netns
from v6t.drivers.lab.setup import Bed
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.walker import locate_headers
from v6t.procedures.preflight import check_translation
from v6t.profiles.streams import StreamSet

# Pairs of equal octets of outer and inner header, and what a translator does with them.
EQUAL_OCTETS = [(octet, octet) for octet in (0, 1, 2, 3, 0xB8, 0xB9)]
TRANSLATION = {"forward TOS: copied from the traffic class",
               "reverse traffic class: copied from the TOS"}  # fmt: skip


class Port(socket.socket):
    """A packet socket on one of the tester's interfaces."""

    def __init__(self, pid: int, name: str) -> None:
        def open_socket() -> None:
            netns.enter(pid)
            super(Port, self).__init__(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            self.bind((name, 0))

        with ThreadPoolExecutor(1) as pool:  # only this thread enters the namespace
            pool.submit(open_socket).result()

    def await_udp(self, payload: bytes, seconds: float = 3.0):
        """Return the first frame that contains a payload, or None after the deadline."""
        end = time.monotonic() + seconds
        while (remaining_s := end - time.monotonic()) > 0:
            self.settimeout(remaining_s)
            try:
                frame, sender = self.recvfrom(4096)
            except TimeoutError:
                return None
            if sender[2] != socket.PACKET_OUTGOING and payload in frame:
                return Ether(frame)
        return None


class LabBed:
    """A configured lab device with the two ports of the tester."""

    def __init__(self, dut: LabDut, lab) -> None:
        self.dut = dut
        self.session = dut.session
        self.links = dut.intent.links
        self.left, self.right = Port(lab.tester.pid, "left"), Port(lab.tester.pid, "right")

    def close(self) -> None:
        """Close the ports, which would keep the tester's namespace and cables alive."""
        self.left.close()
        self.right.close()

    def forward(self, direction: str, src: str, dst: str, sport: int, dport: int, payload: bytes):
        """Send a datagram from one port; return the frame that arrives at the other port, or None."""
        is_forward = direction == "forward"
        sender, receiver = (self.left, self.right) if is_forward else (self.right, self.left)
        link = self.links.left if is_forward else self.links.right
        ip = IPv6(src=src, dst=dst) if ":" in src else IP(src=src, dst=dst)
        frame = Ether(src=link.tester_mac, dst=link.dut_mac) / ip
        sender.send(bytes(frame / UDP(sport=sport, dport=dport) / payload))
        return receiver.await_udp(payload)


@contextmanager
def open_bed(driver: str, intent, **options):
    dut = LabDut(make_driver(driver, options), intent)
    with closing(Bed(intent.links, dut)) as bed, closing(LabBed(dut, bed.open())) as device:
        yield device


def with_octets(streams, outer: int, inner: int) -> dict[str, StreamSet]:
    """Return the streams with other TOS or traffic class octets in outer and inner header."""

    def change_stream(stream):
        rows = np.frombuffer(stream.packet, np.uint8)[None, :].copy()
        networks = locate_headers(rows[0]).networks
        version, at = networks[0]
        if version == 6:
            rows[0, at : at + 2] = (0x60 | outer >> 4, outer << 4 & 0xF0 | rows[0, at + 1] & 15)
            at += 40
        if networks[-1].version == 4:
            rows[0, at + 1] = inner if version == 6 else outer
            write_ipv4_checksum(rows, at)
        return stream.with_packet(rows[0].tobytes())

    return {
        direction: StreamSet(direction, tuple(change_stream(s) for s in stream_set.streams))
        for direction, stream_set in streams.items()
    }


@contextmanager
def open_bench(setup):
    """Open the lab of a run; yield it with its streams and a function that checks a measurement."""
    technology = setup.technology
    sizes = technology.make_frame_pair(setup.settings.frame_sizes[0])

    def check(measure):
        return check_translation(measure, ipv6_frame_size=sizes.ipv6, ipv4_frame_size=sizes.ipv4)

    with closing(Bench(setup)) as bench:
        yield bench, compile_directions(technology, sizes, setup.settings.seed), check


def measure_traffic_classes(plugin, octets, *, params=None, dut, **options):
    """Send each pair of outer and inner octets through a device.

    Returns:
        ``{pair: (reason, behaviour)}``; the reason of a mismatch is empty if all frames match.
    """
    setup = resolve_setup(plugin=plugin, params=params or {}, dut=dut, dut_params=options)
    outcomes = {}
    with open_bench(setup) as (bench, streams, check):
        for outer, inner in octets:
            bench.load(with_octets(streams, outer, inner))
            behaviour: Counter[str] = Counter()

            def measure(trial, behaviour=behaviour):
                result = with_preflight_setup(bench.measure, setup.technology)(trial)
                for name, direction in result.directions.items():
                    counts = (direction.behaviour or {}).items()
                    behaviour.update({f"{name} {kind}": count for kind, count in counts})
                return result

            finding = check(measure)
            outcomes[outer, inner] = (finding.why if finding else "", behaviour)
    return outcomes
