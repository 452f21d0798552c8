"""mapperf.conf and maptperf.conf, the files of Mapperf and Maptperf."""

from ipaddress import ip_address, ip_interface
from pathlib import Path
from typing import Any

from v6t.base.errors import UsageError
from v6t.core.migrate.migration import Migration

KNOWN_PARAMETERS = (  # names in configuration files of maptperf
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
PARAMETER_ALIASES = {  # known names by other spellings in lower case
    "bmr-ea-len": "BMR-EA-length",
    # spellings of version 1.3
    "bmr-ipv6-prefx-length": "BMR-IPv6-prefix-length",
    "bmr-ipv4-prefx-length": "BMR-IPv4-prefix-length",
    "dmr-ipv6-prefx-length": "DMR-IPv6-prefix-length",
}
MAP_PLUGINS = ("mape-br", "mapt-br")
ADDRESS_PARAMETERS = {  # name and default by setting
    "tester_left_ipv6": ("Tester-L-IPv6", "2001:db8:6::2"),
    "tester_right_ipv6": ("Tester-R-IPv6", "2001:db8:7::2"),
    "server_ipv4": ("Tester-R-IPv4", "203.0.113.56"),
}


def read_maptperf(path: Path, plugin: str | None = None) -> Migration:
    """Convert a file of Maptperf; without ``plugin``, choose MAP-E if it names a BR, else MAP-T."""
    source = Migration(path, KNOWN_PARAMETERS, PARAMETER_ALIASES)
    if plugin not in (None, *MAP_PLUGINS):
        problem = f"this file is not for {plugin}"
        raise UsageError(problem, "--plugin " + " or ".join(MAP_PLUGINS), code="wrong-kind-of-file")
    chosen = plugin or ("mape-br" if source.has_parameter("DUT-L-IPv6") else "mapt-br")
    reason = "the file contains no BR address; --plugin mape-br selects MAP-E"
    if chosen == "mape-br":
        reason = "the file contains the BR's address (DUT-L-IPv6)"
    if plugin:
        reason = "--plugin names it"
    params = _read_addresses(source, chosen) | _read_rules(source, chosen) | _read_ports(source)
    modes, sizes = source.read_modes("FW", "RV"), [104 if chosen == "mape-br" else 84]
    source.run = {"plugin": chosen, "params": params, "preset": "rfc", "benchmarks": ["throughput"]}
    source.run |= {"modes": modes, "frame_sizes": sizes, "procedure": {"resolution_fps": 1000}}
    links = source.read_mac_addresses("Tester-{}-MAC", "DUT-{}-MAC")
    source.testbed = {"tester": {"kind": "trex"}, "links": links, "line_rate": "10G"}
    source.comments += [
        f"{chosen} because {reason}",
        "Frame size, repetitions and resolution, not in the file, are the defaults of its scripts.",
        "psid_offset is 0, the only one that Maptperf supports; RFC 7597's default is 6.",
        "Maptperf leaves out IPv4 suffixes of all zeros and all ones: exclude_network_broadcast.",
        "Foreground and background are spread evenly here; Maptperf sends them in bursts.",
        "Frame sizes are of the IPv6 frame; Maptperf's argument differs by operation mode.",
    ]
    return source


def _read_addresses(source: Migration, plugin: str) -> dict[str, Any]:
    params = source.read_params(ADDRESS_PARAMETERS)
    try:
        left = _find_neighbor(params["tester_left_ipv6"], 64)
        right = _find_neighbor(params["tester_right_ipv6"], 64)
        right4 = _find_neighbor(params["server_ipv4"], 24)
    except ValueError as exc:
        raise UsageError(f"{source.path}: {exc}", code="invalid-foreign-file") from exc
    params |= {"dut_right_ipv6": f"{right}/64", "dut_right_ipv4": f"{right4}/24"}
    if plugin == "mape-br":
        return params | source.read_params({"br_address": ("DUT-L-IPv6", left)})
    left = source.read_string("DUT-L-IPv6", left, "params.dut_left_ipv6")
    return params | {"dut_left_ipv6": f"{left}/64"}


def _find_neighbor(address: str, length: int) -> str:
    """Return the first address in the same prefix that differs from the given one."""
    network = ip_interface(f"{address}/{length}").network
    return str(network[1] if network[1] != ip_address(address) else network[2])


def _read_rules(source: Migration, plugin: str) -> dict[str, Any]:
    rule = {
        "rule_ipv6": source.read_prefix("rule_ipv6", "BMR-IPv6", "2001:db8:ce::", 51),
        "rule_ipv4": source.read_prefix("rule_ipv4", "BMR-IPv4", "192.0.2.0", 24),
        "ea_len": source.read_int("BMR-EA-length", 13, "params.ea_len"),
        "ces": source.read_int("NUM-OF-CEs", 1000, "params.ces"),
        "psid_offset": 0,
        "exclude_network_broadcast": True,
    }
    if plugin == "mape-br":
        return rule
    return rule | {"dmr": source.read_prefix("dmr", "DMR-IPv6", "64:ff9b::", 64)}


def _read_ports(source: Migration) -> dict[str, Any]:
    random: dict[str, Any] = {"policy": "random"}
    return {
        "fw_sport": source.read_policy("FW-var-sport", "params.fw_sport", "3"),
        "fw_dport": source.read_ports("FW-var-dport", "FW-dport", "fw_dport", 1, 49151),
        "rv_sport": source.read_ports("RV-var-sport", "RV-sport", "rv_sport", 1024, 65535),
        "rv_dport": source.read_policy("RV-var-dport", "params.rv_dport", "3"),
        "bg_sport": random | source.read_bounds("bg-sport", "params.bg_sport", 1024, 65535),
        "bg_dport": random | source.read_bounds("bg-dport", "params.bg_dport", 1, 49151),
    }
