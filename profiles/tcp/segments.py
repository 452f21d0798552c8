"""TCP segments of many connections at once, after the headers of test frames.

The timestamp option (RFC 7323) holds the number of the connection, which the other end echoes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from v6t.packets.arrays import U8, Mask
from v6t.packets.checksum import fold, write_ipv4_checksum
from v6t.packets.headers import IP, IPV4, IPV6, PROTOCOL_TCP, TCP, to_numbers, view
from v6t.packets.walker import group_by_headers, locate_endpoints, walk_with_quote
from v6t.profiles.tcp.http import HEADER_OCTETS, OPENING_OCTETS, SEGMENT_OCTETS

Numbers = NDArray[np.uint32]

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
NUMBER_BITS = 28  # of a timestamp, for the connection number; the other 4 identify the trial
_WINDOW = 0xFFFF  # advertised window in octets
_TIMESTAMPS_START = 0x0101080A  # two no-operations, kind and length of the option
_TIMESTAMP_OPTION = np.dtype([("start", ">u4"), ("value", ">u4"), ("echo", ">u4")])
_MSS_OPTION = (2, 4, SEGMENT_OCTETS >> 8, SEGMENT_OCTETS & 0xFF)
_ISN_FACTOR = 0x9E3779B1
_ISN_INVERSE = pow(_ISN_FACTOR, -1, 1 << 32)
_SERVER_ISN_MASK = 0x5BD1E995


def compute_client_isns(connections: NDArray[np.integer]) -> Numbers:
    """Return the initial sequence number of each connection's client."""
    numbers: Numbers = connections.astype(np.uint32) * np.uint32(_ISN_FACTOR)
    return numbers


def decode_client_isns(isns: Numbers) -> Numbers:
    """Return the connection numbers in these initial sequence numbers of clients."""
    connections: Numbers = isns * np.uint32(_ISN_INVERSE)
    return connections


def compute_server_isns(connections: NDArray[np.integer]) -> Numbers:
    """Return the initial sequence number of each connection's server."""
    return compute_client_isns(connections) ^ np.uint32(_SERVER_ISN_MASK)


def decode_server_isns(isns: Numbers) -> Numbers:
    """Return the connection numbers in these initial sequence numbers of servers."""
    return decode_client_isns(isns ^ np.uint32(_SERVER_ISN_MASK))


@dataclass(frozen=True)
class SegmentFields:
    """Arrays ``(n,)`` of TCP fields; timestamps are 0 in segments without a timestamp option."""

    flags: U8
    sequence: Numbers
    acknowledgement: Numbers
    timestamp: Numbers
    echo: Numbers
    has_timestamp: Mask
    data_start: NDArray[np.int64]
    data_octets: NDArray[np.int64]
    is_valid: Mask


class TcpLayout:
    """Layout of TCP in the test frames of one side.

    ``row`` selects the octets of a row of the Responder's table; ``width`` octets identify a connection.
    """

    def __init__(self, frame: U8) -> None:
        """Take the headers of a test frame with any transport."""
        layout = locate_endpoints(frame)
        self.networks, self.tcp = layout.networks, layout.start
        self._layout = replace(layout, transport="TCP", limit=len(frame))
        self._head = frame[: self.tcp].copy()
        self._protocol = self.networks[-1].protocol
        self._head[self._protocol] = PROTOCOL_TCP
        self.row = self._layout.row
        columns = np.arange(len(frame))[self._layout.tunnel_row]
        half = (len(columns) - 4) // 2
        sources, destinations, ports = np.split(columns, [half, 2 * half])
        self._columns = columns
        self._reversed_columns = np.concatenate([destinations, sources, np.roll(ports, 2)])
        self.width = len(columns)

    def select_frames(self, frames: U8) -> Mask:
        """Return a mask of unfragmented TCP frames with these headers and without IP options."""
        if frames.shape[1] < self.tcp + 20:
            return np.zeros(len(frames), bool)
        outer = self.networks[0].start
        ours: Mask = (frames[:, 12:outer] == self._head[12:outer]).all(axis=1)
        for network in self.networks:
            header = view(frames, IP[network.version], network.start)
            if network.version == 4:
                ours &= (header["ver_ihl"] == 0x45) & (header["flags_frag"] & 0x3FFF == 0)
            else:
                ours &= header["ver_tc"] >> 4 == 6
            ours &= frames[:, network.protocol] == self._head[network.protocol]
        return ours

    def select_icmp(self, frames: U8) -> U8:
        version, at = self.networks[-1]
        if frames.shape[1] < at + 48:
            return frames[:0]
        errors: U8 = frames[frames[:, self._protocol] == (1 if version == 4 else 58)]
        return errors

    def read_endpoints(self, frames: U8) -> U8:
        return frames[:, self._columns]

    def read_reversed_endpoints(self, frames: U8) -> U8:
        return frames[:, self._reversed_columns]

    def count_frame_octets(self, flags: int, data: int = 0) -> int:
        return self.tcp + (OPENING_OCTETS if flags & SYN else HEADER_OCTETS) + data

    def write(
        self,
        rows: U8,
        endpoints: U8,
        flags: int,
        sequence: Numbers,
        acknowledgement: Numbers | int,
        timestamps: tuple[Numbers, Numbers | int],
        data: U8 | None = None,
    ) -> None:
        """Write segments of equal length, with the same flags and data, to ``(n, octets)`` rows.

        ``timestamps`` are the sender's, and the one echoed.
        """
        at, begin, length = self.tcp, self.count_frame_octets(flags), rows.shape[1]
        rows[:, :at] = self._head
        rows[:, self._columns] = endpoints
        header = view(rows, TCP, at)
        header["seq"], header["ack"] = sequence, acknowledgement
        header["dataofs"], header["flags"] = (begin - at) << 2, flags
        header["window"], header["urgptr"] = _WINDOW, 0
        if flags & SYN:
            rows[:, at + 20 : at + 24] = _MSS_OPTION
        options = view(rows, _TIMESTAMP_OPTION, begin - _TIMESTAMP_OPTION.itemsize)
        options["start"] = _TIMESTAMPS_START
        options["value"], options["echo"] = timestamps
        if data is not None:
            rows[:, begin:] = data
        for version, start in self.networks:
            if version == 6:
                view(rows, IPV6, start)["plen"] = length - start - 40
            else:
                view(rows, IPV4, start)["len"] = length - start
                write_ipv4_checksum(rows, start, 20)
        replace(self._layout, limit=length).write_checksum(rows)

    def read(self, frames: U8) -> SegmentFields:
        """Read the TCP fields of equally long frames that :meth:`select_frames` selects."""
        count, longest = frames.shape
        version, at = self.networks[-1]
        length = view(frames, IP[version], at)["len" if version == 4 else "plen"]
        ends = np.minimum(at + length.astype(np.int64) + (0 if version == 4 else 40), longest)
        header = view(frames, TCP, self.tcp)
        offsets = (header["dataofs"] >> 4).astype(np.int64) * 4
        begins = self.tcp + offsets
        value, echo = np.zeros((2, count), np.uint32)
        stamped = np.zeros(count, bool)
        for octets in (HEADER_OCTETS, OPENING_OCTETS):
            place = self.tcp + octets - _TIMESTAMP_OPTION.itemsize
            if place + _TIMESTAMP_OPTION.itemsize <= longest:
                options = view(frames, _TIMESTAMP_OPTION, place)
                mine = (offsets == octets) & (options["start"] == _TIMESTAMPS_START)
                stamped |= mine
                value[mine], echo[mine] = options["value"][mine], options["echo"][mine]
        valid = np.zeros(count, bool)
        for end in np.unique(ends):
            mine = ends == end
            rows = frames if mine.all() else frames[mine]
            valid[mine] = fold(replace(self._layout, limit=int(end)).sum_transport(rows)) == 0xFFFF
        numbers = header["seq"].astype(np.uint32), header["ack"].astype(np.uint32), value, echo
        flags = header["flags"] & np.uint8(0x3F)
        return SegmentFields(flags, *numbers, stamped, begins, ends - begins, valid)

    def has_partial_checksum(self, frames: U8) -> Mask:
        """Select segments without data whose checksum is only the sum of their pseudo header.

        A kernel leaves the rest to the interface, and a virtual interface may omit it.
        """
        pseudo = replace(self._layout, limit=self.tcp + 20).sum_pseudo_header(frames)
        mask: Mask = fold(pseudo) == view(frames, TCP, self.tcp)["chksum"]
        return mask


def read_quoted_segments(frames: U8) -> Iterator[tuple[U8, Numbers]]:
    """Yield ports ``(n, 4)`` and sequence numbers ``(n,)`` of the segments that ICMP errors quote."""
    for rows, headers in group_by_headers(frames, walk_with_quote):
        names = [header.name for header in headers]
        error = next((at for at, name in enumerate(names) if name in ("ICMP", "ICMPv6")), None)
        if error is None or error + 1 == len(headers) or names[-1] not in ("TCP", "IPv4", "IPv6"):
            continue
        last = headers[-1]
        at = last.start if last.name == "TCP" else last.end
        # a NAT may receive no more than eight octets of TCP: ports and the sequence number
        if at + 8 <= headers[error].limit:
            group = frames[rows]
            yield group[:, at : at + 4], to_numbers(group[:, at + 4 : at + 8]).astype(np.uint32)
