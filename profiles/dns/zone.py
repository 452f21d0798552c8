"""The zone of the tester: names that hold an IPv4 address, and their records.

A name is ``AAA-BBB-CCC-DDD.dns64perf.test``, as in dns64perf++, and its A record the address it spells.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network

import numpy as np
from numpy.typing import NDArray
from v6t.packets.address_layouts import make_embedded_address_layout
from v6t.packets.arrays import U8, U32, Mask
from v6t.packets.headers import to_octets

Address = IPv4Address | IPv6Address

SUFFIX = "dns64perf.test"
LABEL_OCTETS = 15  # of a name's first label: four numbers of three digits, and the dashes
_HASH_MULTIPLIER = 2_654_435_769  # 2^32 over the golden ratio, whose multiples are spread evenly


def encode_name(name: str) -> bytes:
    """Encode a name (RFC 1035, section 3.1)."""
    labels = [label.encode() for label in name.split(".")]
    return b"".join(bytes((len(label),)) + label for label in labels) + b"\0"


SUFFIX_WIRE = encode_name(SUFFIX)
NAME_OCTETS = 1 + LABEL_OCTETS + len(SUFFIX_WIRE)
_ENCODED_NUMBERS = np.frombuffer(
    b"".join(b"%03d%c" % (n, after) for after in (*b"---", SUFFIX_WIRE[0]) for n in range(256)),
    "<u4",
).reshape(4, 256)  # a number of a label and the octet after it, by its place in the label
_NUMBER_PLACES = np.arange(4)


@dataclass(frozen=True)
class Zone:
    """Names and records of a trial, and the addresses of its queries."""

    client: IPv6Address  # address of the tester's client, on the left
    resolver: IPv6Address  # address of the device, on the left
    egress: Address  # address of the device, on the right
    server: Address  # address of the authoritative server, on the right
    prefix: IPv6Network
    own: bytes  # first 12 octets of native AAAA records; the IPv4 address follows
    first: int  # first IPv4 address of the names
    count: int  # number of IPv4 addresses of the names
    ttl_s: int = 3600
    ports: tuple[int, int] = (20_000, 64)  # lowest port of the client, and number of ports

    def list_addresses(self, numbers: NDArray[np.int64]) -> U32:
        """Return the IPv4 addresses of names by number, modulo the number of names."""
        addresses: U32 = (self.first + numbers % self.count).astype(np.uint32)
        return addresses

    def has_native_record(self, addresses: U32, share: float) -> Mask:
        """Mark the addresses whose names have an AAAA record, a ``share`` of all."""
        spread = addresses.astype(np.uint64) * _HASH_MULTIPLIER & 0xFFFFFFFF
        mask: Mask = spread < round(share * 2**32)
        return mask

    def list_expected_records(self, addresses: U32, share: float) -> U8:
        """Return the AAAA records ``(n, 16)`` that a client must receive (RFC 6147, section 5.1)."""
        layout = make_embedded_address_layout(self.prefix)
        records = layout.encode_octets(ipv4=addresses.astype(np.uint64))
        own = self.has_native_record(addresses, share)
        if own.any():
            records[own] = self.list_native_records(addresses[own])
        return records

    def list_native_records(self, addresses: U32) -> U8:
        records = np.empty((len(addresses), 16), np.uint8)
        records[:, :12] = np.frombuffer(self.own, np.uint8)
        records[:, 12:] = to_octets(addresses, 4)
        return records


def encode_labels(addresses: U32) -> U8:
    """Encode the first labels ``(n, 16)`` of names, each followed by the length of the next label."""
    return _ENCODED_NUMBERS[_NUMBER_PLACES, to_octets(addresses, 4)].view(np.uint8)


def decode_labels(labels: U8) -> tuple[U32, Mask]:
    """Return the addresses in labels ``(n, 16)``, and a mask of the valid rows."""
    words = np.ascontiguousarray(labels).view("<u4")
    values = (words & 15) * 100 + (words >> 8 & 15) * 10 + (words >> 16 & 15)
    values &= 0xFF  # a number above 255 is written differently
    right = (_ENCODED_NUMBERS[_NUMBER_PLACES, values] == words).all(axis=1)
    return values.astype(np.uint8).view(">u4")[:, 0].astype(np.uint32), right


def read_name(message: bytes, offset: int) -> tuple[tuple[bytes, ...], int]:
    """Return a name in lower case, following pointers (RFC 1035, section 4.1.4), and the next offset.

    A name that ends behind the message raises IndexError or ValueError.
    """
    labels: list[bytes] = []
    end = None
    for _ in range(len(message)):
        length = message[offset]
        if length >= 0xC0:
            end = offset + 2 if end is None else end
            offset = (length & 0x3F) << 8 | message[offset + 1]
        elif not length:
            return tuple(labels), offset + 1 if end is None else end
        else:
            label = message[offset + 1 : offset + 1 + length]
            if len(label) < length or length > 63:
                raise ValueError("a label extends beyond the message")
            labels.append(label.lower())
            offset += 1 + length
    raise ValueError("a name without a final label")
