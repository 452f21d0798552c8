"""Single frames, sent on either of two interfaces, and what comes back on both."""

import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from v6t.drivers.lab.ring import RxRing, poll_rings, serve_rings
from v6t.drivers.neighbours import ARP, ICMPV6, IPV6, Hosts, read_word
from v6t.drivers.placement import PROBE_RING_FRAMES
from v6t.drivers.prober import MAX_QUIET_TIMES

_NEIGHBOR_TYPES = (*range(130, 138), 143)  # ICMPv6 types of MLD, router and neighbor discovery


class ProberRole:
    """Worker that sends probe frames on both interfaces and answers for the tester's hosts."""

    def __init__(
        self,
        interfaces: Mapping[str, str],
        frame_octets: int,
        hosts: Mapping[str, Mapping[str, Any] | None],
    ) -> None:
        self._rings = {
            s: RxRing(name, frame_octets, PROBE_RING_FRAMES) for s, name in interfaces.items()
        }
        self._hosts = {s: Hosts(**fields) for s, fields in hosts.items() if fields is not None}

    def idle(self, pipe: Connection) -> None:
        serve_rings(pipe, self._rings.values(), self._take_frames)

    def introduce_hosts(self) -> None:
        """Have the device learn the hosts before it needs them."""
        for side, hosts in self._hosts.items():
            for frame in hosts.make_introductions():
                self._rings[side].send(frame)

    def exchange(
        self, frames: Sequence[tuple[str, bytes]], wait_s: float, quiet_s: float
    ) -> list[tuple[str, bytes]]:
        """Send and receive frames; see :meth:`v6t.drivers.prober.Prober.exchange`."""
        self._take_frames()
        for side, frame in frames:
            self._rings[side].send(frame)
        poll = poll_rings(self._rings.values())
        heard: list[tuple[str, bytes]] = []
        end = time.monotonic() + wait_s
        latest = end + MAX_QUIET_TIMES * quiet_s
        while (left := end - time.monotonic()) > 0:
            poll.poll(max(1, int(left * 1000)))
            arrived = self._take_frames()
            heard += arrived
            if quiet_s and not all(_is_neighbor_message(frame) for _, frame in arrived):
                end = min(latest, time.monotonic() + quiet_s)
        return heard

    def _take_frames(self) -> list[tuple[str, bytes]]:
        """Return arrived frames in order; answer requests for hosts instead of returning them."""
        arrivals: list[tuple[int, str, bytes]] = []
        for side, ring in self._rings.items():
            hosts = self._hosts.get(side)
            while groups := ring.take():
                for rows, times in groups:
                    for row, moment in zip(rows, times, strict=True):
                        frame = row.tobytes()
                        answer = None if hosts is None else hosts.answer(frame)
                        if answer is not None:
                            ring.send(answer)
                        else:
                            arrivals.append((int(moment), side, frame))
                ring.release()
        return [(side, frame) for _, side, frame in sorted(arrivals, key=lambda each: each[0])]


def _is_neighbor_message(frame: bytes) -> bool:
    """Whether a frame is ARP, MLD, or router or neighbor discovery."""
    kind = read_word(frame, 12)
    is_icmpv6 = kind == IPV6 and len(frame) > 54 and frame[20] == ICMPV6
    return kind == ARP or (is_icmpv6 and frame[54] in _NEIGHBOR_TYPES)
