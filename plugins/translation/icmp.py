"""ICMP and ICMPv6 types as RFC 7915 sections 4.2 and 5.2 translate them; arithmetic only."""

from __future__ import annotations

PLATEAUS = (65535, 32000, 17914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68)
"""MTUs to assume where an old router tells none (RFC 1191 section 7)."""

ECHO = {8: 128, 0: 129}
"""ICMP echo request and reply, and what they are in ICMPv6."""
ECHO_BACK = {six: four for four, six in ECHO.items()}

_UNREACHABLE = {
    **dict.fromkeys((0, 1, 5, 6, 7, 8, 11, 12), (1, 0)),
    **dict.fromkeys((9, 10, 13, 15), (1, 1)),
    3: (1, 4),
}
_UNREACHABLE_BACK = {0: (3, 1), 1: (3, 10), 2: (3, 1), 3: (3, 1), 4: (3, 3)}
_POINTER = {
    **{0: 0, 1: 1, 2: 4, 3: 4, 8: 7, 9: 6},
    **dict.fromkeys(range(12, 16), 8),
    **dict.fromkeys(range(16, 20), 24),
}
_POINTER_BACK = {
    **{0: 0, 1: 1, 4: 2, 5: 2, 6: 9, 7: 8},
    **dict.fromkeys(range(8, 24), 12),
    **dict.fromkeys(range(24, 40), 16),
}

NEXT_HEADER_POINTER = 6
"""Where IPv6 names the protocol that IPv4 calls unreachable."""


def error_to_icmpv6(
    kind: int, code: int, rest: int, length: int, mtu: int
) -> tuple[int, int, int] | None:
    """Type, code and second word of an ICMPv6 error; None: it is dropped.

    Args:
        kind: ICMP type.
        code: ICMP code.
        rest: second word of the ICMP header.
        length: of the packet the error is about, as its IPv4 header tells [octets].
        mtu: the largest that may be told: of the IPv6 next hop, or what the IPv4 one allows.
    """
    if kind == 3 and code == 4:
        next_hop_mtu = rest & 0xFFFF or next((p for p in PLATEAUS if p < length), PLATEAUS[-1])
        return 2, 0, max(1280, min(next_hop_mtu + 20, mtu))
    if kind == 3 and code == 2:
        return 4, 1, NEXT_HEADER_POINTER
    if kind == 3 and code in _UNREACHABLE:
        return (*_UNREACHABLE[code], 0)
    if kind == 11:
        return 3, code, 0
    if kind == 12 and code in {0, 2} and rest >> 24 in _POINTER:
        return 4, 0, _POINTER[rest >> 24]
    return None


def error_to_icmp(kind: int, code: int, rest: int, mtu: int) -> tuple[int, int, int] | None:
    """Type, code and second word of an ICMP error; None: it is dropped.

    Args:
        kind: ICMPv6 type.
        code: ICMPv6 code.
        rest: second word of the ICMPv6 header.
        mtu: the largest that may be told: of the IPv4 next hop, or what the IPv6 one allows.
    """
    if kind == 1 and code in _UNREACHABLE_BACK:
        return (*_UNREACHABLE_BACK[code], 0)
    if kind == 2:
        return 3, 4, min(max(rest - 20, 0), mtu)
    if kind == 3:
        return 11, code, 0
    if kind == 4 and code == 1:
        return 3, 2, 0
    if kind == 4 and code == 0 and rest in _POINTER_BACK:
        return 12, 0, _POINTER_BACK[rest] << 24
    return None
