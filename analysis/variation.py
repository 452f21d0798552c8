"""Variation of addresses and ports from frame to frame."""

from collections.abc import Mapping
from typing import Any

# parameters of technologies that vary ports and hosts of frames, and ports of connections
_PORT_PARAMETERS = ("fw_sport", "fw_dport", "rv_sport", "rv_dport")
_HOST_PARAMETERS = ("left_hosts", "right_hosts", "ipv6_hosts", "ipv4_hosts")
_PORT_RANGES = ("initiator_ports", "responder_ports")
_SHUFFLED_MODE = 3  # value of `enumerate_ports` for pseudorandom order


def describe_variation(params: Mapping[str, Any]) -> str | None:
    """Describe how addresses and ports vary: ``"random IP fixed port"``; None if the sides differ."""
    ports = {_get_policy(params[n]) for n in _PORT_PARAMETERS if n in params}
    hosts = {_get_policy(params[n]) for n in _HOST_PARAMETERS if n in params}
    if len(ports) != 1 or len(hosts) != 1:
        return None
    (port,), (host,) = ports, hosts
    return f"{host} IP {port} port" if {port, host} <= {"fixed", "random"} else None


def describe_tuples(params: Mapping[str, Any]) -> str:
    """Describe what varies in connections: ``"ports 40000x100"``, ``"IPs 4000x1000"`` or both."""
    parts = []
    if params.get("enumerate_ips"):
        parts.append(f"IPs {params['initiator_count']}x{params['responder_count']}")
    if params.get("enumerate_ports"):
        counts = [params[n]["max"] - params[n]["min"] + 1 for n in _PORT_RANGES]
        parts.append(f"ports {counts[0]}x{counts[1]}")
    return " x ".join(parts)


def count_hosts(params: Mapping[str, Any]) -> int | None:
    """Return the number of hosts of each side where they vary; None if the sides differ."""
    counts = {
        int(params[n]["max"]) - int(params[n]["min"]) + 1
        for n in _HOST_PARAMETERS
        if n in params and "max" in params[n]
    }
    return counts.pop() if len(counts) == 1 else None


def has_random_ports(params: Mapping[str, Any]) -> bool | None:
    """Return whether all ports are pseudorandom (RFC 4814); None without ports."""
    if "enumerate_ports" in params:
        return bool(params["enumerate_ports"] == _SHUFFLED_MODE)
    policies = [_get_policy(params[n]) for n in _PORT_PARAMETERS if n in params]
    return all(policy == "random" for policy in policies) if policies else None


def _get_policy(value: Any) -> str:
    """Return how a parameter varies: ``fixed``, ``random`` or another policy."""
    if isinstance(value, Mapping):
        if "last" in value and value["last"] is None:
            return "fixed"  # one host only
        return str(value.get("policy", "fixed"))
    return str(value)
