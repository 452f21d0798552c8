"""siitperf.conf, the file of siitperf."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

from v6t.base.errors import UsageError
from v6t.core.migrate.common import POLICIES, Imported, Parameters, modes, ports
from v6t.core.migrate.siitperf_stateful import PLUGINS, emptied, stateful

SIDES = (("L", "left"), ("R", "right"))
PORTS = (
    ("Fwd-var-sport", "Fwd-sport", "fw_sport", (1024, 65535)),
    ("Fwd-var-dport", "Fwd-dport", "fw_dport", (1, 49151)),
    ("Rev-var-sport", "Rev-sport", "rv_sport", (1024, 65535)),
    ("Rev-var-dport", "Rev-dport", "rv_dport", (1, 49151)),
)
CORES = ("CPU-L-Send", "CPU-R-Recv", "CPU-R-Send", "CPU-L-Recv")
KNOWN = (
    *("IP-L-Vers", "IP-R-Vers", "Forward", "Reverse", "Promisc", "MEM-Channels", *CORES),
    *(f"IPv{v}-{s}-{kind}" for v in "64" for s in "LR" for kind in ("Real", "Virt")),
    *(f"MAC-{s}-{end}" for end in ("Tester", "DUT") for s in "LR"),
    *(f"Num-{s}-Nets" for s in "LR"),
    *(
        name
        for policy, ports_, _, _ in PORTS
        for name in (policy, f"{ports_}-min", f"{ports_}-max")
    ),
    *(f"IP-{s}-{what}" for s in "LR" for what in ("var", "min", "max")),
    *(f"IPv{v}-{s}-offset" for v in "64" for s in "LR"),
    *("Stateful", "Enumerate-ports", "Enumerate-ips", "Responder-tuples"),
)
ALIASES = {"responder-ports": "Responder-tuples"}
_SIITS = {("6", "4"): "nat64", ("4", "6"): "nat46"}


def read_siitperf(path: Path) -> Imported:
    """Translate a configuration file of siitperf.

    Raises:
        UsageError: what is wrong in the file, with its line; a test v6t cannot make.
    """
    p = Parameters(path, KNOWN, ALIASES)
    kind = p.choice("Stateful", "0", "none: stateless", ("0", "1", "2"))
    versions = (
        p.choice("IP-L-Vers", "6", "plugin", ("4", "6")),
        p.choice("IP-R-Vers", "4", "plugin", ("4", "6")),
    )
    letters = "LR"
    if kind == "2":  # the Initiator is on the right: read as if it was on the left
        p, letters = p.turned({name: _other(name) for name in KNOWN}), "RL"
        versions = versions[::-1]
    imported = Imported()
    if kind != "0":
        plugin = stateful(p, versions, imported)
        device = emptied(plugin, imported)
    else:
        device = {}
        if versions in _SIITS:
            plugin, params = "siit", _siit(p, imported, _SIITS[versions])
        else:
            plugin, params = f"ipv{versions[0]}-router", _router(p, versions[0])
        imported.run = {
            "plugin": plugin,
            "params": {**params, **{h: ports(p, k, n, h, b) for k, n, h, b in PORTS}},
            "benchmarks": ["throughput"],
            "frame_sizes": [64 if plugin == "ipv4-router" else 84],
            "procedure": {"resolution_fps": 1000},
        }
    imported.run |= {"preset": "rfc", "modes": modes(p, "Forward", "Reverse")}
    imported.testbed = {
        "tester": {"kind": "trex"},
        "links": {
            side: _link(p, letter, side)
            for letter, side in zip(letters, ("left", "right"), strict=True)
        },
        **({"initiator": "right"} if kind == "2" else {}),
        "line_rate": "10G",
        **device,
    }
    _explain(p, versions)
    absent = [policy for policy, _, _, _ in PORTS if not p.has(policy)]
    if absent and plugin not in PLUGINS.values():
        imported.remarks.append(
            f"{', '.join(absent)}: not in the file, so fixed, siitperf's default; RFC 4814 asks "
            "for pseudorandom ports (policy: random)."
        )
    imported.remarks += [
        "Frame size, repetitions, resolution and the shares n and m of foreground frames are "
        "arguments of siitperf's scripts, not in the file: preset and procedure have the scripts' "
        "defaults, and there is no background.",
        "siitperf's scripts report the last rate tried; v6t the highest that passed.",
        "The device's own addresses are not in the file: --dry-run prints those that were chosen.",
        "Neighbours of the device are the tester's two link addresses; siitperf needs a static "
        "entry for every host.",
    ]
    imported.became = p.became()
    return imported


def _other(name: str) -> str:
    """Return the parameter that says the same of the other side, or of the other way."""
    pairs = (("-L-", "-R-"), ("Fwd-", "Rev-"), ("Forward", "Reverse"))
    for one, other in pairs:
        if one in name:
            return name.replace(one, other)
        if other in name:
            return name.replace(other, one)
    return name


def _siit(p: Parameters, imported: Imported, orientation: str) -> dict[str, Any]:
    """Addresses of a translation: real on one side, virtual on the other."""
    v6, v4 = ("L", "R") if orientation == "nat64" else ("R", "L")
    inside4 = p.text(f"IPv4-{v6}-Virt", "198.18.0.2", "params.ipv6_hosts, params.eam")
    inside6 = p.text(f"IPv6-{v6}-Real", "2001:2::2", "params.eam, params.bg_ipv6_side")
    outside4 = p.text(f"IPv4-{v4}-Real", "198.19.0.2", "params.ipv4_hosts, params.eam")
    outside6 = p.text(f"IPv6-{v4}-Virt", "2001:2:0:1000::2", "params.eam")
    beyond = p.text(f"IPv6-{v4}-Real", "2001:2:0:8000::2", "params.bg_ipv4_side")
    unused = (f"IPv6-{v6}-Virt", f"IPv4-{v6}-Real", f"IPv4-{v4}-Virt")
    p.explain(unused, f"none: not used when the left side is IPv{'6' if v6 == 'L' else '4'}")
    for letter, _ in SIDES:
        if p.number(f"Num-{letter}-Nets", 1, "none: one pair of hosts") > 1:
            raise p.refuse(
                f"Num-{letter}-Nets",
                "a translator's hosts are in one network on either side",
                "set it to 1, or vary addresses (IP-L-var, IP-R-var)",
            )
    hosts6, eam6 = _hosts(p, v6, "ipv6_hosts", inside4, inside6)
    hosts4, eam4 = _hosts(p, v4, "ipv4_hosts", outside4, outside6)
    params = {
        "orientation": orientation,
        "ipv6_hosts": hosts6,
        "ipv4_hosts": hosts4,
        "eam": [eam6, eam4],
        "bg_ipv6_side": inside6,
    }
    if _is_unspecified(beyond):
        imported.remarks.append(
            f"IPv6-{v4}-Real {beyond}: background traffic needs an address there "
            "(params.bg_ipv4_side)."
        )
        return params
    return params | {"bg_ipv4_side": beyond}


def _is_unspecified(address: str) -> bool:
    """Whether siitperf's author wrote 'not used'."""
    try:
        return ip_address(address).is_unspecified
    except ValueError:
        return False


def _hosts(
    p: Parameters, letter: str, name: str, ipv4: str, ipv6: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Hosts of one side, and the mapping that holds them.

    siitperf replaces the same 16 bits in both forms of an address.
    """
    kind = p.choice(f"IP-{letter}-var", "0", f"params.{name}.policy", POLICIES)
    low = p.number(f"IP-{letter}-min", 0, f"params.{name}.first")
    high = p.number(f"IP-{letter}-max", 0, f"params.{name}.last")
    offset4 = p.number(f"IPv4-{letter}-offset", 2, "params.eam")
    offset6 = p.number(f"IPv6-{letter}-offset", 14, "params.eam")
    if kind == "0":
        return {"first": ipv4}, {"ipv4": f"{ipv4}/32", "ipv6": f"{ipv6}/128"}
    if not 0 <= low <= high <= 0xFFFF:
        raise p.refuse(f"IP-{letter}-max", f"not within {low} to 65535", "correct the range")
    if offset4 != 2:
        raise p.refuse(f"IPv4-{letter}-offset", "only 2 can be converted", "vary the last 16 bits")
    try:
        net4, packed6 = int(IPv4Address(ipv4)) >> 16 << 16, bytearray(IPv6Address(ipv6).packed)
    except ValueError as exc:
        raise UsageError(
            f"{p.path}: addresses of the {letter} side: {exc}", code="invalid-foreign-file"
        ) from exc
    packed6[offset6 : offset6 + 2] = bytes(2)
    if any(packed6[offset6 + 2 :]):
        raise p.refuse(
            f"IPv6-{letter}-offset",
            f"no mapping of RFC 7757 has varying bits before the fixed end of {ipv6}",
            "let the last 16 bits vary: 14",
        )
    first, last = (str(IPv4Address(net4 | value)) for value in (low, high))
    return (
        {"first": first, "last": last, "policy": POLICIES[kind]},
        {
            "ipv4": f"{IPv4Address(net4)}/16",
            "ipv6": f"{IPv6Address(bytes(packed6))}/{8 * offset6}",
        },
    )


def _router(p: Parameters, version: str) -> dict[str, Any]:
    """Hosts and networks on both sides of a router."""
    params: dict[str, Any] = {}
    defaults = {"4": ("198.18.0.2", "198.19.0.2"), "6": ("2001:2::2", "2001:2:0:8000::2")}
    spans = {"4": (2, 65534, 2), "6": (0, 65535, 12)}
    for (letter, side), host in zip(SIDES, defaults[version], strict=True):
        name = f"{side}_ipv{version}"
        params[name] = p.text(f"IPv{version}-{letter}-Real", host, f"params.{name}")
        networks = f"{side}_networks"
        params[networks] = p.number(f"Num-{letter}-Nets", 1, f"params.{networks}")
        hosts, (low, high, offset) = f"{side}_hosts", spans[version]
        kind = POLICIES[p.choice(f"IP-{letter}-var", "0", f"params.{hosts}.policy", POLICIES)]
        values = {
            "min": p.number(f"IP-{letter}-min", low, f"params.{hosts}.min"),
            "max": p.number(f"IP-{letter}-max", high, f"params.{hosts}.max"),
            "offset": p.number(f"IPv{version}-{letter}-offset", offset, f"params.{hosts}.offset"),
        }
        params[hosts] = {"policy": kind} if kind == "fixed" else {"policy": kind, **values}
        other = "6" if version == "4" else "4"
        p.explain(
            [
                f"IPv{version}-{letter}-Virt",
                *(f"IPv{other}-{letter}-{k}" for k in ("Real", "Virt")),
            ],
            f"none: not used when both sides are IPv{version}",
        )
    return params


def _link(p: Parameters, letter: str, side: str) -> dict[str, str]:
    number = "1" if side == "left" else "2"
    return {
        "tester_mac": p.text(f"MAC-{letter}-Tester", f"02:00:00:00:0{number}:02",
                             f"testbed: links.{side}.tester_mac"),
        "dut_mac": p.text(f"MAC-{letter}-DUT", f"02:00:00:00:0{number}:01",
                          f"testbed: links.{side}.dut_mac"),
    }  # fmt: skip


def _explain(p: Parameters, versions: tuple[str, str]) -> None:
    p.explain(CORES, "none: tester.options.core_list in the testbed file")
    p.explain(["MEM-Channels"], "none: TRex configures its memory itself")
    p.explain(["Promisc"], "none: the tester always receives promiscuously")
    p.explain(["Enumerate-ports", "Enumerate-ips", "Responder-tuples"], "none: stateful tests only")
    offsets = [f"IPv{v}-{s}-offset" for v in "64" for s in "LR"]
    p.explain(offsets, f"none: not used between IPv{versions[0]} and IPv{versions[1]}")
