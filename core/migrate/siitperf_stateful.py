"""Stateful tests of siitperf: NAT64 and NAT44."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any

from v6t.base.errors import UsageError
from v6t.core.migrate.common import POLICIES, Imported, Parameters

PLUGINS = {("6", "4"): "nat64", ("4", "4"): "nat44"}
FLUSH = {"nat64": "'modprobe -r jool && modprobe jool'", "nat44": "conntrack -F"}
ENUMERATION = (*POLICIES, "4")
"""4 was unique pseudorandom with accounting, before siitperf's commit 6ab741d."""
READING = {"0": "fixed", "1": "linear", "2": "linear", "3": "pseudorandom"}
USUAL_CONNECTIONS = 4_000_000
LOWEST_PORT = 1024
LOWEST_OFFSET = 8
MOST = 0xFFFF
_LAST_16_BITS = {"4": 2, "6": 14}
"""Octet at which the last 16 bits of an address begin, by IP version."""
_NOT_CONSECUTIVE = (
    "addresses that vary there cannot be converted",
    "let them vary in their last 16 bits, Initiators with IPv6 at octet 8 or above",
)
PUBLIC_PORTS = 65536 - LOWEST_PORT


def stateful(p: Parameters, versions: tuple[str, str], imported: Imported) -> str:
    """Fill in the run of a stateful test; returns its plugin.

    Args:
        p: the file, turned if the Initiator is on the right: here it is always the left.
        versions: of IP, the Initiator's and the Responder's.
        imported: gets ``run`` and remarks.

    Raises:
        UsageError: a test that v6t cannot make.
    """
    p.text("Stateful", "1", "plugin; testbed: initiator")
    if versions not in PLUGINS:
        raise UsageError(
            f"{p.path}: a stateful test from IPv{versions[0]} to IPv{versions[1]} cannot be "
            "converted",
            "NAT64 (6 to 4) and NAT44 (4 to 4) can; `v6t plugins` lists what v6t measures",
            code="invalid-foreign-file",
        )
    plugin = PLUGINS[versions]
    params = _ports(p) | _addresses(p, versions[0], imported)
    ports, ips = params["enumerate_ports"], params["enumerate_ips"]
    if not ports and not ips:
        several = params["initiator_count"] > 1 and params["responder_count"] > 1
        params |= {"enumerate_ports": 3, "enumerate_ips": 3 if several else 0}
        imported.remarks.append(
            "The file enumerates neither ports nor addresses, so that some frames would repeat a "
            "connection: enumerate_ports is 3 here."
        )
    elif not ports:
        from v6t.plugins.ports import FIXED_DESTINATION, FIXED_SOURCE

        params |= {
            "initiator_ports": {"min": FIXED_SOURCE, "max": FIXED_SOURCE},
            "responder_ports": {"min": FIXED_DESTINATION, "max": FIXED_DESTINATION},
        }
        imported.remarks.append(
            f"Ports are not enumerated: they are siitperf's fixed ones, {FIXED_SOURCE} and "
            f"{FIXED_DESTINATION}."
        )
    sources = params["initiator_ports"]
    if sources["min"] < LOWEST_PORT and sources["max"] - sources["min"] < PUBLIC_PORTS:
        imported.remarks.append(
            f"Source ports {sources['min']}-{sources['max']} begin at {LOWEST_PORT} here, as many: "
            "a NAT maps lower ports to lower ports, of which there are few (RFC 6146)."
        )
        above = LOWEST_PORT - sources["min"]
        params["initiator_ports"] = {"min": LOWEST_PORT, "max": sources["max"] + above}
    elif sources["min"] < LOWEST_PORT:
        params["low_ports"] = True
    params |= _pool(params)
    reading = p.choice("Responder-tuples", "0", "procedure.connections.reading", READING)
    count = min(_tuples(params), USUAL_CONNECTIONS)
    imported.run = {
        "plugin": plugin,
        "params": params,
        "benchmarks": ["connection-rate", "throughput"],
        "frame_sizes": [84 if plugin == "nat64" else 64],
        "procedure": {
            "resolution_fps": 1000,
            "connections": {"count": count, "reading": READING[reading], "resolution_cps": 1000},
        },
    }
    imported.remarks += [
        "N, M, R, T and D are arguments of siitperf's scripts, not in the file: "
        "procedure.connections holds count (N), entries (M), rate_cps (R), wait_ms (T), gap_ms.",
        "The device's public addresses are not in the file; chosen: "
        f"{params['pool_count']} from {params['pool_first']} on (params.pool_first, pool_count).",
        "Every connection is tried after phase 1 (RFC 9693; siitperf's binary-rate-alg.sh-R does "
        "not), and none may be lost.",
    ]
    return plugin


def emptied(plugin: str, imported: Imported) -> dict[str, Any]:
    """Return the testbed's device, with an example of how its table is emptied before each trial."""
    imported.remarks.append(
        "dut.options.hooks.flush in the testbed file is an example: write there how your device's "
        "table is emptied, or name its driver (dut.driver), which knows."
    )
    return {"dut": {"options": {"hooks": {"flush": f"ssh root@dut {FLUSH[plugin]}"}}}}


def _ports(p: Parameters) -> dict[str, Any]:
    """Ranges of ports; how they vary is the enumeration's business."""
    params: dict[str, Any] = {}
    for here, name, low, high in (
        ("initiator_ports", "Fwd-sport", 1024, 65535),
        ("responder_ports", "Fwd-dport", 1, 49151),
    ):
        params[here] = {
            "min": p.number(f"{name}-min", low, f"params.{here}.min"),
            "max": p.number(f"{name}-max", high, f"params.{here}.max"),
        }
    for name, known in (("ports", ENUMERATION), ("ips", tuple(POLICIES))):
        kinds = p.choice(f"Enumerate-{name}", "0", f"params.enumerate_{name}", known)
        params[f"enumerate_{name}"] = min(int(kinds), 3)
    p.explain(
        ["Fwd-var-sport", "Fwd-var-dport"], "none: params.enumerate_ports says how ports vary"
    )
    reverse = [f"Rev-{what}" for what in ("var-sport", "var-dport")]
    reverse += [f"Rev-{port}-{end}" for port in ("sport", "dport") for end in ("min", "max")]
    p.explain(reverse, "none: the Responder's ports are those it has learned")
    return params


def _addresses(p: Parameters, version: str, imported: Imported) -> dict[str, Any]:
    """First addresses of Initiator and Responder, and how many there are of each.

    An Initiator with IPv6 sends to ``IPv6-R-Virt``, and varies it at ``IPv6-R-offset``.
    """
    here = f"params.initiator_ipv{version}"
    default = "2001:2::2" if version == "6" else "198.18.0.2"
    initiator = p.address(f"IPv{version}-L-Real", version, default, here)
    params: dict[str, Any] = {}
    if version == "6":
        server = IPv6Address(
            p.address(
                "IPv6-R-Virt",
                "6",
                "64:ff9b::198.19.0.2",
                "params.prefix and params.responder_ipv4",
            )
        )
        responder = str(IPv4Address(int(server) & 0xFFFFFFFF))
        params["prefix"] = str(IPv6Network((int(server) >> 32 << 32, 96)))
        unused = p.address("IPv4-R-Real", "4", responder, "none: siitperf sends to IPv6-R-Virt")
        if unused not in (responder, "0.0.0.0"):  # noqa: S104
            imported.remarks.append(
                f"IPv4-R-Real {unused} is unused, as in siitperf: the Responder is {responder}, the "
                "end of IPv6-R-Virt."
            )
    else:
        responder = p.address("IPv4-R-Real", "4", "198.19.0.2", "params.responder_ipv4")
    low, count, offset = _varying(p, "L", "initiator", version)
    params["initiator_count"] = count
    if low is not None:
        initiator = _replace_16_bits(initiator, offset, low)
        if offset != _LAST_16_BITS[version]:
            if version == "4" or offset < LOWEST_OFFSET:
                raise p.refuse(f"IPv{version}-L-offset", *_NOT_CONSECUTIVE)
            params["initiator_offset"] = offset
    low, count, offset = _varying(p, "R", "responder", version)
    params["responder_count"] = count
    if low is not None:
        if offset != _LAST_16_BITS[version]:
            raise p.refuse(f"IPv{version}-R-offset", *_NOT_CONSECUTIVE)
        responder = _replace_16_bits(responder, _LAST_16_BITS["4"], low)
    _unused(p, version)
    return {f"initiator_ipv{version}": initiator, "responder_ipv4": responder, **params}


def _varying(p: Parameters, letter: str, name: str, version: str) -> tuple[int | None, int, int]:
    """Smallest value of the varying 16 bits of a side (None: fixed), count, and their octet."""
    what = f"params.{name}_count"
    kind = p.choice(f"IP-{letter}-var", "0", what, POLICIES)
    low = p.number(f"IP-{letter}-min", 0, what)
    high = p.number(f"IP-{letter}-max", 0, what)
    last = _LAST_16_BITS[version]
    offset = p.number(f"IPv{version}-{letter}-offset", last, what)
    if kind == "0":
        return None, 1, last
    if not 0 <= low <= high <= MOST:
        raise p.refuse(f"IP-{letter}-max", f"not within {low} to {MOST}", "correct the range")
    return low, high - low + 1, offset


def _replace_16_bits(address: str, offset: int, value: int) -> str:
    """Return an address with another value in the 16 bits that begin at an octet."""
    packed = bytearray(ip_address(address).packed)
    packed[offset : offset + 2] = value.to_bytes(2, "big")
    return str(ip_address(bytes(packed)))


def _unused(p: Parameters, version: str) -> None:
    for letter in "LR":
        if p.number(f"Num-{letter}-Nets", 1, "none: stateful tests have one network") > 1:
            raise p.refuse(
                f"Num-{letter}-Nets",
                "a stateful test has one network on either side",
                "set it to 1, or vary addresses (IP-L-var, IP-R-var)",
            )
    names = ["IPv6-R-Real", "IPv4-L-Virt", "IPv4-R-Virt", "IPv6-L-Virt"]
    names += ["IPv4-L-Real"] if version == "6" else ["IPv6-L-Real", "IPv6-R-Virt"]
    names += [f"IPv{v}-{s}-offset" for v in "64" for s in "LR"]
    p.explain(names, "none: not used in this stateful test")


def _pool(params: dict[str, Any]) -> dict[str, Any]:
    """As many public addresses as the connections need, away from the Responder's."""
    responder = int(IPv4Address(params["responder_ipv4"]))
    last = responder + params["responder_count"] - 1
    end = responder | 0xFF00
    first = (end & ~0xFF) + 1 if last < end & ~0xFF else (responder & ~0xFFFF) - 0xFF
    towards = params["responder_ports"]["max"] - params["responder_ports"]["min"] + 1
    room = PUBLIC_PORTS * params["responder_count"] * towards
    count = -(-_tuples(params) // room) if params["enumerate_ports"] else 1
    return {"pool_first": str(IPv4Address(first)), "pool_count": max(1, count)}


def _tuples(params: dict[str, Any]) -> int:
    """Count the connections there can be."""
    total = 1
    if params["enumerate_ports"]:
        for name in ("initiator_ports", "responder_ports"):
            total *= params[name]["max"] - params[name]["min"] + 1
    if params["enumerate_ips"]:
        total *= params["initiator_count"] * params["responder_count"]
    return total
