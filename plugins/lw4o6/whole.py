"""A lwAFTR as a whole device, hairpinning included."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

import numpy as np
from v6t.plugins.tunnel.whole import RelayDevice

if TYPE_CHECKING:
    from v6t.plugins.base import Technology
    from v6t.plugins.lw4o6.params import LwAftrParams


class WholeLwAftr(RelayDevice):
    """Softwires of the binding table."""

    silent = False

    def __init__(self, technology: Technology) -> None:
        """Look up the table."""
        super().__init__(technology)
        params: LwAftrParams = technology.params  # type: ignore[assignment]
        self._table = params.table()
        self._relay = params.br_address

    @property
    def relay(self) -> IPv6Address:
        """The lwAFTR."""
        return self._relay

    def owner(self, ipv4: IPv4Address, port: int | None) -> IPv6Address | None:
        """See the base class."""
        if port is None:
            return None
        row = self._table.find(np.array([int(ipv4)], np.uint64), np.array([port], np.uint64))[0]
        return None if row < 0 else self._table.softwire(int(row))[2]
