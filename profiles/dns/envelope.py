"""Ethernet, IP and UDP around DNS messages, many at once."""

from dataclasses import dataclass

import numpy as np
from v6t.packets.arrays import U8, Mask
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.headers import ETHERNET, IP, IPV4, IPV6, PROTOCOL_UDP, UDP, VLAN, read_hops, view
from v6t.packets.walker import ETHERTYPES_VLAN, FrameLayout, Network
from v6t.profiles.dns.zone import Address

DNS_PORT = 53
_ETHERTYPES = {4: 0x0800, 6: 0x86DD}  # by IP version


@dataclass(frozen=True)
class DnsLayout:
    """Layout of DNS frames on one link."""

    version: int
    vlan: int | None = None

    @property
    def ip_offset(self) -> int:
        return 14 if self.vlan is None else 18

    @property
    def udp_offset(self) -> int:
        return self.ip_offset + (40 if self.version == 6 else 20)

    @property
    def dns_offset(self) -> int:
        return self.udp_offset + 8

    def select_frames(self, frames: U8) -> Mask:
        """Return a mask of frames with a UDP datagram long enough for a DNS header."""
        if frames.shape[1] < self.dns_offset + 12:
            return np.zeros(len(frames), bool)
        tag = self.ip_offset - VLAN.itemsize
        link, header = view(frames, VLAN, tag), view(frames, IP[self.version], self.ip_offset)
        ours: Mask = link["type"] == _ETHERTYPES[self.version]
        if self.vlan is not None:
            ours &= view(frames, ETHERNET)["type"] == ETHERTYPES_VLAN[0]
            ours &= link["tci"] & 0xFFF == self.vlan
        if self.version == 6:
            ours &= header["nh"] == PROTOCOL_UDP
        else:  # no options, no fragment
            ours &= (header["ver_ihl"] == 0x45) & (header["proto"] == PROTOCOL_UDP)
            ours &= header["flags_frag"] & 0x3FFF == 0
        return ours

    def build_header(self, macs: tuple[str, str], source: Address, destination: Address) -> bytes:
        """Build all headers; lengths, ports and checksums are 0, ``macs`` are sender and receiver."""
        link = bytes.fromhex("".join((macs[1], macs[0])).replace(":", ""))
        if self.vlan is not None:
            link += b"\x81\x00" + self.vlan.to_bytes(2, "big")
        ip = b"\x60\0\0\0\0\0\x11\x40" if self.version == 6 else b"\x45\0\0\0\0\0\x40\0\x40\x11\0\0"
        ethertype = _ETHERTYPES[self.version].to_bytes(2, "big")
        return link + ethertype + ip + source.packed + destination.packed + bytes(8)

    def write_lengths(self, frames: U8) -> None:
        """Write lengths and checksums of equally long frames."""
        length = frames.shape[1] - self.udp_offset
        view(frames, UDP, self.udp_offset)["len"] = length
        if self.version == 6:
            view(frames, IPV6, self.ip_offset)["plen"] = length
        else:
            view(frames, IPV4, self.ip_offset)["len"] = length + 20
            write_ipv4_checksum(frames, self.ip_offset, 20)
        network = Network(self.version, self.ip_offset)
        layout = FrameLayout((network,), "UDP", self.udp_offset, self.dns_offset, frames.shape[1])
        layout.write_checksum(frames)

    def make_replies(self, frames: U8, octets: int) -> U8:
        """Return reply frames to the senders, with room for messages of ``octets``."""
        replies = np.empty((len(frames), self.dns_offset + octets), np.uint8)
        replies[:, : self.dns_offset] = frames[:, : self.dns_offset]
        exchanged = (
            (ETHERNET, 0, "src", "dst"),
            (IP[self.version], self.ip_offset, "src_octets", "dst_octets"),
            (UDP, self.udp_offset, "sport", "dport"),
        )
        for dtype, at, source, destination in exchanged:
            query, reply = view(frames, dtype, at), view(replies, dtype, at)
            reply[source], reply[destination] = query[destination], query[source]
        read_hops(replies, self.version, self.ip_offset)[:] = 64
        return replies
