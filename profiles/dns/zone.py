"""The zone a tester plays: names that hold an IPv4 address, and the records they have.

Every name is ``AAA-BBB-CCC-DDD.dns64perf.test``, its A record the address it spells (as dns64perf++ has
it), so that neither side of the tester needs a table. Which names have an AAAA record of their
own follows from the address, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.address_layouts import embedded_address_layout

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8

SUFFIX = "dns64perf.test"
LABEL = 15
"""Octets of a name's first label: four numbers of three digits, and the dashes."""
_SPREAD = 2_654_435_769
"""2^32 over the golden ratio: multiples of it are spread evenly, whichever run of names is asked."""


def wire_name(name: str) -> bytes:
    """A name as messages hold it (RFC 1035 section 3.1)."""
    labels = [label.encode() for label in name.split(".") if label]
    return b"".join(bytes((len(label),)) + label for label in labels) + b"\0"


SUFFIX_WIRE = wire_name(SUFFIX)
_WORDS = np.frombuffer(
    b"".join(b"%03d%c" % (n, after) for after in (*b"---", SUFFIX_WIRE[0]) for n in range(256)),
    "<u4",
).reshape(4, 256)
"""A number of a label and the octet after it, by its place in the label."""
_PLACES = np.arange(4)
NAME_OCTETS = 1 + LABEL + len(SUFFIX_WIRE)


@dataclass(frozen=True)
class Zone:
    """What is asked and answered, and who asks whom.

    Attributes:
        client, resolver: who asks, and the device it asks, on the left.
        asker, server: the device as the authoritative server sees it, and that server, on the right.
        prefix: of synthesized AAAA records, which hold an IPv4 address (RFC 6052).
        own: 12 octets before the IPv4 address in AAAA records of names that have one.
        first, count: IPv4 addresses of the names.
        ttl_s: of all records.
        ports: lowest port of the client, and how many it uses.
        timeout_s: an answer that takes longer is none.
    """

    client: IPv6Address
    resolver: IPv6Address
    asker: IPv4Address | IPv6Address
    server: IPv4Address | IPv6Address
    prefix: IPv6Network
    own: bytes
    first: int
    count: int
    ttl_s: int = 3600
    ports: tuple[int, int] = (20_000, 64)

    def addresses(self, numbers: NDArray[np.int64]) -> NDArray[np.uint32]:
        """IPv4 addresses of names by their numbers; after the last comes the first."""
        addresses: NDArray[np.uint32] = (self.first + numbers % self.count).astype(np.uint32)
        return addresses

    def with_own(self, addresses: NDArray[np.uint32], share: float) -> NDArray[np.bool_]:
        """Which names have an AAAA record of their own, if this share of all has."""
        spread = addresses.astype(np.uint64) * _SPREAD & 0xFFFFFFFF
        chosen: NDArray[np.bool_] = spread < round(share * 2**32)
        return chosen

    def answers(self, addresses: NDArray[np.uint32], share: float) -> U8:
        """``(n, 16)``: the AAAA record a client must be given (RFC 6147 section 5.1)."""
        records = embedded_address_layout(self.prefix).encode_octets(
            ipv4=addresses.astype(np.uint64)
        )
        own = self.with_own(addresses, share)
        if own.any():
            records[own] = self.own_records(addresses[own])
        return records

    def own_records(self, addresses: NDArray[np.uint32]) -> U8:
        """``(n, 16)``: AAAA records of names that have one."""
        records = np.empty((len(addresses), 16), np.uint8)
        records[:, :12] = np.frombuffer(self.own, np.uint8)
        records[:, 12:] = octets(addresses)
        return records


def octets(addresses: NDArray[np.uint32]) -> U8:
    """``(n, 4)``: addresses in network order."""
    return addresses.astype(">u4").view(np.uint8).reshape(-1, 4)


def labels_of(addresses: NDArray[np.uint32]) -> U8:
    """``(n, 16)``: first labels of names, without their length but with that of the next label."""
    return _WORDS[_PLACES, octets(addresses)].view(np.uint8)


def read_labels(labels: U8) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """The addresses that such ``(n, 16)`` octets spell, and which of them spell one."""
    words = np.ascontiguousarray(labels).view("<u4")
    values = (words & 15) * 100 + (words >> 8 & 15) * 10 + (words >> 16 & 15)
    values &= 0xFF  # a number above 255 is written otherwise
    right = (_WORDS[_PLACES, values] == words).all(axis=1)
    joined = values.astype(np.uint8).view(">u4")[:, 0].astype(np.uint32)
    return joined, right
