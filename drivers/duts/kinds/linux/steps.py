"""Steps that Linux drivers share: settings, addresses, neighbours, routes, files, interfaces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_network

from v6t.drivers.duts.kinds.linux import tuning
from v6t.drivers.duts.plan import (
    Check,
    Step,
    Was,
    checked,
    equals,
    line_with,
    shown,
)
from v6t.intent.device import Address, Interface

SHOWN_ROUTES = 64
"""Up to so many routes are looked up one by one before they are added."""


def module(name: str, why: str, unload: str, *, in_lab: bool, load: str = "") -> Step:
    """A kernel module, loaded where it is not.

    Args:
        name: of it.
        why: of the step.
        unload: shell line that unloads it, unless it is in use.
        in_lab: the kernel is that of other labs, too: none sees whether another one uses it, and it stays.
        load: shell line that loads it; empty: modprobe's.
    """
    there = f"ls -d /sys/module/{name} 2>/dev/null || true"
    return Step(
        load or f"modprobe {name}",
        f"{why}; it stays, other labs share the kernel" if in_lab else why,
        undo="" if in_lab else unload,
        before=there,
        was=Was.THERE,
        check=equals(there, f"/sys/module/{name}"),
    )


def setting(version: int, port: str, name: str) -> str:
    """An interface's own setting, as sysctl calls it: with slashes where its name has dots."""
    path = f"net/ipv{version}/conf/{port}/{name}"
    return path if "." in port else path.replace("/", ".")


def sysctl(values: Mapping[str, str | int], why: str, also: str = "") -> Step:
    """Kernel settings; those there before are written back."""
    words = " ".join(f"{name}={value}" for name, value in values.items())
    names = " ".join(values)
    return Step(
        f"sysctl -q -w {words}",
        why,
        undo="sysctl -q -e -p -",
        undo_text="{old}",
        before=f"sysctl -e {names}{also}",
        check=equals(f"sysctl -n {names}", "\n".join(str(v) for v in values.values())),
    )


def address(interface: Interface, port: str) -> Step:
    """One address, without duplicate address detection."""
    nodad = " nodad" if interface.version == 6 else ""
    show = f"ip -o -{interface.version} addr show dev {port} to {interface.ip}/{interface.max_prefixlen}"
    # the same address with another prefix length is another one
    ours = f"{show} | grep -F ' {interface.with_prefixlen} '"

    def checker(output: str) -> str | None:
        family = "inet6" if interface.version == 6 else "inet"
        line = line_with(output, f"{family} {interface.with_prefixlen}")
        if line is None:
            return f"{interface} is not on {port}; it says {shown(output)}"
        bad = [w for w in ("tentative", "dadfailed") if w in line.split()]
        return f"{interface} is {bad[0]}" if bad else None

    return Step(
        # `replace` would make one for good that DHCP or a router's advertisement lends
        f"{ours} || ip -{interface.version} addr add {interface.with_prefixlen} dev {port}{nodad}",
        f"the device's address on {port}",
        undo=f"ip -{interface.version} addr del {interface.with_prefixlen} dev {port}",
        before=f"{ours} || true",  # an interface of the plan's own is not there yet
        was=Was.THERE,
        gone=tuning.gone(port),
        check=checked(show, checker, f"{interface.with_prefixlen}, not tentative"),
    )


def neighbours(entries: Mapping[Address, str], port: str) -> Step:
    """Permanent entries: the device asks for nobody during trials."""
    lines = [f"neigh replace {a} lladdr {m} dev {port} nud permanent" for a, m in entries.items()]
    again = (
        f"ip -force -batch -\nprintf '%s\\n' {{old}} | while read a l m s; do "
        f'[ "$l" != lladdr ] || ip neigh replace $a lladdr $m dev {port} nud permanent; done; true'
    )
    show = f"ip neigh show dev {port} nud permanent"

    def checker(output: str) -> str | None:
        rows = (line.split() for line in output.splitlines())
        standing = {w[0]: w[2] for w in rows if len(w) > 3 and w[1] == "lladdr"}
        for a, m in entries.items():
            if standing.get(str(a), "").lower() != m.lower():
                return f"{a} is not a permanent neighbour with {m} on {port}"
        return None

    return Step(
        "ip -batch -",
        f"the tester's hosts behind {port}: told, so that none is asked for",
        text="\n".join(lines) + "\n",
        undo=again,
        undo_text="".join(f"neigh del {a} dev {port}\n" for a in entries),
        before=f"{show} || true",
        gone=tuning.gone(port),
        check=checked(show, checker, f"{len(entries)} permanent"),
    )


def routes(entries: Mapping[str, str], why: str) -> Step:
    """Routes that are not there yet.

    Args:
        entries: ``via ADDRESS dev PORT`` or ``dev PORT`` by prefix.
        why: of the step.
    """
    lines = [f"route add {net} {to} proto 86" for net, to in entries.items()]
    looked = list(entries)[:SHOWN_ROUTES]
    show = "; ".join(f"ip -{ip_network(net).version} route show exact {net}" for net in looked)

    def checker(output: str) -> str | None:
        rows = [line.partition(" ") for line in output.splitlines()]
        for net in looked:
            name, to = _shown_network(net), entries[net]
            own = "\n".join(rest for first, _, rest in rows if first == name)
            if line_with(own, to, "proto 86") is None:
                return f"there is no route to {net} {to}; it says {shown(output)}"
        return None

    return Step(
        "ip -batch -",
        why,
        text="\n".join(lines) + "\n",
        undo="ip -force -batch - 2>/dev/null\ntrue",
        undo_text="".join(f"route del {net} {to} proto 86\n" for net, to in entries.items()),
        before=show,
        was=Was.FOREIGN,
        check=checked(show, checker, f"{len(entries)} of v6t (proto 86)"),
    )


def _shown_network(net: str) -> str:
    """Return a network as the first word of its route: iproute2 leaves out the length of a host."""
    network = ip_network(net)
    if not network.prefixlen:
        return "default"
    return str(network[0]) if network.num_addresses == 1 else str(network)


def write_file(path: str, text: str, why: str, mode: str = "600") -> Step:
    """A file of v6t's own directory."""
    return Step(
        f"umask 077; cat >{path} && chmod {mode} {path}",
        why,
        text=text,
        undo=f"rm -f {path}",
        before=f"ls {path} 2>/dev/null || true",
        was=Was.FOREIGN,
        check=checked(
            f"cat {path}",
            lambda out: None if out.strip() == text.strip() else "the file holds something else",
            "what was written",
        ),
    )


def directory(path: str, why: str) -> Step:
    """For files of a program of v6t's own, which goes with all that is in it."""
    return Step(
        f"mkdir -m 700 {path}",
        why,
        undo=f"find {path} -depth -delete",
        before=f"ls -d {path} 2>/dev/null || true",
        was=Was.FOREIGN,
        check=equals(f"ls -d {path}", path),
    )


def kept_addresses(name: str) -> Step:
    """Nothing is done: what the interface has of IPv6 comes back, should a later step take it.

    Where IPv6 is switched off on an interface the kernel forgets its addresses, and routes through it. What
    is lent for a time, and what the kernel makes of the addresses, comes back by itself.
    """
    addresses = (
        f"ip -o -6 addr show dev {name} permanent 2>/dev/null | sed -e 's/.* inet6 /address /' "
        "-e 's/ *\\\\.*//; s/ tentative//; s/ dadfailed//; s/ stable-privacy//' "
        "-e 's/ deprecated/ preferred_lft 0/'"
    )
    ways = (
        "ip -o -6 route show table all | sed -e 's/\\\\//g; s/ linkdown//g; s/ dead//g' "
        f"-e 's/.*/route & /' | grep -F ' dev {name} ' | "
        "grep -v -e ' proto kernel ' -e ' proto ra ' -e ' expires '"
    )
    again = (
        "printf '%s\\n' {old} | while read what net rest; do case $what in\n"
        f"address) ip -o -6 addr show dev {name} to ${{net%/*}} | grep -q . || "
        f"ip -6 addr add $net $rest dev {name};;\n"
        "route) ip -6 route replace $net $rest;;\nesac; done"
    )
    return Step(
        "true",
        f"IPv6 addresses of {name}, and routes through it",
        undo=again,
        before=f"{addresses}; {ways}; true",
        gone=tuning.gone(name),
    )


_LINK = re.compile(r"\d+: ([^\s:@]+)(?:@\S+)?: <([^>]*)> ([^\\]*)")
"""A line of ``ip -o link show``: name, flags, and the words before the link layer's."""


def link(name: str, *flags: str, **numbers: int) -> Check:
    """Require flags of an interface, and numbers by the words before them (``mtu``, ``qlen``)."""

    def checker(output: str) -> str | None:
        match = _LINK.match(output.strip())
        if match is None or match[1] != name:
            return f"there is no interface {name}; the output is {shown(output)}"
        missing = [flag for flag in flags if flag not in match[2].split(",")]
        missing += [words for words in wanted if line_with(match[3], words) is None]
        return f"{name} is not {missing[0]}; the output is {shown(output)}" if missing else None

    wanted = [f"{word} {number}" for word, number in numbers.items()]
    return checked(f"ip -o link show dev {name}", checker, ", ".join([*wanted, *flags]) or name)


def up(name: str, why: str = "") -> Step:
    """An interface that is up, and down again where it was.

    IPv6 addresses that it had before go down with it, unless the kernel is told to keep them.
    """
    keep = setting(6, name, "keep_addr_on_down")
    return Step(
        f"ip link set dev {name} up",
        why or f"{name} carries test traffic",
        undo=f"k=$(sysctl -n {keep} 2>/dev/null); sysctl -q -e -w {keep}=1; ip link set dev {name} down; "
        f"s=$?; sysctl -q -e -w {keep}=${{k:-0}}; exit $s",
        before=f"ip -o link show dev {name} up | sed 's/.*/up/'",
        was=Was.THERE,
        gone=tuning.gone(name),
        check=link(name, "LOWER_UP"),
    )
