"""Reads captures in the classic pcap format, to see what was written."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from v6t.base.errors import UsageError
from v6t.base.files import read_octets

_MAGIC_NS = 0xA1B23C4D
_MAGIC_US = 0xA1B2C3D4


def read_pcap(path: Path) -> Iterator[tuple[float, bytes]]:
    """Time stamp [s] and octets of each frame of a classic pcap file.

    Raises:
        UsageError: the file is no classic pcap capture, or breaks off.
    """
    data = read_octets(path)
    if len(data) < 24:
        raise UsageError(f"{path} is no pcap capture", code="wrong-kind-of-file")
    for order in "<>":
        magic = struct.unpack_from(order + "I", data)[0]
        if magic in (_MAGIC_NS, _MAGIC_US):
            break
    else:
        raise UsageError(f"{path} is no pcap capture", code="wrong-kind-of-file")
    unit = 1e-9 if magic == _MAGIC_NS else 1e-6
    offset = 24
    while offset < len(data):
        body = offset + 16
        header = data[offset:body].ljust(16, b"\xff")  # a header cut short promises too much
        seconds, fraction, captured, _ = struct.unpack(order + "IIII", header)
        offset = body + captured
        if offset > len(data):
            raise UsageError(f"{path} ends in the middle of a frame", code="damaged-file")
        yield seconds + fraction * unit, data[body:offset]
