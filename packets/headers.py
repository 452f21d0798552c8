"""Header layouts as NumPy dtypes: fields of many packets by name, in shared memory.

Field names are those of scapy, except that fields that share an octet have one name: ``ver_ihl``.
``view(packets, IPV4)["ttl"] <= 1`` reads and ``view(packets, IPV4)["ttl"] -= 1`` writes.
"""

import numpy as np
from numpy.typing import NDArray
from v6t.packets.arrays import U8, U64
from v6t.packets.checksum import update_checksum

PROTOCOL_IPIP, PROTOCOL_TCP, PROTOCOL_UDP, PROTOCOL_IPV6 = 4, 6, 17, 41
DONT_FRAGMENT = 0x4000  # bit of ``flags_frag`` in an IPv4 header

ETHERNET = np.dtype([("dst", "u1", 6), ("src", "u1", 6), ("type", ">u2")])
VLAN = np.dtype([("tci", ">u2"), ("type", ">u2")])
IPV4 = np.dtype({
    "names": ["ver_ihl", "tos", "len", "id", "flags_frag", "ttl", "proto", "chksum", "src", "dst",
              "src_octets", "dst_octets"],
    "formats": ["u1", "u1", ">u2", ">u2", ">u2", "u1", "u1", ">u2", ">u4", ">u4",
                ("u1", 4), ("u1", 4)],
    "offsets": [0, 1, 2, 4, 6, 8, 9, 10, 12, 16, 12, 16],
})  # fmt: skip
"""IPv4 without options; addresses are numbers (``src``) or octets (``src_octets``)."""
IPV6 = np.dtype({
    "names": ["ver_tc", "tc_fl", "plen", "nh", "hlim", "src_octets", "dst_octets",
              "src_high", "src_low", "dst_high", "dst_low", "ver_tc_fl"],
    "formats": ["u1", "u1", ">u2", "u1", "u1", ("u1", 16), ("u1", 16), *[">u8"] * 4, ">u4"],
    "offsets": [0, 1, 4, 6, 7, 8, 24, 8, 16, 24, 32, 0],
})  # fmt: skip
"""IPv6; addresses are octets (``src_octets``) or two numbers (``src_high``, ``src_low``)."""
IP = {4: IPV4, 6: IPV6}  # header layout by IP version
HOP_LIMIT_FIELD = {4: "ttl", 6: "hlim"}  # by IP version, name of the field that devices decrement
UDP = np.dtype([("sport", ">u2"), ("dport", ">u2"), ("len", ">u2"), ("chksum", ">u2")])
TCP = np.dtype([
    ("sport", ">u2"), ("dport", ">u2"), ("seq", ">u4"), ("ack", ">u4"), ("dataofs", "u1"),
    ("flags", "u1"), ("window", ">u2"), ("chksum", ">u2"), ("urgptr", ">u2"),
])  # fmt: skip


def view(frames: U8, dtype: np.dtype[np.void], offset: int = 0) -> NDArray[np.void]:
    """Return the headers ``(n,)`` at an offset in frames ``(n, length)``, sharing memory with the frames.

    Raises:
        ValueError: the frames are too short.
    """
    end = offset + dtype.itemsize
    if frames.shape[1] < end:
        raise ValueError(f"frames have {frames.shape[1]} octets, the header ends at octet {end}")
    return frames[:, offset:end].view(dtype)[:, 0]


def read_traffic_class(header: NDArray[np.void]) -> U8:
    """Return the traffic class ``(n,)`` of :data:`IPV6` headers."""
    return (header["ver_tc"] << 4 | header["tc_fl"] >> 4).astype(np.uint8, copy=False)


def write_traffic_class(header: NDArray[np.void], values: U8) -> None:
    """Replace version and traffic class of :data:`IPV6` headers; the flow label stays."""
    header["ver_tc"] = 0x60 | values >> 4
    header["tc_fl"] = values << 4 | header["tc_fl"] & 0x0F


def to_numbers(octets: U8) -> U64:
    """Return big-endian numbers ``(n,)`` of ``(n, 2)``, ``(n, 4)`` or ``(n, 8)`` octets."""
    return np.ascontiguousarray(octets).view(f">u{octets.shape[1]}")[:, 0].astype(np.uint64)


def to_octets(numbers: NDArray[np.integer], size: int) -> U8:
    """Return the big-endian octets ``(n, size)`` of numbers; ``size`` is 2, 4 or 8."""
    return numbers.astype(f">u{size}").view(np.uint8).reshape(len(numbers), size)


def read_hops(packets: U8, version: int, offset: int = 0) -> U8:
    """Return TTL or hop limit ``(n,)`` of IP headers, sharing memory with the packets."""
    hops: U8 = view(packets, IP[version], offset)[HOP_LIMIT_FIELD[version]]
    return hops


def decrement_hops(packets: U8, version: int, offset: int = 0) -> None:
    """Subtract one from TTL or hop limit in place, and update the checksum of IPv4 headers."""
    header = view(packets, IP[version], offset)
    header[HOP_LIMIT_FIELD[version]] -= 1
    if version == 4:
        header["chksum"] = update_checksum(header["chksum"].astype(np.uint32), 0x0100, 0)


def write_tos(packets: U8, values: U8) -> None:
    """Replace the TOS of IPv4 packets in place, and update the header checksum."""
    header = view(packets, IPV4)
    before = header["tos"].astype(np.uint32)
    header["tos"] = values
    header["chksum"] = update_checksum(header["chksum"].astype(np.uint32), before, values)
