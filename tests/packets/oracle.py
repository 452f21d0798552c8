"""Checksums of test frames, located by scapy and summed independently."""

import numpy as np
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import NoPayload

LENGTHS = {Ether: 14, Dot1Q: 4, Dot1AD: 4, IPv6: 40, UDP: 8}


def offsets(frame):
    """Return where the innermost header of each kind begins."""
    found, at, layer = {}, 0, Ether(frame)
    while type(layer) in {*LENGTHS, IP} and not isinstance(layer, NoPayload):
        found[type(layer)] = at
        at += 4 * layer.ihl if isinstance(layer, IP) else LENGTHS[type(layer)]
        layer = layer.payload
    return found


def remainder(*parts):
    """Sum of 16-bit words modulo 0xFFFF; 0 where a checksum among them is right."""
    total = 0
    for part in parts:
        padded = np.pad(part.astype(np.int64), ((0, 0), (0, part.shape[1] % 2)))
        total = total + (padded[:, 0::2] * 256 + padded[:, 1::2]).sum(axis=1)
    return total % 0xFFFF


def verify(frames):
    """Check each row's checksums: UDP's, and that of the IPv4 header next to it."""
    none = np.zeros(len(frames), dtype=bool)
    result = offsets(frames[0].tobytes()) if len(frames) else {}
    if UDP not in result:
        return none
    udp = result[UDP]
    length = int.from_bytes(frames[0, udp + 4 : udp + 6].tobytes(), "big")
    covered, four = frames[:, udp : udp + length], result.get(IP)
    valid = frames[:, udp + 6 : udp + 8].any(axis=1)
    if four is not None and four > result.get(IPv6, 0):
        valid &= remainder(frames[:, four:udp]) == 0
        addresses = frames[:, four + 12 : four + 20]
    else:
        addresses = frames[:, result[IPv6] + 8 : result[IPv6] + 40]
    return valid & ((remainder(addresses, covered) + 17 + len(covered[0])) % 0xFFFF == 0)
