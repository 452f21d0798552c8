"""Hosts of a translator's test traffic: ranges of IPv4 addresses, and their IPv6 addresses."""

from __future__ import annotations

import random
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, summarize_address_range
from typing import NamedTuple

import numpy as np
from pydantic import Field, model_validator
from v6t.base.errors import InvalidValue, UsageError
from v6t.packets.bit_layout import BitCopy, BitLayout
from v6t.packets.headers import to_octets
from v6t.plugins.base import PluginParams
from v6t.plugins.ports import KINDS, Policy
from v6t.plugins.prefixes import refuse_unforwarded
from v6t.plugins.translation import LongestMatch, Mapping, Mappings, MappingsArray
from v6t.profiles.compiler.instructions import MAX_LIST
from v6t.profiles.model import Expression, Kind, Variable, list_ipv6_addresses

MAX_RANGE = 1 << 20  # addresses that are mapped one by one
MAX_COVER = 4  # a route may cover this many times the number of its hosts


class HostRange(PluginParams):
    """Hosts from ``first`` to ``last``, named by their IPv4 addresses on either side."""

    first: IPv4Address
    last: IPv4Address | None = Field(None, description="none: one host only")
    policy: Policy = "random"
    only_mapped: bool = Field(False, description="leave out hosts without a mapping")

    @model_validator(mode="after")
    def _check_order(self) -> HostRange:
        if self.last is not None and self.last < self.first:
            problem = f"the last host {self.last} comes before the first {self.first}"
            raise InvalidValue(problem, code="conflict")
        for network in self.networks():
            refuse_unforwarded(network, partly=True)
        return self

    @property
    def last_host(self) -> IPv4Address:
        return self.first if self.policy == "fixed" or self.last is None else self.last

    @property
    def count(self) -> int:
        return int(self.last_host) - int(self.first) + 1

    def networks(self) -> list[IPv4Network]:
        return list(summarize_address_range(self.first, self.last_host))


class Host(NamedTuple):
    """One end of the test traffic: addresses in the template frame, and address fields by IP version."""

    ipv4: IPv4Address
    ipv6: IPv6Address
    values: dict[int, object]


def describe_host(name: str, hosts: HostRange, mappings: Mappings, seed: int) -> Host:
    """Describe how a range of hosts varies: by bits within one mapping, else by lists of addresses."""
    first, last = hosts.first, hosts.last_host
    mapping = mappings.uniform(first, last)
    if mapping is None and first != last:
        return _list_hosts(name, hosts, mappings, seed)
    ipv6 = mappings.to_ipv6(first)
    if ipv6 is None or mappings.to_ipv4(ipv6) != first:
        problem = f"the test host {first} does not have an IPv6 address that maps back to it"
        hint = "add an explicit address mapping that holds it, or choose another host"
        raise UsageError(problem, hint, code="not-enough-addresses")
    if mapping is None or first == last:
        return Host(first, ipv6, {4: str(first), 6: str(ipv6)})
    bits = (int(first) ^ int(last)).bit_length()
    low, high = (int(end) & (1 << bits) - 1 for end in (first, last))
    variable = {name: Variable(name, bits, KINDS[hosts.policy], low=low, high=high)}
    copy = BitCopy(name, 32 - bits, bits)
    in_ipv4 = BitLayout(32, {name: bits}, (copy,), int(first) >> bits << bits)
    in_ipv6 = mapping.layout.compose(ipv4=in_ipv4)
    value4 = Expression.from_layout(in_ipv4, str(first), **variable)
    return Host(first, ipv6, {4: value4, 6: Expression.from_layout(in_ipv6, str(ipv6), **variable)})


def _list_hosts(name: str, hosts: HostRange, mappings: Mappings, seed: int) -> Host:
    span, code = f"{hosts.first} to {hosts.last_host}", "not-enough-addresses"
    if hosts.count > MAX_RANGE:
        problem = f"{span} are {hosts.count} addresses of several mappings, more than {MAX_RANGE}"
        raise UsageError(problem, "choose a range within one mapping, or a shorter one", code=code)
    numbers = np.arange(int(hosts.first), int(hosts.last_host) + 1, dtype=np.uint64)
    table, octets = MappingsArray(mappings), to_octets(numbers, 4)
    ipv6, mapped = table.to_ipv6(octets)
    back, mapped_back = table.to_ipv4(ipv6)
    good = mapped & mapped_back & (back == octets).all(axis=1)
    chosen = np.flatnonzero(good).tolist()
    if not chosen or (len(chosen) < hosts.count and not hosts.only_mapped):
        lacking = IPv4Address(int(numbers[int(np.argmin(good))]))
        problem = f"not all hosts {span} are mapped there and back: {lacking} is not"
        hint = "choose hosts that are mapped, add mappings, or set only_mapped of the range"
        raise UsageError(problem, hint, code=code)
    if len(chosen) > MAX_LIST:
        problem = f"{len(chosen)} of the hosts {span} are mapped, of several mappings at most {MAX_LIST} fit"
        raise UsageError(problem, "choose another range, or one within one mapping", code=code)
    if hosts.policy == "random":
        random.Random(f"{seed}/{name}").shuffle(chosen)  # noqa: S311
    elif hosts.policy == "dec":
        chosen.reverse()
    packed = [ipv6[row].tobytes() for row in chosen]
    variables, in_ipv6 = list_ipv6_addresses(name, packed)
    in_order = Variable(name, 32, Kind.LIST, values=tuple(numbers[chosen].tolist()))
    ipv4, first6 = IPv4Address(in_order.first), IPv6Address(packed[0])
    value6 = Expression.from_layout(in_ipv6, str(first6), **{v.name: v for v in variables})
    return Host(ipv4, first6, {4: in_order.at(0, str(ipv4)), 6: value6})


def ipv6_networks(hosts: HostRange, mappings: Mappings, far: HostRange) -> list[IPv6Network]:
    """Return the IPv6 networks to be routed towards all hosts of a range, but to no host of ``far``."""
    networks: list[IPv6Network] = []
    others = [_find_cover(*run) for run in _split_range(far, mappings)]
    for mapping, first, last in _split_range(hosts, mappings):
        ends, bits = [(first, last)], (int(first) ^ int(last)).bit_length()
        large = 1 << bits > MAX_COVER * (int(last) - int(first) + 1)
        if large or any(map(_find_cover(mapping, first, last).overlaps, others)):
            ends = [(net[0], net[-1]) for net in summarize_address_range(first, last)]
        networks += [_find_cover(mapping, *both) for both in ends]
    return networks


def _find_cover(mapping: Mapping, first: IPv4Address, last: IPv4Address) -> IPv6Network:
    low, high = int(mapping.to_ipv6(first)), int(mapping.to_ipv6(last))
    bits = (low ^ high).bit_length()
    return IPv6Network((low >> bits << bits, 128 - bits))


def _split_range(
    hosts: HostRange, mappings: Mappings
) -> Iterator[tuple[Mapping, IPv4Address, IPv4Address]]:
    first, end, eams = int(hosts.first), int(hosts.last_host) + 1, mappings.eams
    edges = {int(e.ipv4[0]) for e in eams} | {int(e.ipv4[-1]) + 1 for e in eams}
    starts = np.array([first, *sorted(edge for edge in edges if first < edge < end)])
    rows = LongestMatch([e.ipv4 for e in eams]).find(to_octets(starts, 4))
    for start, following, row in zip(starts, [*starts[1:], end], rows, strict=True):
        mapping = mappings.prefix if row < 0 else eams[row]
        if mapping is not None:
            yield mapping, IPv4Address(int(start)), IPv4Address(int(following) - 1)
