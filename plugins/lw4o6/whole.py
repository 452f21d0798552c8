"""A lwAFTR as a whole device, hairpinning included."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

import numpy as np
from v6t.plugins.tunnel.whole import RelayDevice

if TYPE_CHECKING:
    from collections.abc import Collection

    from v6t.plugins.base import Technology
    from v6t.plugins.lw4o6.binding_table import BindingTable
    from v6t.plugins.lw4o6.params import LwAftrParams


def softwire(
    table: BindingTable, ipv4: IPv4Address, port: int | None
) -> tuple[IPv6Address, IPv6Address] | None:
    """Return lwB4 and lwAFTR of an address and port; without a port, of an address not shared."""
    row = int(table.find(np.array([int(ipv4)], np.uint64), np.array([port or 0], np.uint64))[0])
    if row < 0 or (port is None and table.psid_len[row]):
        return None
    return table.softwire(row)[2:]


class WholeLwAftr(RelayDevice):
    """Softwires of the binding table."""

    silent = False

    def __init__(self, technology: Technology) -> None:
        super().__init__(technology)
        params: LwAftrParams = technology.params  # type: ignore[assignment]
        self._table = params.table()
        self._relay = params.br_address
        self._relays = frozenset(map(IPv6Address, params.br_addresses))

    @property
    def relays(self) -> Collection[IPv6Address]:
        """The lwAFTR, which may have several addresses."""
        return self._relays

    def relay(self, ipv4: IPv4Address, port: int | None) -> IPv6Address:
        found = softwire(self._table, ipv4, port)
        return self._relay if found is None else found[1]

    def owner(self, ipv4: IPv4Address, port: int | None) -> IPv6Address | None:
        found = softwire(self._table, ipv4, port)
        return None if found is None else found[0]

    def has_share(self, ipv4: IPv4Address, customer: IPv6Address | None = None) -> bool:
        rows = self._table.ipv4 == int(ipv4)
        if customer is not None:
            rows &= (self._table.b4 == np.frombuffer(customer.packed, np.uint8)).all(axis=1)
        return bool(rows.any())
