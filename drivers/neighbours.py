"""ARP (RFC 826) and neighbour discovery (RFC 4861) for the hosts that a tester plays on one link.

Pure, and for Python 3.8 without packages: the interpreter of TRex's client receives this module as text.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from v6t.packets.checksum import build_pseudo_header, compute_checksum

ARP, IPV4, IPV6, VLAN = 0x0806, 0x0800, 0x86DD, 0x8100
REQUEST, REPLY = 1, 2
ICMPV6, SOLICITATION, ADVERTISEMENT = 58, 135, 136
SOURCE_ADDRESS, TARGET_ADDRESS = 1, 2  # Options that hold a link-layer address
SOLICITED, OVERRIDE = 0x40000000, 0x20000000
REQUEST_FILTER = "(arp[6:2] = 1 or (icmp6 and ip6[40] = 135))"
"""Capture filter for requests for a host; :meth:`Hosts.find_answer` checks them further."""
MIN_FRAME_OCTETS = 60
MAX_INTRODUCED_HOSTS = 4096
"""With more hosts than this, none is announced, and the device resolves those it needs."""
_ALL_NODES = socket.inet_pton(socket.AF_INET6, "ff02::1")
_ALL_NODES_MAC = b"\x33\x33\x00\x00\x00\x01"


class Hosts:
    """The tester's hosts on a link, which share one MAC address.

    Args:
        device: the device's addresses on the link.
        answers: whether requests for a host are answered.
        introduces: whether the hosts send requests for the device before trials.
        background: ``vlan``, ``tester`` and ``device`` address of a second VLAN, with one host.
    """

    def __init__(
        self,
        mac: str,
        addresses: Sequence[str],
        device_mac: str,
        device: Sequence[str],
        vlan: int | None = None,
        *,
        answers: bool = True,
        introduces: bool = True,
        background: Mapping[str, Any] | None = None,
    ) -> None:
        self.answers, self.introduces = answers, introduces
        self._mac, self._device_mac = (bytes.fromhex(m.replace(":", "")) for m in (mac, device_mac))
        self._hosts = [pack_address(a) for a in addresses]
        self._known = frozenset(self._hosts)
        self._device = [pack_address(a) for a in device]
        self._tag = b"" if vlan is None else struct.pack("!HH", VLAN, vlan)
        self._beside: Hosts | None = None
        if background is not None:
            tester, own = background["tester"], background["device"]
            self._beside = Hosts(
                mac, [tester], device_mac, [own], background["vlan"],
                answers=answers, introduces=introduces,
            )  # fmt: skip

    def answer_all(self, frames: Iterable[Any]) -> Iterator[bytes]:
        """Yield the answers to those frames that are requests for one of the hosts."""
        for frame in frames:
            if (answer := self.answer(frame.tobytes())) is not None:
                yield answer

    def answer(self, frame: bytes) -> bytes | None:
        """Return the answer to a frame if it is a request for one of the hosts, else None."""
        if not self.answers:
            return None
        tag = len(self._tag)
        identifier = read_word(frame, 14) & 0xFFF
        if tag and (frame[12:14] != self._tag[:2] or identifier != read_word(self._tag, 2)):
            return self._beside.answer(frame) if self._beside is not None else None
        kind, packet = read_word(frame, 12 + tag), frame[14 + tag :]
        if kind == ARP:
            return self._answer_arp(packet)
        return self._answer_solicitation(frame[6:12], packet) if kind == IPV6 else None

    def make_introductions(self) -> list[bytes]:
        """Return requests from all hosts, so that the device learns them (RFC 2544, section 23)."""
        if not self.introduces or len(self._hosts) > MAX_INTRODUCED_HOSTS:
            return []
        requests = []
        for host in self._hosts:
            # addresses of the same network are the ones that share most of their bits
            near = [(count_common_bits(a, host), a) for a in self._device if len(a) == len(host)]
            if near:
                requests.append(self._build_request(host, max(near, key=lambda n: n[0])[1]))
        return requests + (self._beside.make_introductions() if self._beside is not None else [])

    def _build_request(self, host: bytes, target: bytes) -> bytes:
        """Build an ARP request or neighbor solicitation from a host for a target."""
        if len(host) == 4:
            body = struct.pack("!HHBBH", 1, IPV4, 6, 4, REQUEST) + self._mac + host
            return self._build_frame(self._device_mac, ARP, body + bytes(6) + target)
        message = struct.pack("!BBHI", SOLICITATION, 0, 0, 0) + target
        message += bytes((SOURCE_ADDRESS, 1)) + self._mac
        return self._build_frame(self._device_mac, IPV6, build_icmpv6(host, target, message))

    def _answer_arp(self, packet: bytes) -> bytes | None:
        if packet[:8] != struct.pack("!HHBBH", 1, IPV4, 6, 4, REQUEST) or len(packet) < 28:
            return None
        asker_mac, asker, target = packet[8:14], packet[14:18], packet[24:28]
        if target not in self._known or asker == target:
            return None
        body = packet[:6] + struct.pack("!H", REPLY) + self._mac + target + asker_mac + asker
        return self._build_frame(asker_mac, ARP, body)

    def _answer_solicitation(self, asker_mac: bytes, packet: bytes) -> bytes | None:
        if len(packet) < 64 or packet[6] != ICMPV6 or packet[7] != 255:
            return None
        length = read_word(packet, 4)
        asker, destination, message = packet[8:24], packet[24:40], packet[40 : 40 + length]
        target = message[8:24]
        # validity: RFC 4861, section 7.1.1
        is_solicitation = len(message) >= 24 and message[:2] == bytes((SOLICITATION, 0))
        if not is_solicitation or target not in self._known:
            return None
        if _sum_message(asker, destination, message):
            return None
        flags = OVERRIDE | SOLICITED
        if not any(asker):  # duplicate address detection: the answer goes to all nodes
            flags, asker, asker_mac = OVERRIDE, _ALL_NODES, _ALL_NODES_MAC
        advertisement = struct.pack("!BBHI", ADVERTISEMENT, 0, 0, flags) + target
        advertisement += bytes((TARGET_ADDRESS, 1)) + self._mac
        return self._build_frame(asker_mac, IPV6, build_icmpv6(target, asker, advertisement))

    def _build_frame(self, to: bytes, kind: int, packet: bytes) -> bytes:
        frame = to + self._mac + self._tag + struct.pack("!H", kind) + packet
        return frame + bytes(max(0, MIN_FRAME_OCTETS - len(frame)))


def select_requests(frames: Any) -> Any:
    """Return the ARP and ICMPv6 frames among equally long frames, as they may be requests.

    Parsing all other frames one by one would take a core of a busy tester.
    """
    if frames.shape[1] < 26:
        return frames[:0]
    rows = False
    for at in (12, 16):
        kind = frames[:, at].astype("u2") * 256 + frames[:, at + 1]
        rows = rows | (kind == ARP) | (kind == IPV6) & (frames[:, at + 8] == ICMPV6)
    return frames[rows]


def build_icmpv6(source: bytes, destination: bytes, message: bytes) -> bytes:
    """Build an IPv6 packet of neighbour discovery: hop limit 255, checksum filled in."""
    total = _sum_message(source, destination, message)
    message = message[:2] + struct.pack("!H", total) + message[4:]
    return struct.pack("!IHBB", 6 << 28, len(message), ICMPV6, 255) + source + destination + message


def _sum_message(source: bytes, destination: bytes, message: bytes) -> int:
    """Return the checksum of an ICMPv6 message; it is 0 if the message contains a valid one."""
    pseudo_header = build_pseudo_header(source + destination, len(message), ICMPV6)
    return compute_checksum(pseudo_header + message)


def count_common_bits(one: bytes, other: bytes) -> int:
    """Count the leading bits that two addresses share."""
    differs = int.from_bytes(one, "big") ^ int.from_bytes(other, "big")
    return 8 * len(one) - differs.bit_length()


def read_word(frame: bytes, offset: int) -> int:
    """Return the 16-bit number at an offset; 0 beyond the end of the frame."""
    return int.from_bytes(frame[offset : offset + 2], "big")


def pack_address(address: str) -> bytes:
    """Parse an IP address, with or without a prefix length."""
    plain = address.partition("/")[0]
    return socket.inet_pton(socket.AF_INET6 if ":" in plain else socket.AF_INET, plain)
