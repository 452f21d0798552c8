"""Address mappings of arrays: octets to octets, and which rows have a mapping."""

from __future__ import annotations

from ipaddress import IPv6Network
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.address_layouts import IPV4, embedded_address_layout
from v6t.packets.bit_layout import BitCopy
from v6t.packets.headers import to_numbers, to_octets
from v6t.plugins.prefixes import LongestMatch
from v6t.plugins.translation import rfc6052
from v6t.plugins.translation.eam import Eam, Mappings

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask


_NONE = BitCopy(IPV4, 128, 0)
"""The copy of a mapping without a suffix."""


class Rfc6052Array:
    """RFC 6052 addresses behind one prefix."""

    def __init__(self, prefix: IPv6Network) -> None:
        """Find the octets that hold the IPv4 address.

        Args:
            prefix: of a length that RFC 6052 defines.
        """
        layout = embedded_address_layout(rfc6052.check_prefix(prefix))
        self._places = layout.octet_places(IPV4)
        self._octets = prefix.prefixlen // 8
        self._prefix = np.frombuffer(prefix.network_address.packed, dtype=np.uint8)

    def to_ipv6(self, ipv4: U8) -> tuple[U8, Mask]:
        """``(n, 4)`` to ``(n, 16)``; every address has a form."""
        out = np.empty((len(ipv4), 16), dtype=np.uint8)
        out[:] = self._prefix
        out[:, self._places] = ipv4
        return out, np.ones(len(ipv4), dtype=bool)

    def to_ipv4(self, ipv6: U8) -> tuple[U8, Mask]:
        """``(n, 16)`` to ``(n, 4)``; octets behind the embedded address are ignored."""
        inside: Mask = (ipv6[:, : self._octets] == self._prefix[: self._octets]).all(axis=1)
        return ipv6[:, self._places], inside


class EamArray:
    """Explicit address mappings, longest prefix first in each direction (RFC 7757).

    Each row of the table has its own layout, which copies the IPv4 suffix.
    """

    def __init__(self, eams: tuple[Eam, ...]) -> None:
        """Arrange the table in columns.

        Args:
            eams: at least one.
        """
        self._by_ipv4 = LongestMatch([e.ipv4 for e in eams])
        self._by_ipv6 = LongestMatch([e.ipv6 for e in eams])
        layouts = [e.layout for e in eams]
        ones = (1 << 64) - 1
        self._high = np.array([layout.constant >> 64 for layout in layouts], dtype=np.uint64)
        self._low = np.array([layout.constant & ones for layout in layouts], dtype=np.uint64)
        self._ipv4 = np.array([int(e.ipv4.network_address) for e in eams], dtype=np.uint64)
        self._mask = np.array([int(e.ipv4.hostmask) for e in eams], dtype=np.uint64)
        # NumPy computes 0 for shifts by 64 bits and more, which includes shifts below 0, as these
        # become huge unsigned numbers.
        shift = np.array(
            [
                128 - c.destination - c.length
                for layout in layouts
                for c in layout.copies or (_NONE,)
            ],
            dtype=np.int64,
        )
        self._up = shift.astype(np.uint64)
        self._over = (64 - shift).astype(np.uint64)
        self._beyond = (shift - 64).astype(np.uint64)

    def to_ipv6(self, ipv4: U8) -> tuple[U8, Mask]:
        """``(n, 4)`` to ``(n, 16)``."""
        row = self._by_ipv4.find(ipv4)
        known = row >= 0
        row = np.where(known, row, 0)
        suffix = to_numbers(ipv4) & self._mask[row]
        low = self._low[row] | suffix << self._up[row]
        high = self._high[row] | suffix >> self._over[row] | suffix << self._beyond[row]
        return np.concatenate([to_octets(high, 8), to_octets(low, 8)], axis=1), known

    def to_ipv4(self, ipv6: U8) -> tuple[U8, Mask]:
        """``(n, 16)`` to ``(n, 4)``; what follows the suffix is ignored."""
        row = self._by_ipv6.find(ipv6)
        known = row >= 0
        row = np.where(known, row, 0)
        high, low = to_numbers(ipv6[:, :8]), to_numbers(ipv6[:, 8:])
        suffix = low >> self._up[row] | high << self._over[row] | high >> self._beyond[row]
        return to_octets(self._ipv4[row] | suffix & self._mask[row], 4), known


class MappingsArray:
    """A translator's address table; see :class:`v6t.plugins.translation.eam.Mappings`."""

    def __init__(self, mappings: Mappings) -> None:
        self._eams = EamArray(mappings.eams) if mappings.eams else None
        self._prefix = Rfc6052Array(mappings.prefix.ipv6) if mappings.prefix else None

    def to_ipv6(self, ipv4: U8) -> tuple[U8, Mask]:
        """``(n, 4)`` to ``(n, 16)``."""
        return self._map(ipv4, "to_ipv6")

    def to_ipv4(self, ipv6: U8) -> tuple[U8, Mask]:
        """``(n, 16)`` to ``(n, 4)``."""
        return self._map(ipv6, "to_ipv4")

    def _map(self, addresses: U8, method: str) -> tuple[U8, Mask]:
        if self._eams is None:
            return getattr(self._prefix, method)(addresses)  # type: ignore[no-any-return]
        out, known = getattr(self._eams, method)(addresses)
        if self._prefix is None or known.all():
            return out, known
        embedded, inside = getattr(self._prefix, method)(addresses)
        return np.where(known[:, None], out, embedded), known | inside
