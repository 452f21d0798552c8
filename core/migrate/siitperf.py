"""siitperf.conf, the file of siitperf: stateless tests, and stateful ones of NAT64 and NAT44."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any

from v6t.base.errors import UsageError
from v6t.core.migrate.migration import NOT_USED, VARIATION_POLICIES, Migration

PORT_PARAMETERS = (  # names of policy, range and setting; bounds
    ("Fwd-var-sport", "Fwd-sport", "fw_sport", 1024, 65535),
    ("Fwd-var-dport", "Fwd-dport", "fw_dport", 1, 49151),
    ("Rev-var-sport", "Rev-sport", "rv_sport", 1024, 65535),
    ("Rev-var-dport", "Rev-dport", "rv_dport", 1, 49151),
)
KNOWN_PARAMETERS = (  # names in configuration files of siitperf
    *("IP-L-Vers", "IP-R-Vers", "Forward", "Reverse", "Promisc", "MEM-Channels"),
    *("CPU-L-Send", "CPU-R-Recv", "CPU-R-Send", "CPU-L-Recv"),
    *(f"IPv{v}-{s}-{kind}" for v in "64" for s in "LR" for kind in ("Real", "Virt")),
    *(f"MAC-{s}-{end}" for end in ("Tester", "DUT") for s in "LR"),
    *(f"Num-{s}-Nets" for s in "LR"),
    *(policy for policy, *_ in PORT_PARAMETERS),
    *(f"{ports}-{end}" for _, ports, *_ in PORT_PARAMETERS for end in ("min", "max")),
    *(f"IP-{s}-{what}" for s in "LR" for what in ("var", "min", "max")),
    *(f"IPv{v}-{s}-offset" for v in "64" for s in "LR"),
    *("Stateful", "Enumerate-ports", "Enumerate-ips", "Responder-tuples"),
)
PARAMETER_ALIASES = {"responder-ports": "Responder-tuples"}  # known name by other spelling
ORIENTATIONS = {("6", "4"): "nat64", ("4", "6"): "nat46"}  # by IP versions of left and right
# By IP version: left and right hosts, bounds of their varying 16 bits, and the first octet of these.
ROUTER_HOSTS = {
    "4": ("198.18.0.2", "198.19.0.2", 2, 65534, 2),
    "6": ("2001:2::2", "2001:2:0:8000::2", 0, 65535, 12),
}

# Ports of siitperf where it does not vary them, as in RFC 2544, appendix C.2.6.4.
FIXED_SOURCE, FIXED_DESTINATION = 0xC020, 7

STATEFUL_PLUGINS = {("6", "4"): "nat64", ("4", "4"): "nat44"}  # by IP versions of both sides
FLUSH_COMMANDS = {"nat64": "'modprobe -r jool && modprobe jool'", "nat44": "conntrack -F"}
# Before siitperf's commit 6ab741d, mode 4 was unique pseudorandom with accounting.
ENUMERATION_MODES = (*VARIATION_POLICIES, "4")
# Orders in which the Responder reads its state table, by value of Responder-tuples.
READING_ORDERS = {"0": "fixed", "1": "linear", "2": "linear", "3": "pseudorandom"}
MAX_CONNECTIONS = 4_000_000  # in a converted test, even if the ranges allow more
MIN_PORT = 1024  # lowest port of connections, since a NAT maps lower ports to lower ports
PUBLIC_PORTS = 65536 - MIN_PORT  # usable ports of a public address
MIN_IPV6_OFFSET = 8  # first octet of an Initiator's IPv6 address that may vary
LAST_16_BITS_OFFSET = {"4": 2, "6": 14}  # first octet of the last 16 bits, by IP version
UNSUPPORTED_OFFSET_ERROR = (  # problem and hint
    "addresses that vary there cannot be converted",
    "let them vary in their last 16 bits, Initiators with IPv6 at octet 8 or above",
)


def read_siitperf(path: Path) -> Migration:
    """Convert a configuration file of siitperf."""
    source = Migration(path, KNOWN_PARAMETERS, PARAMETER_ALIASES)
    kind = source.read_choice("Stateful", "0", NOT_USED, ("0", "1", "2"))
    left = source.read_choice("IP-L-Vers", "6", "plugin", ("4", "6"))
    right = source.read_choice("IP-R-Vers", "4", "plugin", ("4", "6"))
    side_letters, versions = "LR", (left, right)
    if kind == "2":  # the Initiator is on the right: read as if it was on the left
        source.rename_parameters(_swap_sides)
        side_letters, versions = "RL", (right, left)
    source.run = (_read_stateless if kind == "0" else _read_stateful)(source, versions)
    source.run |= {"preset": "rfc", "modes": source.read_modes("Forward", "Reverse")}
    links = source.read_mac_addresses("MAC-{}-Tester", "MAC-{}-DUT", side_letters)
    side = {"initiator": "right"} if kind == "2" else {}
    bed = {"tester": {"kind": "trex"}, "links": links, **side, "line_rate": "10G"}
    source.testbed = bed | source.testbed
    absent = [policy for policy, *_ in PORT_PARAMETERS if not source.has_parameter(policy)]
    if absent and source.run["plugin"] not in STATEFUL_PLUGINS.values():
        text = "RFC 4814 requires pseudorandom ports (policy: random)."
        names = f"{', '.join(absent)}: not in the file, so fixed, siitperf's default"
        source.comments.append(f"{names}; {text}")
    source.comments += [
        "Frame size, repetitions, resolution, n and m are the scripts' defaults: no background.",
        "siitperf's scripts report the last rate tried; v6t the highest that passed.",
        "The device's own addresses are not in the file: --dry-run prints those that were chosen.",
        "The device needs two neighbors, the tester's addresses; siitperf needs one for each host.",
    ]
    return source


def _swap_sides(name: str) -> str:
    for one, other in (("-L-", "-R-"), ("Fwd-", "Rev-"), ("Forward", "Reverse")):
        if one in name:
            return name.replace(one, other)
        if other in name:
            return name.replace(other, one)
    return name


def _read_stateless(source: Migration, versions: tuple[str, str]) -> dict[str, Any]:
    if versions in ORIENTATIONS:
        plugin, params = "siit", _read_translator(source, ORIENTATIONS[versions])
    else:
        plugin, params = f"ipv{versions[0]}-router", _read_router(source, versions[0])
    params |= {row[2]: source.read_ports(*row) for row in PORT_PARAMETERS}
    sizes = [64 if plugin == "ipv4-router" else 84]
    run = {"plugin": plugin, "params": params, "benchmarks": ["throughput"], "frame_sizes": sizes}
    return run | {"procedure": {"resolution_fps": 1000}}


def _read_translator(source: Migration, orientation: str) -> dict[str, Any]:
    """Return the settings of a translator, from the real and virtual addresses of its hosts."""
    v6, v4 = ("L", "R") if orientation == "nat64" else ("R", "L")
    inside4 = source.read_string(f"IPv4-{v6}-Virt", "198.18.0.2", "params.ipv6_hosts, params.eam")
    inside6 = source.read_string(f"IPv6-{v6}-Real", "2001:2::2", "params.eam, params.bg_ipv6_side")
    outside4 = source.read_string(f"IPv4-{v4}-Real", "198.19.0.2", "params.ipv4_hosts, params.eam")
    outside6 = source.read_string(f"IPv6-{v4}-Virt", "2001:2:0:1000::2", "params.eam")
    beyond = source.read_string(f"IPv6-{v4}-Real", "2001:2:0:8000::2", "params.bg_ipv4_side")
    source.check_single_network("a translator's hosts must be in one network on each side")
    hosts6, eam6 = _read_hosts(source, v6, "ipv6_hosts", inside4, inside6)
    hosts4, eam4 = _read_hosts(source, v4, "ipv4_hosts", outside4, outside6)
    params = {"orientation": orientation, "ipv6_hosts": hosts6, "ipv4_hosts": hosts4}
    params |= {"eam": [eam6, eam4], "bg_ipv6_side": inside6}
    if not beyond.strip("0.:"):  # siitperf's mark of an unused address
        text = "background traffic needs an address there (params.bg_ipv4_side)."
        source.comments.append(f"IPv6-{v4}-Real {beyond}: {text}")
        return params
    return params | {"bg_ipv4_side": beyond}


def _read_hosts(
    source: Migration, side: str, name: str, ipv4: str, ipv6: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the hosts of a side and the explicit address mapping that covers them.

    siitperf replaces the same 16 bits in both forms of an address.
    """
    policy = source.read_policy(f"IP-{side}-var", f"params.{name}.policy")
    low = source.read_int(f"IP-{side}-min", 0, f"params.{name}.first")
    high = source.read_int(f"IP-{side}-max", 0, f"params.{name}.last")
    offset4 = source.read_int(f"IPv4-{side}-offset", 2, "params.eam")
    offset6 = source.read_int(f"IPv6-{side}-offset", 14, "params.eam")
    if policy == "fixed":
        return {"first": ipv4}, {"ipv4": f"{ipv4}/32", "ipv6": f"{ipv6}/128"}
    source.check_host_range(side, low, high)
    if offset4 != 2:
        problem, hint = "only 2 can be converted", "vary the last 16 bits"
        raise source.make_error(f"IPv4-{side}-offset", problem, hint)
    try:
        net4, packed6 = int(IPv4Address(ipv4)) >> 16 << 16, bytearray(IPv6Address(ipv6).packed)
    except ValueError as exc:
        problem = f"{source.path}: addresses of the {side} side: {exc}"
        raise UsageError(problem, code="invalid-foreign-file") from exc
    max_offset = LAST_16_BITS_OFFSET["6"]
    if not 0 <= offset6 <= max_offset or any(packed6[offset6 + 2 :]):
        problem = f"no mapping of RFC 7757 has varying bits before the fixed end of {ipv6}"
        hint = f"let the last 16 bits vary: {max_offset}"
        raise source.make_error(f"IPv6-{side}-offset", problem, hint)
    packed6[offset6 : offset6 + 2] = bytes(2)
    first, last = (str(IPv4Address(net4 | value)) for value in (low, high))
    network6 = f"{IPv6Address(bytes(packed6))}/{8 * offset6}"
    hosts = {"first": first, "last": last, "policy": policy}
    return hosts, {"ipv4": f"{IPv4Address(net4)}/16", "ipv6": network6}


def _read_router(source: Migration, version: str) -> dict[str, Any]:
    params: dict[str, Any] = {}
    *defaults, low, high, octet = ROUTER_HOSTS[version]
    for letter, side, host in zip("LR", ("left", "right"), defaults, strict=True):
        target = f"params.{side}_hosts"
        address, networks = f"IPv{version}-{letter}-Real", f"Num-{letter}-Nets"
        table = {f"{side}_ipv{version}": (address, host), f"{side}_networks": (networks, 1)}
        params |= source.read_params(table)
        policy = source.read_policy(f"IP-{letter}-var", f"{target}.policy")
        varying: dict[str, Any] = source.read_bounds(f"IP-{letter}", target, low, high)
        name = f"IPv{version}-{letter}-offset"
        varying["offset"] = source.read_int(name, octet, f"{target}.offset")
        params[f"{side}_hosts"] = {"policy": policy, **({} if policy == "fixed" else varying)}
    return params


def _read_stateful(source: Migration, versions: tuple[str, str]) -> dict[str, Any]:
    """Return the run file settings of a stateful test; set the device of the testbed file.

    The Initiator is on the left of ``source``; the first of ``versions`` is its IP version.
    """
    source.read_string("Stateful", "1", "plugin; testbed: initiator")
    if versions not in STATEFUL_PLUGINS:
        names = " to ".join(f"IPv{version}" for version in versions)
        problem = f"{source.path}: a stateful test from {names} cannot be converted"
        hint = "NAT64 (6 to 4) and NAT44 (4 to 4) can; `v6t plugins` lists what v6t measures"
        raise UsageError(problem, hint, code="invalid-foreign-file")
    plugin = STATEFUL_PLUGINS[versions]
    params = _read_ports(source) | _read_addresses(source, versions[0])
    _adjust_ports(source, params)
    params |= _choose_pool(params)
    target = "procedure.connections.reading"
    reading = READING_ORDERS[source.read_choice("Responder-tuples", "0", target, READING_ORDERS)]
    count = min(_count_tuples(params), MAX_CONNECTIONS)
    connections = {"count": count, "reading": reading, "resolution_cps": 1000}
    source.comments += [
        "N, M, R, T and D are count, entries, rate_cps, wait_ms and gap_ms of connections.",
        f"Public addresses are chosen: {params['pool_count']} from {params['pool_first']} on.",
        "Every connection is tested after phase 1 (RFC 9693), and none may be lost.",
        "dut.options.hooks.flush of the testbed is an example: empty your device's table there.",
    ]
    flush = {"flush": f"ssh root@dut {FLUSH_COMMANDS[plugin]}"}
    source.testbed = {"dut": {"options": {"hooks": flush}}}
    sizes, benchmarks = [84 if plugin == "nat64" else 64], ["connection-rate", "throughput"]
    run = {"plugin": plugin, "params": params, "benchmarks": benchmarks, "frame_sizes": sizes}
    return run | {"procedure": {"resolution_fps": 1000, "connections": connections}}


def _read_ports(source: Migration) -> dict[str, Any]:
    params: dict[str, Any] = {
        "initiator_ports": source.read_bounds("Fwd-sport", "params.initiator_ports", 1024, 65535),
        "responder_ports": source.read_bounds("Fwd-dport", "params.responder_ports", 1, 49151),
    }
    for name, known in (("ports", ENUMERATION_MODES), ("ips", tuple(VARIATION_POLICIES))):
        target = f"enumerate_{name}"
        mode = source.read_choice(f"Enumerate-{name}", "0", f"params.{target}", known)
        params[target] = min(int(mode), 3)
    return params


def _adjust_ports(source: Migration, params: dict[str, Any]) -> None:
    """Change port ranges and enumeration so that each frame opens a different connection."""
    if not params["enumerate_ports"] and not params["enumerate_ips"]:
        several = params["initiator_count"] > 1 and params["responder_count"] > 1
        params |= {"enumerate_ports": 3, "enumerate_ips": 3 if several else 0}
        text = "Without enumeration, frames would repeat connections: enumerate_ports is 3 here."
        source.comments.append(text)
    elif not params["enumerate_ports"]:
        params["initiator_ports"] = {"min": FIXED_SOURCE, "max": FIXED_SOURCE}
        params["responder_ports"] = {"min": FIXED_DESTINATION, "max": FIXED_DESTINATION}
        text = "Ports are not enumerated: they are siitperf's fixed ones"
        source.comments.append(f"{text}, {FIXED_SOURCE} and {FIXED_DESTINATION}.")
    low, high = params["initiator_ports"].values()
    if low < MIN_PORT and high - low < PUBLIC_PORTS:
        text = f"Source ports {low}-{high} are replaced by as many from {MIN_PORT} on"
        source.comments.append(f"{text}: a NAT maps lower ports to the few lower ones (RFC 6146).")
        params["initiator_ports"] = {"min": MIN_PORT, "max": high + MIN_PORT - low}
    elif low < MIN_PORT:
        params["low_ports"] = True


def _read_addresses(source: Migration, version: str) -> dict[str, Any]:
    """Return the first addresses and the address counts of Initiator and Responder.

    An Initiator with IPv6 sends to ``IPv6-R-Virt``, and varies it at ``IPv6-R-offset``.
    """
    name = f"initiator_ipv{version}"
    default = "2001:2::2" if version == "6" else "198.18.0.2"
    initiator = source.read_address(f"IPv{version}-L-Real", version, default, f"params.{name}")
    params: dict[str, Any] = {}
    if version == "6":
        target = "params.prefix and params.responder_ipv4"
        address = source.read_address("IPv6-R-Virt", "6", "64:ff9b::198.19.0.2", target)
        server = int(IPv6Address(address))
        responder = str(IPv4Address(server & 0xFFFFFFFF))
        params["prefix"] = str(IPv6Network((server >> 32 << 32, 96)))
        unused = source.read_address("IPv4-R-Real", "4", responder, NOT_USED)
        if unused not in (responder, "0.0.0.0"):  # noqa: S104
            text = f"the Responder is {responder}, the end of IPv6-R-Virt."
            source.comments.append(f"IPv4-R-Real {unused} is unused, as in siitperf: {text}")
    else:
        responder = source.read_address("IPv4-R-Real", "4", "198.19.0.2", "params.responder_ipv4")
    low, params["initiator_count"], octet = _read_host_range(source, "L", "initiator", version)
    if low is not None:
        last = LAST_16_BITS_OFFSET[version]
        if octet != last:
            if version == "4" or not MIN_IPV6_OFFSET <= octet < last:
                raise source.make_error(f"IPv{version}-L-offset", *UNSUPPORTED_OFFSET_ERROR)
            params["initiator_offset"] = octet
        initiator = _replace_16_bits(initiator, octet, low)
    low, params["responder_count"], octet = _read_host_range(source, "R", "responder", version)
    if low is not None:
        if octet != LAST_16_BITS_OFFSET[version]:
            raise source.make_error(f"IPv{version}-R-offset", *UNSUPPORTED_OFFSET_ERROR)
        responder = _replace_16_bits(responder, LAST_16_BITS_OFFSET["4"], low)
    source.check_single_network("a stateful test must have one network on each side")
    return {name: initiator, "responder_ipv4": responder, **params}


def _read_host_range(
    source: Migration, side: str, name: str, version: str
) -> tuple[int | None, int, int]:
    """Return the first value, count and offset of a side's varying 16 bits; None, 1 if fixed."""
    target = f"params.{name}_count"
    policy = source.read_policy(f"IP-{side}-var", target)
    low, high = (source.read_int(f"IP-{side}-{end}", 0, target) for end in ("min", "max"))
    last = LAST_16_BITS_OFFSET[version]
    octet = source.read_int(f"IPv{version}-{side}-offset", last, target)
    if policy == "fixed":
        return None, 1, last
    source.check_host_range(side, low, high)
    return low, high - low + 1, octet


def _replace_16_bits(address: str, octet: int, value: int) -> str:
    packed = bytearray(ip_address(address).packed)
    packed[octet : octet + 2] = value.to_bytes(2, "big")
    return str(ip_address(bytes(packed)))


def _choose_pool(params: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a public address pool that suffices for all connections."""
    responder = int(IPv4Address(params["responder_ipv4"]))
    last = responder + params["responder_count"] - 1
    end = responder | 0xFF00
    first = (end & ~0xFF) + 1 if last < end & ~0xFF else (responder & ~0xFFFF) - 0xFF
    room = PUBLIC_PORTS * params["responder_count"] * _count_ports(params["responder_ports"])
    count = -(-_count_tuples(params) // room) if params["enumerate_ports"] else 1
    return {"pool_first": str(IPv4Address(first)), "pool_count": max(1, count)}


def _count_ports(bounds: dict[str, int]) -> int:
    return bounds["max"] - bounds["min"] + 1


def _count_tuples(params: dict[str, Any]) -> int:
    total = 1
    if params["enumerate_ports"]:
        total *= _count_ports(params["initiator_ports"]) * _count_ports(params["responder_ports"])
    if params["enumerate_ips"]:
        total *= params["initiator_count"] * params["responder_count"]
    return total
