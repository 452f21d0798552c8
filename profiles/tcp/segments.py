"""TCP segments of many connections at once: written behind the headers of test frames, and read.

Every segment has the timestamps option (RFC 7323). Its value is the number of the connection, which the
other end echoes, as every host does: so each side knows which of millions of connections a segment
belongs to without searching, and then compares the four-tuple with the one it knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets import inet
from v6t.profiles.ends import Ends, ends_of
from v6t.profiles.tcp.headers import HEADER_OCTETS, OPENING_OCTETS
from v6t.profiles.tcp.http import SEGMENT_OCTETS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8

    Numbers = NDArray[np.uint32]

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
NUMBER_BITS = 28
"""Of a timestamp, for the connection; the others tell trials apart."""
_WINDOW = 0xFFFF
_TIMESTAMPS = (1, 1, 8, 10)
_MAXIMUM = (2, 4, SEGMENT_OCTETS >> 8, SEGMENT_OCTETS & 0xFF)
_FACTOR = 0x9E3779B1
_INVERSE = pow(_FACTOR, -1, 1 << 32)
_SERVER = 0x5BD1E995


def client_number(connections: NDArray[np.integer]) -> Numbers:
    """The sequence number with which the client of each connection begins."""
    numbers: Numbers = connections.astype(np.uint32) * np.uint32(_FACTOR)
    return numbers


def connection_of(first: NDArray[np.uint32]) -> Numbers:
    """The inverse: connections by the first sequence numbers of their clients."""
    connections: Numbers = first * np.uint32(_INVERSE)
    return connections


def server_number(connections: NDArray[np.integer]) -> Numbers:
    """The sequence number with which the server of each connection begins."""
    numbers: Numbers = connections.astype(np.uint32) * np.uint32(_FACTOR) ^ np.uint32(_SERVER)
    return numbers


def connection_of_server(first: NDArray[np.uint32]) -> Numbers:
    """The inverse: connections by the first sequence numbers of their servers."""
    return connection_of(first ^ np.uint32(_SERVER))


@dataclass(frozen=True)
class Read:
    """What stands in segments, ``(n,)`` each.

    Attributes:
        flags: of the header.
        number, acknowledged: sequence and acknowledgement number.
        value, echo: of the timestamps option; 0 where a segment has none of ours.
        stamped: it has one.
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


class Layout:
    """TCP behind the headers of one side's test frames."""

    def __init__(self, frame: U8) -> None:
        """Take the headers of a frame.

        Args:
            frame: of a stream of connections, whatever its transport.
        """
        ends = ends_of(frame)
        self.networks, self.tcp = ends.networks, ends.header
        self._head = frame[: self.tcp].copy()
        version, at = self.networks[-1]
        self._protocol = at + (9 if version == 4 else 6)
        self._head[self._protocol] = inet.PROTOCOL_TCP
        self._ends = Ends(self.networks, "TCP", self.tcp, len(frame))
        self._columns = _octets_of(self._ends)
        self._turned = _turned_of(self._ends)
        self.row = self._ends.row
        """Octets of a frame that are a row of the Responder's table."""
        self.width = len(self._columns)
        """Octets of the ends of a connection, those of tunnels among them."""

    def is_ours(self, frames: U8) -> NDArray[np.bool_]:
        """Which frames hold TCP behind such headers, unfragmented and without IP options."""
        if frames.shape[1] < self.tcp + 20:
            return np.zeros(len(frames), bool)
        outer = self.networks[0][1]
        ours: NDArray[np.bool_] = (frames[:, 12:outer] == self._head[12:outer]).all(axis=1)
        ours &= frames[:, self._protocol] == inet.PROTOCOL_TCP
        for version, at in self.networks:
            if version == 4:
                ours &= (frames[:, at] == 0x45) & (frames[:, at + 6] & 0x3F == 0)
                ours &= frames[:, at + 7] == 0
            else:
                ours &= frames[:, at] >> 4 == 6
            if at != self.networks[-1][1]:
                place = at + (9 if version == 4 else 6)
                ours &= frames[:, place] == self._head[place]
        return ours

    def icmp(self, frames: U8) -> U8:
        """Those of other frames that hold ICMP behind such headers."""
        version, at = self.networks[-1]
        if frames.shape[1] < at + 48:
            return frames[:0]
        place, number = (at + 9, 1) if version == 4 else (at + 6, 58)
        errors: U8 = frames[frames[:, place] == number]
        return errors

    def ends(self, frames: U8) -> U8:
        """Addresses and ports ``(n, width)`` as they stand in frames."""
        return frames[:, self._columns]

    def turned(self, frames: U8) -> U8:
        """The same with source and destination exchanged."""
        return frames[:, self._turned]

    def octets(self, flags: int, data: int = 0) -> int:
        """Length of frames with such segments, FCS off."""
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
        """Segments of equal length.

        Args:
            rows: ``(n, octets)`` to write to; see :meth:`octets`.
            ends: ``(n, width)``.
            flags: of all.
            numbers, acknowledged: sequence numbers.
            stamps: own timestamp, and the one echoed.
            data: the same octets behind every header; None: none.
        """
        at, opening = self.tcp, bool(flags & SYN)
        rows[:, :at] = self._head
        rows[:, self._columns] = ends
        _put(rows, at + 4, numbers)
        _put(rows, at + 8, acknowledged)
        begin = at + (OPENING_OCTETS if opening else HEADER_OCTETS)
        rows[:, at + 12] = (begin - at) << 2
        rows[:, at + 13] = flags
        rows[:, at + 14 : at + 16] = _WINDOW >> 8
        rows[:, at + 18 : at + 20] = 0
        if opening:
            rows[:, at + 20 : at + 24] = _MAXIMUM
        rows[:, begin - 12 : begin - 8] = _TIMESTAMPS
        _put(rows, begin - 8, stamps[0])
        _put(rows, begin - 4, stamps[1])
        if data is not None:
            rows[:, begin:] = data
        self._finish(rows)

    def _finish(self, rows: U8) -> None:
        """Lengths and checksums."""
        whole = rows.shape[1]
        for version, at in self.networks:
            if version == 6:
                rows[:, at + 4 : at + 6] = tuple((whole - at - 40).to_bytes(2, "big"))
            else:
                rows[:, at + 2 : at + 4] = tuple((whole - at).to_bytes(2, "big"))
                inet.finish_ipv4(rows, at, 20)
        Ends(self.networks, "TCP", self.tcp, whole).finish(rows)

    def read(self, frames: U8) -> Read:
        """What stands in equally long frames that :meth:`is_ours` took."""
        count, longest = frames.shape
        version, at = self.networks[-1]
        lengths = _word(frames, at + (2 if version == 4 else 4)).astype(np.int64)
        ends = np.minimum(at + lengths + (0 if version == 4 else 40), longest)
        offsets = (frames[:, self.tcp + 12] >> 4).astype(np.int64) * 4
        begins = self.tcp + offsets
        value, echo = np.zeros((2, count), np.uint32)
        stamped = np.zeros(count, bool)
        for octets in (HEADER_OCTETS, OPENING_OCTETS):
            place = self.tcp + octets - 12
            if place + 12 > longest:
                continue
            mine = (offsets == octets) & (
                frames[:, place : place + 4] == np.array(_TIMESTAMPS, np.uint8)
            ).all(axis=1)
            stamped |= mine
            value[mine] = _get(frames[mine], place + 4)
            echo[mine] = _get(frames[mine], place + 8)
        return Read(
            flags=frames[:, self.tcp + 13] & np.uint8(0x3F),
            number=_get(frames, self.tcp + 4),
            acknowledged=_get(frames, self.tcp + 8),
            value=value,
            echo=echo,
            stamped=stamped,
            data=begins,
            octets=ends - begins,
            sound=self._sound(frames, ends),
        )

    def unfinished(self, frames: U8) -> NDArray[np.bool_]:
        """Which segments without data have the sum of their pseudo header in place of a checksum.

        A kernel leaves the rest to the interface, and one that is no hardware may leave it, too.
        """
        sums = self._pseudo_sums(frames, self.tcp + 20)
        mask: NDArray[np.bool_] = inet.fold(sums) == _word(frames, self.tcp + 16)
        return mask

    def _pseudo_sums(self, frames: U8, end: int) -> NDArray[np.uint32]:
        first = self._ends.address(source=True).start
        sums = inet.ones_complement_sum(frames, first, self._ends.address(source=False).stop)
        return (sums + np.uint32(inet.PROTOCOL_TCP + end - self.tcp)).astype(np.uint32)

    def _sound(self, frames: U8, ends: NDArray[np.int64]) -> NDArray[np.bool_]:
        sound = np.zeros(len(frames), bool)
        for end in np.unique(ends):
            mine = ends == end
            rows = frames if mine.all() else frames[mine]
            sums = inet.ones_complement_sum(rows, self.tcp, int(end))
            sums += self._pseudo_sums(rows, int(end))
            sound[mine] = inet.fold(sums) == 0xFFFF
        return sound


def _octets_of(ends: Ends) -> NDArray[np.int64]:
    row = ends.tunnelled_row
    columns = range(row.start, row.stop) if isinstance(row, slice) else row
    return np.array(list(columns), np.int64)


def _turned_of(ends: Ends) -> NDArray[np.int64]:
    """The columns of a row with source and destination exchanged: the first half and the second."""
    columns = _octets_of(ends)
    half = (len(columns) - 4) // 2
    sources, destinations = columns[:half], columns[half : 2 * half]
    ports = columns[2 * half :]
    return np.concatenate([destinations, sources, ports[2:], ports[:2]])


def _word(frames: U8, at: int) -> NDArray[np.uint16]:
    words = frames[:, at].astype(np.uint16) << np.uint16(8) | frames[:, at + 1]
    return words.astype(np.uint16)


def _get(frames: U8, at: int) -> Numbers:
    part = np.ascontiguousarray(frames[:, at : at + 4])
    numbers: Numbers = part.view(">u4")[:, 0].astype(np.uint32)
    return numbers


def _put(rows: U8, at: int, values: Numbers | int) -> None:
    wide = np.empty(len(rows), ">u4")
    wide[:] = values
    rows[:, at : at + 4] = wide.view(np.uint8).reshape(-1, 4)
