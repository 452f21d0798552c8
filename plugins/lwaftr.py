"""Lightweight 4over6 AFTR (RFC 7596): IPv4 in IPv6 of many lwB4s, by binding table."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field, model_validator
from v6t.base.errors import UsageError
from v6t.intent.families import GeneratedTable, LwAftrConfig, TableFile
from v6t.packets.address_layouts import SOFTWIRE, GeneratedSoftwires
from v6t.packets.bit_layout import BitLayout, variable_layout
from v6t.packets.direction import Direction
from v6t.packets.headers import IPV4, IPV6, PROTOCOL_IPIP, UDP, view
from v6t.packets.reference import EXHAUSTED, NOT_FORWARDED, DropReason, list_drop_reasons
from v6t.plugins.audit_views import PSID_OFFSETS, Customer, SharedAddressRelay, Softwire
from v6t.plugins.base import Links
from v6t.plugins.binding_table import BindingTable
from v6t.plugins.frame_sizes import TUNNEL_SIZES
from v6t.plugins.map_domains import customer_tunnel
from v6t.plugins.map_rules import DEFAULT_PSID_OFFSET
from v6t.plugins.params import address
from v6t.plugins.ports import PortSet, choose_ce_port, vary_ce_port, vary_peer_port
from v6t.plugins.prefixes import hosts4, network6
from v6t.plugins.reference_device import (
    Handled,
    ReferenceDevice,
    answer,
    answer_or_route,
    choose_reasons,
    dropped,
    route_all,
)
from v6t.plugins.relay import Relay, TunnelRelayParams
from v6t.plugins.traffic import background_of, ethernet, ipv4, ipv6, mixed, negative_like, replaced
from v6t.plugins.tunnels import (
    UNMARKABLE,
    carries_udp,
    decapsulate,
    encapsulate,
    is_udp,
    unmarkable,
)
from v6t.profiles.compiler.instructions import MAX_LIST
from v6t.profiles.model import (
    FramePair,
    Kind,
    Layer,
    Role,
    Traffic,
    TrafficClass,
    Variable,
    bind_layout,
    list_ipv6_addresses,
)

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, Mask
    from v6t.plugins.audit_views import AuditView
    from v6t.plugins.binding_table import BindingTable
    from v6t.plugins.reference_device import ReferenceDevice


class LwAftrDrop(DropReason):
    """Why a lwAFTR drops a frame."""

    NO_SOFTWIRE = "no softwire for the IPv4 address and port"
    WRONG_OUTER = "outer addresses are not those of the softwire"
    TOO_BIG = "too big for the IPv6 link"
    UNMARKED = UNMARKABLE


DROP_REASONS = list_drop_reasons(LwAftrDrop, "neither IPv4 in IPv6 for the lwAFTR nor native IPv6")

_MOST_ROUTES = 256
"""Above that, one prefix that holds all lwB4s stands for theirs."""

GENERATED_TABLE = {"softwires", "ipv4_pool", "b4_prefix", "psid_len", "psid_offset"}
"""Settings of the table that v6t generates where no file is given."""

ALL = 0
"""``simulated`` value for "every row of the table"."""


def _simulated(value: Any) -> Any:
    return ALL if value == "all" else value


class LwAftrParams(TunnelRelayParams):
    """Everything ``lwaftr`` can be told."""

    measured: ClassVar[str] = "lw4o6"

    softwires: int = Field(1000, ge=1, le=1 << 24, description="rows of the generated table")
    ipv4_pool: str = Field("198.18.0.0/15", description="addresses of the generated table")
    b4_prefix: str = Field(
        "2001:db8:b400::/40", description="IPv6 prefix of the lwB4s, a /64 for each"
    )
    psid_len: int = Field(6, ge=0, le=16, description="PSID length of the generated table")
    psid_offset: int = Field(
        DEFAULT_PSID_OFFSET, ge=0, le=16, description="PSID offset of the generated table"
    )
    binding_table: Path | None = Field(
        None, description="file with the rows, instead of a generated table"
    )
    simulated: Annotated[int, BeforeValidator(_simulated)] = Field(
        ALL, ge=0, description="softwires that send and receive, 'all': every row of the table"
    )
    br_address: IPv6Address = address(
        "2001:db8:6::1",
        "the lwAFTR's tunnel address; like a loopback address if it is not on the link",
    )

    @cached_property
    def pool(self) -> IPv4Network:
        """The checked pool."""
        return hosts4(self.ipv4_pool, "ipv4_pool")

    @cached_property
    def b4_network(self) -> IPv6Network:
        """The checked prefix."""
        return network6(self.b4_prefix, "b4_prefix")

    @property
    def index_bits(self) -> int:
        """Bits of a generated row's number."""
        return (self.softwires - 1).bit_length()

    @cached_property
    def generated(self) -> GeneratedSoftwires:
        """The softwires of the generated table."""
        return GeneratedSoftwires(self.pool, self.b4_network, self.psid_len, self.index_bits)

    def table(self) -> BindingTable:
        """Return all rows; from the file, or generated."""
        from v6t.plugins.binding_table import generate_table, read_table

        if self.binding_table is not None:
            return read_table(self.binding_table, self.br_address)
        return generate_table(self.generated, self.softwires, self.psid_offset, self.br_address)

    @property
    def customers(self) -> list[str]:
        """IPv6 prefixes that hold the lwB4s."""
        if self.binding_table is None:
            return [str(self.b4_network)]
        high = sorted({int.from_bytes(b4[:8].tobytes(), "big") for b4 in self.table().b4})
        if len(high) > _MOST_ROUTES:
            length = 64 - (high[0] ^ high[-1]).bit_length()
            return [str(IPv6Network((high[0] >> 64 - length << 128 - length, length)))]
        return [str(IPv6Network((number << 64, 64))) for number in high]

    @property
    def br_addresses(self) -> list[str]:
        """All addresses of the lwAFTR, the parameter's first."""
        own = str(self.br_address)
        if self.binding_table is None:
            return [own]
        others = {str(IPv6Address(br.tobytes())) for br in self.table().br}
        return [own, *sorted(others - {own})]

    @model_validator(mode="after")
    def _possible(self) -> LwAftrParams:
        if self.binding_table is None:
            self._check_generated()
            rows = self.softwires
        else:
            self._refuse_generated_settings()
            rows = len(self.table())
            if (self.simulated or rows) > MAX_LIST:
                raise UsageError(
                    f"the binding table has {rows} rows; of a table from a file at most "
                    f"{MAX_LIST} softwires can send and receive at a time",
                    f"set simulated to at most {MAX_LIST}; the device still holds all rows",
                    code="not-enough-addresses",
                )
        if self.simulated > rows:
            raise UsageError(
                f"{self.simulated} simulated softwires are more than the table's {rows} rows",
                code="not-enough-addresses",
            )
        self._check_server()
        return self

    def _refuse_generated_settings(self) -> None:
        """Refuse settings of a generated table next to a table from a file."""
        unused = sorted(self.model_fields_set & GENERATED_TABLE)
        if unused:
            raise UsageError(
                f"binding_table names a file with all rows, so {' and '.join(unused)} cannot be set",
                f"delete {' and '.join(unused)}, or delete binding_table to generate a table",
                code="setting-without-effect",
            )

    def _check_generated(self) -> None:
        if self.psid_len and self.psid_offset + self.psid_len > 16:
            raise UsageError(
                f"psid_offset {self.psid_offset} plus psid_len {self.psid_len} is more than the "
                "16 bits of a port",
                f"set psid_offset to at most {16 - self.psid_len}",
                code="out-of-range",
            )
        if self.psid_len == 16 and not self.psid_offset:
            raise UsageError(
                "with psid_offset 0 and a PSID of 16 bits a lwB4 of PSID 0 has only port 0",
                "shorten the PSID",
                code="not-enough-addresses",
            )
        needed = (self.softwires - 1 >> self.psid_len) + 1
        if needed > self.pool.num_addresses:
            raise UsageError(
                f"{self.softwires} softwires, {1 << self.psid_len} to an address, need {needed} "
                f"addresses; {self.pool} has {self.pool.num_addresses}",
                "widen ipv4_pool, or lengthen psid_len",
                code="not-enough-addresses",
            )
        if self.b4_network.prefixlen + self.index_bits > 64:
            raise UsageError(
                f"{self.b4_network} has no /64 for each of {self.softwires} lwB4s",
                f"use a prefix of at most /{64 - self.index_bits}",
                code="not-enough-addresses",
            )
        if self.br_address in self.b4_network:
            raise UsageError(
                "br_address lies within b4_prefix", "choose one outside", code="address-conflict"
            )

    def _check_server(self) -> None:
        if self.binding_table is None:
            bound = self.server_ipv4 in self.pool
        else:
            bound = bool((self.table().ipv4 == int(self.server_ipv4)).any())
        if bound:
            raise UsageError(
                "server_ipv4 is an address of the binding table, and hairpinning is off",
                "choose one outside",
                code="address-conflict",
            )


_MAX_GROUPS = 56
"""Classes of foreground; a direction has 64 streams."""


@dataclass(frozen=True)
class _SoftwireGroup:
    """Softwires with one port sharing and one lwAFTR address.

    Attributes:
        ports: the port set of the template's softwire.
        br: the lwAFTR's address.
        variables: what varies from softwire to softwire.
        b4, ipv4: addresses from the variables.
        template: values of the variables for the template's softwire.
        psid: PSID from the variables; None: it does not vary.
        share: number of softwires.
    """

    ports: PortSet
    br: IPv6Address
    variables: tuple[Variable, ...]
    b4: BitLayout
    ipv4: BitLayout
    template: Mapping[str, int]
    psid: BitLayout | None
    share: int

    @property
    def b4_address(self) -> IPv6Address:
        """The lwB4's address in the template."""
        return IPv6Address(self.b4.encode(**self.template))

    @property
    def ipv4_address(self) -> IPv4Address:
        """The lwB4's IPv4 address in the template."""
        return IPv4Address(self.ipv4.encode(**self.template))


def lw_traffic(
    params: LwAftrParams, links: Links, direction: Direction, sizes: FramePair, seed: int
) -> Traffic:
    """All classes of one direction; forward may hold spoofed frames."""
    groups = list(_groups(params, direction, seed))
    foreground = []
    for number, group in enumerate(groups):
        name = "fg" if len(groups) == 1 else f"fg-{number}"
        traffic_class = (
            _forward(params, group, links, sizes, name)
            if direction == "forward"
            else _reverse(params, group, links, sizes, name)
        )
        foreground.append((traffic_class, group.share))
    ends = (params.tester_left_ipv6, params.tester_right_ipv6)
    behind = background_of(params, links, direction, sizes, ends, links.left)
    spoofed = []
    if direction == "forward" and params.negative_percent:
        spoofed = _spoofed(params, groups[0], foreground[0][0])
    return mixed(params, direction, foreground, behind, spoofed, params.negative_percent, seed)


def _forward(
    params: LwAftrParams, group: _SoftwireGroup, links: Links, sizes: FramePair, name: str
) -> TrafficClass:
    indices, bindings = vary_ce_port(
        group.ports, params.fw_sport, "UDP.sport", psid_layout=group.psid
    )
    peer, more = vary_peer_port(params.fw_dport, "UDP.dport")
    ports = {"sport": choose_ce_port(group.ports, source=True), "dport": params.fw_dport.min}
    layers = (
        *ethernet(links, "forward"),
        ipv6(params, group.b4_address, group.br),
        ipv4(params, group.ipv4_address, params.server_ipv4),
        Layer("UDP", ports),
    )
    addresses = bind_layout(group.b4, "IPv6.src") + bind_layout(group.ipv4, "IP.src")
    variables = (*group.variables, *indices, *peer)
    return TrafficClass(
        name, Role.FOREGROUND, layers, sizes.ipv6, variables, (*addresses, *bindings, *more)
    )


def _reverse(
    params: LwAftrParams, group: _SoftwireGroup, links: Links, sizes: FramePair, name: str
) -> TrafficClass:
    indices, bindings = vary_ce_port(
        group.ports, params.rv_dport, "UDP.dport", psid_layout=group.psid
    )
    peer, more = vary_peer_port(params.rv_sport, "UDP.sport")
    ports = {"sport": params.rv_sport.min, "dport": choose_ce_port(group.ports, source=False)}
    layers = (
        *ethernet(links, "reverse"),
        ipv4(params, params.server_ipv4, group.ipv4_address),
        Layer("UDP", ports),
    )
    addresses = bind_layout(group.ipv4, "IP.dst")
    variables = (*group.variables, *indices, *peer)
    return TrafficClass(
        name, Role.FOREGROUND, layers, sizes.ipv4, variables, (*addresses, *bindings, *more)
    )


def _groups(params: LwAftrParams, direction: Direction, seed: int) -> Iterator[_SoftwireGroup]:
    if params.binding_table is None:
        yield _generate_group(params, direction, seed)
        return
    import numpy as np

    table = params.table()
    rows = _sample(len(table), params.simulated or len(table), direction, seed)
    kinds: dict[tuple[int, int, bytes], list[int]] = {}
    for row in rows:
        sharing = (int(table.psid_offset[row]), int(table.psid_len[row]), table.br[row].tobytes())
        kinds.setdefault(sharing, []).append(row)
    if len(kinds) > _MAX_GROUPS:
        raise UsageError(
            f"the simulated softwires have {len(kinds)} different port sharings or lwAFTR "
            f"addresses, at most {_MAX_GROUPS} make a class of traffic each",
            "simulate fewer, or unify the table",
            code="beyond-trex",
        )
    for (offset, length, br), members in kinds.items():
        chosen = np.array(members)
        variables = [Variable("ipv4", 32, Kind.LIST, values=table.ipv4[chosen].tolist())]
        if length:
            psids = table.psid[chosen].tolist()
            variables.append(Variable("psid", length, Kind.LIST, values=psids))
        listed, b4 = list_ipv6_addresses("b4", [octets.tobytes() for octets in table.b4[chosen]])
        variables += listed
        yield _SoftwireGroup(
            PortSet(offset, length, int(table.psid[members[0]])),
            IPv6Address(br),
            tuple(variables),
            b4,
            variable_layout("ipv4", 32),
            {variable.name: variable.values[0] for variable in variables},
            variable_layout("psid", length) if length else None,
            len(members),
        )


def _generate_group(params: LwAftrParams, direction: Direction, seed: int) -> _SoftwireGroup:
    width, table = params.index_bits, params.generated
    count = params.simulated or params.softwires
    variables: tuple[Variable, ...] = ()
    if width and count <= MAX_LIST:
        rows = _sample(params.softwires, count, direction, seed)
        variables = (Variable(SOFTWIRE, width, Kind.LIST, values=tuple(rows)),)
    elif width:
        variables = (Variable(SOFTWIRE, width, Kind.PERMUTATION, low=0, high=count - 1),)
    return _SoftwireGroup(
        PortSet(params.psid_offset, params.psid_len, 0),
        params.br_address,
        variables,
        table.b4_layout,
        table.ipv4_layout,
        {SOFTWIRE: 0},
        table.psid_layout,
        1,
    )


def _sample(rows: int, count: int, direction: Direction, seed: int) -> list[int]:
    """Rows without repetition; both directions know the same ones, in different order (MAP-14)."""
    chosen = random.Random(f"{seed}/softwires").sample(range(rows), count)  # noqa: S311
    random.Random(f"{seed}/{direction}/softwires").shuffle(chosen)  # noqa: S311
    return chosen


def _spoofed(params: LwAftrParams, group: _SoftwireGroup, good: TrafficClass) -> list[TrafficClass]:
    """Frames like the foreground's with one thing wrong that a lwAFTR must notice."""
    classes = []
    wrong = IPv6Address(int(group.br) ^ 1 << 127)
    bindings = tuple(b for b in good.bindings if b.field != "IPv6.src")
    layers = replaced(good, "IPv6", src=str(wrong))
    classes.append(negative_like(good, "spoof-b4", layers=layers, bindings=bindings))
    bindings = tuple(b for b in good.bindings if b.field != "IP.src")
    layers = replaced(good, "IP", src=str(params.server_ipv4))
    classes.append(negative_like(good, "spoof-ipv4", layers=layers, bindings=bindings))
    if _one_softwire_each(params) and all(v.kind is Kind.LIST for v in group.variables):
        names = group.psid.variables if group.psid else ()
        # one more than the PSID is another softwire's, or nobody's
        moved = tuple(
            replace(b, add=1) if b.variable in names and b.field == "UDP.sport" else b
            for b in good.bindings
        )
        if moved != good.bindings:
            classes.append(negative_like(good, "spoof-port", bindings=moved))
    return classes


def _one_softwire_each(params: LwAftrParams) -> bool:
    """Whether no lwB4 has a second softwire, whose ports would be right after all."""
    if params.binding_table is None:
        return True
    import numpy as np

    b4 = np.ascontiguousarray(params.table().b4).view("V16")[:, 0]
    return len(np.unique(b4)) == len(b4)


class LwAftr:
    """Both handlers and the table."""

    def __init__(self, table: BindingTable, links: Links) -> None:
        """Remember the table.

        Args:
            table: all softwires.
            links: both cables.
        """
        self._table = table
        self._mtu = links.left.mtu
        self._own = np.unique(np.ascontiguousarray(table.br).view("V16")[:, 0])

    def device(self, links: Links) -> ReferenceDevice:
        """Build the reference device with its handlers for both links."""
        return ReferenceDevice(links, {6: self._from_ipv6}, {4: self._from_ipv4, 6: route_all(6)})

    def _from_ipv6(self, packets: U8) -> Handled:
        outer = view(packets, IPV6)
        ours = np.isin(np.ascontiguousarray(outer["dst_octets"]).view("V16")[:, 0], self._own)
        reason = np.full(len(packets), NOT_FORWARDED, dtype=np.uint8)
        if packets.shape[1] >= 68:
            inner, udp = view(packets, IPV4, 40), view(packets, UDP, 60)
            row = self._table.find(inner["src"].astype(np.uint64), udp["sport"].astype(np.uint64))
            right = (self._table.b4[row] == outer["src_octets"]).all(axis=1)
            right &= (self._table.br[row] == outer["dst_octets"]).all(axis=1)
            reason = choose_reasons(
                len(packets),
                (NOT_FORWARDED, ~carries_udp(packets)),
                (LwAftrDrop.NO_SOFTWIRE, row < 0),
                (LwAftrDrop.WRONG_OUTER, ~right),
                (EXHAUSTED, inner["ttl"] <= 1),
                (LwAftrDrop.UNMARKED, unmarkable(packets)),
            )
        return answer_or_route(
            packets,
            ours,
            reason,
            lambda rows: decapsulate(packets[rows]),
            stray=outer["nh"] == PROTOCOL_IPIP,  # a tunnel of another AFTR is not native traffic
        )

    def _from_ipv4(self, packets: U8) -> Handled:
        if packets.shape[1] < 28:
            return dropped(len(packets), NOT_FORWARDED)
        header, udp = view(packets, IPV4), view(packets, UDP, 20)
        row = self._table.find(header["dst"].astype(np.uint64), udp["dport"].astype(np.uint64))
        reason = choose_reasons(
            len(packets),
            (NOT_FORWARDED, ~is_udp(packets)),
            (LwAftrDrop.NO_SOFTWIRE, row < 0),
            (EXHAUSTED, header["ttl"] <= 1),
            (LwAftrDrop.TOO_BIG, packets.shape[1] + 40 > self._mtu),
        )

        def build(rows: Mask) -> U8:
            chosen = row[rows]
            return encapsulate(packets[rows], self._table.br[chosen], self._table.b4[chosen])

        return answer(reason, build, 6)


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


class LightweightAftr(Relay):
    """Decapsulates forward, encapsulates in reverse; stateless, the table apart."""

    name = "lwaftr"
    title = "lwAFTR of lightweight 4over6: IPv4 of many lwB4s in IPv6, by binding table"
    rfcs = ("RFC 7596 section 6",)
    params_model = LwAftrParams
    overhead = 40
    sides = ("lwB4s", "server")
    drop_reasons: ClassVar[tuple[str, ...]] = DROP_REASONS
    rfc_frame_sizes = TUNNEL_SIZES
    params: LwAftrParams

    def traffic(self, direction: Direction, sizes: FramePair, seed: int = 1) -> Traffic:
        """Foreground, background and spoofed frames as the parameters say."""
        return lw_traffic(self.params, self.links, direction, sizes, seed)

    def configuration(self) -> LwAftrConfig:
        """Describe the binding table without its rows, which may be a million."""
        p = self.params
        table: GeneratedTable | TableFile = GeneratedTable(
            softwires=p.softwires,
            ipv4_pool=p.pool,
            b4_prefix=p.b4_network,
            psid_len=p.psid_len,
            psid_offset=p.psid_offset,
        )
        if p.binding_table is not None:
            table = TableFile(file=str(p.binding_table))
        return LwAftrConfig(table=table, br_address=p.br_address)

    def left_addresses(self) -> list[str]:
        """List the address on the link and all others of the lwAFTR."""
        return self.params.left_addresses

    def audit_views(self) -> tuple[AuditView, ...]:
        relay = lwaftr_view(self.params)
        return relay, customer_tunnel(relay)

    def audit_variants(self) -> dict[str, dict[str, Any]]:
        return lwaftr_variants(self.params)

    def reference_device(self) -> ReferenceDevice:

        return LwAftr(self.params.table(), self.links).device(self.links)
