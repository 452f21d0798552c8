"""Lightweight 4over6 AFTR (RFC 7596): IPv4 in IPv6 of many lwB4s, by binding table."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cached_property
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import GeneratedTable, LwAftrConfig, TableFile
from v6t.packets.address_layouts import SOFTWIRE, GeneratedSoftwires
from v6t.packets.arrays import U8, Mask
from v6t.packets.direction import Direction
from v6t.packets.headers import PROTOCOL_IPIP, to_numbers
from v6t.packets.reference import DropReason
from v6t.plugins import audit_views, customers
from v6t.plugins.binding_table import BindingTable, generate_table, read_table
from v6t.plugins.customers import ALL, CustomerCount, CustomerFlow
from v6t.plugins.frame_sizes import TUNNEL_SIZES
from v6t.plugins.map_rules import DEFAULT_PSID_OFFSET
from v6t.plugins.ports import PortSet
from v6t.plugins.prefixes import hosts4, network6
from v6t.plugins.reference_device import Checks
from v6t.plugins.tunnels import UNMARKABLE, TunnelDevice
from v6t.profiles.compiler.instructions import MAX_LIST
from v6t.profiles.model import Expression, Kind, Layer, TrafficClass, Variable, list_ipv6_addresses

GENERATED_TABLE_SETTINGS = {"softwires", "ipv4_pool", "b4_prefix", "psid_len", "psid_offset"}
"""Settings of the table that v6t generates where no file is given."""
_MAX_ROUTES = 256  # to lwB4s; more are replaced by one route to a prefix that holds them all
_MAX_GROUPS = 56  # classes of foreground; a direction has 64 streams
_MAX_EXAMINED_ROWS = 256  # in which audits look for customers


class LwAftrDrop(DropReason):
    """Why a lwAFTR drops a frame."""

    NO_SOFTWIRE = "no softwire for the IPv4 address and port"
    WRONG_OUTER = "outer addresses are not those of the softwire"
    TOO_BIG = "too big for the IPv6 link"
    UNMARKED = UNMARKABLE


class LwAftrParams(customers.TunnelRelayParams):
    """Parameters of ``lwaftr``."""

    measured: ClassVar[str] = "lw4o6"

    softwires: int = Field(1000, ge=1, le=1 << 24, description="rows of the generated table")
    ipv4_pool: str = Field("198.18.0.0/15", description="addresses of the generated table")
    b4_prefix: str = Field("2001:db8:b400::/40", description="IPv6 prefix of the lwB4s, a /64 each")
    psid_len: int = Field(6, ge=0, le=16, description="PSID length of the generated table")
    psid_offset: int = Field(DEFAULT_PSID_OFFSET, ge=0, le=16, description="its PSID offset")
    binding_table: Path | None = Field(None, description="file with the rows")
    simulated: CustomerCount = Field(ALL, ge=0, description="softwires with traffic; 'all'")

    @cached_property
    def generated(self) -> GeneratedSoftwires:
        pool, b4s = hosts4(self.ipv4_pool, "ipv4_pool"), network6(self.b4_prefix, "b4_prefix")
        return GeneratedSoftwires(pool, b4s, self.psid_len, (self.softwires - 1).bit_length())

    def table(self) -> BindingTable:
        if self.binding_table is not None:
            return read_table(self.binding_table, self.br_address)
        return generate_table(self.generated, self.softwires, self.psid_offset, self.br_address)

    @property
    def customers(self) -> list[str]:
        if self.binding_table is None:
            return [str(self.generated.b4_prefix)]
        high = np.unique(to_numbers(self.table().b4[:, :8])).tolist()
        if len(high) > _MAX_ROUTES:
            length = 64 - (high[0] ^ high[-1]).bit_length()
            return [str(IPv6Network((high[0] << 64, length), strict=False))]
        return [str(IPv6Network((number << 64, 64))) for number in high]

    @property
    def br_addresses(self) -> list[str]:
        own = str(self.br_address)
        if self.binding_table is None:
            return [own]
        others = {str(IPv6Address(br.tobytes())) for br in self.table().br}
        return [own, *sorted(others - {own})]

    @model_validator(mode="after")
    def _check_table(self) -> LwAftrParams:
        if self.binding_table is None:
            self._check_generated()
            rows, bound = self.softwires, self.server_ipv4 in self.generated.ipv4_pool
        else:
            unused = " and ".join(sorted(self.model_fields_set & GENERATED_TABLE_SETTINGS))
            if unused:
                problem = f"binding_table names a file with all rows, so {unused} cannot be set"
                hint = f"delete {unused}, or delete binding_table to generate a table"
                raise UsageError(problem, hint, code="setting-without-effect")
            table = self.table()
            rows, bound = len(table), int(self.server_ipv4) in table.ipv4
            if (self.simulated or rows) > MAX_LIST:
                problem = f"of the {rows} rows of a file at most {MAX_LIST} can send and receive"
                hint = f"set simulated to at most {MAX_LIST}; the device still holds all rows"
                raise UsageError(problem, hint, code="not-enough-addresses")
        if self.simulated > rows:
            problem = f"{self.simulated} simulated softwires are more than the table's {rows} rows"
            raise UsageError(problem, code="not-enough-addresses")
        if bound:
            problem = "server_ipv4 is an address of the binding table, and hairpinning is off"
            raise UsageError(problem, "choose one outside", code="address-conflict")
        return self

    def _check_generated(self) -> None:
        PortSet(self.psid_offset, self.psid_len, 0)  # raises errors
        if self.psid_len == 16 and not self.psid_offset:
            problem = "with psid_offset 0 and a PSID of 16 bits a lwB4 of PSID 0 has only port 0"
            raise UsageError(problem, "shorten the PSID", code="not-enough-addresses")
        table, needed = self.generated, (self.softwires - 1 >> self.psid_len) + 1
        if needed > table.ipv4_pool.num_addresses:
            problem = f"{self.softwires} softwires need {needed} addresses, more than {table.ipv4_pool} has"
            hint = "widen ipv4_pool, or lengthen psid_len"
            raise UsageError(problem, hint, code="not-enough-addresses")
        if table.b4_prefix.prefixlen + table.index_bits > 64:
            problem = f"{table.b4_prefix} has no /64 for each of {self.softwires} lwB4s"
            hint = f"use a prefix of at most /{64 - table.index_bits}"
            raise UsageError(problem, hint, code="not-enough-addresses")
        if self.br_address in table.b4_prefix:
            problem = "br_address lies within b4_prefix"
            raise UsageError(problem, "choose one outside", code="address-conflict")


class LightweightAftr(TunnelDevice, customers.Relay):
    """Decapsulates forward, encapsulates in reverse; stateless but for the table."""

    name = "lwaftr"
    title = "lwAFTR of lightweight 4over6: IPv4 of many lwB4s in IPv6, by binding table"
    rfcs = ("RFC 7596 section 6",)
    params_model = LwAftrParams
    overhead = 40
    sides = ("lwB4s", "server")
    drops = LwAftrDrop
    rfc_frame_sizes = TUNNEL_SIZES
    params: LwAftrParams

    @cached_property
    def _table(self) -> BindingTable:
        return self.params.table()

    def simulate_customers(self, direction: Direction, seed: int) -> list[CustomerFlow]:
        if self.params.binding_table is None:
            return [_simulate_generated_rows(self.params, direction, seed)]
        return list(_simulate_listed_rows(self.params, self._table, direction, seed))

    def make_negative_layers(
        self, flow: CustomerFlow, good: TrafficClass, direction: Direction
    ) -> dict[str, tuple[Layer, ...]]:
        if direction == "reverse":
            return {}
        wrong = str(IPv6Address(int(flow.relay) ^ 1 << 127))
        changed = {
            "spoof-b4": good.replace_fields("IPv6", src=wrong),
            "spoof-ipv4": good.replace_fields("IP", src=str(self.params.server_ipv4)),
        }
        bits = flow.psid.bits if flow.psid else ()
        if bits and bits[0].variable.kind is Kind.LIST and self._has_one_softwire_each():
            # the next PSID belongs to another softwire or to none
            port: Any = good.layer("UDP").fields["sport"]
            port = port.add_constant(1, bits[0].variable.name)
            changed["spoof-port"] = good.replace_fields("UDP", sport=port)
        return changed

    def _has_one_softwire_each(self) -> bool:
        """Return whether no lwB4 has a second softwire, whose ports would be right after all."""
        b4 = () if self.params.binding_table is None else _join_octets(self._table.b4)
        return len(np.unique(b4)) == len(b4)

    @cached_property
    def _relay_addresses(self) -> np.ndarray:
        return np.unique(_join_octets(self._table.br))

    def select_tunnel_packets(self, outer: Any) -> Mask:
        tunnelled: Mask = np.isin(_join_octets(outer["dst_octets"]), self._relay_addresses)
        return tunnelled

    def select_native(self, outer: Any, tunnelled: Mask) -> Mask:
        native: Mask = ~tunnelled & (outer["nh"] != PROTOCOL_IPIP)
        return native

    def check_source(self, outer: Any, inner: Any, udp: Any) -> Checks:
        """Check that addresses and port are those of a softwire (RFC 7596, section 6.2)."""
        table = self._table
        row = table.find(inner["src"], udp["sport"])
        right = (table.b4[row] == outer["src_octets"]).all(axis=1)
        right &= (table.br[row] == outer["dst_octets"]).all(axis=1)
        return [(LwAftrDrop.NO_SOFTWIRE, row < 0), (LwAftrDrop.WRONG_OUTER, ~right)]

    def choose_tunnel(self, header: Any, udp: Any) -> tuple[Checks, Callable[[Mask], Any]]:
        """Choose the softwire of the IPv4 destination and port; hairpinning is off."""
        table = self._table
        row = table.find(header["dst"], udp["dport"])
        softwires = [(LwAftrDrop.NO_SOFTWIRE, row < 0)]
        return softwires, lambda rows: (table.br[row[rows]], table.b4[row[rows]])

    def configuration(self) -> LwAftrConfig:
        """Return the binding table without its rows, which may be a million."""
        p, table = self.params, TableFile(file=str(self.params.binding_table))
        if p.binding_table is None:
            table = GeneratedTable(**{n: getattr(p, n) for n in GENERATED_TABLE_SETTINGS})
        return LwAftrConfig(table=table, br_address=p.br_address)

    def audit_views(self) -> tuple[audit_views.AuditView, ...]:
        rows = [self._table.softwire(n) for n in range(min(len(self._table), _MAX_EXAMINED_ROWS))]
        chosen = rows[min(1, len(rows) - 1)]
        # further rows of the same lwB4 and other addresses of the lwAFTR are left out
        others = [row for row in rows if row.aftr == chosen.aftr and row.b4 != chosen.b4]
        sharing = [row for row in others if row.ipv4 == chosen.ipv4]
        sharing.sort(key=lambda row: row.psid < chosen.psid)
        apart = (row for row in others if row.ipv4 != chosen.ipv4)
        ends = chosen.aftr, frozenset(map(IPv6Address, self.params.br_addresses))
        sibling, other = (next(map(_make_customer, each), None) for each in (sharing, apart))
        served = _make_customer(chosen), sibling, other
        find, rows_of = self._table.find_b4, self._table.list_softwires
        common = self.kind, *ends, self.params.server_ipv4, *served, find
        relay = audit_views.SharedAddressRelay(*common, softwires=rows_of)
        return relay, customers.make_tunnel_view(relay)

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        p, variants = self.params, {}
        if p.binding_table is not None or not p.psid_len:
            return {}
        for offset, name in enumerate(audit_views.PSID_OFFSETS):
            length = min(p.psid_len, 16 - offset, 5)
            variants[name] = {"psid_offset": offset, "psid_len": length, "softwires": 2 << length}
        return variants


def _make_customer(row: audit_views.Softwire) -> audit_views.Customer:
    ports = PortSet(row.psid_offset, row.psid_len, row.psid)
    return audit_views.Customer(row.b4, row.ipv4, ports)


def _join_octets(addresses: U8) -> np.ndarray:
    return np.ascontiguousarray(addresses).view("V16")[:, 0]


def _simulate_generated_rows(params: LwAftrParams, direction: Direction, seed: int) -> CustomerFlow:
    table, width = params.generated, params.generated.index_bits
    count = params.simulated or params.softwires
    number = None
    if width and count <= MAX_LIST:
        rows = _sample_rows(params.softwires, count, direction, seed)
        number = Variable(SOFTWIRE, width, Kind.LIST, values=tuple(rows))
    elif width:
        number = Variable(SOFTWIRE, width, Kind.PERMUTATION, low=0, high=count - 1)
    first, first_b4 = str(table.ipv4_pool[0]), str(IPv6Address(table.b4_layout.encode(softwire=0)))
    b4 = Expression.from_layout(table.b4_layout, first_b4, softwire=number)
    ipv4 = Expression.from_layout(table.ipv4_layout, first, softwire=number)
    psid = Expression.from_layout(table.psid_layout, 0, softwire=number)
    ports = PortSet(params.psid_offset, params.psid_len, 0)
    return CustomerFlow(b4, ipv4, params.br_address, ports, psid, (SOFTWIRE,))


def _simulate_listed_rows(
    params: LwAftrParams, table: BindingTable, direction: Direction, seed: int
) -> Iterator[CustomerFlow]:
    """Yield the simulated rows in groups of one port sharing and one lwAFTR address."""
    rows = _sample_rows(len(table), params.simulated or len(table), direction, seed)
    groups: dict[tuple[int, int, bytes], list[int]] = {}
    for row in rows:
        sharing = (int(table.psid_offset[row]), int(table.psid_len[row]), table.br[row].tobytes())
        groups.setdefault(sharing, []).append(row)
    if len(groups) > _MAX_GROUPS:
        problem = f"softwires have {len(groups)} port sharings or lwAFTRs, more than {_MAX_GROUPS}"
        raise UsageError(problem, "simulate fewer, or unify the table", code="beyond-trex")
    for (offset, length, br), members in groups.items():
        chosen = np.array(members)
        first = table.softwire(members[0])
        ipv4 = Variable("ipv4", 32, Kind.LIST, values=table.ipv4[chosen].tolist())
        psid = Variable("psid", length, Kind.LIST, values=table.psid[chosen].tolist())
        variables, layout = list_ipv6_addresses("b4", [b4.tobytes() for b4 in table.b4[chosen]])
        parts = {variable.name: variable for variable in variables}
        yield CustomerFlow(
            Expression.from_layout(layout, str(first.b4), **parts),
            ipv4.at(0, str(first.ipv4)),
            IPv6Address(br),
            PortSet(offset, length, first.psid),
            psid.at(0, first.psid) if length else None,
            ("ipv4", "psid", *parts),
            len(members),
        )


def _sample_rows(rows: int, count: int, direction: Direction, seed: int) -> list[int]:
    """Draw rows without repetition; both directions have the same ones, in different order."""
    chosen = random.Random(f"{seed}/softwires").sample(range(rows), count)  # noqa: S311
    random.Random(f"{seed}/{direction}/softwires").shuffle(chosen)  # noqa: S311
    return chosen
