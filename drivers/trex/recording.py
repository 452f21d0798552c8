"""Recordings of TRex's captures: classic pcap files, read by NumPy."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from v6t.profiles import trailer
from v6t.profiles.errors import TesterError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.profiles.arrays import U8


_HEAD, _RECORD = 24, 16


def read_frames(path: Path) -> list[U8]:
    """Frames of a recording in the order of their arrival, equally long ones together.

    Args:
        path: of the file.

    Returns:
        Arrays ``(n, length)``; where lengths differ, one for each length.

    Raises:
        TesterError: it is no recording, or frames were cut.
    """
    data = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
    if len(data) < _HEAD:
        return []
    magic = int.from_bytes(data[:4].tobytes(), "little")
    order = {0xA1B2C3D4: "<", 0xD4C3B2A1: ">"}.get(magic)
    if order is None:
        raise TesterError(f"{path} is no recording of TRex's")
    if len(data) < _HEAD + _RECORD:
        return []
    kept, length = struct.unpack(f"{order}II", data[_HEAD + 8 : _HEAD + 16].tobytes())
    rows, rest = divmod(len(data) - _HEAD, _RECORD + kept)
    if rest == 0:
        table = data[_HEAD:].reshape(rows, _RECORD + kept)
        sizes = table[:, 8:16].copy().view(f"{order}u4")
        if (sizes == kept).all() and kept == length:
            return [table[:, _RECORD:]]
    return _mixed(data.tobytes(), order, path)


def _mixed(data: bytes, order: str, path: Path) -> list[U8]:
    by_length: dict[int, list[bytes]] = {}
    at = _HEAD
    while at + _RECORD <= len(data):
        kept, length = struct.unpack_from(f"{order}II", data, at + 8)
        if kept != length:
            raise TesterError(f"{path} holds frames that were cut")
        at += _RECORD
        if at + kept > len(data):
            break  # the server was writing when it was stopped
        by_length.setdefault(length, []).append(data[at : at + kept])
        at += kept
    return [
        np.frombuffer(b"".join(frames), np.uint8).reshape(len(frames), length)
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
