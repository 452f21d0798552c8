"""TCP segments of many connections at once, after the headers of test frames.

Every segment has the timestamps option (RFC 7323). Its value is the number of the connection, which the
other end echoes: so each side finds the connection of a segment without a search, and then compares
the four-tuple.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.checksum import fold, write_ipv4_checksum
from v6t.packets.headers import IP, IPV4, IPV6, PROTOCOL_TCP, TCP, view
from v6t.packets.walker import FrameLayout, locate_endpoints
from v6t.profiles.tcp.headers import HEADER_OCTETS, OPENING_OCTETS
from v6t.profiles.tcp.http import SEGMENT_OCTETS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8

    Numbers = NDArray[np.uint32]

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
NUMBER_BITS = 28
"""Bits of a timestamp for the connection; the others identify the trial."""
_WINDOW = 0xFFFF
_TIMESTAMPS = 0x0101080A
"""Two no-operations, kind and length of the option."""
_TIMESTAMP_OPTION = np.dtype([("start", ">u4"), ("value", ">u4"), ("echo", ">u4")])
_MAXIMUM = (2, 4, SEGMENT_OCTETS >> 8, SEGMENT_OCTETS & 0xFF)
_FACTOR = 0x9E3779B1
_INVERSE = pow(_FACTOR, -1, 1 << 32)
_SERVER = 0x5BD1E995


def client_number(connections: NDArray[np.integer]) -> Numbers:
    """Return the first sequence number of each connection's client."""
    numbers: Numbers = connections.astype(np.uint32) * np.uint32(_FACTOR)
    return numbers


def connection_of(first: NDArray[np.uint32]) -> Numbers:
    """Return connections by the first sequence numbers of their clients."""
    connections: Numbers = first * np.uint32(_INVERSE)
    return connections


def server_number(connections: NDArray[np.integer]) -> Numbers:
    """Return the first sequence number of each connection's server."""
    numbers: Numbers = connections.astype(np.uint32) * np.uint32(_FACTOR) ^ np.uint32(_SERVER)
    return numbers


def connection_of_server(first: NDArray[np.uint32]) -> Numbers:
    """Return connections by the first sequence numbers of their servers."""
    return connection_of(first ^ np.uint32(_SERVER))


@dataclass(frozen=True)
class Read:
    """Fields of segments, ``(n,)`` each.

    Attributes:
        flags: of the header.
        number, acknowledged: sequence and acknowledgement number.
        value, echo: of the timestamps option; 0 without v6t's option.
        stamped: it has v6t's option.
        data: octet of the frame at which the data begins.
        octets: of data.
        sound: the checksum is right.
    """

    flags: U8
    number: Numbers
    acknowledged: Numbers
    value: Numbers
    echo: Numbers
    stamped: NDArray[np.bool_]
    data: NDArray[np.int64]
    octets: NDArray[np.int64]
    sound: NDArray[np.bool_]


class TcpLayout:
    """TCP after the headers of one side's test frames."""

    def __init__(self, frame: U8) -> None:
        """Take the headers of a frame.

        Args:
            frame: of a stream of connections, with any transport.
        """
        layout = locate_endpoints(frame)
        self.networks, self.tcp = layout.networks, layout.start
        self._layout = replace(layout, transport="TCP", limit=len(frame))
        self._head = frame[: self.tcp].copy()
        version, at = self.networks[-1]
        self._protocol = at + (9 if version == 4 else 6)
        self._head[self._protocol] = PROTOCOL_TCP
        self._columns, self._reversed_columns = _columns_of(self._layout)
        self.row = self._layout.row
        """Octets of a frame that are a row of the Responder's table."""
        self.width = len(self._columns)
        """Octets of the endpoints of a connection, those of tunnels among them."""

    def is_ours(self, frames: U8) -> NDArray[np.bool_]:
        """Mark frames with TCP after these headers, unfragmented and without IP options."""
        if frames.shape[1] < self.tcp + 20:
            return np.zeros(len(frames), bool)
        outer = self.networks[0][1]
        ours: NDArray[np.bool_] = (frames[:, 12:outer] == self._head[12:outer]).all(axis=1)
        ours &= frames[:, self._protocol] == PROTOCOL_TCP
        for version, at in self.networks:
            header = view(frames, IP[version], at)
            if version == 4:
                ours &= (header["ver_ihl"] == 0x45) & (header["flags_frag"] & 0x3FFF == 0)
            else:
                ours &= header["ver_tc"] >> 4 == 6
            if at != self.networks[-1].start:
                place = at + (9 if version == 4 else 6)
                ours &= frames[:, place] == self._head[place]
        return ours

    def icmp(self, frames: U8) -> U8:
        """Select the frames with ICMP after these headers."""
        version, at = self.networks[-1]
        if frames.shape[1] < at + 48:
            return frames[:0]
        number = 1 if version == 4 else 58
        errors: U8 = frames[frames[:, self._protocol] == number]
        return errors

    def ends(self, frames: U8) -> U8:
        """Return addresses and ports ``(n, width)`` of frames."""
        return frames[:, self._columns]

    def turned(self, frames: U8) -> U8:
        """Return addresses and ports with source and destination exchanged."""
        return frames[:, self._reversed_columns]

    def octets(self, flags: int, data: int = 0) -> int:
        """Return the length of frames with such segments, FCS off."""
        return self.tcp + (OPENING_OCTETS if flags & SYN else HEADER_OCTETS) + data

    def write(
        self,
        rows: U8,
        ends: U8,
        flags: int,
        numbers: Numbers,
        acknowledged: Numbers | int,
        stamps: tuple[Numbers, Numbers | int],
        data: U8 | None = None,
    ) -> None:
        """Write segments of equal length.

        Args:
            rows: ``(n, octets)`` to write to; see :meth:`octets`.
            ends: ``(n, width)``.
            flags: of all.
            numbers, acknowledged: sequence numbers.
            stamps: own timestamp, and the one echoed.
            data: the same octets after every header.
        """
        at, opening = self.tcp, bool(flags & SYN)
        begin = at + (OPENING_OCTETS if opening else HEADER_OCTETS)
        rows[:, :at] = self._head
        rows[:, self._columns] = ends
        header = view(rows, TCP, at)
        header["seq"], header["ack"] = numbers, acknowledged
        header["dataofs"], header["flags"] = (begin - at) << 2, flags
        header["window"], header["urgptr"] = _WINDOW, 0
        if opening:
            rows[:, at + 20 : at + 24] = _MAXIMUM
        options = view(rows, _TIMESTAMP_OPTION, begin - _TIMESTAMP_OPTION.itemsize)
        options["start"] = _TIMESTAMPS
        options["value"], options["echo"] = stamps
        if data is not None:
            rows[:, begin:] = data
        self._finish(rows)

    def _finish(self, rows: U8) -> None:
        """Write lengths and checksums."""
        whole = rows.shape[1]
        for version, at in self.networks:
            if version == 6:
                view(rows, IPV6, at)["plen"] = whole - at - 40
            else:
                view(rows, IPV4, at)["len"] = whole - at
                write_ipv4_checksum(rows, at, 20)
        replace(self._layout, limit=whole).write_checksum(rows)

    def read(self, frames: U8) -> Read:
        """Read equally long frames that :meth:`is_ours` accepts."""
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
            if place + _TIMESTAMP_OPTION.itemsize > longest:
                continue
            options = view(frames, _TIMESTAMP_OPTION, place)
            mine = (offsets == octets) & (options["start"] == _TIMESTAMPS)
            stamped |= mine
            value[mine], echo[mine] = options["value"][mine], options["echo"][mine]
        return Read(
            flags=header["flags"] & np.uint8(0x3F),
            number=header["seq"].astype(np.uint32),
            acknowledged=header["ack"].astype(np.uint32),
            value=value,
            echo=echo,
            stamped=stamped,
            data=begins,
            octets=ends - begins,
            sound=self._sound(frames, ends),
        )

    def unfinished(self, frames: U8) -> NDArray[np.bool_]:
        """Mark segments without data whose checksum is only the sum of their pseudo header.

        A kernel leaves the rest to the interface, and a virtual interface may leave it, too.
        """
        octets, header = self.tcp + 20, view(frames, TCP, self.tcp)
        layout = replace(self._layout, limit=octets)
        pseudo = layout.sum_pseudo_header(frames)
        mask: NDArray[np.bool_] = fold(pseudo) == header["chksum"]
        return mask

    def _sound(self, frames: U8, ends: NDArray[np.int64]) -> NDArray[np.bool_]:
        sound = np.zeros(len(frames), bool)
        for end in np.unique(ends):
            mine = ends == end
            rows = frames if mine.all() else frames[mine]
            sums = replace(self._layout, limit=int(end)).sum_transport(rows)
            sound[mine] = fold(sums) == 0xFFFF
        return sound


def _columns_of(layout: FrameLayout) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the columns of a row, and the same with source and destination exchanged."""
    row = layout.tunnel_row
    octets = np.array(range(row.start, row.stop) if isinstance(row, slice) else row, np.int64)
    half = (len(octets) - 4) // 2
    sources, destinations, ports = octets[:half], octets[half : 2 * half], octets[2 * half :]
    return octets, np.concatenate([destinations, sources, ports[2:], ports[:2]])
