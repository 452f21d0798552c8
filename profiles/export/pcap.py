"""Captures in the classic pcap format with nanosecond time stamps, for Wireshark and tests."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from v6t.profiles.errors import UsageError
from v6t.profiles.files import read_octets

_MAGIC_NS = 0xA1B23C4D
_MAGIC_US = 0xA1B2C3D4
_ETHERNET = 1
_SNAP = 65535


def write_pcap(
    path: Path, frames: Iterable[bytes], rate_fps: float, overwrite: bool = False
) -> int:
    """Write frames (without FCS) ``1 / rate_fps`` apart; returns how many.

    The file appears complete or not at all.

    Raises:
        UsageError: the file exists and may not be overwritten.
    """
    if path.exists() and not overwrite:
        raise UsageError(f"{path} exists already", "choose another name or use --force")
    partial = path.with_name(path.name + ".part")
    count = 0
    try:
        with partial.open("wb") as out:
            out.write(struct.pack("<IHHiIII", _MAGIC_NS, 2, 4, 0, 0, _SNAP, _ETHERNET))
            for count, frame in enumerate(frames, 1):
                seconds, rest = divmod(round((count - 1) * 1e9 / rate_fps), 1_000_000_000)
                out.write(struct.pack("<IIII", seconds, rest, len(frame), len(frame)))
                out.write(frame)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return count


def read_pcap(path: Path) -> Iterator[tuple[float, bytes]]:
    """Time stamp [s] and octets of each frame of a classic pcap file.

    Raises:
        UsageError: the file is no classic pcap capture, or breaks off.
    """
    data = read_octets(path)
    if len(data) < 24:
        raise UsageError(f"{path} is no pcap capture")
    for order in "<>":
        magic = struct.unpack_from(order + "I", data)[0]
        if magic in (_MAGIC_NS, _MAGIC_US):
            break
    else:
        raise UsageError(f"{path} is no pcap capture")
    unit = 1e-9 if magic == _MAGIC_NS else 1e-6
    offset = 24
    while offset < len(data):
        body = offset + 16
        header = data[offset:body].ljust(16, b"\xff")  # a header cut short promises too much
        seconds, fraction, captured, _ = struct.unpack(order + "IIII", header)
        offset = body + captured
        if offset > len(data):
            raise UsageError(f"{path} ends in the middle of a frame")
        yield seconds + fraction * unit, data[body:offset]
