"""Everything that exists only for ports on Linux interfaces, which TRex opens with DPDK's af_packet.

Runs in v6t and, sent as text, in the interpreter of TRex's client (Python 3.8, standard library
only). Both work without this module if it is deleted; such ports are then not supported.
"""

from __future__ import annotations

import binascii
import os
import re
import time
from collections.abc import Callable
from typing import Any

from v6t.drivers.trex.client.host import read_file
from v6t.drivers.trex.client.rpc import push_frames
from v6t.drivers.trex.port_driver import DRIVERS, PortDriver

_LINUX_NAME = re.compile(r"(?!-|\.\.?$|dummy$)[A-Za-z0-9_.@-]{1,15}")
_IFACE_OPTION = re.compile(r",iface=([^,]+)")
_AF_PACKET_VDEV = re.compile(r"--vdev=(?:net|eth)_af_packet")
_SEVERAL_QUEUES = re.compile(r",qpairs=(?!0*1(?:,|$))")

PUSH_S = 0.05  # Longest time until a pushed frame and those before it in the ring have left
_MAX_WAITS = 20  # Number of waits of ``PUSH_S`` for silence before frames are pushed
MAX_PUSHES = 100
"""A push frees what the kernel keeps of a socket's frames at once, which is about 90 of 1,518 octets
and 277 of 84; a ring has 8,192."""
_PUSH_FRAME = binascii.unhexlify(
    "0180c200000e" + "020000000001" + "0806" + "0001080006040001"
    "020000000001" + "00000000" + "000000000000" + "c0000008"
) + bytes(18)  # fmt: skip
"""An ARP probe (RFC 5227) for 192.0.0.8, which no host has, to a group that no bridge forwards."""


class AfPacket(PortDriver):
    """Ports on Linux interfaces, named as Linux does or spelled out as ``--vdev=net_af_packet...``."""

    name = "net_af_packet"
    interface_form = "a name of Linux (up to 15 letters, digits, and any of . _ @ -)"
    cpu_limit = 100.0  # The CPU that sends does the kernel's work as well
    uses_kernel = True

    def opens(self, interface: str) -> bool:
        return bool(_LINUX_NAME.fullmatch(interface) or _AF_PACKET_VDEV.match(interface))

    def find_conflict(self, interface: str, cores: int) -> tuple[str, ...]:
        # the kernel spreads flows over all queues (PACKET_FANOUT), as long as there is room
        if _SEVERAL_QUEUES.search(interface):
            problem = "TRex reads only one queue of a Linux interface, so qpairs would lose frames"
            return problem, "leave out qpairs", "interfaces"
        if cores > 1:
            problem = f"TRex serves Linux interfaces with one data path core, not with {cores}"
            hint = "set cores to 1, or name memif ports or PCI addresses as interfaces"
            return problem, hint, "cores", "interfaces"
        return ()

    def find_device(self, interface: str) -> str:
        return interface if (named := _IFACE_OPTION.search(interface)) is None else named[1]

    def format_interface(self, number: int, interface: str, ring: dict[str, int]) -> str:
        # a plain name would have DPDK's default rings
        if interface.startswith("--"):
            return interface
        sizes = ",".join(f"{name}={size}" for name, size in ring.items())
        return f"--vdev=net_af_packet{number},iface={interface},{sizes}"

    def examine(self, interface: str) -> tuple[str, str]:
        device = self.find_device(interface)
        place = os.path.join("/sys/class/net", device)
        if not os.path.exists(place):
            return "missing", "no such interface exists; `ip -br link` lists them"
        if read_file(place, "operstate") == "down":
            return "note", f"it is down: ip link set {device} up, and check the cable"
        return "ok", "through af_packet: one data path core"

    def find_faults(
        self, client: Any, ports: list[int], count_arrivals: Callable[[], int]
    ) -> list[str]:
        # The kernel sends from an interface's ring only when a frame is put there. Where it had no
        # room for the last frames of a trial, they stay in the ring although TRex counted them as
        # sent. One core sends to one ring, so one frame per port is enough. Frames that arrive before
        # it come from the device, so wait for silence first.
        before = count_arrivals()

        def wait_for_arrivals() -> int:
            """Wait for pushed frames to leave; return how many frames arrived since the last call."""
            nonlocal before
            time.sleep(PUSH_S)
            total = count_arrivals()
            arrivals, before = total - before, total
            return arrivals

        if all(wait_for_arrivals() for _ in range(_MAX_WAITS)):
            return []
        pushed: list[int] = []
        while len(pushed) < 2 or (len(ports) < pushed[-1] and len(pushed) < MAX_PUSHES):
            push_frames(client, ports, [_PUSH_FRAME])
            pushed.append(wait_for_arrivals())
        back = min(pushed[-1], len(ports))  # over a cable, pushed frames also come back
        stuck = sum(max(0, n - back) for n in pushed)
        text = "frames left TRex's send rings only after the trial: the interface did not accept them before"
        return [f"{stuck} {text}"] if stuck else []


DRIVERS.append(AfPacket())
