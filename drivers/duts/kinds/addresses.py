"""Address tables of an intent, and addresses that a run leaves unused."""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from v6t.base.errors import UsageError
from v6t.drivers.duts.driver import make_unsupported_error
from v6t.drivers.duts.kinds import softwires
from v6t.drivers.duts.management_path import iter_networks
from v6t.drivers.duts.plan import Intent
from v6t.intent.device import Network
from v6t.intent.families import ClatConfig, DeviceConfig, MapTCeConfig, Nat64Config, SiitConfig
from v6t.packets.address_layouts import make_embedded_address_layout, map_address

WELL_KNOWN_PREFIX = IPv6Network("64:ff9b::/96")
EXAMPLE_PREFIX = "2001:db8:64::/96"  # a network-specific prefix, for hints
# configuration classes with their parameter for the RFC 6052 prefix; the first match counts
_PREFIX_PARAMETERS: tuple[tuple[type[DeviceConfig], str], ...] = (
    (ClatConfig, "plat_prefix"), (SiitConfig, "prefix"), (Nat64Config, "prefix"), (MapTCeConfig, "dmr"),
)  # fmt: skip
# candidate networks for routes and rules that v6t adds; most are documentation ranges
SPARE_IPV4_NETWORKS = (
    "203.0.113.0/24", "198.51.100.0/24", "192.0.2.0/24", "100.64.113.0/24", "192.88.99.0/24",
)  # fmt: skip
SPARE_IPV6_NETWORKS = ("2001:db8:fffe::/48", "2001:db8:fffd::/48", "fd00:76:36:74::/64")


def suggest_prefix(intent: Intent) -> dict[str, str]:
    """Return the technology's parameter for the RFC 6052 prefix with a prefix that all drivers support."""
    edge = intent.configuration
    parameter = next(name for kind, name in _PREFIX_PARAMETERS if isinstance(edge, kind))
    return {parameter: EXAMPLE_PREFIX}


def get_siit_config(intent: Intent) -> SiitConfig:
    """Return a translator's configuration as SIIT, converted if it is that of a NAT64 or MAP-T CE."""
    edge = intent.configuration
    if isinstance(edge, Nat64Config):
        return SiitConfig(prefix=edge.prefix)
    if not isinstance(edge, MapTCeConfig):
        return intent.get_configuration(SiitConfig)
    address = map_address(edge.rule, edge.ipv4.network_address, edge.psid)
    eam, mtu = ((edge.ipv4, IPv6Network(address)),), edge.lowest_ipv6_mtu
    return SiitConfig(eam=eam, prefix=edge.dmr, ipv6_side=edge.ipv6_side, lowest_ipv6_mtu=mtu)


def list_equal_size_mappings(intent: Intent, name: str) -> list[tuple[IPv4Network, IPv6Network]]:
    """Return the explicit mappings; raise UsageError if the prefixes of a mapping differ in size."""
    table = list(get_siit_config(intent).eam)
    nearest = [
        (four, IPv6Network((six.network_address, 96 + four.prefixlen), strict=False))
        for four, six in table
    ]
    for (four, six), (_, near) in zip(table, nearest, strict=True):
        if six != near:
            pairs = ", ".join(f"{{ipv4: {four}, ipv6: {six}}}" for four, six in nearest)
            is_clat = isinstance(intent.configuration, ClatConfig)
            raise make_unsupported_error(
                f"{name} maps prefixes with equally many host bits only, not {four} to {six}",
                f"use an IPv6 prefix of /{near.prefixlen} for {four}",
                params={"clat_ipv6": str(nearest[0][1])} if is_clat else {"eam": f"[{pairs}]"},
            )
    return table


def get_side(intent: Intent, ip_version: int) -> str:
    """Return the side of a translator with hosts of an IP version."""
    ipv6_side = get_siit_config(intent).ipv6_side
    return ipv6_side if ip_version == 6 else {"left": "right", "right": "left"}[ipv6_side]


def check_lowest_mtu(intent: Intent, display_name: str) -> None:
    """Raise UsageError unless ``lowest_ipv6_mtu`` is the default or the MTU of the IPv6 link."""
    reason = f"{display_name} does not fragment packets that fit the IPv6 link"
    link = getattr(intent.links, get_side(intent, 6))
    softwires.check_lowest_mtu(get_siit_config(intent).lowest_ipv6_mtu, reason, link.mtu)


def find_host_networks(intent: Intent, ip_version: int) -> list[Any]:
    """Return the networks of an IP version behind the translator's side of that version."""
    routes = getattr(intent, get_side(intent, ip_version)).routes
    return [net for net in routes if net.version == ip_version]


def extract_ipv4_network(prefix: IPv6Network, net: IPv6Network) -> IPv4Network:
    """Return the IPv4 network that is embedded in a network within an RFC 6052 prefix (section 2.2)."""
    # bits 64 to 71 contain no part of the IPv4 address
    skipped = 8 if prefix.prefixlen <= 64 < net.prefixlen else 0
    length = min(max(net.prefixlen - skipped - prefix.prefixlen, 0), 32)
    ipv4 = make_embedded_address_layout(prefix).decode(int(net.network_address))["ipv4"]
    return IPv4Network((ipv4, length), strict=False)


def find_translated_networks(intent: Intent) -> tuple[list[IPv4Network], list[IPv6Network]]:
    """Return the IPv4 and IPv6 networks that neighboring routers route to the translator.

    An explicit mapping of hosts on the IPv6 side attracts its IPv4 prefix, one of hosts on the
    IPv4 side its IPv6 prefix; the RFC 6052 prefix attracts itself.
    """
    table, prefix = get_siit_config(intent).eam, get_siit_config(intent).prefix
    near, far = (find_host_networks(intent, version) for version in (6, 4))
    # the IPv6 prefix of the mapping that contains each network
    longest_first = sorted((six for _, six in table), key=lambda net: -net.prefixlen)
    owners = [next(filter(net.subnet_of, longest_first), None) for net in near]
    four: list[IPv4Network] = []
    six: list[IPv6Network] = []
    for ipv4, ipv6 in table:
        ipv4_hosts = any(net.overlaps(ipv4) for net in far)
        within = any(net != ipv6 and ipv6.subnet_of(net) for net in near)
        ipv6_hosts = ipv6 in owners or (within and not ipv4_hosts)
        if ipv6_hosts:
            four.append(ipv4)
        if ipv4_hosts or not ipv6_hosts:
            six.append(ipv6)
    if prefix is not None:
        six.append(prefix)
        four += [
            extract_ipv4_network(prefix, net)
            for net, owner in zip(near, owners, strict=True)
            if owner is None and net.subnet_of(prefix)
        ]
    return [net for net in four if net not in far], [net for net in six if net not in near]


# candidates for the source address of a translator's ICMP errors
TRANSLATOR_IPV4_CANDIDATES = ("192.168.255.9", "10.255.255.9", "172.31.255.9")
TRANSLATOR_IPV6_CANDIDATES = ("fd76:3674::9", "fd76:3675::9", "2001:2:0:f::9")
# candidates for the first address of the network between a translator and a NAT
POOL_CANDIDATES = ("192.168.255.0", "10.255.255.0", "172.31.255.0")


def find_test_networks(intent: Intent) -> list[Any]:
    """Return all networks of an intent, and the IPv4 networks embedded in its hosts' IPv6 networks."""
    networks, prefix = list_networks(intent), get_siit_config(intent).prefix
    if prefix is not None:
        routes: list[Any] = [*intent.left.routes, *intent.right.routes]
        hosts = [net for net in routes if net.version == 6 and net.subnet_of(prefix)]
        embedded = [extract_ipv4_network(prefix, net) for net in hosts]
        networks += [net for net in embedded if net.prefixlen]
    return networks


def choose_free_address(
    option: str, configured_address: str, candidates: Sequence[str], used_networks: Sequence[Any]
) -> str:
    """Return the configured address or an unused candidate; raise UsageError if the former is in use."""
    unused = next((text for text in candidates if not _find_overlap(text, used_networks)), "")
    if not configured_address and not unused:
        problem = f"dut.options.{option}: the test uses all of {', '.join(candidates)}"
        raise UsageError(problem, "give another one", code="not-enough-addresses")
    if configured_address and (met := _find_overlap(configured_address, used_networks)):
        problem = f"dut.options.{option}: {configured_address} overlaps {met}, which the test uses"
        hint = "choose one that is not used"
        instead = {option: unused} if unused else {}
        raise UsageError(problem, hint, dut_params=instead, code="address-conflict")
    return configured_address or unused


def _find_overlap(text: str, used_networks: Sequence[Any]) -> Any:
    net = ip_network(text)
    return next((t for t in used_networks if t.version == net.version and t.overlaps(net)), None)


def find_spare_network(intent: Intent, ip_version: int, skip: int = 0) -> Network:
    """Return a network that the test does not use, after skipping ``skip`` such candidates."""
    candidates = SPARE_IPV6_NETWORKS if ip_version == 6 else SPARE_IPV4_NETWORKS
    used_networks = list_networks(intent)
    unused = [text for text in candidates if not _find_overlap(text, used_networks)]
    if len(unused) > skip:
        return ip_network(unused[skip])
    problem = f"all of {', '.join(candidates)} are in use: no candidate remains"
    hint = "leave one of them out of the technology's parameters"
    raise UsageError(problem, hint, code="address-conflict")


def find_next_hops(
    intent: Intent, ports: Mapping[str, str]
) -> tuple[int, tuple[str, str], tuple[str, str]] | None:
    """Return an IP version with hosts on both sides, and (host, interface) of right and left; or None."""
    for ip_version in (4, 6):
        right, left = (
            next(((str(h), ports[side]) for h in hosts if h.version == ip_version), None)
            for side, hosts in (("right", intent.right.neighbors), ("left", intent.left.neighbors))
        )
        if right is not None and left is not None:
            return ip_version, right, left
    return None


def list_networks(intent: Intent) -> list[Network]:
    """Return all networks of an intent, without default routes."""
    networks = [net for _, net in iter_networks(intent.configuration.to_json())]
    for side in (intent.left, intent.right):
        for link in filter(None, (side, side.background)):
            networks += [interface.network for interface in link.addresses]
            networks += [ip_network(host) for host in (*link.neighbors, *link.routes.values())]
            networks += link.routes
    return [net for net in networks if net.prefixlen]
