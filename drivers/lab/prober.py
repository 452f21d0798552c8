"""Single frames: sent on either of two interfaces, and everything that comes back on both, for a while."""

from __future__ import annotations

import select
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from v6t.drivers.lab.ring import RxRing
from v6t.drivers.neighbours import ARP, ICMPV6, IPV6, Hosts, word

SLOTS = 1024
_TALK = (*range(130, 138), 143)
"""ICMPv6 types of neighbours that are no answer to anything sent here."""


class ProberRole:
    """Holds both interfaces of the tester; answers ARP and neighbour solicitations between probes.

    Args:
        interfaces: by side.
        frame_octets: longest frame, without FCS.
        hosts: by side, arguments of :class:`v6t.drivers.neighbours.Hosts`; None: plays nobody.

    Raises:
        OSError: no such interface, or not permitted.
    """

    def __init__(
        self,
        interfaces: Mapping[str, str],
        frame_octets: int,
        hosts: Mapping[str, Mapping[str, Any] | None],
    ) -> None:
        self._rings = {s: RxRing(name, frame_octets, SLOTS) for s, name in interfaces.items()}
        self._hosts = {s: Hosts(**fields) for s, fields in hosts.items() if fields is not None}

    def idle(self, pipe: Connection) -> None:
        while not pipe.poll(0):
            self._wait(500, pipe.fileno())
            self._take()

    def introduce(self) -> None:
        """Have the device learn the hosts before it needs them."""
        for side, hosts in self._hosts.items():
            for frame in hosts.introductions():
                self._rings[side].send(frame)

    def exchange(
        self, frames: Sequence[tuple[str, bytes]], wait_s: float, quiet_s: float
    ) -> list[tuple[str, bytes]]:
        """Send frames; what arrives afterwards, oldest first, with the side it arrived on.

        Args:
            frames: each with the side it is sent on.
            wait_s: listen so long where nothing comes.
            quiet_s: and so long after the last frame that came.
        """
        self._take()
        for side, frame in frames:
            self._rings[side].send(frame)
        heard: list[tuple[str, bytes]] = []
        end = time.monotonic() + wait_s
        while (left := end - time.monotonic()) > 0:
            self._wait(max(1, int(left * 1000)))
            for side, frame in self._take():
                heard.append((side, frame))
                if not _talk(frame):
                    end = time.monotonic() + quiet_s
        return heard

    def _wait(self, timeout_ms: int, *others: int) -> None:
        poll = select.poll()
        for number in (*(r.socket.fileno() for r in self._rings.values()), *others):
            poll.register(number, select.POLLIN | select.POLLERR)
        poll.poll(timeout_ms)

    def _take(self) -> list[tuple[str, bytes]]:
        """All that is there; who asks for a host is answered."""
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


def _talk(frame: bytes) -> bool:
    kind = word(frame, 12)
    return kind == ARP or (
        kind == IPV6 and len(frame) > 54 and frame[20] == ICMPV6 and frame[54] in _TALK
    )
