"""What OpenBSD's programs print, read: ifconfig, route, sysctl, pfctl."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_interface,
    ip_network,
)

from v6t.drivers.duts.facts import Interface
from v6t.drivers.duts.readings import Lost

Own = IPv4Interface | IPv6Interface
"""An address of an interface, with its prefix length."""
AUTOMATIC = re.compile(r"<__automatic_\w+>")
"""A table that pfctl made of a list; its name holds a number drawn for each loading."""


def read_ifconfig(text: str) -> tuple[dict[str, Interface], dict[str, set[str]]]:
    """Interfaces and their addresses from ``ifconfig -A``."""
    interfaces: dict[str, Interface] = {}
    addresses: dict[str, set[str]] = {}
    for block in re.split(r"\n(?=\S)", text.strip()):
        head = re.match(r"(\S+?): flags=\w+<([^>]*)>.* mtu (\d+)", block)
        if not head:
            continue
        name, flags, mtu = head.groups()
        mac = re.search(r"^\s+lladdr (\S+)", block, re.MULTILINE)
        carrier = not re.search(r"^\s+status: no carrier", block, re.MULTILINE)
        interfaces[name] = Interface(
            mac.group(1).lower() if mac else "", "UP" in flags.split(","), carrier, int(mtu)
        )
        own = re.findall(r"^\s+inet6? (\S+)", block, re.MULTILINE)
        addresses[name] = {a.partition("%")[0] for a in own}
    return interfaces, addresses


def lengths(text: str, port: str) -> list[Own]:
    """Addresses of one interface, with their prefix lengths, from ``ifconfig -A``."""
    found: list[Own] = []
    for block in re.split(r"\n(?=\S)", text.strip()):
        if block.startswith(f"{port}: "):
            for four, mask in re.findall(
                r"^\s+inet (\S+) .*\bnetmask 0x(\w+)", block, re.MULTILINE
            ):
                found.append(ip_interface(f"{four}/{int(mask, 16).bit_count()}"))
            for six, length in re.findall(
                r"^\s+inet6 (\S+) .*\bprefixlen (\d+)", block, re.MULTILINE
            ):
                found.append(ip_interface(f"{six.partition('%')[0]}/{length}"))
    return found


def printed(own: Own) -> str:
    """How ``ifconfig`` prints an address with its prefix length, as words of its line."""
    if own.version == 6:
        return f"inet6 {own.ip} prefixlen {own.network.prefixlen}"
    return f"inet {own.ip} netmask 0x{int(own.netmask):08x}"


def way_back(client: str, text: str) -> str:
    """``route -n get`` in the words of :func:`v6t.drivers.duts.way.survey`."""
    route = _fields(text)
    to, port = _destination(route), route.get("interface", "")
    if not to or not port:
        return ""
    return f"client {client.partition('%')[0]} matched {to} dev {port}"


def route_in(text: str) -> tuple[IPv4Network | IPv6Network, IPv4Address | IPv6Address] | None:
    """Return the network and the gateway of ``route -n get``, None where it names no such route."""
    route = _fields(text)
    try:
        gateway = ip_address(route.get("gateway", "").partition("%")[0])
        return ip_network(_destination(route)), gateway
    except ValueError:
        return None


def _fields(text: str) -> dict[str, str]:
    return dict(re.findall(r"^\s*([a-z ]+): (\S+)", text, re.MULTILINE))


def _destination(route: Mapping[str, str]) -> str:
    """Return where a route leads, with its prefix length unless it is a single host's."""
    to, mask = (route.get(name, "") for name in ("destination", "mask"))
    if to == "default" or not mask:
        return to.partition("%")[0]
    bits = sum(bin(int(p, 10 if "." in mask else 16)).count("1")
               for p in re.split(r"[.:]", mask) if p)  # fmt: skip
    return f"{to.partition('%')[0]}/{bits}"


LOSSES = {
    **dict.fromkeys(("memory", "state_limit", "src_limit", "translate"), Lost.ROOM),
    "state_insert": Lost.ENTRY,
    "congestion": Lost.QUEUE,
    **dict.fromkeys(
        ("bad_offset", "fragment", "short", "normalize", "bad_timestamp", "ip_option", "proto_cksum",
         "state_mismatch", "no_route"), Lost.RULE),
}  # fmt: skip
"""PF's reasons (``PFRES_NAMES`` of pfvar.h) for which it drops; ``translate``: it found no port."""
_INFO = {"current entries": "sessions", **{name.replace("_", "-"): name for name in LOSSES}}


def info(text: str) -> Mapping[str, float]:
    """``pfctl -si``: states, and reasons for loss."""
    counters: dict[str, float] = {}
    for line in text.splitlines():
        match = re.match(r"\s+([a-z][a-z -]*?)\s{2,}(\d+)", line)
        if match and match.group(1) in _INFO:
            counters[_INFO[match.group(1)]] = float(match.group(2))
    return counters


def translated(text: str) -> float | None:
    """Count the states of all translating rules in the output of ``pfctl -vsr``.

    The count includes states that are marked but not freed yet. Returns None without such a rule.
    """
    found = re.findall(
        r"^\S.* (?:nat-to|af-to) .*\n\s+\[ Evaluations: .* States: (\d+)", text, re.MULTILINE
    )
    return float(sum(int(n) for n in found)) if found else None


def limits(text: str) -> Mapping[str, float]:
    """``pfctl -sm``: what the table of states holds."""
    match = re.search(r"^states\s+hard limit\s+(\d+)", text, re.MULTILINE)
    return {"states": float(match.group(1))} if match else {}


def cpu(text: str) -> Mapping[str, float]:
    """``sysctl hw.ncpuonline kern.cp_time``: ticks of user, nice, system, spin, interrupt, idle.

    ``sysctl`` prints the mean of all cores and nothing of each: with several it is named so, and
    no verdict about a single one is drawn from it.
    """
    cores = re.search(r"^hw\.ncpuonline=(\d+)", text, re.MULTILINE)
    ticks = re.search(r"^kern\.cp_time=([\d,]+)", text, re.MULTILINE)
    if not cores or not ticks:
        return {}
    values = [float(t) for t in ticks.group(1).split(",")]
    name = "cpu0." if cores.group(1) == "1" else "mean_"
    return {f"{name}idle": values[-1], f"{name}softirq": values[-2], f"{name}total": sum(values)}


def rules(text: str, tables: str) -> list[str]:
    """Rules alone, however they are numbered: ``-nvf`` prints options and macros, too.

    Args:
        text: of ``pfctl -sr`` or ``-nvf``; what other files hold is loaded into anchors, and
            printed by ``-nvf`` alone.
        tables: lines that say what is in those that were made of lists.
    """
    held = {
        name: "{ " + " ".join(sorted(words.split())) + " }"
        for name, words in re.findall(r"^table (<__automatic_\w+>) const \{(.*)\}", tables, re.M)
    }
    own = re.split(r"^Loading anchor ", text, maxsplit=1, flags=re.MULTILINE)[0]
    lines = (" ".join(re.sub(r"^@\d+ ", "", line).split()) for line in own.splitlines())
    return [
        AUTOMATIC.sub(lambda match: held.get(match.group(), "<a table>"), line)
        for line in lines
        if line.split(" ")[0] in ("pass", "block", "match", "anchor")
    ]


def listed(net: str) -> str:
    """How ``route -n show`` begins the line of a network: IPv4 without trailing zeros."""
    network = ip_network(net)
    if network.prefixlen == network.max_prefixlen:
        return str(network.network_address)
    if network.version == 6:
        return str(network)
    octets = max(1, -(-network.prefixlen // 8))
    return ".".join(str(network.network_address).split(".")[:octets]) + f"/{network.prefixlen}"
