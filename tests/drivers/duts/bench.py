"""A device in the lab, and single frames through it."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.standing.device import LabDut
from v6t.drivers.lab import netns
from v6t.drivers.lab.setup import Bed


class Port:
    """A packet socket on one of the tester's interfaces."""

    def __init__(self, pid: int, name: str) -> None:
        made = []

        def work() -> None:
            netns.enter(pid)
            made.append(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
            made[0].bind((name, 0))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self._socket = made[0]

    def send(self, frame: bytes) -> None:
        self._socket.send(frame)

    def await_udp(self, payload: bytes, seconds: float = 3.0):
        """The frame that ends with a payload, None if it does not come."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                frame, sender = self._socket.recvfrom(4096)
            except TimeoutError:
                return None
            if sender[2] != socket.PACKET_OUTGOING and payload in frame:
                return Ether(frame)
        return None


class Standing:
    """A device that stands, with the tester's two ports."""

    def __init__(self, dut: LabDut, lab) -> None:
        self.dut = dut
        self.session = dut.session
        self.links = dut.intent.links
        self.left, self.right = Port(lab.tester.pid, "left"), Port(lab.tester.pid, "right")

    def through(self, way: str, src: str, dst: str, sport: int, dport: int, payload: bytes):
        """The frame that comes out on the other side."""
        near, far = (self.left, self.right) if way == "forward" else (self.right, self.left)
        link = self.links.left if way == "forward" else self.links.right
        ip = IPv6(src=src, dst=dst) if ":" in src else IP(src=src, dst=dst)
        frame = Ether(src=link.tester_mac, dst=link.dut_mac) / ip
        near.send(bytes(frame / UDP(sport=sport, dport=dport) / payload))
        return far.await_udp(payload)


@contextmanager
def standing(driver: str, intent, **options):
    dut = LabDut(make_driver(driver, options), intent)
    bed = Bed(intent.links, dut)
    try:
        yield Standing(dut, bed.open())
    finally:
        bed.close()
