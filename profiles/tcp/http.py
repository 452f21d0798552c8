"""The exchange of an object by HTTP 1.1 (RFC 9112), as RFC 3511 section 5.2.3 asks for."""

from __future__ import annotations

VERSION = "HTTP/1.1"
SEGMENT_OCTETS = 1208
"""Data of a segment at most: what IPv6's smallest MTU leaves (RFC 8200 section 5)."""
REQUEST = f"GET /object {VERSION}\r\nHost: v6t\r\n\r\n".encode()
MOST_SEGMENTS = 10
"""That a server may send before the first of them is acknowledged (RFC 6928): longer objects need more
of TCP than there is here."""
MOST_OCTETS = MOST_SEGMENTS * SEGMENT_OCTETS - 128
"""Of an object."""


def response(octets: int) -> bytes:
    """An answer with an object of so many octets."""
    head = f"{VERSION} 200 OK\r\nContent-Length: {octets}\r\n\r\n".encode()
    pattern = bytes(range(32, 127))
    return head + (pattern * (octets // len(pattern) + 1))[:octets]


def in_segments(data: bytes) -> list[bytes]:
    """What each segment carries."""
    return [data[at : at + SEGMENT_OCTETS] for at in range(0, len(data), SEGMENT_OCTETS)]
