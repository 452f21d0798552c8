"""Check the addresses of a device intent before any device is configured with it."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_network, summarize_address_range
from itertools import product
from typing import Any

from v6t.base.errors import UsageError
from v6t.intent import families
from v6t.intent.device import Address, DeviceIntent, LinkIntent, Network
from v6t.plugins.translation import Mapping, Mappings, Rfc6052Mapping

Problems = Iterator[tuple[Address | Network, str]]  # subject and description of each problem


def check_addresses(intent: DeviceIntent, params: object = None) -> None:
    """Raise UsageError for an address or network that is impossible or in conflict with another."""
    for subject, problem in _find_problems(intent):
        names = dict(reversed(list(_name_addresses(params))))
        name = names.get(subject) or names.get(getattr(subject, "network_address", subject), "")
        text = f"{name or 'the device configuration'}: {subject} {problem}"
        hint = "choose an unused address of a host on the link"
        if hasattr(subject, "prefixlen"):
            hint = "choose a network outside"
        raise UsageError(text, hint, path=(name,) if name else (), code="invalid-intent")


def _find_problems(intent: DeviceIntent) -> Problems:
    parts = [part.intent for part in intent.parts]
    for device in (*parts, intent):
        yield from _check_neighbors(device)
        yield from _check_networks(device)
        yield from _check_hosts(device)
    yield from _check_links(parts or [intent])
    yield from _check_background(intent)
    if parts:
        yield from _check_chain(intent, parts)


def _list_link_networks(*sides: LinkIntent) -> list[Network]:
    networks = (each.network for side in sides for each in side.addresses)
    return [net for net in networks if net.num_addresses > 1]


def _list_routed_networks(*sides: LinkIntent) -> list[Network]:
    return [net for side in sides for net in side.routes if net.prefixlen]


def _list_device_addresses(device: DeviceIntent) -> list[Address]:
    links = [each.ip for side in (device.left, device.right) for each in side.addresses]
    tunnels = (getattr(device.configuration, n, None) for n in ("br_address", "tunnel_local"))
    return list(dict.fromkeys((*links, *filter(None, tunnels))))


def _list_customer_networks(configuration: Any) -> list[Network]:
    rules = [rule.ipv4_prefix for rule in getattr(configuration, "rules", ())]
    pool = getattr(getattr(configuration, "table", None), "ipv4_pool", None)
    return [*rules, *filter(None, [pool]), *getattr(configuration, "inside4", ())]


def _list_pool_networks(configuration: Any) -> list[Network]:
    if isinstance(configuration, families.NptConfig):
        return [configuration.external]
    pools = (getattr(configuration, name, ()) for name in ("pool4", "pool6"))
    addresses: Any = next(filter(None, pools), ())
    if addresses and int(addresses[-1]) - int(addresses[0]) == len(addresses) - 1:
        return list(summarize_address_range(addresses[0], addresses[-1]))
    return list(map(ip_network, addresses))


def _find_conflicts(
    networks: Iterable[Network], others: Iterable[Address | Network]
) -> Iterator[tuple[Network, Any]]:
    """Yield each network with every address that it contains and every network that it overlaps."""
    spans = [(other, ip_network(other)) for other in others]
    for net in networks:
        for other, span in spans:
            if net.version == span.version and net.overlaps(span):
                yield net, other


def _check_neighbors(device: DeviceIntent) -> Problems:
    own, left, right = _list_device_addresses(device), device.left, device.right
    for name, here, there in (("left", left, right), ("right", right, left)):
        for neighbor in here.neighbors:
            if neighbor in own:
                yield neighbor, "is an address of the device and of the tester"
            if neighbor in there.neighbors:
                yield neighbor, "is an address of the tester on both links"
            version = neighbor.version
            links = [net for net in _list_link_networks(here) if net.version == version]
            shown = ", ".join(map(str, links)) or f"without IPv{version}"
            if not any(neighbor in net for net in links):
                yield neighbor, f"is not on the {name} link ({shown})"
            # Subnet-Router anycast, or a network's own and its broadcast address
            ends = (0, -1) if version == 4 else (0,)
            edges = [net[end] for net in links if net.num_addresses > 3 for end in ends]
            if neighbor in edges:
                yield neighbor, f"is not the address of a host on the {name} link ({shown})"


def _check_networks(device: DeviceIntent) -> Problems:
    # public addresses may be the device's right address, as those of many home routers are
    left, right, configuration = device.left, device.right, device.configuration
    customers, pool = _list_customer_networks(configuration), _list_pool_networks(configuration)
    own, neighbors = _list_device_addresses(device), (*left.neighbors, *right.neighbors)
    routes, right_routes = _list_routed_networks(left), _list_routed_networks(right)
    for here in (left, right):
        for net, via in here.routes.items():
            if net.prefixlen and net.num_addresses > 1 and via in net:
                yield net, f"contains its own next hop {via}"
    outside = (*(each.ip for each in left.addresses), *neighbors)
    for _, address in _find_conflicts(pool, outside):
        yield address, "is an address of a link and of the public pool"
    prefixes = [getattr(configuration, name, None) for name in ("prefix", "dmr")]
    links = (*own, *right.neighbors)
    both: tuple[tuple[Sequence[Any], Sequence[Any], str], ...] = (
        ((*routes, *right_routes), own, "contains {}, an address of the device"),
        (routes, _list_link_networks(right), "on the left overlaps the right link {}"),
        (right_routes, _list_link_networks(left), "on the right overlaps the left link {}"),
        (routes, right_routes, "on the left overlaps {} on the right"),
        (customers, links, "of the customers contains {} of a link"),
        (customers, right_routes, "of the customers overlaps {} on the right"),
        (pool, (*_list_link_networks(left), *routes), "of the public pool overlaps {} on the left"),
        (pool, right_routes, "of the public pool overlaps {} on the right"),
        ([*filter(None, prefixes)], (*own, *neighbors), "is translated and contains {} of a link"),
    )
    for networks, others, problem in both:
        for net, other in _find_conflicts(networks, others):
            yield net, problem.format(other)


def _check_hosts(device: DeviceIntent) -> Problems:
    """Check that no address of a link is also the translated address of a test host."""
    configuration, left, right = device.configuration, device.left, device.right
    if not isinstance(configuration, families.SiitConfig):
        return
    prefix = configuration.prefix
    eams = tuple(Mapping(four, six) for four, six in configuration.eam)
    mappings = Mappings(eams, None if prefix is None else Rfc6052Mapping(prefix))
    hosts = [net for net in _list_routed_networks(left, right) if net != prefix]
    for address in (*_list_device_addresses(device), *left.neighbors, *right.neighbors):
        other = mappings.to_ipv6(address) if address.version == 4 else mappings.to_ipv4(address)
        if other is not None and any(_find_conflicts(hosts, [other])):
            yield address, f"is an address of a link and represents the host {other}"


def _check_background(intent: DeviceIntent) -> Problems:
    router = replace(intent, configuration=families.RouterConfig())
    vlans = [side.background for side in (intent.left, intent.right) if side.background is not None]
    if len(vlans) == 2:
        yield from _check_neighbors(replace(router, left=vlans[0], right=vlans[1]))
    for vlan, side in product(vlans, (intent.left, intent.right)):
        yield from _check_links([replace(router, left=vlan, right=side)])


def _check_links(devices: Sequence[DeviceIntent]) -> Problems:
    used = [each.ip for d in devices for side in (d.left, d.right) for each in side.addresses]
    for address in used:
        if used.count(address) > 1:
            yield address, "is an address of the device on several links"
    for device in devices:
        for link, other in _find_conflicts(*map(_list_link_networks, (device.left, device.right))):
            yield link, f"on the left overlaps the right link {other}"


def _check_chain(chain: DeviceIntent, parts: Sequence[DeviceIntent]) -> Problems:
    inner = [side for part in parts for side in (part.left, part.right)][1:-1]
    own = [each.ip for side in inner for each in side.addresses]
    for address in (*chain.left.neighbors, *chain.right.neighbors):
        if address in own:
            yield address, "is used by the tester and between the devices"
    sides, configuration = (chain.left, chain.right), chain.configuration
    outer = (*_list_routed_networks(*sides), *_list_link_networks(*sides))
    outer = (*outer, *_list_customer_networks(configuration))
    networks = (*outer, *_list_pool_networks(configuration))
    for net, link in _find_conflicts(networks, _list_link_networks(*inner)):
        yield net, f"overlaps {link}, a link between the devices"


def _name_addresses(params: Any, path: str = "") -> Iterator[tuple[Address | Network, str]]:
    """Yield the addresses and prefixes in parameters, with their paths; those set by the user first."""
    changed = getattr(params, "model_fields_set", ())
    for name in sorted(getattr(type(params), "model_fields", ()), key=lambda n: n not in changed):
        value = getattr(params, name)
        if isinstance(value, (IPv4Address, IPv6Address)):  # an interface is one, too
            yield getattr(value, "ip", value), path + name
            yield ip_network(value.packed), path + name
        elif isinstance(value, str) and "/" in value:
            with suppress(ValueError):
                yield ip_network(value), path + name
        else:
            yield from _name_addresses(value, f"{path}{name}.")
