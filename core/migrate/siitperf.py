"""siitperf.conf, the file of siitperf."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

from v6t.base.errors import UsageError
from v6t.core.migrate.migration import NOT_USED, Migration
from v6t.core.migrate.siitperf_stateful import STATEFUL_PLUGINS, convert_stateful

SIDES = (("L", "left"), ("R", "right"))  # letter in siitperf's parameter names, and side
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


def read_siitperf(path: Path) -> Migration:
    """Convert a configuration file of siitperf."""
    source = Migration(path, KNOWN_PARAMETERS, PARAMETER_ALIASES)
    kind = source.read_choice("Stateful", "0", NOT_USED, ("0", "1", "2"))
    left = source.read_choice("IP-L-Vers", "6", "plugin", ("4", "6"))
    right = source.read_choice("IP-R-Vers", "4", "plugin", ("4", "6"))
    letters, versions = "LR", (left, right)
    if kind == "2":  # the Initiator is on the right: read as if it was on the left
        source.rename_parameters(_swap_sides)
        letters, versions = "RL", (right, left)
    device = convert_stateful(source, versions) if kind != "0" else {}
    if kind == "0":
        _convert_stateless(source, versions)
    source.run |= {"preset": "rfc", "modes": source.read_modes("Forward", "Reverse")}
    source.testbed = {
        "tester": {"kind": "trex"},
        "links": source.read_mac_addresses("MAC-{}-Tester", "MAC-{}-DUT", letters),
        **({"initiator": "right"} if kind == "2" else {}),
        "line_rate": "10G",
        **device,
    }
    absent = [policy for policy, *_ in PORT_PARAMETERS if not source.has_parameter(policy)]
    if absent and source.run["plugin"] not in STATEFUL_PLUGINS.values():
        source.comments.append(
            f"{', '.join(absent)}: not in the file, so fixed, siitperf's default; RFC 4814 "
            "requires pseudorandom ports (policy: random)."
        )
    source.comments += [
        "Frame size, repetitions, resolution and the shares n and m of foreground frames are "
        "arguments of siitperf's scripts, not in the file: preset and procedure have the scripts' "
        "defaults, and there is no background.",
        "siitperf's scripts report the last rate tried; v6t the highest that passed.",
        "The device's own addresses are not in the file: --dry-run prints those that were chosen.",
        "Neighbours of the device are the tester's two link addresses; siitperf needs a static "
        "entry for every host.",
    ]
    return source


def _swap_sides(name: str) -> str:
    """Return the name of the same parameter for the other side or direction."""
    for one, other in (("-L-", "-R-"), ("Fwd-", "Rev-"), ("Forward", "Reverse")):
        if one in name:
            return name.replace(one, other)
        if other in name:
            return name.replace(other, one)
    return name


def _convert_stateless(source: Migration, versions: tuple[str, str]) -> None:
    """Set ``source.run`` to the settings of a stateless test."""
    if versions in ORIENTATIONS:
        plugin, params = "siit", _read_translator(source, ORIENTATIONS[versions])
    else:
        plugin, params = f"ipv{versions[0]}-router", _read_router(source, versions[0])
    params |= {row[2]: source.read_ports(*row) for row in PORT_PARAMETERS}
    source.run = {
        "plugin": plugin,
        "params": params,
        "benchmarks": ["throughput"],
        "frame_sizes": [64 if plugin == "ipv4-router" else 84],
        "procedure": {"resolution_fps": 1000},
    }


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
    params = {
        "orientation": orientation,
        "ipv6_hosts": hosts6,
        "ipv4_hosts": hosts4,
        "eam": [eam6, eam4],
        "bg_ipv6_side": inside6,
    }
    if not beyond.strip("0.:"):  # siitperf's mark of an unused address
        source.comments.append(
            f"IPv6-{v4}-Real {beyond}: background traffic needs an address there "
            "(params.bg_ipv4_side)."
        )
        return params
    return params | {"bg_ipv4_side": beyond}


def _read_hosts(
    source: Migration, letter: str, name: str, ipv4: str, ipv6: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the hosts of a side and the explicit address mapping that covers them.

    siitperf replaces the same 16 bits in both forms of an address.
    """
    policy = source.read_policy(f"IP-{letter}-var", f"params.{name}.policy")
    low = source.read_number(f"IP-{letter}-min", 0, f"params.{name}.first")
    high = source.read_number(f"IP-{letter}-max", 0, f"params.{name}.last")
    offset4 = source.read_number(f"IPv4-{letter}-offset", 2, "params.eam")
    offset6 = source.read_number(f"IPv6-{letter}-offset", 14, "params.eam")
    if policy == "fixed":
        return {"first": ipv4}, {"ipv4": f"{ipv4}/32", "ipv6": f"{ipv6}/128"}
    source.check_host_range(letter, low, high)
    if offset4 != 2:
        raise source.make_error(
            f"IPv4-{letter}-offset", "only 2 can be converted", "vary the last 16 bits"
        )
    try:
        net4, packed6 = int(IPv4Address(ipv4)) >> 16 << 16, bytearray(IPv6Address(ipv6).packed)
    except ValueError as exc:
        raise UsageError(
            f"{source.path}: addresses of the {letter} side: {exc}", code="invalid-foreign-file"
        ) from exc
    packed6[offset6 : offset6 + 2] = bytes(2)
    if any(packed6[offset6 + 2 :]):
        problem = f"no mapping of RFC 7757 has varying bits before the fixed end of {ipv6}"
        raise source.make_error(f"IPv6-{letter}-offset", problem, "let the last 16 bits vary: 14")
    first, last = (str(IPv4Address(net4 | value)) for value in (low, high))
    network6 = f"{IPv6Address(bytes(packed6))}/{8 * offset6}"
    hosts = {"first": first, "last": last, "policy": policy}
    return hosts, {"ipv4": f"{IPv4Address(net4)}/16", "ipv6": network6}


def _read_router(source: Migration, version: str) -> dict[str, Any]:
    """Return the settings for the hosts and networks on both sides of a router."""
    params: dict[str, Any] = {}
    *defaults, low, high, octet = ROUTER_HOSTS[version]
    for (letter, side), host in zip(SIDES, defaults, strict=True):
        target = f"params.{side}_hosts"
        params |= source.read_params(
            {
                f"{side}_ipv{version}": (f"IPv{version}-{letter}-Real", host),
                f"{side}_networks": (f"Num-{letter}-Nets", 1),
            }
        )
        policy = source.read_policy(f"IP-{letter}-var", f"{target}.policy")
        varying: dict[str, Any] = source.read_bounds(f"IP-{letter}", target, low, high)
        varying["offset"] = source.read_number(
            f"IPv{version}-{letter}-offset", octet, f"{target}.offset"
        )
        params[f"{side}_hosts"] = {"policy": policy, **({} if policy == "fixed" else varying)}
    return params
