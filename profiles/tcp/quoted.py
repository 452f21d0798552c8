"""Segments of TCP that ICMP errors quote, of many frames at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.headers import to_numbers
from v6t.packets.walker import FrameHeader, group_by_headers, walk_with_quote

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8


def read_quoted_segments(frames: U8) -> Iterator[tuple[U8, NDArray[np.uint32]]]:
    """Read ports ``(n, 4)`` and sequence numbers ``(n,)`` of the segments that ICMP errors quote.

    Args:
        frames: ``(n, octets)``; those that quote no segment of TCP are left out.
    """
    for rows, headers in group_by_headers(frames, walk_with_quote):
        at = _find_quoted_segment(headers)
        if at is not None:
            group = frames[rows]
            yield group[:, at : at + 4], to_numbers(group[:, at + 4 : at + 8]).astype(np.uint32)


def _find_quoted_segment(headers: Sequence[FrameHeader]) -> int | None:
    names = [header.name for header in headers]
    error = next((at for at, name in enumerate(names) if name in ("ICMP", "ICMPv6")), None)
    if error is None or error + 1 == len(headers) or names[-1] not in ("TCP", "IPv4", "IPv6"):
        return None
    last = headers[-1]
    at = last.start if last.name == "TCP" else last.end
    # a NAT may receive no more than eight octets of TCP: ports and the sequence number
    return at if at + 8 <= headers[error].limit else None
