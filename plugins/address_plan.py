"""Check the addresses of a device configuration before anything is changed.

A plan with a neighbor that is not on its link, or with an address that two hosts have, passes on the
reference device, and a real device is then blamed for it. The check reads intents only, so it covers all
technologies and drivers, the parts of a chain, and the addresses that a chain chooses itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_network,
    summarize_address_range,
)
from typing import Any

from v6t.base.errors import UsageError
from v6t.intent.device import Address, DeviceIntent, LinkIntent, Network
from v6t.intent.families import (
    DeviceConfig,
    GeneratedTable,
    LwAftrConfig,
    MapERelayConfig,
    MapTRelayConfig,
    NptConfig,
    RouterConfig,
    SiitConfig,
)
from v6t.plugins.address_mappings import Eam, Mappings, Rfc6052

Names = Mapping[Address | Network, str]

_OWN = ("br_address", "tunnel_local")
"""Fields of configurations that are addresses of the device, and need not be on a link."""


@dataclass(frozen=True)
class _Side:
    """One side of an intent.

    Attributes:
        name: ``left`` or ``right``.
        own: addresses of the device.
        links: networks of these addresses; an address with its full length is on no network.
        neighbors: addresses of the tester, or of the next device of a chain.
        routes: networks and next hops.
    """

    name: str
    own: Sequence[Address]
    links: Sequence[Network]
    neighbors: Sequence[Address]
    routes: Sequence[tuple[Network, Address]]

    @classmethod
    def of(cls, name: str, side: LinkIntent) -> _Side:
        return cls(
            name,
            [each.ip for each in side.addresses],
            [each.network for each in side.addresses if each.network.num_addresses > 1],
            list(side.neighbors),
            list(side.routes.items()),
        )


@dataclass(frozen=True)
class _Device:
    """A device, or a part of a chain, as an intent describes it."""

    left: _Side
    right: _Side
    configuration: DeviceConfig
    own: Sequence[Address] = field(init=False)

    @classmethod
    def of(cls, intent: DeviceIntent) -> _Device:
        left, right = _Side.of("left", intent.left), _Side.of("right", intent.right)
        return cls(left, right, intent.configuration)

    def __post_init__(self) -> None:
        tunnels = [a for name in _OWN if (a := getattr(self.configuration, name, None))]
        known = [*self.left.own, *self.right.own]
        own = [*known, *(a for a in dict.fromkeys(tunnels) if a not in known)]
        object.__setattr__(self, "own", own)

    @property
    def sides(self) -> tuple[tuple[_Side, _Side], ...]:
        """Each side with the opposite one."""
        return (self.left, self.right), (self.right, self.left)


def check_addresses(intent: DeviceIntent, params: object = None) -> None:
    """Refuse a device configuration with an impossible address.

    Args:
        intent: of the whole device.
        params: of the technology, whose names are used in messages.

    Raises:
        UsageError: a neighbor is not on its link, an address is used twice, links or routes overlap, or a
            route contains its own next hop or an address of the device.
    """
    names: dict[Address | Network, str] = {}
    for value, name in _named(params):
        names.setdefault(value, name)
    whole = _Device.of(intent)
    parts = [_Device.of(part.intent) for part in intent.parts]
    for device in (*parts, whole):
        for here, there in device.sides:
            _check_neighbors(device, here, there, names)
            _check_routes(device, here, there, names)
        _check_customers(device, names)
        _check_pool(device, names)
        _check_translated(device, names)
    _check_links(parts or [whole], names)
    _check_background(intent, names)
    if parts:
        _check_chain(whole, parts, names)


def _check_neighbors(device: _Device, here: _Side, there: _Side, names: Names) -> None:
    """Check that the neighbors of a side are on its link and have addresses of their own."""
    for neighbor in here.neighbors:
        if neighbor in device.own:
            raise _twice(neighbor, "the device and of the tester", names)
        if neighbor in there.neighbors:
            raise _twice(neighbor, "the tester on both links", names)
        links = [n for n in here.links if n.version == neighbor.version]
        shown = ", ".join(map(str, links)) or f"without IPv{neighbor.version}"
        if not any(neighbor in n for n in links):
            raise _refusal(
                neighbor,
                f"is not on the {here.name} link ({shown})",
                "choose an address of that network, or change the device's address",
                names,
            )
        if any(_is_reserved(neighbor, n) for n in links):
            raise _refusal(
                neighbor,
                f"is not the address of a host on the {here.name} link ({shown})",
                "choose an address within the network",
                names,
            )


def _check_routes(device: _Device, here: _Side, there: _Side, names: Names) -> None:
    """Check that the routes of a side lead to hosts, and to the hosts of this side only."""
    for net, via in here.routes:
        if not net.prefixlen:  # a default route: every other route and link is more specific
            continue
        if _contains(net, via) and net.num_addresses > 1:
            raise _route(net, f"contains its own next hop {via}", names)
        for own in device.own:
            if _contains(net, own):
                raise _route(net, f"contains {own}, an address of the device", names)
        for link in there.links:
            if _overlap(net, link):
                raise _route(
                    net, f"on the {here.name} overlaps the {there.name} link {link}", names
                )
        for other, _ in there.routes if here.name == "left" else ():
            if other.prefixlen and _overlap(net, other):
                raise _route(net, f"on the {here.name} overlaps {other} on the {there.name}", names)


def _check_customers(device: _Device, names: Names) -> None:
    """Check that the IPv4 addresses of customers are neither the device's nor on the right side."""
    for net in _customers(device.configuration):
        for address in (*device.own, *device.right.neighbors):
            if _contains(net, address):
                raise _route(net, f"of the customers contains {address}, which a link has", names)
        for other, _ in device.right.routes:
            if other.prefixlen and _overlap(net, other):
                raise _route(net, f"of the customers overlaps {other} on the right", names)


def _check_translated(device: _Device, names: Names) -> None:
    """Check that no address of a link is translated, and none is what a host is translated to."""
    configuration = device.configuration
    links = (*device.own, *device.left.neighbors, *device.right.neighbors)
    prefixes = (getattr(configuration, name, None) for name in ("prefix", "dmr"))
    for net in filter(None, prefixes):
        for address in links:
            if _contains(net, address):
                raise _route(net, f"is translated and contains {address}, which a link has", names)
    if not isinstance(configuration, SiitConfig):
        return
    mappings = _mappings(configuration)
    whole = None if mappings.prefix is None else mappings.prefix.ipv6
    hosts = [
        n for s in (device.left, device.right) for n, _ in s.routes if n.prefixlen and n != whole
    ]
    for address in links:
        other = mappings.to_ipv6(address) if address.version == 4 else mappings.to_ipv4(address)
        if other is not None and any(_contains(net, other) for net in hosts):
            raise _twice(address, f"a link and stands for the host {other}", names)


def _mappings(configuration: SiitConfig) -> Mappings:
    """Return the address table of a stateless translator."""
    eams = tuple(Eam(four, six) for four, six in configuration.eam)
    prefix = configuration.prefix
    return Mappings(eams, None if prefix is None else Rfc6052(prefix))


def _check_pool(device: _Device, names: Names) -> None:
    """Check that public addresses are neither on the left, nor the tester's, nor a host's on the right.

    They may be the device's right address, as those of many home routers are.
    """
    left, right = device.left, device.right
    for net in _pool(device.configuration):
        for address in (*left.own, *left.neighbors, *right.neighbors):
            if _contains(net, address):
                raise _twice(address, "a link and of the public pool", names)
        for other in (*left.links, *(n for n, _ in left.routes if n.prefixlen)):
            if _overlap(net, other):
                raise _route(net, f"of the public pool overlaps {other} on the left", names)
        for other, _ in right.routes:
            if other.prefixlen and _overlap(net, other):
                raise _route(net, f"of the public pool overlaps {other} on the right", names)


def _check_background(intent: DeviceIntent, names: Names) -> None:
    """Check the VLANs of the background, which are links of the device, too."""
    sides = [replace(side, routes={}) for side in (intent.left, intent.right)]
    vlans = [side.background for side in sides if side.background is not None]
    for one, other in zip(vlans, reversed(vlans), strict=True):
        device = _plain_device(one, other)
        _check_neighbors(device, device.left, device.right, names)
        for side in sides:
            _check_links([_plain_device(one, side)], names)


def _plain_device(left: LinkIntent, right: LinkIntent) -> _Device:
    return _Device(_Side.of("left", left), _Side.of("right", right), RouterConfig())


def _check_links(devices: Sequence[_Device], names: Names) -> None:
    """Check that each address of the devices is used once, and that a device's links do not overlap."""
    used = [a for d in devices for side in (d.left, d.right) for a in side.own]
    for address in used:
        if used.count(address) > 1:
            raise _twice(address, "the device on several links", names)
    for device in devices:
        for link in device.left.links:
            for other in device.right.links:
                if _overlap(link, other):
                    raise _route(link, f"on the left overlaps the right link {other}", names)


def _check_chain(whole: _Device, parts: Sequence[_Device], names: Names) -> None:
    """Check that hosts, tester and public addresses are none of the links between the parts."""
    inner = [side for p in parts for side in (p.left, p.right)][1:-1]
    own = [a for side in inner for a in side.own]
    links = [n for side in inner for n in side.links]
    for side, _ in whole.sides:
        for address in side.neighbors:
            if address in own:
                raise _twice(address, "the tester and of a link between the devices", names)
        nets = [n for n, _ in side.routes if n.prefixlen]
        for net in (
            *nets,
            *side.links,
            *_customers(whole.configuration),
            *_pool(whole.configuration),
        ):
            for link in links:
                if _overlap(net, link):
                    raise _route(net, f"overlaps {link}, a link between the devices", names)


def _customers(configuration: DeviceConfig) -> Iterator[Network]:
    """Yield the IPv4 networks of customers on the left."""
    if isinstance(configuration, (MapERelayConfig, MapTRelayConfig)):
        yield from (rule.ipv4_prefix for rule in configuration.rules)
    if isinstance(configuration, LwAftrConfig) and isinstance(configuration.table, GeneratedTable):
        yield configuration.table.ipv4_pool
    yield from getattr(configuration, "inside4", ())


def _pool(configuration: DeviceConfig) -> Iterator[Network]:
    """Yield the networks that hold exactly the public addresses."""
    if isinstance(configuration, NptConfig):
        yield configuration.external
    for name in ("pool4", "pool6"):
        addresses = getattr(configuration, name, ())
        if not addresses:
            continue
        first, last = addresses[0], addresses[-1]
        if int(last) - int(first) == len(addresses) - 1:
            yield from summarize_address_range(first, last)
        else:
            yield from map(ip_network, addresses)


def _named(params: Any, above: str = "") -> Iterator[tuple[Address | Network, str]]:
    """Yield the addresses and prefixes among parameters with the parameters' names, changed ones first."""
    changed = getattr(params, "model_fields_set", ())
    for name in sorted(getattr(type(params), "model_fields", ()), key=lambda n: n not in changed):
        value = getattr(params, name)
        if isinstance(value, (IPv4Interface, IPv6Interface)):
            value = value.ip
        if isinstance(value, (IPv4Address, IPv6Address)):
            yield value, above + name
            yield ip_network(value.packed), above + name
        elif isinstance(value, str) and "/" in value:
            try:
                yield ip_network(value), above + name
            except ValueError:
                continue
        else:
            yield from _named(value, f"{above}{name}.")


def _contains(net: Network, address: Address) -> bool:
    return net.version == address.version and address in net


def _overlap(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)


def _is_reserved(address: Address, net: Network) -> bool:
    """Whether an address is its network's own, Subnet-Router anycast in IPv6, or the broadcast address."""
    if net.num_addresses < 4:
        return False
    broadcast = address.version == 4 and address == net.broadcast_address
    return address == net.network_address or broadcast


def _twice(address: Address, users: str, names: Names) -> UsageError:
    return _refusal(
        address, f"is an address of {users}", "choose an address that is not used", names
    )


def _route(net: Network, problem: str, names: Names) -> UsageError:
    return _refusal(net, problem, "choose a network outside", names)


def _refusal(subject: Address | Network, problem: str, hint: str, names: Names) -> UsageError:
    name = names.get(subject, "")
    if not name and isinstance(subject, (IPv4Network, IPv6Network)):
        name = names.get(subject.network_address, "")
    return UsageError(
        f"{name or 'the device configuration'}: {subject} {problem}",
        hint,
        path=(name,) if name else (),
        code="invalid-intent",
    )
