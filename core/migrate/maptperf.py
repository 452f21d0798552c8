"""mapperf.conf and maptperf.conf, the files of Mapperf and Maptperf."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from pathlib import Path
from typing import Any

from v6t.base.errors import UsageError
from v6t.core.migrate.common import POLICIES, Imported, Parameters, modes, ports

KNOWN = (
    *("Tester-L-IPv6", "Tester-R-IPv6", "Tester-R-IPv4", "DUT-L-IPv6"),
    *("Tester-L-MAC", "Tester-R-MAC", "DUT-L-MAC", "DUT-R-MAC"),
    *("FW-dport-min", "FW-dport-max", "RV-sport-min", "RV-sport-max"),
    *("bg-dport-min", "bg-dport-max", "bg-sport-min", "bg-sport-max"),
    *("FW-var-sport", "FW-var-dport", "RV-var-sport", "RV-var-dport", "NUM-OF-CEs"),
    *("BMR-IPv6-Prefix", "BMR-IPv6-prefix-length", "BMR-IPv4-Prefix", "BMR-IPv4-prefix-length"),
    *("BMR-EA-length", "DMR-IPv6-Prefix", "DMR-IPv6-prefix-length"),
    *("CPU-FW-Send", "CPU-FW-Receive", "CPU-RV-Send", "CPU-RV-Receive"),
    *("Mem-Channels", "FW", "RV", "Promisc"),
)
ALIASES = {
    "bmr-ea-len": "BMR-EA-length",
    # v1.3's own spelling
    "bmr-ipv6-prefx-length": "BMR-IPv6-prefix-length",
    "bmr-ipv4-prefx-length": "BMR-IPv4-prefix-length",
    "dmr-ipv6-prefx-length": "DMR-IPv6-prefix-length",
}
PLUGINS = ("mape-br", "mapt-br")


def read_maptperf(path: Path, plugin: str | None = None) -> Imported:
    """Translate a configuration file of Mapperf or Maptperf.

    Args:
        path: the file.
        plugin: ``mape-br`` or ``mapt-br``; None: MAP-E where the file names the BR's address.

    Raises:
        UsageError: what is wrong in the file, with its line.
    """
    p = Parameters(path, KNOWN, ALIASES)
    if plugin not in (None, *PLUGINS):
        raise UsageError(
            f"this file is not for {plugin}",
            "--plugin " + " or ".join(PLUGINS),
            code="wrong-kind-of-file",
        )
    chosen = plugin or ("mape-br" if p.has("DUT-L-IPv6") else "mapt-br")
    imported = Imported()
    params = _addresses(p, imported, chosen) | _rule(p, chosen) | _ports(p)
    imported.run = {
        "plugin": chosen,
        "params": params,
        "preset": "rfc",
        "benchmarks": ["throughput"],
        "modes": modes(p, "FW", "RV"),
        "frame_sizes": [104 if chosen == "mape-br" else 84],
        "procedure": {"resolution_fps": 1000},
    }
    imported.testbed = {
        "tester": {"kind": "trex"},
        "links": {side: _link(p, side) for side in ("left", "right")},
        "line_rate": "10G",
    }
    cores = ("CPU-FW-Send", "CPU-FW-Receive", "CPU-RV-Send", "CPU-RV-Receive")
    p.explain(cores, "none: tester.options.core_list in the testbed file")
    p.explain(["Mem-Channels"], "none: TRex configures its memory itself")
    p.explain(["Promisc"], "none: the tester always receives promiscuously")
    imported.remarks += [
        f"{chosen} because "
        + (
            "--plugin says so"
            if plugin
            else "the file names the BR's address (DUT-L-IPv6)"
            if chosen == "mape-br"
            else "the file names no BR address: --plugin mape-br is MAP-E"
        ),
        "Frame size, repetitions and resolution are arguments of the peer's scripts, not in the "
        "file: preset and procedure have the scripts' defaults.",
        "psid_offset is 0, the only one the peer knows; RFC 7597's default is 6.",
        "The peer leaves out IPv4 suffixes of all zeros and all ones: exclude_network_broadcast.",
        "Foreground and background are spread evenly here; the peer sends them in bursts.",
        "Frame sizes are of the IPv6 frame; the peer's argument differs by operation mode.",
    ]
    imported.became = p.became()
    return imported


def _addresses(p: Parameters, imported: Imported, plugin: str) -> dict[str, Any]:
    left = p.text("Tester-L-IPv6", "2001:db8:6::2", "params.tester_left_ipv6")
    right = p.text("Tester-R-IPv6", "2001:db8:7::2", "params.tester_right_ipv6")
    server = p.text("Tester-R-IPv4", "203.0.113.56", "params.server_ipv4")
    try:
        beside = {
            "dut_right_ipv6": f"{_beside6(right)}/64",
            "dut_right_ipv4": f"{_beside4(server)}/24",
        }
        own = str(_beside6(left))
    except ValueError as exc:
        raise UsageError(f"{p.path}: {exc}", code="invalid-foreign-file") from exc
    imported.remarks.append(
        "The device's own addresses are not in the file; chosen beside the tester's: "
        + ", ".join(f"{k} {v}" for k, v in beside.items())
    )
    params = {
        "tester_left_ipv6": left,
        "tester_right_ipv6": right,
        "server_ipv4": server,
        **beside,
    }
    if plugin == "mape-br":
        return {**params, "br_address": p.text("DUT-L-IPv6", own, "params.br_address")}
    address = p.text("DUT-L-IPv6", own, "params.dut_left_ipv6")
    return {**params, "dut_left_ipv6": f"{address}/64"}


def _beside6(address: str) -> IPv6Address:
    """Return the first address of the same /64 that is not the tester's."""
    network = IPv6Interface(f"{address}/64").network
    return network[1] if network[1] != IPv6Address(address) else network[2]


def _beside4(address: str) -> IPv4Address:
    network = IPv4Interface(f"{address}/24").network
    return network[1] if network[1] != IPv4Address(address) else network[2]


def _rule(p: Parameters, plugin: str) -> dict[str, Any]:
    v6 = p.text("BMR-IPv6-Prefix", "2001:db8:ce::", "params.rule_ipv6")
    v4 = p.text("BMR-IPv4-Prefix", "192.0.2.0", "params.rule_ipv4")
    rule = {
        "rule_ipv6": f"{v6}/{p.number('BMR-IPv6-prefix-length', 51, 'params.rule_ipv6')}",
        "rule_ipv4": f"{v4}/{p.number('BMR-IPv4-prefix-length', 24, 'params.rule_ipv4')}",
        "ea_len": p.number("BMR-EA-length", 13, "params.ea_len"),
        "psid_offset": 0,
        "ces": p.number("NUM-OF-CEs", 1000, "params.ces"),
        "exclude_network_broadcast": True,
    }
    if plugin == "mape-br":
        dmr = ("DMR-IPv6-Prefix", "DMR-IPv6-prefix-length")
        p.explain(dmr, "none: MAP-E has no default mapping rule")
        return rule
    prefix = p.text("DMR-IPv6-Prefix", "64:ff9b::", "params.dmr")
    length = p.number("DMR-IPv6-prefix-length", 64, "params.dmr")
    return {**rule, "dmr": f"{prefix}/{length}"}


def _ports(p: Parameters) -> dict[str, Any]:
    kinds = {k: v for k, v in POLICIES.items() if k != "0"}
    background = {
        here: {
            "policy": "random",
            "min": p.number(f"{name}-min", low, f"params.{here}.min"),
            "max": p.number(f"{name}-max", high, f"params.{here}.max"),
        }
        for here, name, low, high in (
            ("bg_sport", "bg-sport", 1024, 65535),
            ("bg_dport", "bg-dport", 1, 49151),
        )
    }
    return {
        "fw_sport": kinds[p.choice("FW-var-sport", "3", "params.fw_sport", kinds)],
        "fw_dport": ports(p, "FW-var-dport", "FW-dport", "fw_dport", (1, 49151)),
        "rv_sport": ports(p, "RV-var-sport", "RV-sport", "rv_sport", (1024, 65535)),
        "rv_dport": kinds[p.choice("RV-var-dport", "3", "params.rv_dport", kinds)],
        **background,
    }


def _link(p: Parameters, side: str) -> dict[str, str]:
    letter = side[0].upper()
    number = "1" if side == "left" else "2"
    return {
        "tester_mac": p.text(f"Tester-{letter}-MAC", f"02:00:00:00:0{number}:02",
                             f"testbed: links.{side}.tester_mac"),
        "dut_mac": p.text(f"DUT-{letter}-MAC", f"02:00:00:00:0{number}:01",
                          f"testbed: links.{side}.dut_mac"),
    }  # fmt: skip
