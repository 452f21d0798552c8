"""Rows of a lwAFTR's binding table, from an intent's short form or its file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from v6t.drivers.duts.plan import Intent
from v6t.intent.binding_table import read_softwires
from v6t.intent.families import GeneratedTable, LwAftrConfig


@dataclass(frozen=True)
class Softwire:
    """One row (RFC 7596 section 6.1)."""

    ipv4: IPv4Address
    psid: int
    psid_len: int
    psid_offset: int
    b4: IPv6Address
    br: IPv6Address


def softwires(intent: Intent) -> Iterator[Softwire]:
    """All rows, in ascending order of address and PSID where they are generated.

    Row ``i`` of a generated table has address ``i >> psid_len`` of the pool, the low bits of ``i``
    as PSID, and the lwB4 with the ``/64`` number ``i`` and RFC 7596's interface identifier.
    """
    configuration = intent.configuration_as(LwAftrConfig)
    table, br = configuration.table, configuration.br_address
    if not isinstance(table, GeneratedTable):
        yield from _of_file(Path(table.file), br)
        return
    length, offset = table.psid_len, table.psid_offset
    pool, b4 = table.ipv4_pool, table.b4_prefix
    for row in range(table.softwires):
        ipv4, psid = pool[row >> length], row & (1 << length) - 1
        host = (int(b4.network_address) >> 64 | row) << 64 | int(ipv4) << 16 | psid
        yield Softwire(ipv4, psid, length, offset, IPv6Address(host), br)


def _of_file(path: Path, br: IPv6Address) -> Iterator[Softwire]:
    for _, row in read_softwires(path):
        yield Softwire(*row[:5], br if row.br is None else row.br)
