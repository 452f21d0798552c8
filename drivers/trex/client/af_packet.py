"""Everything that exists only for ports on Linux interfaces, which TRex opens with DPDK's af_packet.

Runs in v6t and, sent as text, in the interpreter of TRex's client (Python 3.8, standard library
only). Both work without this module if it is deleted; such ports are then not supported.
"""

from __future__ import annotations

import binascii
import re
import time
from collections.abc import Callable
from typing import Any

from v6t.drivers.trex.client.rpc import count_late_frames, is_virtual, push_frames

_LINUX_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,15}")
_IFACE = re.compile(r",iface=([^,]+)")
_AF_PACKET = re.compile(r"--vdev=(?:net|eth)_af_packet")
_SEVERAL_QUEUES = re.compile(r",qpairs=(?!0*1(?:,|$))")

PUSH_S = 0.05  # Longest time until a pushed frame and those before it in the ring have left
_MAX_WAITS = 20  # Waits for silence before frames are pushed
MAX_PUSHES = 100
"""A push frees what the kernel keeps of a socket's frames at once, which is about 90 of 1,518 octets
and 277 of 84; a ring has 8,192."""
_PUSH = binascii.unhexlify(
    "0180c200000e" + "020000000001" + "0806" + "0001080006040001"
    "020000000001" + "00000000" + "000000000000" + "c0000008"
) + bytes(18)  # fmt: skip
"""An ARP probe (RFC 5227) for 192.0.0.8, which no host has, to a group that no bridge forwards."""


def is_linux(interface: str) -> bool:
    """Return whether a name can be that of a Linux interface."""
    names_interface = _LINUX_NAME.fullmatch(interface) and not interface.startswith("-")
    return bool(names_interface) and interface not in (".", "..", "dummy")


def _uses_af_packet(interface: str) -> bool:
    return is_linux(interface) or _AF_PACKET.match(interface) is not None


def find_limit(interface: str) -> str:
    """Return what limits a port: its ``queues``, its ``cores``, or nothing.

    TRex reads the first queue of an af_packet port alone, with one core, and the kernel spreads flows
    over all queues (PACKET_FANOUT), as long as there is room.
    """
    if not _uses_af_packet(interface):
        return ""
    return "queues" if _SEVERAL_QUEUES.search(interface) else "cores"


def find_interface(port: str) -> str:
    """Return the interface of a port that is spelled out, else the text itself."""
    named = _IFACE.search(port) if _uses_af_packet(port) else None
    return port if named is None else named[1]


def make_port(number: int, interface: str, ring: dict[str, int]) -> str:
    """Return TRex's text for a Linux interface; a plain name would have DPDK's default rings."""
    sizes = ",".join(f"{name}={size}" for name, size in ring.items())
    return f"--vdev=net_af_packet{number},iface={interface},{sizes}"


def push_out_frames(client: Any, ports: list[int], count_arrivals: Callable[[], int]) -> int:
    """Count the frames that arrive only after each port was given another one to send.

    The kernel takes frames out of an interface's send ring when a frame is put there; where it had
    no room for the last of a trial, they stand there, sent by TRex's count, until the next trial.
    TRex sends on such a port with one core by one ring: one frame for each port is enough.
    What arrives by itself is the device's: nothing is known of the rings unless there is silence.
    """
    if not all(is_virtual(client, port) for port in ports):
        return 0
    before = count_arrivals()

    def wait_for_arrivals() -> int:
        nonlocal before
        time.sleep(PUSH_S)
        total = count_arrivals()
        arrivals, before = total - before, total
        return arrivals

    if all(wait_for_arrivals() for _ in range(_MAX_WAITS)):
        return 0
    pushed: list[int] = []
    while len(pushed) < 2 or (len(ports) < pushed[-1] and len(pushed) < MAX_PUSHES):
        push_frames(client, ports, [_PUSH])
        pushed.append(wait_for_arrivals())
    back = min(pushed[-1], len(ports))  # over a cable what is pushed comes back, too
    return sum(max(0, n - back) for n in pushed)


count_late_frames.append(push_out_frames)
