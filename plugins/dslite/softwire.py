"""DS-Lite's tunnel without its NAT (RFC 6333): what a B4 and an AFTR's softwire part emit.

An AFTR tells equal inner four-tuples of several B4s apart (RFC 6333 section 6.6). Here, where a
NAT that knows IPv4 only stands behind it, it does so by giving each B4 an IPv4 address of its own;
with a single B4 the inner addresses stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.headers import IPV4, IPV6, read_hops, to_octets, view
from v6t.packets.reference import EXHAUSTED, NOT_FORWARDED, DropReason, ReferenceTranslation
from v6t.packets.walker import locate_endpoints
from v6t.plugins.map_ce import Customer, Tunnel
from v6t.plugins.ports import PortSet
from v6t.plugins.reference_device import Handled, Leaving, ReferenceDevice, route_all
from v6t.plugins.tunnels import (
    PORTED,
    UNMARKABLE,
    carries_ports,
    decapsulate,
    encapsulate,
    has_ports,
    unmarkable,
)

if TYPE_CHECKING:
    from v6t.packets.arrays import U8
    from v6t.packets.direction import Direction
    from v6t.packets.reference import Expected
    from v6t.plugins.base import Links


class SoftwireDrop(DropReason):
    """Why the end of a softwire drops a frame."""

    UNMARKED = UNMARKABLE


_ANY = IPv4Network("0.0.0.0/0")


@dataclass(frozen=True)
class B4(ReferenceTranslation):
    """A B4 of DS-Lite; left is its IPv6, right the customer's IPv4."""

    local: IPv6Address
    aftr: IPv6Address
    links: Links

    def expect(self, direction: Direction, frames: U8) -> Expected:
        """See :meth:`v6t.plugins.base.Technology.expect`."""
        return self._device.expect(direction, frames)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.local, self.aftr, self.links)

    @cached_property
    def _device(self) -> ReferenceDevice:
        from v6t.plugins.map_ce import customer_device

        customer = Customer(_ANY, PortSet(0, 0, 0), Tunnel(self.local, self.aftr, uniform=True))
        return customer_device(customer, self.links)


@dataclass(frozen=True)
class SoftwireEnd(ReferenceTranslation):
    """An AFTR without its NAT; left are the B4s, right is the NAT.

    Attributes:
        aftr: its tunnel address.
        first_b4, count: consecutive addresses of the B4s.
        inner: the customers' address, the same behind each B4.
        first_own: consecutive addresses that stand for the B4s on the right.
        links: both cables.
    """

    aftr: IPv6Address
    first_b4: IPv6Address
    count: int
    inner: IPv4Address
    first_own: IPv4Address
    links: Links

    def expect(self, direction: Direction, frames: U8) -> Expected:
        """See :meth:`v6t.plugins.base.Technology.expect`."""
        return self._device.expect(direction, frames)

    def __reduce__(self) -> tuple[object, ...]:
        arguments = (self.aftr, self.first_b4, self.count, self.inner, self.first_own, self.links)
        return type(self), arguments

    @cached_property
    def _device(self) -> ReferenceDevice:
        return ReferenceDevice(
            self.links, {6: self._from_ipv6}, {4: self._from_ipv4, 6: route_all(6)}
        )

    def _from_ipv6(self, packets: U8) -> Handled:
        outer = view(packets, IPV6)
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        good = (outer["dst_octets"] == _octets(self.aftr)).all(axis=1) & carries_ports(packets)
        first = int(self.first_b4)
        number = outer["src_low"].astype(np.uint64) - np.uint64(first & (1 << 64) - 1)
        good &= (outer["src_high"] == np.uint64(first >> 64)) & (number < np.uint64(self.count))
        if packets.shape[1] >= 60:
            inner = view(packets, IPV4, 40)
            reason[good] = 0
            reason[good & (inner["ttl"] <= 1)] = EXHAUSTED
            reason[good & unmarkable(packets)] = SoftwireDrop.UNMARKED
            if self.count > 1:
                reason[good & (inner["src"] != int(self.inner))] = NOT_FORWARDED
        good = reason == 0
        if not good.any():
            return Handled(reason, ())
        out = decapsulate(packets[good], uniform=True)
        if self.count > 1:
            view(out, IPV4)["src"] = number[good] + np.uint64(int(self.first_own))
            _write_checksums(out)
        return Handled(reason, (Leaving(good, out, 4),))

    def _from_ipv4(self, packets: U8) -> Handled:
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        if packets.shape[1] < 28 or packets.shape[1] + 40 > self.links.left.mtu:
            return Handled(reason, ())
        good = has_ports(packets)
        number = np.zeros(len(packets), dtype=np.uint64)
        if self.count > 1:
            number = view(packets, IPV4)["dst"].astype(np.uint64) - np.uint64(int(self.first_own))
            good &= number < np.uint64(self.count)
        reason[good] = 0
        reason[good & (read_hops(packets, 4) <= 1)] = EXHAUSTED
        good = reason == 0
        if not good.any():
            return Handled(reason, ())
        passing = packets[good]
        if self.count > 1:
            view(passing, IPV4)["dst"] = int(self.inner)
            _write_checksums(passing)
        b4 = np.empty((len(passing), 16), dtype=np.uint8)
        b4[:] = _octets(self.first_b4)
        low = np.uint64(int(self.first_b4) & (1 << 64) - 1) + number[good]
        b4[:, 8:] = to_octets(low, 8)
        return Handled(reason, (Leaving(good, encapsulate(passing, _octets(self.aftr), b4), 6),))


def _octets(address: IPv6Address) -> U8:
    return np.frombuffer(address.packed, dtype=np.uint8)


def _write_checksums(packets: U8) -> None:
    write_ipv4_checksum(packets)
    for protocol in PORTED:
        rows = view(packets, IPV4)["proto"] == protocol
        if rows.any():
            part = packets[rows]
            locate_endpoints(part[0], "IPv4").write_checksum(part)
            packets[rows] = part
