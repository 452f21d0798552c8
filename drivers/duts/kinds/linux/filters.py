"""Filters of forwarded frames in a separate nftables table (RFC 2544, section 11.4)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import collapse_addresses, ip_address, ip_network, summarize_address_range
from typing import Any

from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.addresses import find_next_hops, find_spare_network
from v6t.drivers.duts.plan import Intent, Step, expect_output
from v6t.drivers.duts.steps import make_object_step
from v6t.intent.device import LinkIntent, Network

NFT_TABLE = "inet v6t_filters"
FILTER_PROGRAM = "nft"
DESTINATION_OFFSET = 100  # destination minus source address of a drop rule


def make_filter_steps(
    intent: Intent,
    facts: Facts,
    ports: Mapping[str, str],
    background_ports: Mapping[str, str],
    count: int,
    destinations: Mapping[str, Sequence[Any]] | None = None,
) -> list[Step]:
    """Return the step that filters frames by ``count`` rules in each direction and drops the rest.

    Args:
        ports: interfaces of test traffic by side.
        background_ports: interfaces of background traffic with a separate VLAN, by side.
        count: rules of each direction; the one in the middle accepts the test traffic.
        destinations: of a device that translates, by side, the networks that packets from there
            are addressed to; None: they are addressed to the hosts of the other side.
    """
    facts.require_program(FILTER_PROGRAM, "nftables", ", which the filters use")
    hops = find_next_hops(intent, ports)
    if hops is None and not destinations:
        return []
    lines = [f"table {NFT_TABLE} {{"]
    for side, other in (("left", "right"), ("right", "left")):
        destination_nets = [] if destinations is None else list(destinations[side])
        first = destination_nets[0].version if destination_nets else 4 if hops is None else hops[0]
        ends = (getattr(intent, side), getattr(intent, other))
        net = find_spare_network(intent, first)
        rules = _generate_rules(net, ends, count, destination_nets)
        lines += [f"  chain from_{side} {{", *(f"    {rule}" for rule in rules), "  }"]
    lines += ["  chain forward {", "    type filter hook forward priority 0; policy accept;"]
    for side, port in (*ports.items(), *background_ports.items()):
        lines += [f'    iifname "{port}" jump from_{side}', f'    iifname "{port}" drop']
    lines += ["  }", "}"]
    text = "\n".join(lines) + "\n"
    expected = expect_output(
        lambda output: _normalize_rules(output) == _normalize_rules(text),
        f"{count} of each direction, in this order",
        f"not the {count} filters of each direction",
    )
    delete = f"nft delete table {NFT_TABLE}"
    read = f"nft -s list table {NFT_TABLE} 2>/dev/null || true"
    why = f"{count} filter{'s' * (count > 1)} in each direction, the rest is denied"
    return [make_object_step("nft -f -", delete, why, text=text, read=read, expected=expected)]


def _generate_rules(
    net: Network, ends: tuple[LinkIntent, LinkIntent], count: int, destination_nets: list[Any]
) -> Iterator[str]:
    """Yield the rules of a direction: one accepts the test traffic, the others match addresses of ``net``."""
    ip_version, before = net.version, (count - 1) // 2
    for number in range(1, count + 1):
        if number == before + 1:
            for version in (ip_version, 10 - ip_version):
                sources, destinations = (_find_networks(link, version) for link in ends)
                if version == ip_version:
                    destinations = list(collapse_addresses([*destinations, *destination_nets]))
                if sources and destinations:
                    sets = (_format_set(sources), _format_set(destinations))
                    yield _format_rule(version, *sets, "accept")
        else:
            destination = str(net[number + DESTINATION_OFFSET])
            yield _format_rule(ip_version, str(net[number]), destination, "drop")


def _format_rule(version: int, source: str, destination: str, verdict: str) -> str:
    ip, protocol = ("ip6", " meta l4proto udp") if version == 6 else ("ip", "")
    return f"{ip} saddr {source} {ip} daddr {destination}{protocol} {verdict}"


def _format_set(nets: list[Any]) -> str:
    return f"{{ {', '.join(map(str, nets))} }}"


def _find_networks(link: LinkIntent, version: int) -> list[Any]:
    background = link.background.addresses if link.background else ()
    own = [interface.network for interface in (*link.addresses, *background)]
    networks: Any = [*own, *link.routes]
    return list(collapse_addresses([net for net in networks if net.version == version]))


_ADDRESS_PATTERN = re.compile(r"\b([sd]addr) (?:\{ ([^}]*) \}|(\S+))")


def _normalize_rules(text: str) -> str:
    """Return rules in a canonical form, in which v6t's text and nftables' listing can be compared."""
    plain = re.sub(r"priority \w+;", "", " ".join(text.split()))
    return _ADDRESS_PATTERN.sub(lambda m: f"{m[1]} {_normalize_set(m[2] or m[3])}", plain)


def _normalize_set(text: str) -> str:
    networks: list[Any] = []
    for item in text.split(", "):
        low, dash, high = item.partition("-")
        if dash:
            networks += summarize_address_range(ip_address(low), ip_address(high))
        else:
            networks.append(ip_network(item.strip()))
    return _format_set(list(collapse_addresses(networks)))
