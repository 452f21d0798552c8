"""The Responder's state table: four-tuples as they left the device, 12 octets each.

Rows lie in a memory file that several processes map; it vanishes with the process that made it.
Row k belongs to connection k (:class:`v6t.drivers.tester.StatefulTester`); a row of zeros was never learned.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from v6t.base.errors import TesterError
from v6t.packets.arrays import I64, U8, U64, sort_unique
from v6t.packets.walker import locate_endpoints
from v6t.profiles.expand import Expander
from v6t.profiles.streams import Stream

ROW_OCTETS = {4: 12, 6: 36}  # Octets of a row by IP version
MAX_CONNECTIONS = 1 << 28  # Largest table: 3 GiB of IPv4 connections
_CHUNK = 1 << 20  # Rows that are read at a time
_FRAMES = 1 << 16  # Frames that are expanded at a time
_MAX_COUNTED_CONNECTIONS = 1 << 23
"""Up to this many connections their endpoints before the device are counted one by one."""
_SHARE = 1 << 24  # Rows that are compared at a time, which takes some hundreds of megabytes


class MemoryFile:
    """Anonymous memory that other processes of this user can map by its path."""

    def __init__(self, octets: int) -> None:
        self._file = os.memfd_create("v6t-connections")
        try:
            os.ftruncate(self._file, max(octets, 1))
        except OSError as exc:
            os.close(self._file)
            problem = f"no memory for a table of {octets} octets: {exc}"
            raise TesterError(problem, code="resource-missing") from exc
        self.path = f"/proc/{os.getpid()}/fd/{self._file}"

    def close(self) -> None:
        """Give it back. May be called twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class StateTable:
    """The mapped rows of a table; ``version`` is the IP version behind the device."""

    def __init__(self, path: str, count: int, version: int = 4) -> None:
        self.count = count
        self.version = version
        self.rows: U8 = np.memmap(path, np.uint8, "r+", shape=(count, ROW_OCTETS[version]))

    def learn(self, numbers: NDArray[np.integer], tuples: U8) -> None:
        """Write four-tuples ``(n, octets of a row)`` of connections; the first one of each counts."""
        width = self.rows.shape[1]
        if tuples.shape[1] != width:
            tuples = _resize_addresses(tuples, width)
        self.rows[numbers[::-1]] = tuples[::-1]

    def find_duplicates(self) -> tuple[int, tuple[int, int] | None]:
        """Return the number of connections whose row equals another one, and one such pair, if any."""
        count, example = 0, None
        for marks, numbers in self._iterate_hashes(_hash_rows):
            ordered = np.sort(marks)
            if (ordered[1:] != ordered[:-1]).all():
                continue  # as expected, and several times faster than finding the rows
            order = np.argsort(marks, kind="stable")
            same = np.flatnonzero(marks[order[1:]] == marks[order[:-1]])
            one, other = numbers[order[same]], numbers[order[same + 1]]
            equal = (self.rows[one] == self.rows[other]).all(axis=1)
            count += int(np.count_nonzero(equal))
            if example is None and equal.any():
                first = int(equal.argmax())
                example = int(one[first]), int(other[first])
        return count, example

    def count_endpoints(self) -> int:
        """Count distinct pairs of source address and source port."""
        return sum(len(sort_unique(marks)) for marks, _ in self._iterate_hashes(hash_endpoints))

    def _iterate_hashes(self, mark: Callable[[U8], U64]) -> Iterator[tuple[U64, I64]]:
        """Yield hashes and numbers of learned rows, divided by hash into shares."""
        shares = -(-self.count // _SHARE)
        for share in range(shares):
            marks, numbers = [], []
            for first in range(0, self.count, _CHUNK):
                part = self.rows[first : first + _CHUNK]
                rows = np.flatnonzero(part.any(axis=1))
                values = mark(part[rows])
                if shares > 1:
                    mine = values % np.uint64(shares) == share
                    values, rows = values[mine], rows[mine]
                marks.append(values)
                numbers.append(rows + first)
            yield np.concatenate(marks), np.concatenate(numbers)


def hash_endpoints(rows: U8) -> U64:
    """Hash source address and source port of each row."""
    size = (rows.shape[1] - 4) // 2
    return _hash_rows(np.concatenate([rows[:, :size], rows[:, -4:-2]], axis=1))


def describe_duplicates(table: StateTable) -> dict[str, Any]:
    """Describe duplicate rows and endpoints, as fields of :class:`v6t.drivers.tester.PhaseCounts`."""
    count, example = table.find_duplicates()
    rows = None if example is None else {str(k): table.rows[k].tobytes().hex() for k in example}
    counts = {"duplicate_tuples": count, "outside_endpoints": table.count_endpoints()}
    return {**counts, "example": rows}


def count_inside_endpoints(stream: Stream, count: int) -> int | None:
    """Count distinct initiator addresses and ports among the first frames of a stream.

    Behind a tunnel the address is that of the tunnel and the inner one together. None: there are too many
    connections to count them one by one.
    """
    if count > _MAX_COUNTED_CONNECTIONS:
        return None
    expander = Expander(stream)
    where = locate_endpoints(expander.compute_frames(0, 1)[0]).tunnel_row
    marks = [
        hash_endpoints(expander.compute_frames(first, min(_FRAMES, count - first))[:, where])
        for first in range(0, count, _FRAMES)
    ]
    return len(sort_unique(np.concatenate(marks)))


def _resize_addresses(tuples: U8, width: int) -> U8:
    """Pad or cut both addresses on the left to rows of ``width`` octets."""
    addresses = tuples[:, :-4].reshape(len(tuples), 2, -1)
    out = np.zeros((len(tuples), width), dtype=np.uint8)
    wide = out[:, :-4].reshape(len(tuples), 2, -1)
    take = min(addresses.shape[2], wide.shape[2])
    wide[:, :, -take:] = addresses[:, :, -take:]
    out[:, :-4] = wide.reshape(len(tuples), -1)
    out[:, -4:] = tuples[:, -4:]
    return out


def _hash_rows(rows: U8) -> U64:
    padded = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 4)))
    words = np.ascontiguousarray(padded).view("<u4")
    mark = np.zeros(len(rows), dtype=np.uint64)
    for column in words.T:
        mark ^= column.astype(np.uint64)
        mark *= np.uint64(0x9E3779B97F4A7C15)
        mark ^= mark >> np.uint64(29)
    return mark
