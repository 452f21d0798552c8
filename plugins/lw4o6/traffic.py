"""Traffic of a lwAFTR: lwB4s on the left, a server on the right.

A generated table is arithmetic: the row's number is one variable whose bits go to the lwB4's
prefix, the IPv4 address and the PSID. Rows from a file are listed, in lists of equal length.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address

from v6t.base.errors import UsageError
from v6t.packets.direction import Direction
from v6t.plugins.base import Links
from v6t.plugins.common.mixture import (
    background_of,
    ethernet,
    ipv4,
    ipv6,
    mixed,
    negative_like,
    replaced,
)
from v6t.plugins.lw4o6.params import LwAftrParams
from v6t.plugins.map.fields import ce_port, fixed_ce_port, peer_port
from v6t.plugins.map.rules import PortSet
from v6t.profiles.compiler.instructions import MAX_LIST
from v6t.profiles.model import (
    Binding,
    FramePair,
    Kind,
    Layer,
    Role,
    Traffic,
    TrafficClass,
    Variable,
)

_ROW = "softwire"
_MAX_GROUPS = 56
"""Classes of foreground; a direction has 64 streams."""
_COLUMNS = ((0, 48), (48, 48), (96, 32))
"""Stretches of an IPv6 address that a variable can hold."""


@dataclass(frozen=True)
class _Group:
    """Softwires with one port sharing and one lwAFTR address.

    Attributes:
        ports: the port set of the template's softwire.
        ipv4, b4, br: addresses of the template's softwire.
        variables: what varies from softwire to softwire.
        in_b4, in_ipv4, in_port: variable, first and last bit of the field, then of the variable.
        share: number of softwires.
    """

    ports: PortSet
    ipv4: IPv4Address
    b4: IPv6Address
    br: IPv6Address
    variables: tuple[Variable, ...]
    in_b4: tuple[tuple[str, int, int, int, int], ...]
    in_ipv4: tuple[tuple[str, int, int, int, int], ...]
    in_port: tuple[tuple[str, int, int, int, int], ...]
    share: int


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
    params: LwAftrParams, group: _Group, links: Links, sizes: FramePair, name: str
) -> TrafficClass:
    own, more = ce_port(group.ports, params.fw_sport, "UDP.sport")
    peer, peers = peer_port(params.fw_dport, "UDP.dport")
    ports = {"sport": fixed_ce_port(group.ports, source=True), "dport": params.fw_dport.min}
    layers = (
        *ethernet(links, "forward"),
        ipv6(params, group.b4, group.br),
        ipv4(params, group.ipv4, params.server_ipv4),
        Layer("UDP", ports),
    )
    bindings = [
        *_bind(group.in_b4, "IPv6.src"),
        *_bind(group.in_ipv4, "IP.src"),
        *_bind(group.in_port, "UDP.sport"),
    ]
    variables = (*group.variables, *own, *peer)
    return TrafficClass(
        name, Role.FOREGROUND, layers, sizes.ipv6, variables, (*bindings, *more, *peers)
    )


def _reverse(
    params: LwAftrParams, group: _Group, links: Links, sizes: FramePair, name: str
) -> TrafficClass:
    own, more = ce_port(group.ports, params.rv_dport, "UDP.dport")
    peer, peers = peer_port(params.rv_sport, "UDP.sport")
    ports = {"sport": params.rv_sport.min, "dport": fixed_ce_port(group.ports, source=False)}
    layers = (
        *ethernet(links, "reverse"),
        ipv4(params, params.server_ipv4, group.ipv4),
        Layer("UDP", ports),
    )
    bindings = [*_bind(group.in_ipv4, "IP.dst"), *_bind(group.in_port, "UDP.dport")]
    variables = (*group.variables, *own, *peer)
    return TrafficClass(
        name, Role.FOREGROUND, layers, sizes.ipv4, variables, (*bindings, *more, *peers)
    )


def _bind(places: tuple[tuple[str, int, int, int, int], ...], field: str) -> list[Binding]:
    return [Binding(n, field, a, b, c, d) for n, a, b, c, d in places]


def _groups(params: LwAftrParams, direction: Direction, seed: int) -> Iterator[_Group]:
    if params.binding_table is None:
        yield _generated(params, direction, seed)
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
    for (offset, length, _), members in kinds.items():
        ipv4_address, psid, b4, br = table.softwire(members[0])
        chosen = np.array(members)
        variables = [Variable("ipv4", 32, Kind.LIST, values=table.ipv4[chosen].tolist())]
        in_port = []
        if length:
            psids = table.psid[chosen].tolist()
            variables.append(Variable("psid", length, Kind.LIST, values=psids))
            in_port.append(("psid", offset, offset + length - 1, 0, length - 1))
        in_b4 = []
        for first, width in _COLUMNS:
            octets = table.b4[chosen][:, first // 8 : (first + width) // 8]
            values = [int.from_bytes(o.tobytes(), "big") for o in octets]
            variables.append(Variable(f"b4_{first}", width, Kind.LIST, values=values))
            in_b4.append((f"b4_{first}", first, first + width - 1, 0, width - 1))
        yield _Group(
            PortSet(offset, length, psid),
            ipv4_address,
            b4,
            br,
            tuple(variables),
            tuple(in_b4),
            (("ipv4", 0, 31, 0, 31),),
            tuple(in_port),
            len(members),
        )


def _generated(params: LwAftrParams, direction: Direction, seed: int) -> _Group:
    width, k, a = params.index_bits, params.psid_len, params.psid_offset
    ports = PortSet(a, k, 0)
    first = params.pool.network_address
    b4 = IPv6Address(int(params.b4_network.network_address) | int(first) << 16)
    fixed = _Group(ports, first, b4, params.br_address, (), (), (), (), 1)
    if not width:
        return fixed
    upper, shared = max(0, width - k), min(width, k)
    in_b4 = [(_ROW, 64 - width, 63, 0, width - 1)]
    in_ipv4, in_port = [], []
    if upper:
        in_ipv4.append((_ROW, 32 - upper, 31, 0, upper - 1))
        in_b4.append((_ROW, 112 - upper, 111, 0, upper - 1))
    if shared:
        in_port.append((_ROW, a + k - shared, a + k - 1, upper, width - 1))
        in_b4.append((_ROW, 128 - shared, 127, upper, width - 1))
    count = params.simulated or params.softwires
    if count <= MAX_LIST:
        rows = _sample(params.softwires, count, direction, seed)
        variable = Variable(_ROW, width, Kind.LIST, values=tuple(rows))
    else:
        variable = Variable(_ROW, width, Kind.PERMUTATION, low=0, high=count - 1)
    return replace(
        fixed,
        variables=(variable,),
        in_b4=tuple(in_b4),
        in_ipv4=tuple(in_ipv4),
        in_port=tuple(in_port),
    )


def _sample(rows: int, count: int, direction: Direction, seed: int) -> list[int]:
    """Rows without repetition; both directions know the same ones, in different order (MAP-14)."""
    chosen = random.Random(f"{seed}/softwires").sample(range(rows), count)  # noqa: S311
    random.Random(f"{seed}/{direction}/softwires").shuffle(chosen)  # noqa: S311
    return chosen


def _spoofed(params: LwAftrParams, group: _Group, good: TrafficClass) -> list[TrafficClass]:
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
        names = {place[0] for place in group.in_port}
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
