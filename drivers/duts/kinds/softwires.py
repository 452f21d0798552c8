"""Rows of a lwAFTR's binding table, from an intent's short form or its file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from v6t.drivers.duts.plan import Intent
from v6t.intent.binding_table import read_softwires
from v6t.intent.families import GeneratedTable, LwAftrConfig
from v6t.packets.address_layouts import GeneratedSoftwires


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
    """Yield all rows, in ascending order of address and PSID where they are generated."""
    configuration = intent.configuration_as(LwAftrConfig)
    table, br = configuration.table, configuration.br_address
    if not isinstance(table, GeneratedTable):
        yield from _read_softwires(Path(table.file), br)
        return
    generated = GeneratedSoftwires(
        table.ipv4_pool, table.b4_prefix, table.psid_len, (table.softwires - 1).bit_length()
    )
    ipv4, psid, b4 = generated.ipv4_layout, generated.psid_layout, generated.b4_layout
    for row in range(table.softwires):
        yield Softwire(
            IPv4Address(ipv4.encode(softwire=row)),
            psid.encode(softwire=row),
            table.psid_len,
            table.psid_offset,
            IPv6Address(b4.encode(softwire=row)),
            br,
        )


def _read_softwires(path: Path, br: IPv6Address) -> Iterator[Softwire]:
    for _, row in read_softwires(path):
        yield Softwire(*row[:5], br if row.br is None else row.br)
