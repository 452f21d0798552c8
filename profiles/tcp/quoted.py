"""Segments of TCP that ICMP errors quote, of many frames at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets import decode

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8

_ERRORS = {"ICMP": (3, 11, 12), "ICMPv6": (1, 2, 3, 4)}
_DECIDING = {"IPv4": (0, 2, 3, 6, 7, 9), "IPv6": (0, 4, 5, 6), "ICMP": (0,), "ICMPv6": (0,)}
"""Octets of a header by which it is known where the next one begins, and which that is."""


def quoted(frames: U8) -> Iterator[tuple[U8, NDArray[np.uint32]]]:
    """Ports ``(n, 4)`` and sequence numbers ``(n,)`` of the segments that ICMP errors quote.

    Errors of one sender are alike but for addresses, ports and numbers: one of them is read header by
    header, and all that are like it are taken together.

    Args:
        frames: ``(n, octets)``; those that quote no segment of TCP are left out.
    """
    left = frames
    while len(left):
        headers = decode.headers(left[0].tobytes())
        at, inner = _segment(left[0].tobytes(), headers)
        columns = _deciding(left.shape[1], (*headers, *inner))
        alike = (left[:, columns] == left[0, columns]).all(axis=1)
        if at:
            numbers = np.ascontiguousarray(left[alike, at + 4 : at + 8]).view(">u4")[:, 0]
            yield left[alike, at : at + 4], numbers.astype(np.uint32)
        left = left[~alike]


def _segment(
    frame: bytes, headers: tuple[decode.Header, ...]
) -> tuple[int, tuple[decode.Header, ...]]:
    """Where the quoted segment begins, 0 if there is none, and the headers before it."""
    error = headers[-1] if headers else None
    if error is None or error.name not in _ERRORS or frame[error.start] not in _ERRORS[error.name]:
        return 0, ()
    begin = error.start + 8
    quote = frame[begin : error.limit]
    inner = tuple(
        decode.Header(h.name, begin + h.start, begin + h.end, begin + h.limit)
        for h in decode.headers(quote, "IPv4" if error.name == "ICMP" else "IPv6")
    )
    if not inner:
        return 0, ()
    # a NAT may be told no more than eight octets of TCP: ports and the sequence number
    at = inner[-1].start if inner[-1].name == "TCP" else inner[-1].end
    if inner[-1].name not in ("TCP", "IPv4", "IPv6") or begin + len(quote) < at + 8:
        return 0, inner
    return at, inner


def _deciding(octets: int, headers: tuple[decode.Header, ...]) -> NDArray[np.int64]:
    found: set[int] = set()
    for header in headers:
        if header.name in _DECIDING:
            found |= {header.start + n for n in _DECIDING[header.name]}
            found |= set(range(header.start + 40, header.end)) if header.name == "IPv6" else set()
        elif header.name == "Ethernet":
            found |= set(range(header.start + 12, header.end))
        elif header.name != "TCP":
            found |= set(range(header.start, header.end))
    return np.array(sorted(n for n in found if n < octets), np.int64)
