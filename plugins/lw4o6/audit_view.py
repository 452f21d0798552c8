"""What an audit must know of a lwAFTR: three softwires of its binding table, and who owns a port."""

from __future__ import annotations

from functools import partial
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.plugins.audit_views import PSID_OFFSETS, Customer, SharedAddressRelay, Softwire
from v6t.plugins.common.ports import PortSet

if TYPE_CHECKING:
    from v6t.plugins.lw4o6.binding_table import BindingTable
    from v6t.plugins.lw4o6.params import LwAftrParams

_ROWS_EXAMINED = 256


def lwaftr_view(params: LwAftrParams) -> SharedAddressRelay:
    """Return the view of a lwAFTR with its binding table."""
    table = params.table()

    def customer(row: int) -> Customer:
        ipv4, psid, b4, _ = table.softwire(row)
        ports = PortSet(int(table.psid_offset[row]), int(table.psid_len[row]), psid)
        return Customer(b4, ipv4, ports)

    numbers = range(min(len(table), _ROWS_EXAMINED))
    first = min(1, numbers[-1])
    chosen, relay = customer(first), table.softwire(first)[3]
    # further rows of the same lwB4 and other addresses of the lwAFTR are left out
    rows = [customer(row) for row in numbers if table.softwire(row)[3] == relay]
    others = [c for c in rows if c.ipv6 != chosen.ipv6]
    sharing = [c for c in others if c.ipv4 == chosen.ipv4]
    sibling = next((c for c in sharing if c.ports.psid > chosen.ports.psid), None)
    return SharedAddressRelay(
        "lw4o6",
        relay,
        frozenset(map(IPv6Address, params.br_addresses)),
        params.server_ipv4,
        chosen,
        sibling or next(iter(sharing), None),
        next((c for c in others if c.ipv4 != chosen.ipv4), None),
        partial(_owner, table),
        softwires=partial(_softwires, table),
    )


def lwaftr_variants(params: LwAftrParams) -> dict[str, dict[str, Any]]:
    """Return every PSID offset, with a PSID that leaves room for it."""
    if params.binding_table is not None or not params.psid_len:
        return {}
    variants = {}
    for offset, name in enumerate(PSID_OFFSETS):
        length = min(params.psid_len, 16 - offset, 5)
        variants[name] = {"psid_offset": offset, "psid_len": length, "softwires": 2 << length}
    return variants


def _owner(table: BindingTable, ipv4: IPv4Address, port: int) -> IPv6Address | None:
    row = int(table.find(np.array([int(ipv4)], np.uint64), np.array([port], np.uint64))[0])
    return None if row < 0 else table.softwire(row)[2]


def _softwires(table: BindingTable, ipv4: IPv4Address) -> list[Softwire]:
    """Return the rows of an address."""
    rows = np.flatnonzero(table.ipv4 == int(ipv4))
    return [
        Softwire(
            table.softwire(row)[0],
            int(table.psid[row]),
            int(table.psid_len[row]),
            int(table.psid_offset[row]),
            *table.softwire(row)[2:],
        )
        for row in map(int, rows)
    ]
