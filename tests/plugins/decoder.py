"""Reads frames by scapy's description of their headers: no offset of the compiler is used.

scapy dissects the first frame and says where each field begins; as all frames of a stream have the
same headers, the others are read at the same places, a million at a time.
"""

from __future__ import annotations

import socket
from functools import cache

import numpy as np
from scapy.fields import BitField
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether


class Decoder:
    """Fields of frames that have the headers of the first."""

    def __init__(self, first: bytes) -> None:
        self.places: dict[str, tuple[int, int]] = {}
        self.starts: dict[str, int] = {}
        packet, at = Ether(first), 0
        while packet.__class__.__name__ in ("Ether", "Dot1Q", "IPv6", "IP", "UDP"):
            name = packet.__class__.__name__
            self.starts[name] = at // 8
            end = at + 8 * (len(packet) - len(packet.payload))
            for field in packet.fields_desc:
                if at >= end:
                    break  # options, of which there are none
                bits = int(field.size if isinstance(field, BitField) else 8 * field.sz)
                self.places[f"{name}.{field.name}"] = at, bits
                at += bits
            assert at == end, f"{name} is not what scapy describes"
            packet = packet.payload
        assert "UDP" in self.starts

    def octets(self, frames, name):
        at, bits = self.places[name]
        return frames[:, at // 8 : (at + bits) // 8]

    def number(self, frames, name):
        digits = self.octets(frames, name).astype(np.int64)
        return (digits << 8 * np.arange(digits.shape[1])[::-1]).sum(axis=1)

    def addresses(self, frames):
        """Distinct combinations of all addresses, in the order of the headers, and whose frame is whose."""
        names = [n for n in self.places if n.endswith((".src", ".dst")) and not n.startswith("E")]
        rows = np.concatenate([self.octets(frames, n) for n in names], axis=1)
        # numbers are sorted much faster than rows; two rows of one number would be seen
        factors = np.random.default_rng(rows.shape[1]).integers(
            1, 1 << 63, rows.shape[1], np.uint64
        )
        numbers = (rows * (factors | np.uint64(1))).sum(axis=1, dtype=np.uint64)
        _, first, whose = np.unique(numbers, return_index=True, return_inverse=True)
        assert np.array_equal(rows[first][whose], rows)
        columns = [map(_text, _cells(self.octets(frames[first], n))) for n in names]
        return list(zip(*columns, strict=True)), whose

    def checksums_hold(self, frames):
        """RFC 1071 over the UDP packet with its pseudo header, and over the IPv4 header."""
        at = self.starts["UDP"]
        ip = "IP" if "IP" in self.starts else "IPv6"
        udp = frames[:, at : at + int(self.number(frames[:1], "UDP.len")[0])]
        total = _words(udp) + _words(self.octets(frames, f"{ip}.src"))
        total += _words(self.octets(frames, f"{ip}.dst")) + 17 + udp.shape[1]
        good = (_folded(total) == 0xFFFF) & (self.number(frames, "UDP.chksum") != 0)
        if ip == "IP":
            start = self.starts["IP"]
            good &= _folded(_words(frames[:, start : start + 20])) == 0xFFFF
        return good


def _cells(octets):
    """Rows of octets as bytes."""
    whole, wide = octets.tobytes(), octets.shape[1]
    return [whole[at : at + wide] for at in range(0, len(whole), wide)]


@cache
def _text(octets):
    return socket.inet_ntop({4: socket.AF_INET, 16: socket.AF_INET6}[len(octets)], octets)


def _words(octets):
    if octets.shape[1] % 2:
        octets = np.concatenate([octets, np.zeros((len(octets), 1), np.uint8)], axis=1)
    return (octets[:, ::2].astype(np.int64) << 8).sum(axis=1) + octets[:, 1::2].sum(
        axis=1, dtype=np.int64
    )


def _folded(total):
    for _ in range(3):
        total = (total & 0xFFFF) + (total >> 16)
    return total


def rebuilt(frame: bytes) -> bytes:
    """The frame as scapy writes it when it computes lengths and checksums itself."""
    packet = Ether(frame)
    layer = packet
    while layer:
        for name in {IP: ("len", "chksum"), IPv6: ("plen",), UDP: ("len", "chksum")}.get(
            layer.__class__, ()
        ):
            delattr(layer, name)
        layer = layer.payload
    return bytes(packet)
