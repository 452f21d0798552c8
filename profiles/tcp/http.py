"""HTTP 1.1 transfer of an object (RFC 9112; RFC 3511, section 5.2.3), and the sizes of its segments."""

OPENING_OCTETS, HEADER_OCTETS = 36, 32
"""A TCP header with the options of a SYN, and with those of any other segment."""
HTTP_VERSION = "HTTP/1.1"
SEGMENT_OCTETS = 1208  # of data at most, for IPv6's smallest MTU (RFC 8200, section 5)
REQUEST = f"GET /object {HTTP_VERSION}\r\nHost: v6t\r\n\r\n".encode()
MAX_SEGMENTS = 10  # that a server may send before the first is acknowledged (RFC 6928)
MAX_OBJECT_OCTETS = MAX_SEGMENTS * SEGMENT_OCTETS - 128


def build_response(octets: int) -> bytes:
    """Return an HTTP response with an object of ``octets``."""
    head = f"{HTTP_VERSION} 200 OK\r\nContent-Length: {octets}\r\n\r\n".encode()
    pattern = bytes(range(32, 127))
    return head + (pattern * (octets // len(pattern) + 1))[:octets]


def split_into_segments(data: bytes) -> list[bytes]:
    """Split data into the payloads of segments."""
    return [data[at : at + SEGMENT_OCTETS] for at in range(0, len(data), SEGMENT_OCTETS)]
