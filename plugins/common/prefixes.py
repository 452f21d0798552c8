"""Longest prefix match for whole arrays of addresses."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8


class LongestMatch:
    """Prefixes of one IP version, ready to be looked up."""

    def __init__(self, prefixes: Sequence[IPv4Network | IPv6Network]) -> None:
        """Sort the prefixes by length.

        Args:
            prefixes: distinct; their positions are what :meth:`find` returns.
        """
        by_length: dict[int, list[int]] = {}
        for number, prefix in enumerate(prefixes):
            by_length.setdefault(prefix.prefixlen, []).append(number)
        self._levels: list[tuple[U8, NDArray[np.bytes_], NDArray[np.int64]]] = []
        for length in sorted(by_length):
            numbers = by_length[length]
            packed = b"".join(prefixes[n].network_address.packed for n in numbers)
            octets = prefixes[numbers[0]].max_prefixlen // 8
            # fixed-length strings compare like big-endian numbers, of 128 bits too
            keys = np.frombuffer(packed, dtype=f"S{octets}")
            order = np.argsort(keys, kind="stable")
            mask = np.frombuffer(prefixes[numbers[0]].netmask.packed, dtype=np.uint8)
            self._levels.append((mask, keys[order], np.array(numbers, dtype=np.int64)[order]))

    def find(self, addresses: U8) -> NDArray[np.int64]:
        """Position of the longest prefix that holds each address, -1 for none.

        Args:
            addresses: ``(n, 4)`` or ``(n, 16)`` octets.
        """
        indices = np.full(len(addresses), -1, dtype=np.int64)
        for mask, keys, numbers in self._levels:
            wanted = np.ascontiguousarray(addresses & mask).view(keys.dtype)[:, 0]
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            hit = keys[place] == wanted
            indices[hit] = numbers[place[hit]]
        return indices
