"""The headers of any frame, outermost first, and checks of their lengths and checksums.

The walker reads octets only: neither the compiler nor a plugin takes part, so it can check both. It knows
Ethernet, VLAN tags, IPv4, IPv6 with its options, GRE, UDP, TCP and ICMP in any order and depth;
everything else is payload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from v6t.base.errors import TesterError
from v6t.packets import checksum

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8, U32

MIN_FRAME_OCTETS = 60  # padded Ethernet frames, FCS off
ETHERTYPES_VLAN = (0x8100, 0x88A8)
_ETHERTYPES = {0x0800: "IPv4", 0x86DD: "IPv6", 0x6558: "Ethernet"}  # names of headers
_PROTOCOLS = {1: "ICMP", 4: "IPv4", 6: "TCP", 17: "UDP", 41: "IPv6", 47: "GRE", 58: "ICMPv6"}
_OPTION_HEADERS = (0, 60)
"""Hop-by-hop and destination options: the only extension headers that change nothing else."""
_MIN_HEADER_OCTETS = {
    "Ethernet": 14, "IPv4": 20, "IPv6": 40, "GRE": 4, "UDP": 8, "TCP": 20, "ICMP": 4, "ICMPv6": 4,
}  # fmt: skip
_VERSIONS = {"IPv4": 4, "IPv6": 6}  # by name of a header
_ADDRESS_FIELDS = {4: (12, 4), 6: (8, 16)}
"""First octet of an IP header's source address, and its length; the destination follows."""
_CHECKSUM_OFFSETS = {"ICMP": 2, "ICMPv6": 2, "UDP": 6, "TCP": 16, "GRE": 4}
"""Octet of a header where its checksum begins."""
TRANSPORTS = {"UDP": 17, "TCP": 6, "ICMPv6": 58}  # protocols whose checksum covers a pseudo header
_PORT_OFFSETS = {"UDP": (0, 2), "TCP": (0, 2), "ICMP": (4, 4), "ICMPv6": (4, 4)}
"""Octets of a transport header where the numbers of source and destination begin."""
_STRUCTURE_OCTETS = {
    "Ethernet": (), "IPv4": (0, 2, 3, 6, 7, 9), "IPv6": (4, 5, 6), "GRE": (0, 1, 2, 3),
    "UDP": (4, 5), "TCP": (12,), "ICMP": (0,), "ICMPv6": (0,),
}  # fmt: skip
"""Octets of a header that decide where and what the next one is."""
_ICMP_ERRORS = {"ICMP": (3, 11, 12), "ICMPv6": (1, 2, 3, 4)}  # types


class FrameHeader(NamedTuple):
    """A header with offsets in its frame; ``limit`` is the end of its content by its length field."""

    name: str
    start: int
    end: int
    limit: int


def walk(frame: bytes, first: str = "Ethernet") -> tuple[FrameHeader, ...]:
    """Return the headers of a frame (FCS off), or of a packet that begins with another header."""
    return tuple(_walk(frame, first, 0, len(frame)))


def walk_with_quote(frame: bytes) -> tuple[FrameHeader, ...]:
    """Return the headers of a frame, and those of the packet that an ICMP error quotes."""
    headers = walk(frame)
    for error in headers[-1:]:
        if frame[error.start] in _ICMP_ERRORS.get(error.name, ()):
            first = "IPv4" if error.name == "ICMP" else "IPv6"
            return (*headers, *_walk(frame, first, error.start + 8, error.limit))
    return headers


def _walk(frame: bytes, name: str | None, start: int, limit: int) -> Iterator[FrameHeader]:
    while name is not None and limit - start >= _MIN_HEADER_OCTETS[name]:
        end, own_limit, following = _measure(frame, name, start, limit)
        yield FrameHeader(name, start, end, own_limit)
        start, limit, name = end, min(limit, own_limit), following


def _read_u16(frame: bytes, offset: int) -> int:
    return int.from_bytes(frame[offset : offset + 2], "big")


def _measure(frame: bytes, name: str, start: int, limit: int) -> tuple[int, int, str | None]:
    """Return the end and the limit of the header at ``start``, and the name of the next one."""
    match name:
        case "Ethernet":
            kind = start + 12
            while _read_u16(frame, kind) in ETHERTYPES_VLAN and kind + 6 <= limit:
                kind += 4
            return kind + 2, limit, _ETHERTYPES.get(_read_u16(frame, kind))
        case "IPv4":
            end = start + 4 * (frame[start] & 15)
            is_fragment = _read_u16(frame, start + 6) & 0x3FFF
            following = None if is_fragment or end > limit else _PROTOCOLS.get(frame[start + 9])
            return min(end, limit), start + _read_u16(frame, start + 2), following
        case "IPv6":
            end, protocol = start + 40, frame[start + 6]
            while protocol in _OPTION_HEADERS and end + 8 <= limit:
                protocol, end = frame[end], end + 8 + 8 * frame[end + 1]
            return end, start + 40 + _read_u16(frame, start + 4), _PROTOCOLS.get(protocol)
        case "GRE":
            optional = sum(bool(frame[start] & bit) for bit in (0x80, 0x20, 0x10))
            return start + 4 + 4 * optional, limit, _ETHERTYPES.get(_read_u16(frame, start + 2))
        case "UDP":
            return start + 8, start + _read_u16(frame, start + 4), None
        case "TCP":
            return start + 4 * (frame[start + 12] >> 4), limit, None
    return min(start + 8, limit), limit, None  # ICMP


def group_by_headers(
    frames: U8, walker: Callable[[bytes], tuple[FrameHeader, ...]] = walk
) -> Iterator[tuple[NDArray[np.intp], tuple[FrameHeader, ...]]]:
    """Group equally long frames ``(n, length)`` by layout; yield the rows and the headers of each group.

    ``walker`` is :func:`walk` or :func:`walk_with_quote`.
    """
    import numpy as np

    rows = np.arange(len(frames))
    while len(rows):
        first = frames[rows[0]]
        headers = walker(first.tobytes())
        octets = _list_structure_octets(headers, len(first))
        alike = (frames[rows][:, octets] == first[octets]).all(axis=1)
        yield rows[alike], headers
        rows = rows[~alike]


def _list_structure_octets(headers: Sequence[FrameHeader], length: int) -> list[int]:
    octets: set[int] = set()
    for name, start, end, _ in headers:
        octets |= {start + at for at in _STRUCTURE_OCTETS[name]}
        if name in ("Ethernet", "IPv6"):  # VLAN tags, extension headers
            octets |= set(range(start + (12 if name == "Ethernet" else 40), end))
    return sorted(octet for octet in octets if octet < length)


class Network(NamedTuple):
    """An IP header: its version, and the octet where it begins."""

    version: int
    start: int

    @property
    def protocol(self) -> int:
        """Offset of the protocol or next header field."""
        return self.start + (9 if self.version == 4 else 6)

    def get_address(self, *, source: bool) -> slice:
        """Return the slice of the source or the destination address."""
        offset, size = _ADDRESS_FIELDS[self.version]
        first = self.start + offset + (0 if source else size)
        return slice(first, first + size)

    @property
    def addresses(self) -> slice:
        """Octets of both addresses."""
        return slice(self.get_address(source=True).start, self.get_address(source=False).stop)


@dataclass(frozen=True)
class FrameLayout:
    """Offsets of IP headers, addresses and ports in equally long frames.

    Ports, or the identifier of an ICMP query (RFC 5508, section 3.1), tell connections apart. IP headers are
    outermost first; ``limit`` ends the transport's data.
    """

    networks: tuple[Network, ...]
    transport: str
    start: int
    end: int
    limit: int

    @property
    def version(self) -> int:
        """Version of the innermost IP header."""
        return self.networks[-1].version

    def get_address(self, *, source: bool) -> slice:
        """Return the slice of the innermost source or destination address."""
        return self.networks[-1].get_address(source=source)

    def get_port(self, *, source: bool) -> slice:
        """Return the slice of a port, or of the identifier of an ICMP query."""
        first = self.start + _PORT_OFFSETS[self.transport][0 if source else 1]
        return slice(first, first + 2)

    @cached_property
    def row(self) -> slice | list[int]:
        """Octets of innermost addresses and ports; a slice, which is fast, if they are neighbors."""
        return self._find_columns(self.networks[-1:])

    @cached_property
    def tunnel_row(self) -> slice | list[int]:
        """Octets of the addresses of all IP headers, outermost first, and of the ports."""
        return self._find_columns(self.networks)

    def _find_columns(self, networks: Sequence[Network]) -> slice | list[int]:
        ends = (True, False)
        places = [network.get_address(source=end) for end in ends for network in networks]
        places += [self.get_port(source=end) for end in ends]
        octets = [octet for place in places for octet in range(place.start, place.stop)]
        span = range(octets[0], octets[0] + len(octets))
        return slice(span.start, span.stop) if octets == list(span) else octets

    @cached_property
    def swapped_row(self) -> list[int]:
        """Indices that exchange source and destination in the octets of :attr:`row`."""
        size = _ADDRESS_FIELDS[self.version][1]
        ports = 2 * size
        return [*range(size, ports), *range(size), ports + 2, ports + 3, ports, ports + 1]

    @property
    def checksum(self) -> int:
        """Octet where the transport checksum begins."""
        return self.start + _CHECKSUM_OFFSETS[self.transport]

    @cached_property
    def row_checksums(self) -> list[tuple[int, slice]]:
        """Offset of each checksum that covers :attr:`row`, and the 16-bit words of it that are covered."""
        outer = self.networks[-1].start + 10
        places = [(outer, slice(None, -2))] if self.version == 4 else []
        words = slice(None) if self.transport in ("UDP", "TCP") else slice(None, -1)
        if self.transport == "ICMP":
            words = slice(-1, None)
        return [*places, (self.checksum, words)]

    def write_checksum(self, frames: U8) -> None:
        """Compute the transport checksum of each frame."""
        frames[:, self.checksum : self.checksum + 2] = 0
        self.write_sum(frames, self.checksum, self.sum_transport(frames))

    def write_sum(self, frames: U8, offset: int, sums: U32) -> None:
        """Write the complements of sums as checksums at an offset; for UDP, 0 becomes 0xFFFF."""
        udp = self.transport == "UDP" and offset == self.checksum
        checksum.write_sum(frames, offset, sums, udp=udp)

    def sum_transport(self, frames: U8) -> U32:
        """Return the sums of pseudo header, transport header and data; 0xFFFF folded if valid."""
        end = min(self.limit, frames.shape[1])
        sums = checksum.sum_columns(frames, self.start, end)
        return sums + self.sum_pseudo_header(frames) if self.transport in TRANSPORTS else sums

    def sum_pseudo_header(self, frames: U8) -> U32:
        """Return the sums of addresses, length and protocol (RFC 8200, section 8.1)."""
        addresses = self.networks[-1].addresses
        length = max(0, min(self.limit, frames.shape[1]) - self.start)
        sums = checksum.sum_columns(frames, addresses.start, addresses.stop)
        return sums + (TRANSPORTS[self.transport] + length)


def locate_headers(frame: bytes | U8, first: str = "Ethernet") -> FrameLayout:
    """Return the layout of a frame, or of a packet that begins with another header."""
    return build_layout(walk(bytes(frame), first))


def build_layout(headers: Sequence[FrameHeader]) -> FrameLayout:
    """Return the layout of frames with these headers."""
    networks = tuple(Network(_VERSIONS[h.name], h.start) for h in headers if h.name in _VERSIONS)
    if not headers:
        return FrameLayout((), "", 0, 0, 0)
    last = headers[-1]
    transport = last.name if networks and last.name in _PORT_OFFSETS else ""
    start = last.start if transport else last.end
    return FrameLayout(networks, transport, start, last.end, last.limit)


def locate_endpoints(frame: bytes | U8, first: str = "Ethernet") -> FrameLayout:
    """Return the layout of a frame with ports or a query identifier, or raise TesterError."""
    layout = locate_headers(frame, first)
    if not layout.transport:
        problem = "a frame without ports or query identifier does not belong to a connection"
        raise TesterError(problem, code="invalid-traffic-model")
    return layout


def find_problems(frame: bytes) -> list[str]:
    """Return a description of each wrong length and wrong checksum of a frame."""
    problems: list[str] = []
    limit = len(frame)
    network: FrameHeader | None = None
    for header in walk(frame):
        name = header.name
        if name in _VERSIONS:
            label = name if network is None else f"inner {name}"
            padded = network is None and header.limit < limit == MIN_FRAME_OCTETS
            network = header
            if frame[header.start] >> 4 != _VERSIONS[name]:
                problems.append(f"{label}: the version is {frame[header.start] >> 4}")
            if header.limit != limit and not padded:
                field = "total length" if name == "IPv4" else "payload length"
                problems.append(f"{label}: {field} is wrong by {header.limit - limit}")
            if name == "IPv4" and checksum.compute_checksum(frame[header.start : header.end]):
                problems.append(f"{label}: the header checksum is wrong")
            limit = min(limit, header.limit)
        elif name == "UDP" and header.limit != limit:
            problems.append(f"UDP: the length is wrong by {header.limit - limit}")
        problems += _check_transport(frame, header, limit, network)
    return problems if network else [*problems, "the frame has no IP packet"]


def _check_transport(
    frame: bytes, header: FrameHeader, limit: int, network: FrameHeader | None
) -> list[str]:
    offset = _CHECKSUM_OFFSETS.get(header.name)
    if offset is None or (header.name == "GRE" and not frame[header.start] & 0x80):
        return []
    covered = frame[header.start : limit]
    if header.name == "UDP" and not _read_u16(frame, header.start + offset):
        # none was computed (RFC 768); over IPv6 there must be one (RFC 8200, section 8.1)
        six = network is not None and network.name == "IPv6"
        return ["UDP: the checksum is missing"] if six else []
    if header.name in TRANSPORTS and network is not None:
        addresses = Network(_VERSIONS[network.name], network.start).addresses
        length, protocol = limit - header.start, TRANSPORTS[header.name]
        covered += b"\0" * (len(covered) % 2)
        covered += checksum.build_pseudo_header(frame[addresses], length, protocol)
    wrong = checksum.compute_checksum(covered) != 0
    return [f"{header.name}: the checksum is wrong"] if wrong else []
