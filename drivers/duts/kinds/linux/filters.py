"""Filters of what is forwarded, in a table of nftables' own (RFC 2544 section 11.4, RFC 5180 section 6.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_interface, ip_network
from typing import Any

from v6t.drivers.duts.kinds.spare import spare4, spare6
from v6t.drivers.duts.plan import Intent, Step, Was, checked, shown

TABLE = "inet v6t_filters"
TO = 100
"""What is added to the last number of a denied source for its destination."""


def steps(intent: Intent, ports: Mapping[str, str], count: int) -> list[Step]:
    """So many conditions for what comes in on either side; all else that is forwarded is dropped.

    Args:
        intent: whose addresses may pass.
        ports: interfaces by side.
        count: conditions of each direction; the one in the middle lets the test traffic pass.
    """
    six = not (_networks(intent.left, 4) and _networks(intent.right, 4)) or (
        intent.technology == "ipv6-router"
    )
    ip, version = ("ip6", 6) if six else ("ip", 4)
    left, right = _networks(intent.left, version), _networks(intent.right, version)
    chains = {
        "left": list(_chain(intent, ip, left, right, count)),
        "right": list(_chain(intent, ip, right, left, count)),
    }
    lines = [f"table {TABLE} {{"]
    for side, rules in chains.items():
        lines += [f"  chain from_{side} {{", *(f"    {rule}" for rule in rules), "  }"]
    lines += ["  chain forward {", "    type filter hook forward priority 0; policy drop;"]
    lines += [f'    iifname "{port}" jump from_{side}' for side, port in ports.items()]
    lines += ["  }", "}"]
    show = f"nft -s list table {TABLE}"

    def checker(output: str) -> str | None:
        seen = [line.split()[-1] for line in output.splitlines() if "addr" in line]
        wanted = [rule.split()[-1] for rules in chains.values() for rule in rules]
        if seen != wanted or "policy drop" not in output:
            return f"not the {count} filters of each direction; it says {shown(output)}"
        return None

    return [
        Step(
            "nft -f -",
            f"{count} filter{'s' * (count > 1)} in each direction, the rest is denied",
            text="\n".join(lines) + "\n",
            undo=f"nft delete table {TABLE}",
            before=f"nft list table {TABLE} 2>/dev/null || true",
            was=Was.FOREIGN,
            check=checked(show, checker, f"{count} of each direction, in this order"),
        )
    ]


def _chain(
    intent: Intent, ip: str, sources: Iterable[Any], destinations: Iterable[Any], count: int
) -> Iterator[str]:
    """``block A to B`` of addresses that no test packet has, ``forward A to B`` among them."""
    net = spare6(intent) if ip == "ip6" else spare4(intent)
    protocol = " meta l4proto udp" if ip == "ip6" else ""
    before = (count - 1) // 2
    for number in range(1, count + 1):
        if number == before + 1:
            allowed = [", ".join(map(str, nets)) for nets in (sources, destinations)]
            yield f"{ip} saddr {{ {allowed[0]} }} {ip} daddr {{ {allowed[1]} }}{protocol} accept"
        else:
            source, destination = net[number], net[number + TO]
            yield f"{ip} saddr {source} {ip} daddr {destination}{protocol} drop"


def _networks(side: Mapping[str, Any], version: int) -> list[IPv4Network] | list[IPv6Network]:
    """Of the hosts behind one side."""
    texts = [ip_interface(text).network for text in side["addresses"]]
    found: Any = [*texts, *(ip_network(text) for text in side["routes"])]
    return list(collapse_addresses([net for net in found if net.version == version]))
