"""Lightweight 4over6 AFTR (RFC 7596) with a binding table of up to millions of rows.

A row, a *softwire*, binds an IPv4 address and a PSID to the IPv6 address of a lwB4.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import UsageError
from v6t.base.files import explain_read_error
from v6t.intent.binding_table import read_softwires
from v6t.intent.families import GeneratedTable, LwAftrConfig, TableFile
from v6t.packets.address_layouts import SOFTWIRE, GeneratedSoftwires
from v6t.packets.arrays import I64, U8, U64, Mask
from v6t.packets.direction import Direction
from v6t.packets.headers import PROTOCOL_IPIP, to_numbers, to_octets
from v6t.packets.reference import DropReason
from v6t.plugins import audit_views, customers
from v6t.plugins.audit_views import Softwire
from v6t.plugins.customers import ALL_CUSTOMERS, CustomerCount, CustomerFlow
from v6t.plugins.map_rules import DEFAULT_PSID_OFFSET
from v6t.plugins.ports import PortSet
from v6t.plugins.prefixes import parse_ipv4_host_network, parse_ipv6_network
from v6t.plugins.reference_device import Checks, select_forwardable_addresses
from v6t.plugins.tunnels import ECN_DROP, TunnelDevice, pack_address
from v6t.profiles.compiler.instructions import MAX_LIST
from v6t.profiles.model import Expression, Kind, Layer, TrafficClass, Variable, list_ipv6_addresses

# Settings of the table that v6t generates where no file is given.
GENERATED_TABLE_SETTINGS = {"softwires", "ipv4_pool", "b4_prefix", "psid_len", "psid_offset"}
_MAX_ROUTES = 256  # to lwB4s; if there are more, one route to a common prefix replaces them
_MAX_CLASSES = 56  # of foreground traffic; a direction has 64 streams
_MAX_EXAMINED_ROWS = 256  # of the binding table, to find customers for audits


@dataclass(frozen=True, eq=False)
class BindingTable:
    """Binding table (RFC 7596): columns ``(n,)`` and addresses ``(n, 16)``, sorted by IPv4 address and PSID.

    PSID length and offset are equal for equal addresses.
    """

    ipv4: U64
    psid: U64
    psid_len: U64
    psid_offset: U64
    b4: U8  # lwB4 addresses
    br: U8  # lwAFTR addresses

    def __len__(self) -> int:
        return len(self.ipv4)

    def __post_init__(self) -> None:
        first = np.flatnonzero(np.append(True, self.ipv4[1:] != self.ipv4[:-1]))
        keys = self.ipv4 << np.uint64(16) | self.psid
        object.__setattr__(self, "_index", (first, self.ipv4[first], keys))

    def find_rows(self, ipv4: U64, port: U64) -> I64:
        """Return the row of each address ``(n,)`` and port ``(n,)``, -1 for none."""
        first, addresses, keys = self._index  # type: ignore[attr-defined]
        ipv4, port = ipv4.astype(np.uint64), port.astype(np.uint64)
        place = np.minimum(np.searchsorted(addresses, ipv4), len(addresses) - 1)
        row = first[place]
        length, offset = self.psid_len[row], self.psid_offset[row]
        shared = length > 0
        low = np.where(shared, np.uint64(16) - offset - length, np.uint64(16))
        psid = port >> low & (np.uint64(1) << length) - np.uint64(1)
        excluded = shared & (offset > 0) & (port >> (np.uint64(16) - offset) == 0)
        wanted = ipv4 << np.uint64(16) | psid
        index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        hit = (addresses[place] == ipv4) & (keys[index] == wanted) & ~excluded
        return np.where(hit, index, -1).astype(np.int64)

    def find_b4(self, ipv4: IPv4Address, port: int) -> IPv6Address | None:
        row = int(self.find_rows(np.array([int(ipv4)]), np.array([port]))[0])
        return None if row < 0 else self.read_row(row).b4

    def read_row(self, row: int) -> Softwire:
        columns = self.psid, self.psid_len, self.psid_offset
        psid, length, offset = (int(column[row]) for column in columns)
        ends = IPv6Address(self.b4[row].tobytes()), IPv6Address(self.br[row].tobytes())
        return Softwire(IPv4Address(int(self.ipv4[row])), psid, length, offset, *ends)

    def list_softwires(self, ipv4: IPv4Address) -> list[Softwire]:
        return [self.read_row(int(row)) for row in np.flatnonzero(self.ipv4 == int(ipv4))]


def generate_table(
    softwires: GeneratedSoftwires, count: int, psid_offset: int, br: IPv6Address
) -> BindingTable:
    """Generate the first ``count`` rows; all have the same lwAFTR address and PSID offset."""
    number = np.arange(count, dtype=np.uint64)
    layouts = softwires.ipv4_layout, softwires.psid_layout
    ipv4, psid = (layout.encode_words(softwire=number)[0] for layout in layouts)
    length, offset = (np.full(count, n, np.uint64) for n in (softwires.psid_len, psid_offset))
    b4s = softwires.b4_layout.encode_octets(softwire=number)
    brs = np.broadcast_to(pack_address(br), (count, 16))
    return BindingTable(ipv4, psid, length, offset, b4s, brs)


def read_table(path: Path, br: IPv6Address) -> BindingTable:
    """Read a binding table from a file with one softwire per line; ``br`` is the default lwAFTR address."""
    try:
        mtime_ns = path.stat().st_mtime_ns
    except OSError as exc:
        raise explain_read_error(f"the binding table {path}", exc) from exc
    return _read_cached_table(path, mtime_ns, br)


@lru_cache(maxsize=4)
def _read_cached_table(path: Path, _mtime_ns: int, br: IPv6Address) -> BindingTable:
    """Read and check a table; ``_mtime_ns`` renews the cache when the file changes."""
    if not (rows := list(_read_rows(path, br))):
        raise UsageError(f"the binding table {path} is empty", code="empty-file")
    numbers = np.array([row[:4] for row in rows], dtype=np.uint64)
    order = np.lexsort((numbers[:, 1], numbers[:, 0]))
    ipv4, psid, length, offset = (np.ascontiguousarray(c) for c in numbers[order].T)
    ends = np.frombuffer(b"".join(row[4] + row[5] for row in rows), np.uint8).reshape(-1, 32)
    b4, brs = np.ascontiguousarray(ends[order, :16]), np.ascontiguousarray(ends[order, 16:])
    same = ipv4[1:] == ipv4[:-1]
    mixed = (length[1:] != length[:-1]) | (offset[1:] != offset[:-1])
    problems = [
        (same & (psid[1:] == psid[:-1]), "is bound twice"),
        (same & mixed, "has several PSID lengths or offsets"),
    ]
    for name, addresses in (("IPv4", to_octets(ipv4, 4)), ("lwB4", b4), ("lwAFTR", brs)):
        wrong = ~select_forwardable_addresses(addresses)
        shown = ip_address(addresses[wrong.argmax()].tobytes())
        problems.append((wrong, f"has the {name} address {shown}, which no device forwards"))
    for wrong, problem in problems:
        if wrong.any():
            row = int(wrong.argmax())
            where = f"{path}: {IPv4Address(int(ipv4[row]))} (PSID {psid[row]})"
            hint = "correct the binding table"
            raise UsageError(f"{where} {problem}", hint, code="invalid-table-row")
    return BindingTable(ipv4, psid, length, offset, b4, brs)


def _read_rows(path: Path, br: IPv6Address) -> Iterator[tuple[int, int, int, int, bytes, bytes]]:
    for number, row in read_softwires(path):
        k, a = row.psid_len, row.psid_offset
        reason = "PSID 0 of 16 bits has port 0 only" if k == 16 and not row.psid else ""
        if row.psid >= 1 << min(k, 64) or a > 16 or (k and a + k > 16):
            reason = "no such PSID"
        if reason:
            problem = f"{path}:{number}: {reason}: {row.psid}, of {k} bits after {a}"
            hint = "PSID offset and length are 16 bits at most, and the PSID has that length"
            raise UsageError(problem, hint, code="invalid-table-row")
        yield int(row.ipv4), row.psid, k, a, row.b4.packed, (row.br or br).packed


class LwAftrDrop(DropReason):
    """Why a lwAFTR drops a frame."""

    NO_SOFTWIRE = "no softwire for the IPv4 address and port"
    WRONG_OUTER_ADDRESSES = "outer addresses are not those of the softwire"
    TOO_BIG = "too big for the IPv6 link"
    NOT_ECN_CAPABLE = ECN_DROP


class LwAftrParams(customers.TunnelRelayParams):
    """Parameters of ``lwaftr``."""

    display_name: ClassVar[str] = "lw4o6"

    softwires: int = Field(1000, ge=1, le=1 << 24, description="rows of the generated table")
    ipv4_pool: str = Field("198.18.0.0/15", description="addresses of the generated table")
    b4_prefix: str = Field("2001:db8:b400::/40", description="IPv6 prefix of the lwB4s, a /64 each")
    psid_len: int = Field(6, ge=0, le=16, description="PSID length of the generated table")
    psid_offset: int = Field(DEFAULT_PSID_OFFSET, ge=0, le=16, description="its PSID offset")
    binding_table: Path | None = Field(None, description="file with the rows")
    simulated: CustomerCount = Field(
        ALL_CUSTOMERS, ge=0, description="softwires with traffic; 'all'"
    )

    @cached_property
    def generated_softwires(self) -> GeneratedSoftwires:
        pool = parse_ipv4_host_network(self.ipv4_pool, "ipv4_pool")
        b4s = parse_ipv6_network(self.b4_prefix, "b4_prefix")
        return GeneratedSoftwires(pool, b4s, self.psid_len, (self.softwires - 1).bit_length())

    def load_table(self) -> BindingTable:
        if self.binding_table is not None:
            return read_table(self.binding_table, self.br_address)
        softwires = self.generated_softwires
        return generate_table(softwires, self.softwires, self.psid_offset, self.br_address)

    @property
    def customer_prefixes(self) -> list[str]:
        if self.binding_table is None:
            return [str(self.generated_softwires.b4_prefix)]
        high = np.unique(to_numbers(self.load_table().b4[:, :8])).tolist()
        if len(high) > _MAX_ROUTES:
            length = 64 - (high[0] ^ high[-1]).bit_length()
            return [str(IPv6Network((high[0] << 64, length), strict=False))]
        return [str(IPv6Network((number << 64, 64))) for number in high]

    @property
    def br_addresses(self) -> list[str]:
        own = str(self.br_address)
        if self.binding_table is None:
            return [own]
        others = {str(IPv6Address(br.tobytes())) for br in self.load_table().br}
        return [own, *sorted(others - {own})]

    @model_validator(mode="after")
    def _check_table(self) -> LwAftrParams:
        if self.binding_table is None:
            self._check_generated()
            rows, bound = self.softwires, self.server_ipv4 in self.generated_softwires.ipv4_pool
        else:
            if unused := " and ".join(sorted(self.model_fields_set & GENERATED_TABLE_SETTINGS)):
                problem = f"binding_table names a file with all rows, so {unused} cannot be set"
                hint = f"delete {unused}, or delete binding_table to generate a table"
                raise UsageError(problem, hint, code="setting-without-effect")
            table = self.load_table()
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
        table, needed = self.generated_softwires, (self.softwires - 1 >> self.psid_len) + 1
        if needed > table.ipv4_pool.num_addresses:
            problem = f"{self.softwires} softwires need {needed} addresses, more than {table.ipv4_pool} has"
            hint = "widen ipv4_pool, or lengthen psid_len"
            raise UsageError(problem, hint, code="not-enough-addresses")
        if table.b4_prefix.prefixlen + table.index_bits > 64:
            problem = f"{table.b4_prefix} has no /64 for each of {self.softwires} lwB4s"
            hint = f"use a prefix of at most /{64 - table.index_bits}"
            raise UsageError(problem, hint, code="not-enough-addresses")
        self.refuse_addresses_within(table.b4_prefix, "b4_prefix", "br_address")


class LightweightAftr(TunnelDevice, customers.Relay):
    """A lwAFTR: decapsulates in forward direction, encapsulates in reverse, by its binding table."""

    name = "lwaftr"
    title = "lwAFTR of lightweight 4over6: IPv4 of many lwB4s in IPv6, by binding table"
    rfcs = ("RFC 7596 section 6",)
    params_model = LwAftrParams
    sides = ("lwB4s", "server")
    drops = LwAftrDrop
    copies_dscp = True
    params: LwAftrParams

    @cached_property
    def _table(self) -> BindingTable:
        return self.params.load_table()

    def simulate_customers(self, direction: Direction, seed: int) -> list[CustomerFlow]:
        if self.params.binding_table is None:
            return [_simulate_generated_rows(self.params, direction, seed)]
        return list(_simulate_listed_rows(self.params, self._table, direction, seed))

    def make_negative_layers(
        self, flow: CustomerFlow, valid: TrafficClass, direction: Direction
    ) -> dict[str, tuple[Layer, ...]]:
        if direction == "reverse":
            return {}
        wrong = str(IPv6Address(int(flow.relay) ^ 1 << 127))
        changed = {"spoof-b4": valid.replace_fields("IPv6", src=wrong)}
        changed["spoof-ipv4"] = valid.replace_fields("IP", src=str(self.params.server_ipv4))
        bits = flow.psid.bits if flow.psid else ()
        b4 = () if self.params.binding_table is None else _join_octets(self._table.b4)
        # a second softwire of a lwB4 may have the port after all
        if bits and bits[0].variable.kind is Kind.LIST and len(np.unique(b4)) == len(b4):
            # the next PSID belongs to another softwire or to none
            port: Any = valid.find_layer("UDP").fields["sport"]
            port = port.add_constant(1, bits[0].variable.name)
            changed["spoof-port"] = valid.replace_fields("UDP", sport=port)
        return changed

    @cached_property
    def _relay_addresses(self) -> np.ndarray:
        return np.unique(_join_octets(self._table.br))

    def select_tunnel_packets(self, outer: Any) -> Mask:
        return np.isin(_join_octets(outer["dst_octets"]), self._relay_addresses)

    def select_native(self, outer: Any, tunnelled: Mask) -> Mask:
        native: Mask = ~tunnelled & (outer["nh"] != PROTOCOL_IPIP)
        return native

    def check_source(self, outer: Any, inner: Any, udp: Any) -> Checks:
        """Return drop reasons for packets that match no softwire (RFC 7596, section 6.2)."""
        table = self._table
        row = table.find_rows(inner["src"], udp["sport"])
        right = (table.b4[row] == outer["src_octets"]).all(axis=1)
        right &= (table.br[row] == outer["dst_octets"]).all(axis=1)
        return [(LwAftrDrop.NO_SOFTWIRE, row < 0), (LwAftrDrop.WRONG_OUTER_ADDRESSES, ~right)]

    def choose_tunnel(self, header: Any, udp: Any) -> tuple[Checks, Callable[[Mask], Any]]:
        table = self._table
        row = table.find_rows(header["dst"], udp["dport"])
        softwires = [(LwAftrDrop.NO_SOFTWIRE, row < 0)]
        return softwires, lambda rows: (table.br[row[rows]], table.b4[row[rows]])

    def make_configuration(self) -> LwAftrConfig:
        """Return the configuration with a reference to the binding table instead of its rows."""
        p, table = self.params, TableFile(file=str(self.params.binding_table))
        if p.binding_table is None:
            table = GeneratedTable(**{n: getattr(p, n) for n in GENERATED_TABLE_SETTINGS})
        return LwAftrConfig(table=table, br_address=p.br_address)

    def list_audit_views(self) -> tuple[audit_views.AuditView, ...]:
        rows = [self._table.read_row(n) for n in range(min(len(self._table), _MAX_EXAMINED_ROWS))]
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
        common = self.params.display_name, *ends, self.params.server_ipv4, *served, find
        relay = audit_views.SharedAddressRelay(*common, list_softwires=rows_of)
        return relay, customers.make_tunnel_view(relay, copies_dscp=self.copies_dscp)

    def list_audit_variants(self) -> dict[str, dict[str, Any]]:
        p, variants = self.params, {}
        if p.binding_table is not None or not p.psid_len:
            return {}
        for offset, name in enumerate(audit_views.PSID_OFFSETS):
            length = min(p.psid_len, 16 - offset, 5)
            variants[name] = {"psid_offset": offset, "psid_len": length, "softwires": 2 << length}
        return variants


def _make_customer(row: audit_views.Softwire) -> audit_views.Customer:
    return audit_views.Customer(row.b4, row.ipv4, PortSet(row.psid_offset, row.psid_len, row.psid))


def _join_octets(addresses: U8) -> np.ndarray:
    """View each address as one value, so that addresses can be compared."""
    return np.ascontiguousarray(addresses).view("V16")[:, 0]


def _simulate_generated_rows(params: LwAftrParams, direction: Direction, seed: int) -> CustomerFlow:
    table, width = params.generated_softwires, params.generated_softwires.index_bits
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
    rows = _sample_rows(len(table), params.simulated or len(table), direction, seed)
    groups: dict[tuple[int, int, bytes], list[int]] = {}
    for row in rows:
        sharing = (int(table.psid_offset[row]), int(table.psid_len[row]), table.br[row].tobytes())
        groups.setdefault(sharing, []).append(row)
    if len(groups) > _MAX_CLASSES:
        problem = f"softwires have {len(groups)} port sharings or lwAFTRs, more than {_MAX_CLASSES}"
        raise UsageError(problem, "simulate fewer, or unify the table", code="beyond-trex")
    for (offset, length, br), members in groups.items():
        chosen = np.array(members)
        first = table.read_row(members[0])
        ipv4 = Variable("ipv4", 32, Kind.LIST, values=table.ipv4[chosen].tolist())
        psid = Variable("psid", length, Kind.LIST, values=table.psid[chosen].tolist())
        variables, layout = list_ipv6_addresses("b4", [b4.tobytes() for b4 in table.b4[chosen]])
        parts = {variable.name: variable for variable in variables}
        b4s = Expression.from_layout(layout, str(first.b4), **parts)
        ipv4s = ipv4.place(0, str(first.ipv4))
        psids = psid.place(0, first.psid) if length else None
        ports, order = PortSet(offset, length, first.psid), ("ipv4", "psid", *parts)
        yield CustomerFlow(b4s, ipv4s, IPv6Address(br), ports, psids, order, len(members))


def _sample_rows(rows: int, count: int, direction: Direction, seed: int) -> list[int]:
    chosen = random.Random(f"{seed}/softwires").sample(range(rows), count)  # noqa: S311
    random.Random(f"{seed}/{direction}/softwires").shuffle(chosen)  # noqa: S311
    return chosen
