"""Hosts of a translator's test traffic: IPv4 ranges, and what they are in either header.

A range within one mapping varies as a number whose bits go straight into the address. A range that
touches several mappings is listed: several lists of equal length advance together.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, summarize_address_range

from pydantic import Field, model_validator
from v6t.base.errors import InvalidValue, UsageError
from v6t.packets.bit_layout import BitCopy, BitLayout, variable_layout
from v6t.plugins.address_mappings import Eam, Mapping, Mappings
from v6t.plugins.addresses import refuse_unforwarded
from v6t.plugins.base import PluginParams
from v6t.plugins.ports import KINDS, Policy
from v6t.profiles.compiler.instructions import MAX_LIST
from v6t.profiles.model import Binding, Kind, Variable, bind_layout, list_ipv6_addresses

MAX_RANGE = 1 << 20
"""Addresses of a range that are looked at one by one."""
MAX_COVER = 4
"""A route may cover so many times the hosts that it is for."""


class HostRange(PluginParams):
    """Hosts from ``first`` to ``last``, named by their IPv4 addresses on either side."""

    first: IPv4Address
    last: IPv4Address | None = Field(None, description="none: one host only")
    policy: Policy = "random"
    only_mapped: bool = Field(
        default=False, description="leave out hosts that are not mapped there and back"
    )

    @model_validator(mode="after")
    def _ordered(self) -> HostRange:
        if self.last is not None and self.last < self.first:
            raise InvalidValue(
                f"the last host {self.last} comes before the first {self.first}", code="conflict"
            )
        for network in self.networks():
            refuse_unforwarded(network, partly=True)
        return self

    @property
    def top(self) -> IPv4Address:
        """The last host."""
        return self.first if self.policy == "fixed" or self.last is None else self.last

    def networks(self) -> list[IPv4Network]:
        """The networks that hold exactly these hosts."""
        return list(summarize_address_range(self.first, self.top))


@dataclass(frozen=True)
class Host:
    """One end of the test traffic.

    Attributes:
        ipv4, ipv6: both forms of the host that the template frame shows.
        variables4, variables6: what varies in each form.
        in_ipv4, in_ipv6: each form from its variables; None: it does not vary.
    """

    ipv4: IPv4Address
    ipv6: IPv6Address
    variables4: tuple[Variable, ...] = ()
    variables6: tuple[Variable, ...] = ()
    in_ipv4: BitLayout | None = None
    in_ipv6: BitLayout | None = None

    def vary(self, version: int, field: str) -> tuple[list[Variable], list[Binding]]:
        """Return variables and bindings for the address ``field`` of a header."""
        variables, layout = (
            (self.variables4, self.in_ipv4) if version == 4 else (self.variables6, self.in_ipv6)
        )
        return list(variables), bind_layout(layout, field) if layout else []


def host(name: str, wanted: HostRange, mappings: Mappings, seed: int) -> Host:
    """How a range of hosts varies in IPv4 and IPv6 headers.

    Args:
        name: of the variables.
        wanted: the range and the order.
        mappings: of the translator.
        seed: of a shuffled list.

    Raises:
        UsageError: a host is not mapped there and back, or the range is too large to list.
    """
    first, last = wanted.first, wanted.top
    if first == last:
        return Host(first, _both_ways(mappings, first))
    mapping = mappings.uniform(first, last)
    if mapping is None:
        return _listed(name, wanted, mappings, seed)
    bits = (int(first) ^ int(last)).bit_length()
    ones = (1 << bits) - 1
    variable = Variable(
        name, bits, KINDS[wanted.policy], low=int(first) & ones, high=int(last) & ones
    )
    in_ipv4 = BitLayout(
        32, {name: bits}, (BitCopy(name, 32 - bits, bits),), int(first) >> bits << bits
    )
    return Host(
        first,
        _both_ways(mappings, first),
        (variable,),
        (variable,),
        in_ipv4,
        mapping.layout.compose(ipv4=in_ipv4),
    )


def ipv6_networks(wanted: HostRange, mappings: Mappings, other: HostRange) -> list[IPv6Network]:
    """Return the IPv6 networks that must be routed towards all hosts of a range.

    A network holds further addresses where that makes it one instead of many, but no host of the
    other side: packets for that host would be sent back.

    Args:
        wanted: the hosts.
        mappings: of the translator.
        other: the hosts on the other side.
    """
    networks: list[IPv6Network] = []
    others = [_image(*run) for run in _runs(other, mappings)]
    for mapping, first, last in _runs(wanted, mappings):
        bits = (int(first) ^ int(last)).bit_length()
        cover = _image(mapping, first, last)
        small = 1 << bits <= MAX_COVER * (int(last) - int(first) + 1)
        if small and not any(cover.overlaps(image) for image in others):
            networks.append(cover)
        else:
            pieces = summarize_address_range(first, last)
            networks += [_image(mapping, net[0], net[-1]) for net in pieces]
    return networks


def _image(mapping: Mapping, first: IPv4Address, last: IPv4Address) -> IPv6Network:
    """Return the smallest IPv6 network with two mapped addresses."""
    low, high = int(mapping.to_ipv6(first)), int(mapping.to_ipv6(last))
    bits = (low ^ high).bit_length()
    return IPv6Network((low >> bits << bits, 128 - bits))


def _runs(
    wanted: HostRange, mappings: Mappings
) -> Iterator[tuple[Mapping, IPv4Address, IPv4Address]]:
    """Yield the mappings that a range meets, each with consecutive hosts that it maps."""
    by_network = {e.ipv4: e for e in mappings.eams if _meets(e, wanted)}
    lengths = sorted({net.prefixlen for net in by_network}, reverse=True)
    end = int(wanted.top) + 1
    starts = {int(wanted.first)}
    for net in by_network:
        edges = (int(net.network_address), int(net.broadcast_address) + 1)
        starts.update(edge for edge in edges if int(wanted.first) < edge < end)
    ordered = sorted(starts)
    for start, following in zip(ordered, [*ordered[1:], end], strict=True):
        around = (IPv4Network((start, length), strict=False) for length in lengths)
        mapping = next((by_network[net] for net in around if net in by_network), mappings.prefix)
        if mapping is not None:
            yield mapping, IPv4Address(start), IPv4Address(following - 1)


def _meets(eam: Eam, wanted: HostRange) -> bool:
    return eam.ipv4.network_address <= wanted.top and wanted.first <= eam.ipv4.broadcast_address


def _both_ways(mappings: Mappings, ipv4: IPv4Address) -> IPv6Address:
    ipv6 = mappings.to_ipv6(ipv4)
    if ipv6 is None or mappings.to_ipv4(ipv6) != ipv4:
        raise UsageError(
            f"the test host {ipv4} does not have an IPv6 address that maps back to it",
            "add an explicit address mapping that holds it, or choose another host",
            code="not-enough-addresses",
        )
    return ipv6


def _listed(name: str, wanted: HostRange, mappings: Mappings, seed: int) -> Host:
    import numpy as np
    from v6t.packets.headers import to_octets
    from v6t.plugins.translation import MappingsArray

    count = int(wanted.top) - int(wanted.first) + 1
    if count > MAX_RANGE:
        raise UsageError(
            f"{wanted.first} to {wanted.top} are {count} addresses of several mappings, at most "
            f"{MAX_RANGE} are looked through",
            "choose a range within one mapping, or a shorter one",
            code="not-enough-addresses",
        )
    numbers = np.arange(int(wanted.first), int(wanted.top) + 1, dtype=np.uint64)
    table = MappingsArray(mappings)
    octets = to_octets(numbers, 4)
    ipv6, mapped = table.to_ipv6(octets)
    back, mapped_back = table.to_ipv4(ipv6)
    good = mapped & mapped_back & (back == octets).all(axis=1)
    chosen = np.flatnonzero(good).tolist()
    if not chosen or (len(chosen) < count and not wanted.only_mapped):
        lacking = IPv4Address(int(numbers[int(np.argmin(good))]))
        raise UsageError(
            f"{count - int(good.sum())} of the {count} hosts {wanted.first} to {wanted.top} are "
            f"not mapped there and back, {lacking} is the first",
            "choose a range that is mapped whole, add mappings, or set only_mapped of the range to "
            "leave such hosts out",
            code="not-enough-addresses",
        )
    if len(chosen) > MAX_LIST:
        raise UsageError(
            f"{len(chosen)} of the hosts {wanted.first} to {wanted.top} are mapped there and back; "
            f"1 to {MAX_LIST} can be listed where several mappings take part",
            "choose another range, or one within one mapping",
            code="not-enough-addresses",
        )
    if wanted.policy == "random":
        random.Random(f"{seed}/{name}").shuffle(chosen)  # noqa: S311
    elif wanted.policy == "dec":
        chosen.reverse()
    packed = [ipv6[row].tobytes() for row in chosen]
    variables6, in_ipv6 = list_ipv6_addresses(name, packed)
    in_order = Variable(name, 32, Kind.LIST, values=tuple(int(numbers[row]) for row in chosen))
    return Host(
        IPv4Address(int(numbers[chosen[0]])),
        IPv6Address(packed[0]),
        (in_order,),
        variables6,
        variable_layout(name, 32),
        in_ipv6,
    )


def outside(networks: Sequence[IPv6Network], address: IPv6Address) -> IPv6Address | None:
    """An address like this one but outside all networks; None if there is none nearby."""
    for bit in range(127, 63, -1):
        flipped = IPv6Address(int(address) ^ 1 << bit)
        if not any(flipped in net for net in networks):
            return flipped
    return None
