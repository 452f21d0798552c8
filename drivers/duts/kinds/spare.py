"""Networks that nothing of a run uses: what is added and removed under traffic has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_interface, ip_network
from typing import Any

from v6t.base.errors import UsageError
from v6t.drivers.duts.plan import Intent
from v6t.intent.device import Network

FOUR = ("203.0.113.0/24", "198.51.100.0/24", "192.0.2.0/24", "100.64.113.0/24", "192.88.99.0/24")
SIX = ("2001:db8:fffe::/48", "2001:db8:fffd::/48", "fd00:76:36:74::/64")


def spare(intent: Intent, version: int, skip: int = 0) -> Network:
    """Return an unused network of this version of IP, of documentation addresses if one is free.

    Args:
        intent: uses the others.
        version: of IP.
        skip: so many that are reserved for something else.

    Raises:
        UsageError: all are in use.
    """
    candidates = SIX if version == 6 else FOUR
    used = networks_in_use(intent)
    free = [
        net
        for net in map(ip_network, candidates)
        if not any(t.version == version and t.overlaps(net) for t in used)
    ]
    if len(free) > skip:
        return free[skip]
    raise UsageError(
        f"all of {', '.join(candidates)} are in use: nothing is left to be added under traffic",
        "leave one of them out of the technology's parameters",
        code="address-conflict",
    )


def two_ways(
    intent: Intent, ports: Mapping[str, str]
) -> tuple[int, tuple[str, str], tuple[str, str]] | None:
    """Find a version of IP that both sides have, with a host and its interface on the right and on the left.

    Args:
        intent: names the hosts.
        ports: interfaces by side.
    """
    for version in (4, 6):
        ways = [
            next(((str(h), ports[side]) for h in hosts if h.version == version), None)
            for side, hosts in (("right", intent.right.neighbors), ("left", intent.left.neighbors))
        ]
        right, left = ways
        if right is not None and left is not None:
            return version, right, left
    return None


def networks_in_use(intent: Intent) -> list[Network]:
    """Return every address and prefix of an intent; a default route does not use the networks within it."""
    found = [*networks_in(intent.configuration.to_json())]
    for side in (intent.left, intent.right):
        for link in filter(None, (side, side.background)):
            found += [interface.network for interface in link.addresses]
            found += [ip_network(host) for host in (*link.neighbors, *link.routes.values())]
            found += link.routes
    return [net for net in found if net.prefixlen]


def networks_in(value: Any) -> Iterator[Network]:
    """Yield every address and prefix in JSON values."""
    if isinstance(value, Mapping):
        yield from networks_in(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from networks_in(each)
    elif isinstance(value, str):
        try:
            yield ip_interface(value).network
        except ValueError:
            return
