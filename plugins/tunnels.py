"""Tunnels for arrays of packets: IPv4 in IPv6 (RFC 2473) and IPv6 in IPv4 (RFC 4213).

The outer traffic class is the inner one (RFC 5969, section 10; RFC 6040, normal mode).
:mod:`v6t.packets.header_policy` describes what else a correct device may write.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Any, ClassVar

import numpy as np
from v6t.intent.device import Links
from v6t.packets import headers
from v6t.packets.arrays import U8, Mask
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.header_policy import HeaderPolicy, combine_ecn
from v6t.packets.headers import IP, IPV4, IPV6, UDP, decrement_hops, read_traffic_class, view
from v6t.packets.reference import EXHAUSTED, NOT_FORWARDED, DropReason
from v6t.plugins.frame_sizes import TUNNEL_SIZES
from v6t.plugins.reference_device import DROP_ALL, Checks, Outcome, select_forwardable

OUTER_HOPS = 64  # TTL or hop limit of outer headers
PORT_TRANSPORTS = (headers.PROTOCOL_UDP, headers.PROTOCOL_TCP)  # protocol numbers
ECN_DROP = "congestion mark on a packet that is not ECN-capable"  # RFC 6040, section 4.2
_ECN, _DSCP, _CE = 0x03, np.uint8(0xFC), 3


class TunnelDevice(ABC):
    """A device with IPv4-in-IPv6 tunnels on its left link; ``drops`` needs TOO_BIG, NOT_ECN_CAPABLE."""

    links: Links
    drops: ClassVar[type[DropReason]]
    transports: ClassVar[Sequence[int]] = (headers.PROTOCOL_UDP,)
    overhead: ClassVar[int] = 40
    rfc_frame_sizes: ClassVar[tuple[int, ...]] = TUNNEL_SIZES
    copies_dscp: ClassVar[bool] = False  # into and out of tunnels (RFC 6333, section 7.1)

    @property
    def header_policy(self) -> HeaderPolicy:
        return HeaderPolicy(outer_dscp="copied" if self.copies_dscp else "allowed")

    @abstractmethod
    def select_tunnel_packets(self, outer: Any) -> Mask:
        """Select the IPv6 packets for the device's tunnels, by their headers."""

    def select_native(self, outer: Any, tunnelled: Mask) -> Mask | None:
        """Select the IPv6 packets that are routed: by default, those outside the device's tunnels."""
        return ~tunnelled

    @abstractmethod
    def check_source(self, outer: Any, inner: Any, udp: Any) -> Checks:
        """Return drop reasons for tunnel packets whose outer addresses, source or port are wrong."""

    @abstractmethod
    def choose_tunnel(self, header: Any, udp: Any) -> tuple[Checks, Callable[[Mask], Any]]:
        """Return drop reasons of IPv4 packets, and a function from selected rows to outer addresses."""

    def translate_forward(self, packets: U8) -> Outcome:
        outer = view(packets, IPV6)
        tunnelled = self.select_tunnel_packets(outer)
        native = self.select_native(outer, tunnelled)
        if packets.shape[1] < 68:
            return Outcome(DROP_ALL.drops, native=native)
        inner, udp = view(packets, IPV4, 40), view(packets, UDP, 60)
        checks = [
            (NOT_FORWARDED, ~tunnelled | ~select_tunnelled_ipv4(packets, self.transports)),
            *self.check_source(outer, inner, udp),
            (EXHAUSTED, inner["ttl"] <= 1),
            (self.drops["NOT_ECN_CAPABLE"], select_ecn_drops(packets)),
        ]

        def build_packets(rows: Mask) -> U8:
            return decapsulate(packets[rows], copies_dscp=self.copies_dscp)

        return Outcome(checks, build_packets, version=4, native=native)

    def translate_reverse(self, packets: U8) -> Outcome:
        if packets.shape[1] < 28:
            return DROP_ALL
        header = view(packets, IPV4)
        own_checks, choose_ends = self.choose_tunnel(header, view(packets, UDP, 20))
        checks = [
            (NOT_FORWARDED, ~select_with_ports(packets, self.transports)),
            *own_checks,
            (EXHAUSTED, header["ttl"] <= 1),
            (self.drops["TOO_BIG"], packets.shape[1] + 40 > self.links.left.mtu),
        ]
        return Outcome(checks, lambda rows: encapsulate(packets[rows], *choose_ends(rows)))


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
    decrement_hops(out, inner_version, offset=size)
    return out


def decapsulate(packets: U8, outer_version: int = 6, *, copies_dscp: bool = False) -> U8:
    """Remove outer headers of packets without ECN drops; ``copies_dscp`` is RFC 2983's uniform model."""
    inner_version = 10 - outer_version
    inner = packets[:, IP[outer_version].itemsize :].copy()
    decrement_hops(inner, inner_version)
    outer, old = _read_tos(packets, outer_version), _read_tos(inner, inner_version)
    tos = (outer if copies_dscp else old) & _DSCP | combine_ecn(old & _ECN, outer & _ECN)
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


def _read_tos(packets: U8, version: int, offset: int = 0) -> U8:
    header = view(packets, IP[version], offset)
    tos: U8 = header["tos"] if version == 4 else read_traffic_class(header)
    return tos


def select_tunnelled_ipv4(packets: U8, transports: Sequence[int] = PORT_TRANSPORTS) -> Mask:
    """Select IPv4-in-IPv6 packets whose inner packet is forwardable and has ports."""
    count, length = packets.shape
    if length < 68:
        return np.zeros(count, dtype=bool)
    outer = view(packets, IPV6)
    mask: Mask = (outer["nh"] == headers.PROTOCOL_IPIP) & (outer["plen"] == length - 40)
    mask &= select_with_ports(packets[:, 40:], transports)
    return mask & select_forwardable(packets[:, 40:], 4)


def select_tunnelled_ipv6(packets: U8) -> Mask:
    """Select IPv6-in-IPv4 packets without IPv4 options whose inner packet is whole and forwardable."""
    count, length = packets.shape
    if length < 60:
        return np.zeros(count, dtype=bool)
    outer, inner = view(packets, IPV4), view(packets, IPV6, 20)
    mask: Mask = (outer["ver_ihl"] == 0x45) & (outer["proto"] == headers.PROTOCOL_IPV6)
    mask &= (outer["flags_frag"] & 0x3FFF == 0) & (outer["len"] == length)
    mask &= (inner["ver_tc"] >> 4 == 6) & (inner["plen"] == length - 60)
    return mask & select_forwardable(packets[:, 20:], 6)


def select_with_ports(packets: U8, transports: Sequence[int] = PORT_TRANSPORTS) -> Mask:
    """Select unfragmented IPv4 packets without options, whose transport protocol has ports."""
    count, length = packets.shape
    if length < 28:
        return np.zeros(count, dtype=bool)
    header = view(packets, IPV4)
    mask: Mask = (header["ver_ihl"] == 0x45) & (header["flags_frag"] & 0x3FFF == 0)
    if len(transports) == 1:
        mask &= header["proto"] == transports[0]
    else:
        mask &= np.isin(header["proto"], transports)
    if length < 40:  # TCP's header is longer than UDP's
        mask &= header["proto"] != headers.PROTOCOL_TCP
    mask &= header["len"] == length
    return mask
