"""Where a frame has the ends of its connection: addresses, and ports or what stands for them.

Known are the transports whose connections a translator tells apart: UDP and TCP by ports, ICMP
queries by their identifier (RFC 5508 section 3.1, RFC 6146 section 3.5.3), which stands for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from v6t.base.errors import TesterError
from v6t.packets import decode, inet

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8

_PORTS = {"UDP": (0, 2), "TCP": (0, 2), "ICMP": (4, 4), "ICMPv6": (4, 4)}
"""Octets of a transport's header in which the source's and the destination's number begin."""
_ADDRESSES = {4: (12, 4), 6: (8, 16)}
"""First octet of an IP header's source, and how many it has; the destination follows."""


@dataclass(frozen=True)
class Ends:
    """Octets of frames that are all laid out alike.

    A *row* is what is to be known of a connection: source and destination address, source and
    destination port, as they stand in the frame.

    Attributes:
        networks: version and first octet of each IP header, outermost first.
        transport: name of the header above them.
        header, limit: octet where it begins, and the first one behind what it holds.
    """

    networks: tuple[tuple[int, int], ...]
    transport: str
    header: int
    limit: int

    @property
    def version(self) -> int:
        """Of the IP header next to the transport's."""
        return self.networks[-1][0]

    def address(self, *, source: bool) -> slice:
        """The innermost address of one end."""
        return _address(*self.networks[-1], source=source)

    def port(self, *, source: bool) -> slice:
        """The port of one end, or what stands for it."""
        first = self.header + _PORTS[self.transport][0 if source else 1]
        return slice(first, first + 2)

    @cached_property
    def row(self) -> slice | list[int]:
        """Octets of a frame that are a row; a slice, which is fast, where they are neighbours."""
        return _columns([self.networks[-1]], self)

    @cached_property
    def tunnelled_row(self) -> slice | list[int]:
        """The same with the addresses of tunnels before those inside (ST-18)."""
        return _columns(self.networks, self)

    @cached_property
    def swapped(self) -> list[int]:
        """Octets of a row with source and destination exchanged."""
        size = _ADDRESSES[self.version][1]
        ports = 2 * size
        addresses = [*range(size, ports), *range(size)]
        return [*addresses, ports + 2, ports + 3, ports, ports + 1]

    @cached_property
    def checksums(self) -> list[tuple[int, slice]]:
        """Octet of each checksum that covers a row, and which 16-bit words of the row it covers."""
        at = self.networks[-1][1]
        places = [(at + 10, slice(None, -2))] if self.version == 4 else []
        words = slice(None) if self.transport in ("UDP", "TCP") else slice(None, -1)
        if self.transport == "ICMP":
            words = slice(-1, None)
        return [*places, (self.header + decode.CHECKSUM_AT[self.transport], words)]

    def finish(self, frames: U8) -> None:
        """Write valid transport checksums from scratch (of UDP, 0 becomes 0xffff)."""
        at = self.checksums[-1][0]
        frames[:, at : at + 2] = 0
        end = min(self.limit, frames.shape[1])
        sums = inet.ones_complement_sum(frames, self.header, end)
        protocol = decode.PROTOCOL.get(self.transport)
        if protocol is not None:
            first = self.address(source=True).start
            sums += inet.ones_complement_sum(frames, first, self.address(source=False).stop)
            sums += np.uint32(protocol + end - self.header)
        self.write_checksum(frames, at, sums)

    def write_checksum(self, frames: U8, at: int, sums: NDArray[np.uint32]) -> None:
        """The complement of sums ``(n,)`` at an octet; what is 0 is never written for UDP."""
        value = ~inet.fold(sums) & np.uint32(0xFFFF)
        if self.transport == "UDP" and at > self.header:
            value[value == 0] = 0xFFFF
        frames[:, at] = value >> 8
        frames[:, at + 1] = value & 0xFF


def ends_of(frame: bytes | U8, first: str = "Ethernet") -> Ends:
    """Ends of one frame, or of a packet whose first header is another one.

    Raises:
        TesterError: it carries no transport that is known.
    """
    known = decode.headers(bytes(frame), first)
    networks = tuple((int(h.name[3]), h.start) for h in known if h.name in ("IPv4", "IPv6"))
    last = known[-1] if known else None
    if last is None or not networks or last.name not in _PORTS:
        raise TesterError(
            "a frame without ports or query identifier does not belong to a connection",
            code="invalid-traffic-model",
        )
    return Ends(networks, last.name, last.start, last.limit)


def _address(version: int, at: int, *, source: bool) -> slice:
    offset, size = _ADDRESSES[version]
    first = at + offset + (0 if source else size)
    return slice(first, first + size)


def _columns(networks: Sequence[tuple[int, int]], ends: Ends) -> slice | list[int]:
    ways = (True, False)
    places = [_address(*network, source=way) for way in ways for network in networks]
    places += [ends.port(source=way) for way in ways]
    octets = [octet for place in places for octet in range(place.start, place.stop)]
    if octets == list(range(octets[0], octets[0] + len(octets))):
        return slice(octets[0], octets[0] + len(octets))
    return octets
