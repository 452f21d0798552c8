"""Check the addresses of a device configuration before anything is changed.

A neighbor off its link passes on the reference device, and a real device is then blamed for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_network, summarize_address_range
from typing import Any

from v6t.base.errors import UsageError
from v6t.intent import families
from v6t.intent.device import Address, DeviceIntent, LinkIntent, Network
from v6t.plugins.address_mappings import Mapping, Mappings, Rfc6052

Problems = Iterator[tuple[Address | Network, str, str]]
"""Addresses and networks, their problems, and hints."""

_USED_HINT = "choose an address that is not used"
_OUTSIDE_HINT = "choose a network outside"


class _Side:
    def __init__(self, name: str, intent: LinkIntent) -> None:
        self.name, self.intent, interfaces = name, intent, intent.addresses
        self.own: list[Address] = [each.ip for each in interfaces]
        links = (each.network for each in interfaces)
        self.links: list[Network] = [net for net in links if net.num_addresses > 1]
        self.routes = [net for net in intent.routes if net.prefixlen]


class _Device:
    def __init__(
        self, left: LinkIntent, right: LinkIntent, configuration: families.DeviceConfig
    ) -> None:
        self.left, self.right = _Side("left", left), _Side("right", right)
        self.configuration = configuration
        tunnels = (getattr(configuration, name, None) for name in ("br_address", "tunnel_local"))
        own = (*self.left.own, *self.right.own, *filter(None, tunnels))
        self.own = list(dict.fromkeys(own))
        self.neighbors = (*left.neighbors, *right.neighbors)

    def customers(self) -> list[Network]:
        configuration = self.configuration
        if isinstance(configuration, (families.MapERelayConfig, families.MapTRelayConfig)):
            return [rule.ipv4_prefix for rule in configuration.rules]
        table = configuration.table if isinstance(configuration, families.LwAftrConfig) else None
        if isinstance(table, families.GeneratedTable):
            return [table.ipv4_pool]
        return list(getattr(configuration, "inside4", ()))

    def pool(self) -> list[Network]:
        if isinstance(self.configuration, families.NptConfig):
            return [self.configuration.external]
        pools = (getattr(self.configuration, name, ()) for name in ("pool4", "pool6"))
        addresses: Any = next(filter(None, pools), ())
        if addresses and int(addresses[-1]) - int(addresses[0]) == len(addresses) - 1:
            return list(summarize_address_range(addresses[0], addresses[-1]))
        return list(map(ip_network, addresses))


def check_addresses(intent: DeviceIntent, params: object = None) -> None:
    """Refuse a device configuration with an impossible address; messages name the parameters."""
    for subject, problem, hint in _find_problems(intent):
        names = dict(reversed(list(_name_addresses(params))))
        name = names.get(subject) or names.get(getattr(subject, "network_address", subject), "")
        text = f"{name or 'the device configuration'}: {subject} {problem}"
        raise UsageError(text, hint, path=(name,) if name else (), code="invalid-intent")


def _find_problems(intent: DeviceIntent) -> Problems:
    *parts, whole = (
        _Device(each.left, each.right, each.configuration)
        for each in (*(part.intent for part in intent.parts), intent)
    )
    for device in (*parts, whole):
        yield from _check_neighbors(device, device.left, device.right)
        yield from _check_neighbors(device, device.right, device.left)
        yield from _check_networks(device)
        yield from _check_hosts(device)
    yield from _check_links(parts or [whole])
    yield from _check_background(intent)
    if parts:
        yield from _check_chain(whole, parts)


def _find_conflicts(
    networks: Iterable[Network], others: Iterable[Address | Network]
) -> Iterator[tuple[Network, Any]]:
    """Yield each network with the addresses in it, and with the networks that it overlaps."""
    spans = [(other, ip_network(other)) for other in others]
    for net in networks:
        for other, span in spans:
            if net.version == span.version and net.overlaps(span):
                yield net, other


def _check_neighbors(device: _Device, here: _Side, there: _Side) -> Problems:
    """Check that the neighbors of a side are on its link and have separate addresses."""
    for neighbor in here.intent.neighbors:
        if neighbor in device.own:
            yield neighbor, "is an address of the device and of the tester", _USED_HINT
        if neighbor in there.intent.neighbors:
            yield neighbor, "is an address of the tester on both links", _USED_HINT
        links = [n for n in here.links if n.version == neighbor.version]
        where = f"the {here.name} link ({', '.join(map(str, links)) or f'without IPv{neighbor.version}'})"
        if not any(neighbor in n for n in links):
            hint = "choose an address of that network, or change the device's address"
            yield neighbor, f"is not on {where}", hint
        if any(_is_reserved(neighbor, n) for n in links):
            hint = "choose an address within the network"
            yield neighbor, f"is not the address of a host on {where}", hint


def _check_networks(device: _Device) -> Problems:
    """Check routes, customers, public addresses and translated prefixes against addresses and each other.

    Public addresses may be the device's right address, as those of many home routers are.
    """
    left, right, customers, pool = device.left, device.right, device.customers(), device.pool()
    links = (*device.own, *device.neighbors)
    for here in (left, right):
        for net in here.routes:
            via = here.intent.routes[net]
            if net.num_addresses > 1 and via in net:
                yield net, f"contains its own next hop {via}", _OUTSIDE_HINT
    for _, address in _find_conflicts(pool, (*left.own, *device.neighbors)):
        yield address, "is an address of a link and of the public pool", _USED_HINT
    prefixes = [getattr(device.configuration, name, None) for name in ("prefix", "dmr")]
    both: tuple[tuple[Sequence[Any], Sequence[Any], str], ...] = (
        ((*left.routes, *right.routes), device.own, "contains {}, an address of the device"),
        (left.routes, right.links, "on the left overlaps the right link {}"),
        (right.routes, left.links, "on the right overlaps the left link {}"),
        (left.routes, right.routes, "on the left overlaps {} on the right"),
        (
            customers,
            (*device.own, *right.intent.neighbors),
            "of the customers contains {} of a link",
        ),
        (customers, right.routes, "of the customers overlaps {} on the right"),
        (pool, (*left.links, *left.routes), "of the public pool overlaps {} on the left"),
        (pool, right.routes, "of the public pool overlaps {} on the right"),
        ([*filter(None, prefixes)], links, "is translated and contains {} of a link"),
    )
    for networks, others, problem in both:
        for net, other in _find_conflicts(networks, others):
            yield net, problem.format(other), _OUTSIDE_HINT


def _check_hosts(device: _Device) -> Problems:
    """Check that no address of a link is what a stateless translator makes of a host."""
    configuration = device.configuration
    if not isinstance(configuration, families.SiitConfig):
        return
    prefix = configuration.prefix
    eams = tuple(Mapping(four, six) for four, six in configuration.eam)
    mappings = Mappings(eams, None if prefix is None else Rfc6052(prefix))
    hosts = [net for net in (*device.left.routes, *device.right.routes) if net != prefix]
    for address in (*device.own, *device.neighbors):
        other = mappings.to_ipv6(address) if address.version == 4 else mappings.to_ipv4(address)
        if other is not None and any(_find_conflicts(hosts, [other])):
            yield address, f"is an address of a link and stands for the host {other}", _USED_HINT


def _check_background(intent: DeviceIntent) -> Problems:
    """Check the VLANs of the background, which are links of the device, too."""
    sides = [replace(side, routes={}) for side in (intent.left, intent.right)]
    vlans = [side.background for side in sides if side.background is not None]
    for one, other in zip(vlans, reversed(vlans), strict=True):
        device = _Device(one, other, families.RouterConfig())
        yield from _check_neighbors(device, device.left, device.right)
        for side in sides:
            yield from _check_links([_Device(one, side, families.RouterConfig())])


def _check_links(devices: Sequence[_Device]) -> Problems:
    """Check that each address of the devices is used once, and that a device's links do not overlap."""
    used = [address for d in devices for address in (*d.left.own, *d.right.own)]
    for address in used:
        if used.count(address) > 1:
            yield address, "is an address of the device on several links", _USED_HINT
    for device in devices:
        for link, other in _find_conflicts(device.left.links, device.right.links):
            yield link, f"on the left overlaps the right link {other}", _OUTSIDE_HINT


def _check_chain(whole: _Device, parts: Sequence[_Device]) -> Problems:
    """Check that hosts, tester and public addresses are none of the links between the parts."""
    inner = [side for p in parts for side in (p.left, p.right)][1:-1]
    own = [address for side in inner for address in side.own]
    for address in whole.neighbors:
        if address in own:
            yield address, "is used by the tester and between the devices", _USED_HINT
    outer = [net for side in (whole.left, whole.right) for net in (*side.routes, *side.links)]
    networks = (*outer, *whole.customers(), *whole.pool())
    for net, link in _find_conflicts(networks, [net for side in inner for net in side.links]):
        yield net, f"overlaps {link}, a link between the devices", _OUTSIDE_HINT


def _name_addresses(params: Any, above: str = "") -> Iterator[tuple[Address | Network, str]]:
    """Yield the addresses and prefixes among parameters with the parameters' names, changed ones first."""
    changed = getattr(params, "model_fields_set", ())
    for name in sorted(getattr(type(params), "model_fields", ()), key=lambda n: n not in changed):
        value = getattr(params, name)
        if isinstance(value, (IPv4Address, IPv6Address)):  # an interface is one, too
            yield getattr(value, "ip", value), above + name
            yield ip_network(value.packed), above + name
        elif isinstance(value, str) and "/" in value:
            with suppress(ValueError):
                yield ip_network(value), above + name
        else:
            yield from _name_addresses(value, f"{above}{name}.")


def _is_reserved(address: Address, net: Network) -> bool:
    """Return whether an address is Subnet-Router anycast, or its network's own or broadcast address."""
    if net.num_addresses < 4:
        return False
    return address == net[0] or (address.version == 4 and address == net[-1])
