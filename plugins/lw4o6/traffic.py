"""Traffic of a lwAFTR: lwB4s on the left, a server on the right.

A generated table is arithmetic: the row's number is one variable whose bits go to the lwB4's
prefix, the IPv4 address and the PSID. Rows from a file are listed, in lists of equal length.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address

from v6t.base.errors import UsageError
from v6t.packets.address_layouts import SOFTWIRE
from v6t.packets.bit_layout import BitLayout, variable_layout
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
from v6t.plugins.common.ports import PortSet, choose_ce_port, vary_ce_port, vary_peer_port
from v6t.plugins.lw4o6.params import LwAftrParams
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
