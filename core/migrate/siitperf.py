"""siitperf.conf, the file of siitperf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    """What a configuration file of siitperf is here.

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
        "siitperf's scripts report the last rate tried; v6t the highest that passed (TP-03).",
        "The device's own addresses are not in the file: --dry-run prints those that were chosen.",
        "Neighbours of the device are the tester's two link addresses; siitperf needs a static "
        "entry for every host (GEN-27).",
    ]
    imported.became = p.became()
    return imported


def _other(name: str) -> str:
    """The parameter that says the same of the other side, or of the other way."""
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
    for letter, side in SIDES:
        if p.number(f"Num-{letter}-Nets", 1, "none: one pair of hosts") > 1:
            imported.remarks.append(
                f"Num-{letter}-Nets: several networks on the {side} of a translator are written as "
                "a longer host range and mappings that hold it (params.ipv6_hosts, ipv4_hosts, eam)"
            )
        if p.choice(f"IP-{letter}-var", "0", "none: see the remarks", POLICIES) != "0":
            imported.remarks.append(
                f"IP-{letter}-var: varying hosts of a translator are written as a range with first, "
                "last and policy (params.ipv6_hosts, ipv4_hosts) within a mapping that holds it"
            )
    varying = [f"IP-{s}-{what}" for s in "LR" for what in ("min", "max")]
    p.explain(varying, "none: see the remarks on IP-L-var and IP-R-var")
    return {
        "orientation": orientation,
        "ipv6_hosts": {"first": inside4},
        "ipv4_hosts": {"first": outside4},
        "eam": [
            {"ipv4": f"{inside4}/32", "ipv6": f"{inside6}/128"},
            {"ipv4": f"{outside4}/32", "ipv6": f"{outside6}/128"},
        ],
        "bg_ipv6_side": inside6,
        "bg_ipv4_side": beyond,
    }


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
