"""Comparison of a run's conditions with those of a published result."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from v6t.analysis.record import Record
from v6t.analysis.variation import count_hosts, describe_tuples, describe_variation

Json = Mapping[str, Any]
UNKNOWN_CONDITION = "not known"
_PAPER_CONDITIONS: Mapping[str, Json] = {
    "mapperf-2025": {"repetitions": 20},
    "siit-2020": {"repetitions": 20},
    "ipv4aas-2024": {"repetitions": 20},
    "unbiased-2024": {"repetitions": 10},
}
"""Conditions of all tables of a paper."""
_DRIVERS_BY_NAME = {
    **{"Jool": "jool", "TAYGA": "tayga", "VPP": "vpp", "OpenBSD": "openbsd-pf"},
    **{"Linux": "linux-router", "iptables": "iptables"},
}
"""Drivers of the papers' devices, by a word of what they call them."""
CHAIN_DRIVER = "chain"
"""The driver of several devices in a row; the papers name the devices of a row in many ways."""
_GENERIC_DRIVERS = ("command", "network-cli")
"""Drivers that configure devices of any kind: the run does not tell which."""
_CUSTOMER_EDGE_SETUPS = {"modified setup": "two servers", "original setup": "one server"}
"""Where NAT44 and NAT46 of the MAP-T measurements stand (Lencse and Bazsó 2024, section 6.4)."""
"""Trials of the papers last so long where a table does not say otherwise."""


@dataclass(frozen=True)
class PublishedCondition:
    """A condition of a published number and of the run; ``alike`` is None if it is unknown."""

    name: str
    published: str
    here: str
    alike: bool | None

    def __str__(self) -> str:
        """Return ``"CEs: 1000 published, 100 here"``."""
        return f"{self.name}: {self.published} published, {self.here} here"


def compare_conditions(entry: Json, record: Record, facts: Json) -> list[PublishedCondition]:
    """List every condition of an entry of ``published.json``; ``facts``: see ``facts_of``."""
    all_conditions = []
    values = record.to_json()
    if facts["simulated"]:
        all_conditions.append(PublishedCondition("frames", "sent", "simulated", False))
    if facts["modifier"]:
        all_conditions.append(PublishedCondition("modifier", "none", facts["modifier"], False))
    wanted = next((name for word, name in _DRIVERS_BY_NAME.items() if word in entry["dut"]), None)
    if wanted and facts["device"] != CHAIN_DRIVER:
        alike = None if facts["device"] in _GENERIC_DRIVERS else facts["device"] == wanted
        all_conditions.append(PublishedCondition("device", entry["dut"], facts["device"], alike))
    if "dual DUT" in entry["dut"]:
        all_conditions.append(PublishedCondition("test setup", "dual DUT", "single DUT", False))
    for setup, words in _CUSTOMER_EDGE_SETUPS.items():
        if setup in entry["technology"]:
            here = {True: "two servers", False: "one server", None: UNKNOWN_CONDITION}[
                facts["apart"]
            ]
            alike = None if facts["apart"] is None else here == words
            all_conditions.append(PublishedCondition("customer's edge", words, here, alike))
    stated: Json = {**_PAPER_CONDITIONS.get(entry["seed"], {}), **entry["conditions"]}
    workers = re.search(r"(\d+) workers?\b", entry["dut"])
    if workers:
        stated = {"active_cores": int(workers[1]), **stated}
    stated = {**record.published_conditions, **stated}
    if "loss_tolerance" in stated:
        stated = {k: v for k, v in stated.items() if k != "acceptance"}
    for name, value in stated.items():
        judge = _COMPARE_CONDITION.get(name)
        if judge is None:
            all_conditions.append(
                PublishedCondition(name.replace("_", " "), str(value), UNKNOWN_CONDITION, None)
            )
        else:
            all_conditions.append(judge(value, values, facts))
    return all_conditions


def _compare_value(name: str, value: Any, here: Any) -> PublishedCondition:
    if here is None:
        return PublishedCondition(name, str(value), UNKNOWN_CONDITION, None)
    alike = float(here) == float(value) if isinstance(value, (int, float)) else here == value
    return PublishedCondition(name, str(value), str(here), alike)


def _compare_frame(value: Any, record: Json, version: str) -> PublishedCondition:
    here = record["frame_sizes"][version]
    return PublishedCondition("frame", f"{value} octets {version}", f"{here} octets", here == value)


def _compare_traffic(value: Any, _record: Json, facts: Json) -> PublishedCondition:
    n, m = facts["params"].get("n"), facts["params"].get("m")
    if n is None or m is None:
        return PublishedCondition("traffic", str(value), UNKNOWN_CONDITION, None)
    here = "foreground only" if n == m else f"{m} of {n} frames foreground"
    return PublishedCondition("traffic", str(value), here, n == m and "DNS" not in str(value))


def _compare_rule(value: Any, _record: Json, facts: Json) -> PublishedCondition:
    p = facts["params"]
    here = f"{p.get('rule_ipv6')} {p.get('rule_ipv4')} EA {p.get('ea_len')}"
    return PublishedCondition("rule", str(value), here, here == value)


def _compare_tolerance(
    name: str, value: str, wanted: float, record: Json, facts: Json
) -> PublishedCondition:
    here = float(record.get("loss_tolerance", facts["procedure"]["loss_tolerance"]))
    return PublishedCondition(name, value, f"{here:.4%} may be lost", abs(here - wanted) < 1e-9)


def _compare_acceptance(value: Any, record: Json, facts: Json) -> PublishedCondition:
    if "tolerance_connections" in record:
        # no connection may be lost
        return PublishedCondition("acceptance", str(value), "100%", _parse_share(value) == 1.0)
    return _compare_tolerance("acceptance", str(value), 1 - _parse_share(value), record, facts)


def _compare_connections(wanted: int, record: Json) -> PublishedCondition:
    connections = record["conditions"].get("connections") or {}
    here = record.get("connections", connections.get("count"))
    if here is None:
        return PublishedCondition("connections", f"{wanted:,}", UNKNOWN_CONDITION, None)
    # a power of two stands for the million of the papers
    near = abs(here - wanted) <= 0.05 * wanted
    return PublishedCondition("connections", f"{wanted:,}", f"{here:,}", near)


def _parse_million(value: Any) -> int:
    return round(float(str(value).removesuffix("M")) * 1_000_000)


def _compare_port_range(value: Any, name: str, facts: Json) -> PublishedCondition:
    what = name.replace("_", " ")
    ports = facts["params"].get(name)
    if ports is None:
        return PublishedCondition(what, str(value), UNKNOWN_CONDITION, None)
    low, _, high = str(value).partition("-")
    here = f"{ports['min']}-{ports['max']}"
    wide = ports["max"] - ports["min"] == int(high) - int(low)
    return PublishedCondition(what, str(value), here, here == value or (wide and int(low) < 1024))


def _parse_share(value: Any) -> float:
    return float(str(value).partition("%")[0]) / 100


def _compare_rate(value: Any, record: Json, _facts: Json) -> PublishedCondition:
    here = float(record["rate"])
    near = abs(here - value) <= 0.01 * value
    return PublishedCondition("rate", f"{value:,} fps", f"{here:,.0f} fps", near)


def _compare_repetitions(value: Any, record: Json, _facts: Json) -> PublishedCondition:
    here = record["repetitions"]
    return PublishedCondition("repetitions", str(value), str(here), here >= value)


def _compare_variation(value: Any, _record: Json, facts: Json) -> PublishedCondition:
    if "initiator_ports" in facts["params"]:
        varied = describe_tuples(facts["params"])
        return PublishedCondition("what varies", str(value), varied, varied == value)
    here = describe_variation(facts["params"])
    wanted = "fixed IP fixed port" if value == "single" else str(value)
    return PublishedCondition(
        "what varies", wanted, here or UNKNOWN_CONDITION, here == wanted if here else None
    )


def _compare_hosts(value: Any, _record: Json, facts: Json) -> PublishedCondition:
    if "random IP" not in (describe_variation(facts["params"]) or ""):
        return PublishedCondition(
            "hosts per side", f"{value} where addresses vary", "they do not", True
        )
    return _compare_value("hosts per side", value, count_hosts(facts["params"]))


def _compare_trial_length(value: Any, record: Json, _facts: Json) -> PublishedCondition:
    here = max(record["duration_s"], record.get("final_duration_s") or 0.0)
    return PublishedCondition("trial", f"{value:g} s", f"{here:g} s", here >= value)


_COMPARE_CONDITION: Mapping[str, Callable[[Any, Json, Json], PublishedCondition]] = {
    "ipv4_frame": lambda v, r, f: _compare_frame(v, r, "ipv4"),
    "frame_v4": lambda v, r, f: _compare_frame(v, r, "ipv4"),
    "ipv6_frame": lambda v, r, f: _compare_frame(v, r, "ipv6"),
    "frame_v6": lambda v, r, f: _compare_frame(v, r, "ipv6"),
    "traffic": _compare_traffic,
    "bmr": _compare_rule,
    "ces": lambda v, r, f: _compare_value("CEs", v, f["params"].get("ces")),
    "acceptance": _compare_acceptance,
    "connections": lambda v, r, f: _compare_connections(_parse_million(v), r),
    "connections_million": lambda v, r, f: _compare_connections(_parse_million(v), r),
    "sports": lambda v, r, f: _compare_port_range(v, "initiator_ports", f),
    "dports": lambda v, r, f: _compare_port_range(v, "responder_ports", f),
    "loss_tolerance": lambda v, r, f: _compare_tolerance(
        "loss tolerance", str(v), _parse_share(v), r, f
    ),
    "repetitions": _compare_repetitions,
    "rate_fps": _compare_rate,
    "trial_s": _compare_trial_length,
    "duration_s": lambda v, r, f: _compare_value("stream, s", v, r.get("duration_s")),
    "tagged": lambda v, r, f: _compare_value("tags", v, r.get("tags")),
    "first_tag_s": lambda v, r, f: _compare_value("first tag, s", v, r.get("first_tag_s")),
    "active_cores": lambda v, r, f: _compare_value("active cores", v, f["cores"]),
    "per_frame_timeout_ms": lambda v, r, f: _compare_value(
        "per-frame timeout, ms", v, 1000 * (r.get("frame_timeout_s") or 0.0)
    ),
    "variation": _compare_variation,
    "flow": _compare_variation,
    "ips_per_side": _compare_hosts,
    "direction": lambda v, r, f: PublishedCondition("direction", str(v), r["direction"], True),
}
