"""Tunnels for arrays of packets: IPv4 in IPv6 (RFC 2473) and IPv6 in IPv4 (RFC 4213).

The outer traffic class is the inner one (RFC 5969, section 10; RFC 6040, normal mode).
:mod:`v6t.packets.header_policy` describes what else a correct device may write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Any, ClassVar

import numpy as np
from v6t.intent.device import Links
from v6t.packets import headers
from v6t.packets.arrays import U8, Mask
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.header_policy import combine_ecn
from v6t.packets.headers import IP, IPV4, IPV6, UDP, decrement_hops, read_traffic_class, view
from v6t.packets.reference import EXHAUSTED, NOT_FORWARDED, DropReason
from v6t.plugins.reference_device import DROP_ALL, Answer, Checks, is_forwardable

OUTER_HOPS = 64
PORT_TRANSPORTS = (headers.PROTOCOL_UDP, headers.PROTOCOL_TCP)  # the transports with ports
ECN_DROP = "congestion mark on a packet that is not ECN-capable"
"""Text of the drop reason for packets that RFC 6040, section 4.2 drops."""
_ECN, _DSCP, _CE = 0x03, np.uint8(0xFC), 3


class TunnelDevice(ABC):
    """A device with tunnels of IPv4 in IPv6 on its left link; ``drops`` defines TOO_BIG and UNMARKED."""

    links: Links
    drops: ClassVar[type[DropReason]]
    transports: ClassVar[Sequence[int]] = (headers.PROTOCOL_UDP,)
    uniform: ClassVar[bool] = False
    """Whether decapsulation copies the outer DSCP to the inner header (RFC 2983, section 3)."""

    @abstractmethod
    def select_tunnel_packets(self, outer: Any) -> Mask:
        """Select the IPv6 packets for the device's tunnels, by their headers."""

    def select_native(self, outer: Any, tunnelled: Mask) -> Mask | None:
        """Select the IPv6 packets that are routed; by default all that are not for the device's tunnels."""
        return ~tunnelled

    @abstractmethod
    def check_source(self, outer: Any, inner: Any, udp: Any) -> Checks:
        """Return the drop reasons for packets from tunnels with wrong addresses or ports."""

    @abstractmethod
    def choose_tunnel(self, header: Any, udp: Any) -> tuple[Checks, Callable[[Mask], Any]]:
        """Return drop reasons for IPv4 packets, and a function that returns the outer addresses of rows."""

    def answer_forward(self, packets: U8) -> Answer:
        outer = view(packets, IPV6)
        tunnelled = self.select_tunnel_packets(outer)
        native = self.select_native(outer, tunnelled)
        if packets.shape[1] < 68:
            return Answer(DROP_ALL.drops, native=native)
        inner, udp = view(packets, IPV4, 40), view(packets, UDP, 60)
        checks = [
            (NOT_FORWARDED, ~tunnelled | ~carries_ports(packets, self.transports)),
            *self.check_source(outer, inner, udp),
            (EXHAUSTED, inner["ttl"] <= 1),
            (self.drops["UNMARKED"], select_ecn_drops(packets)),
        ]

        def build(rows: Mask) -> U8:
            return decapsulate(packets[rows], uniform=self.uniform)

        return Answer(checks, build, version=4, native=native)

    def answer_reverse(self, packets: U8) -> Answer:
        if packets.shape[1] < 28:
            return DROP_ALL
        header = view(packets, IPV4)
        own_checks, choose_ends = self.choose_tunnel(header, view(packets, UDP, 20))
        checks = [
            (NOT_FORWARDED, ~has_ports(packets, self.transports)),
            *own_checks,
            (EXHAUSTED, header["ttl"] <= 1),
            (self.drops["TOO_BIG"], packets.shape[1] + 40 > self.links.left.mtu),
        ]
        return Answer(checks, lambda rows: encapsulate(packets[rows], *choose_ends(rows)))


def pack_address(address: IPv4Address | IPv6Address) -> U8:
    """Convert an address to an array of its octets."""
    return np.frombuffer(address.packed, dtype=np.uint8)


def match_address(addresses: U8, address: IPv4Address | IPv6Address) -> Mask:
    """Select the rows of ``addresses`` ``(n, 4 or 16)`` that equal ``address``."""
    equal: Mask = (addresses == pack_address(address)).all(axis=1)
    return equal


def encapsulate(packets: U8, source: U8, destination: U8, outer_version: int = 6) -> U8:
    """Encapsulate packets in IPv6, or in IPv4 without DF; outer addresses are per row or the same for all."""
    inner_version, size = 10 - outer_version, IP[outer_version].itemsize
    count, length = packets.shape
    out = np.empty((count, size + length), dtype=np.uint8)
    out[:, size:] = packets
    outer, tos = view(out, IP[outer_version]), _read_tos(packets, inner_version)
    outer["src_octets"], outer["dst_octets"] = source, destination
    if outer_version == 6:
        outer["ver_tc_fl"] = 0
        headers.write_traffic_class(outer, tos)
        outer["plen"], outer["nh"], outer["hlim"] = length, headers.PROTOCOL_IPIP, OUTER_HOPS
    else:
        outer["ver_ihl"], outer["tos"], outer["len"] = 0x45, tos, size + length
        outer["id"], outer["flags_frag"] = 0, 0
        outer["ttl"], outer["proto"] = OUTER_HOPS, headers.PROTOCOL_IPV6
        write_ipv4_checksum(out, 0, size)
    decrement_hops(out, inner_version, at=size)
    return out


def decapsulate(packets: U8, outer_version: int = 6, *, uniform: bool = False) -> U8:
    """Remove outer headers, none of :func:`select_ecn_drops`; ``uniform``: copy the outer DSCP."""
    inner_version = 10 - outer_version
    inner = packets[:, IP[outer_version].itemsize :].copy()
    decrement_hops(inner, inner_version)
    outer, old = _read_tos(packets, outer_version), _read_tos(inner, inner_version)
    tos = (outer if uniform else old) & _DSCP | combine_ecn(old & _ECN, outer & _ECN)
    if inner_version == 4:
        headers.write_tos(inner, tos)
    else:
        headers.write_traffic_class(view(inner, IPV6), tos)
    return inner


def select_ecn_drops(packets: U8, outer_version: int = 6) -> Mask:
    """Select rows with CE in the outer header and Not-ECT in the inner one (RFC 6040, section 4.2)."""
    inner = _read_tos(packets, 10 - outer_version, IP[outer_version].itemsize)
    mask: Mask = (_read_tos(packets, outer_version) & _ECN == _CE) & (inner & _ECN == 0)
    return mask


def _read_tos(packets: U8, version: int, at: int = 0) -> U8:
    header = view(packets, IP[version], at)
    tos: U8 = header["tos"] if version == 4 else read_traffic_class(header)
    return tos


def carries_ports(packets: U8, transports: Sequence[int] = PORT_TRANSPORTS) -> Mask:
    """Select rows that are IPv4 in IPv6 with an inner packet that is forwardable and :func:`has_ports`."""
    count, length = packets.shape
    if length < 68:
        return np.zeros(count, dtype=bool)
    outer = view(packets, IPV6)
    good: Mask = (outer["nh"] == headers.PROTOCOL_IPIP) & (outer["plen"] == length - 40)
    return good & has_ports(packets[:, 40:], transports) & is_forwardable(packets[:, 40:], 4)


def carries_ipv6(packets: U8) -> Mask:
    """Select rows that are one whole, forwardable IPv6 packet in an IPv4 packet without options."""
    count, length = packets.shape
    if length < 60:
        return np.zeros(count, dtype=bool)
    outer, inner = view(packets, IPV4), view(packets, IPV6, 20)
    good: Mask = (outer["ver_ihl"] == 0x45) & (outer["proto"] == headers.PROTOCOL_IPV6)
    good &= (outer["flags_frag"] & 0x3FFF == 0) & (outer["len"] == length)
    good &= (inner["ver_tc"] >> 4 == 6) & (inner["plen"] == length - 60)
    return good & is_forwardable(packets[:, 20:], 6)


def has_ports(packets: U8, transports: Sequence[int] = PORT_TRANSPORTS) -> Mask:
    """Select rows that are one whole IPv4 packet without options, of a transport with ports."""
    count, length = packets.shape
    if length < 28:
        return np.zeros(count, dtype=bool)
    header = view(packets, IPV4)
    good: Mask = (header["ver_ihl"] == 0x45) & (header["flags_frag"] & 0x3FFF == 0)
    if len(transports) == 1:
        good &= header["proto"] == transports[0]
    else:
        good &= np.isin(header["proto"], transports)
    if length < 40:  # TCP's header is longer than UDP's
        good &= header["proto"] != headers.PROTOCOL_TCP
    good &= header["len"] == length
    return good
