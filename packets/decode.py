"""The headers of any one frame, outermost first, and what is wrong with their lengths and checksums.

Reads octets and nothing else: neither the compiler nor a plugin has a part in it, so it can judge
both. Knows Ethernet, VLAN tags, IPv4, IPv6 with its options, GRE, UDP, TCP and ICMP, in any order
and as deep as they go; what it does not know is payload.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

MIN_OCTETS = 60
"""Ethernet frames are padded to so many octets (FCS off)."""
_VLAN = (0x8100, 0x88A8)
_BY_ETHERTYPE = {0x0800: "IPv4", 0x86DD: "IPv6", 0x6558: "Ethernet"}
_BY_PROTOCOL = {
    1: "ICMP", 4: "IPv4", 6: "TCP", 17: "UDP", 41: "IPv6", 47: "GRE", 58: "ICMPv6",
}  # fmt: skip
_OPTIONS = (0, 60)
"""Hop-by-hop and destination options: the only extension headers that change nothing else."""
CHECKSUM_AT = {"ICMP": 2, "ICMPv6": 2, "UDP": 6, "TCP": 16, "GRE": 4}
"""Octet of a header that its checksum begins in."""
PROTOCOL = {"UDP": 17, "TCP": 6, "ICMPv6": 58}
"""Of the pseudo header; GRE and ICMP over IPv4 have none."""
_LEAST = {"Ethernet": 14, "IPv4": 20, "IPv6": 40, "GRE": 4, "UDP": 8, "TCP": 20, "ICMP": 4,
          "ICMPv6": 4}  # fmt: skip


@dataclass(frozen=True)
class Header:
    """One header of a frame, in octets from the frame's first.

    Attributes:
        name: of the protocol.
        start, end: where it begins, and the first octet behind it.
        limit: first octet behind what it says it holds, as far as it says so.
        addresses: where the addresses of the IP header below begin, and their octets.
    """

    name: str
    start: int
    end: int
    limit: int
    addresses: tuple[int, int] | None = None


def headers(frame: bytes, first: str = "Ethernet") -> tuple[Header, ...]:
    """Headers of one frame (FCS off), or from another first one on; payload follows the last."""
    return tuple(_walk(frame, first))


def _walk(frame: bytes, first: str) -> Iterator[Header]:
    name: str | None = first
    at, limit = 0, len(frame)
    below: tuple[int, int] | None = None
    while name is not None and limit - at >= _LEAST[name]:
        header, following = _READ[name](frame, at, limit)
        if name not in ("Ethernet", "IPv4", "IPv6"):
            header = Header(name, at, header.end, header.limit, below)
        yield header
        if name == "IPv4":
            below = (at + 12, 8)
        elif name == "IPv6":
            below = (at + 8, 32)
        at, limit, name = header.end, min(limit, header.limit), following


def _number(frame: bytes, at: int, octets: int = 2) -> int:
    return int.from_bytes(frame[at : at + octets], "big")


def _ethernet(frame: bytes, at: int, limit: int) -> tuple[Header, str | None]:
    kind = at + 12
    while _number(frame, kind) in _VLAN and kind + 6 <= limit:
        kind += 4
    end = kind + 2
    return Header("Ethernet", at, end, limit), _BY_ETHERTYPE.get(_number(frame, kind))


def _ipv4(frame: bytes, at: int, limit: int) -> tuple[Header, str | None]:
    end = at + 4 * (frame[at] & 15)
    fragment = _number(frame, at + 6) & 0x3FFF
    following = None if fragment or end > limit else _BY_PROTOCOL.get(frame[at + 9])
    return Header("IPv4", at, min(end, limit), at + _number(frame, at + 2)), following


def _ipv6(frame: bytes, at: int, limit: int) -> tuple[Header, str | None]:
    end, protocol = at + 40, frame[at + 6]
    while protocol in _OPTIONS and end + 8 <= limit:
        protocol, end = frame[end], end + 8 + 8 * frame[end + 1]
    return Header("IPv6", at, end, at + 40 + _number(frame, at + 4)), _BY_PROTOCOL.get(protocol)


def _gre(frame: bytes, at: int, limit: int) -> tuple[Header, str | None]:
    flags = _number(frame, at)
    end = at + 4 + 4 * sum(bool(flags & bit) for bit in (0x8000, 0x2000, 0x1000))
    return Header("GRE", at, end, limit), _BY_ETHERTYPE.get(_number(frame, at + 2))


def _udp(frame: bytes, at: int, limit: int) -> tuple[Header, str | None]:
    return Header("UDP", at, at + 8, at + _number(frame, at + 4)), None


def _tcp(frame: bytes, at: int, limit: int) -> tuple[Header, str | None]:
    return Header("TCP", at, at + 4 * (frame[at + 12] >> 4), limit), None


def _icmp(frame: bytes, at: int, limit: int) -> tuple[Header, str | None]:
    return Header("ICMP", at, min(at + 8, limit), limit), None


_READ = {
    "Ethernet": _ethernet, "IPv4": _ipv4, "IPv6": _ipv6, "GRE": _gre, "UDP": _udp, "TCP": _tcp,
    "ICMP": _icmp, "ICMPv6": _icmp,
}  # fmt: skip


def problems(frame: bytes) -> list[str]:
    """Lengths that do not fit and checksums that are wrong, one sentence each; none: all is right."""
    faults: list[str] = []
    limit, deep = len(frame), 0
    known = headers(frame)
    for header in known:
        name = header.name
        if name in ("IPv4", "IPv6"):
            name = name if deep == 0 else f"inner {name}"
            padded = deep == 0 and header.limit < limit == MIN_OCTETS
            deep += 1
            if frame[header.start] >> 4 != int(header.name[3]):
                faults.append(f"{name}: the version is {frame[header.start] >> 4}")
            if header.limit != limit and not padded:
                field = "total length" if header.name == "IPv4" else "payload length"
                faults.append(f"{name}: {field} is wrong by {header.limit - limit}")
            if header.name == "IPv4" and _folded(frame[header.start : header.end]) != 0xFFFF:
                faults.append(f"{name}: the header checksum is wrong")
            limit = min(limit, header.limit)
        elif name == "UDP" and header.limit != limit:
            faults.append(f"UDP: the length is wrong by {header.limit - limit}")
        faults += _checked(frame, header, limit)
    if not deep:
        faults.append("no IP packet is in it")
    return faults


def _checked(frame: bytes, header: Header, limit: int) -> list[str]:
    """The checksum of a header that stands above IP."""
    at = CHECKSUM_AT.get(header.name)
    if at is None or (header.name == "GRE" and not frame[header.start] & 0x80):
        return []
    if header.name == "UDP" and not _number(frame, header.start + at):
        # RFC 768: none was computed; over IPv6 there must be one (RFC 8200 section 8.1)
        six = header.addresses is not None and header.addresses[1] == 32
        return ["UDP: there is no checksum"] if six else []
    covered = frame[header.start : limit]
    if header.name in PROTOCOL and header.addresses is not None:
        start, octets = header.addresses
        covered += b"\0" * (len(covered) % 2)
        covered += frame[start : start + octets]
        covered += (limit - header.start).to_bytes(4, "big")
        covered += PROTOCOL[header.name].to_bytes(4, "big")
    return [] if _folded(covered) == 0xFFFF else [f"{header.name}: the checksum is wrong"]


def _folded(octets: bytes) -> int:
    """One's complement sum of 16-bit words (RFC 1071)."""
    # 2**16 is 1 modulo 0xFFFF: the sum of the words is the number itself, apart from its two zeros
    number = int.from_bytes(octets + b"\0" * (len(octets) % 2), "big")
    return number % 0xFFFF or (0xFFFF if number else 0)
