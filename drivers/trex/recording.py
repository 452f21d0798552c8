"""Recordings of TRex's captures: asked for, fetched, and read by NumPy (classic pcap files)."""

from __future__ import annotations

import base64
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.base.errors import EnvironmentLacking, TesterError
from v6t.drivers.trex.marking import FIRST
from v6t.packets import trailer
from v6t.packets.arrays import sort_unique

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.drivers.trex.attachment import Attachment
    from v6t.drivers.trex.remote import Remote
    from v6t.packets.arrays import F64, U8
    from v6t.profiles.streams import StreamSet

_HEAD, _RECORD = 24, 16
SPARE = 1000
"""A recording may hold so many frames more than are asked for."""
GROWN = 80
"""Octets that a frame may gain on its way: two headers."""
CHUNK = 1 << 20
"""Frames that are looked at together."""
TEST_FRAMES = f"ether[len - {trailer.LENGTH}] = {trailer.MAGIC}"
"""Capture filter for what carries a trailer."""


class Recordings:
    """Files of the server's host, which are here or are fetched."""

    def __init__(self, attachment: Attachment, remote: Remote | None) -> None:
        """None yet.

        Args:
            attachment: to the server that records.
            remote: host of the files; None: this one.
        """
        self._attachment = attachment
        self._remote = remote
        self._paths: dict[str, tuple[str, int]] = {}
        self.stale: dict[str, int] = {}
        """Frames of earlier trials in the last recording of a name."""

    def request(self, name: str, frames: int, length: int, nonce: int = 0) -> dict[str, Any]:
        """What the worker needs to record test frames.

        Args:
            name: of the recording.
            frames: at most, and some to spare.
            length: octets of the longest as it is sent.
            nonce: octet of the trial in the trailers of marked frames.
        """
        path = f"{self._attachment.ask('scratch')}/{name}.pcap"
        self._paths[name] = path, nonce
        limit = frames + SPARE
        octets = limit * (length + GROWN + _RECORD)
        return {
            "filter": TEST_FRAMES,
            "limit": limit,
            "path": path,
            "octets": octets,
        }

    def read(self, name: str) -> Iterator[tuple[F64, U8]]:
        """Times and frames of the trial, some at a time; then the file is removed.

        Frames of earlier trials are left out and counted in :attr:`stale`.

        Raises:
            EnvironmentLacking: it is on another host.
        """
        there, nonce = self._paths.pop(name)
        with tempfile.TemporaryDirectory(prefix="v6t-") as directory:
            path = Path(there)
            if self._remote is not None:
                path = Path(directory) / "recording.pcap"
                self._remote.fetch(there, path)
            if not path.exists():
                raise EnvironmentLacking(
                    f"the recording of {name} is not here: {path}",
                    "TRex writes it on the server's host: say ssh: user@host in the testbed",
                    code="file-unreadable",
                )
            recorded = read_timed(path)
            flows = latest_flows(frames for _, frames in recorded)
            self.stale[name] = 0
            for times_s, frames in recorded:
                for first in range(0, len(frames), CHUNK):
                    part = slice(first, first + CHUNK)
                    current = is_current(frames[part], flows, nonce)
                    stale = int(np.count_nonzero(~current))
                    self.stale[name] += stale
                    if not stale:  # a view of the file, not a copy
                        yield times_s[part], frames[part]
                    elif stale < len(current):
                        yield times_s[part][current], frames[part][current]
        self._attachment.ask("forget", path=there)


def latest_flows(recorded: Iterable[U8]) -> dict[int, int]:
    """Return the flow sequence of the latest frame of each of TRex's stream numbers.

    TRex counts the starts of a number in the frames' flow sequence
    (``CLatencyPktData::reset``, v3.08): among the frames of a number those that
    left last are of the trial, and all others are of earlier ones.

    Args:
        recorded: frames ``(n, length)`` of one trial, an array for each length.
    """
    latest: dict[int, tuple[int, int]] = {}
    for frames in recorded:
        for first in range(0, len(frames), CHUNK):
            part = frames[first : first + CHUNK]
            if part.shape[1] < trailer.LENGTH:
                continue
            marks = trailer.read(part)
            stamped = marks.magic_ok & (marks.stream_id < FIRST)
            for number in sort_unique(marks.stream_id[stamped]).tolist():
                rows = np.flatnonzero(stamped & (marks.stream_id == number))
                last = rows[marks.time_ns[rows].argmax()]
                one = int(marks.time_ns[last]), int(marks.nonce[last])
                latest[number] = max(one, latest.get(number, one))
    return {number: flow for number, (_, flow) in latest.items()}


def is_current(frames: U8, flows: Mapping[int, int], nonce: int) -> NDArray[np.bool_]:
    """Return a mask of the frames ``(n,)`` that are of the trial, not of an earlier one.

    Args:
        frames: ``(n, length)``; those without a trailer are not.
        flows: see :func:`latest_flows`.
        nonce: octet of the trial in the trailers of marked frames.
    """
    if frames.shape[1] < trailer.LENGTH:
        return np.zeros(len(frames), dtype=bool)
    marks = trailer.read(frames)
    expected = np.full(1 << 16, nonce, dtype=np.uint8)
    expected[list(flows)] = list(flows.values())
    current: NDArray[np.bool_] = marks.magic_ok & (marks.nonce == expected[marks.stream_id])
    return current


def longest_frame(streams: StreamSet) -> int:
    """Octets of the longest frame of some streams."""
    return max(len(base64.b64decode(s.trex["packet"]["binary"])) for s in streams.streams)


def read_frames(path: Path) -> list[U8]:
    """Frames of a recording without their times; see :func:`read_timed`."""
    return [frames for _, frames in read_timed(path)]


def read_timed(path: Path) -> list[tuple[F64, U8]]:
    """Frames of a recording in the order of their arrival, equally long ones together.

    Args:
        path: of the file.

    Returns:
        Times of arrival [s] ``(n,)`` and frames ``(n, length)``; where lengths differ, for each
        length.

    Raises:
        TesterError: it is no recording, or frames were cut.
    """
    data = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
    if len(data) < _HEAD:
        return []
    magic = int.from_bytes(data[:4].tobytes(), "little")
    order = {0xA1B2C3D4: "<", 0xD4C3B2A1: ">"}.get(magic)
    if order is None:
        raise TesterError(f"{path} is not a TRex recording", code="tester-fault")
    if len(data) < _HEAD + _RECORD:
        return []
    included, length = struct.unpack(f"{order}II", data[_HEAD + 8 : _HEAD + 16].tobytes())
    rows, rest = divmod(len(data) - _HEAD, _RECORD + included)
    if rest == 0:
        table = data[_HEAD:].reshape(rows, _RECORD + included)
        sizes = table[:, 8:16].copy().view(f"{order}u4")
        if (sizes == included).all() and included == length:
            return [(_times(table[:, :8].copy(), order), table[:, _RECORD:])]
    return _mixed(data.tobytes(), order, path)


def _times(heads: U8, order: str) -> F64:
    """Seconds and microseconds of each row, in seconds."""
    parts = heads.view(f"{order}u4")
    times_s: F64 = parts[:, 0] + parts[:, 1] / 1e6
    return times_s


def _mixed(data: bytes, order: str, path: Path) -> list[tuple[F64, U8]]:
    by_length: dict[int, list[bytes]] = {}
    heads: dict[int, list[bytes]] = {}
    at = _HEAD
    while at + _RECORD <= len(data):
        included, length = struct.unpack_from(f"{order}II", data, at + 8)
        if included != length:
            raise TesterError(f"{path} holds frames that were cut", code="tester-fault")
        head = data[at : at + 8]
        at += _RECORD
        if at + included > len(data):
            break  # the server was writing when it was stopped
        heads.setdefault(length, []).append(head)
        by_length.setdefault(length, []).append(data[at : at + included])
        at += included
    return [
        (
            _times(np.frombuffer(b"".join(heads[length]), np.uint8).reshape(-1, 8), order),
            np.frombuffer(b"".join(frames), np.uint8).reshape(len(frames), length),
        )
        for length, frames in by_length.items()
    ]


def sequence(frames: U8, first: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which frames carry TRex's trailer, and their numbers within the stream.

    Args:
        frames: ``(n, length)``.
        first: number in the trailer of the stream's first frame.
    """
    if frames.shape[1] < trailer.LENGTH:
        nothing = np.zeros(len(frames), dtype=bool)
        return nothing, np.zeros(len(frames), dtype=np.int64)
    marks = trailer.read(frames)
    return marks.magic_ok, (marks.seq - np.uint32(first)).astype(np.int64)
