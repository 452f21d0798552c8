"""Captures in the classic pcap format with nanosecond time stamps, for Wireshark."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path

from v6t.base.errors import UsageError

_MAGIC_NS = 0xA1B23C4D
_ETHERNET = 1
_SNAP = 65535


def write_pcap(
    path: Path, frames: Iterable[bytes | None], rate_fps: float, overwrite: bool = False
) -> int:
    """Write frames (without FCS) ``1 / rate_fps`` apart and return their number.

    None stands for a dropped frame: it takes its time but is not written.

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
            for place, frame in enumerate(frames):
                if frame is None:
                    continue
                count += 1
                seconds, rest = divmod(round(place * 1e9 / rate_fps), 1_000_000_000)
                out.write(struct.pack("<IIII", seconds, rest, len(frame), len(frame)))
                out.write(frame)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return count
