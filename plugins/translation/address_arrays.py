"""Address mappings of arrays: octets to octets, and which rows have a mapping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv6Network
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.address_layouts import IPV4, embedded_address_layout
from v6t.packets.headers import to_numbers
from v6t.plugins.common.prefixes import LongestMatch
from v6t.plugins.translation import rfc6052
from v6t.plugins.translation.eam import Eam, Mappings

if TYPE_CHECKING:
    from v6t.packets.arrays import I64, U8, Mask
    from v6t.packets.bit_layout import BitLayout


class Rfc6052Array:
    """RFC 6052 addresses behind one prefix."""

    def __init__(self, prefix: IPv6Network) -> None:
        """Precompute the layout.

        Args:
            prefix: of a length that RFC 6052 defines.
        """
        self._layout = embedded_address_layout(rfc6052.check_prefix(prefix))
        self._octets = prefix.prefixlen // 8
        self._prefix = np.frombuffer(prefix.network_address.packed, dtype=np.uint8)

    def to_ipv6(self, ipv4: U8) -> tuple[U8, Mask]:
        """``(n, 4)`` to ``(n, 16)``; every address has a form."""
        return self._layout.encode_octets(ipv4=to_numbers(ipv4)), np.ones(len(ipv4), dtype=bool)

    def to_ipv4(self, ipv6: U8) -> tuple[U8, Mask]:
        """``(n, 16)`` to ``(n, 4)``; octets behind the embedded address are ignored."""
        inside: Mask = (ipv6[:, : self._octets] == self._prefix[: self._octets]).all(axis=1)
        field = to_numbers(ipv6[:, :8]), to_numbers(ipv6[:, 8:])
        return self._layout.inverse(IPV4).encode_octets(field=field), inside


class EamArray:
    """Explicit address mappings, longest prefix first in each direction (RFC 7757)."""

    def __init__(self, eams: tuple[Eam, ...]) -> None:
        """Arrange the table in columns.

        Mappings of the same prefix lengths have the same layout but for its constant.

        Args:
            eams: at least one.
        """
        self._by_ipv4 = LongestMatch([e.ipv4 for e in eams])
        self._by_ipv6 = LongestMatch([e.ipv6 for e in eams])
        packed = b"".join(e.ipv6.network_address.packed for e in eams)
        self._ipv6 = np.frombuffer(packed, dtype=np.uint8).reshape(-1, 16)
        packed = b"".join(e.ipv4.network_address.packed for e in eams)
        self._ipv4 = np.frombuffer(packed, dtype=np.uint8).reshape(-1, 4)
        shapes = {(e.ipv4.prefixlen, e.ipv6.prefixlen): e.layout for e in eams}
        numbers = {shape: number for number, shape in enumerate(shapes)}
        self._shape = np.array([numbers[e.ipv4.prefixlen, e.ipv6.prefixlen] for e in eams])
        self._layouts = [replace(layout, constant=0) for layout in shapes.values()]

    def to_ipv6(self, ipv4: U8) -> tuple[U8, Mask]:
        """``(n, 4)`` to ``(n, 16)``."""
        row, known = self._find(self._by_ipv4, ipv4)
        out = self._ipv6[row]
        number = to_numbers(ipv4)
        for layout, rows in self._groups(row):
            out[rows] |= layout.encode_octets(ipv4=number[rows])
        return out, known

    def to_ipv4(self, ipv6: U8) -> tuple[U8, Mask]:
        """``(n, 16)`` to ``(n, 4)``; what follows the suffix is ignored."""
        row, known = self._find(self._by_ipv6, ipv6)
        out = self._ipv4[row]
        high, low = to_numbers(ipv6[:, :8]), to_numbers(ipv6[:, 8:])
        for layout, rows in self._groups(row):
            suffix = layout.inverse(IPV4)
            out[rows] |= suffix.encode_octets(field=(high[rows], low[rows]))
        return out, known

    @staticmethod
    def _find(table: LongestMatch, addresses: U8) -> tuple[I64, Mask]:
        """Find each address's mapping, or any mapping where none holds it, and which have one."""
        row = table.find(addresses)
        known = row >= 0
        return np.where(known, row, 0), known

    def _groups(self, row: I64) -> Iterator[tuple[BitLayout, slice | Mask]]:
        """Yield each layout with the rows whose mapping has it."""
        if len(self._layouts) == 1:
            yield self._layouts[0], slice(None)
            return
        shape = self._shape[row]
        for number, layout in enumerate(self._layouts):
            rows = shape == number
            if rows.any():
                yield layout, rows


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
