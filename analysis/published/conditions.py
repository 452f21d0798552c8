"""Comparison of a run's conditions with those of a published result."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from v6t.analysis.record import Record
from v6t.analysis.variation import count_hosts, describe_tuples, describe_variation

Json = Mapping[str, Any]  # a JSON object
UNKNOWN_CONDITION = "not known"  # text for a value of the run that is not known
CHAIN_DRIVER = "chain"  # driver of chains of devices, whose names differ between papers
GENERIC_DRIVERS = ("command", "network-cli")  # drivers that do not show the kind of the device


@dataclass(frozen=True)
class PublishedCondition:
    """A condition of a published number, compared with the run."""

    name: str  # name of the condition
    published: str  # value in the paper
    here: str  # value in the run
    alike: bool | None  # None: not known

    def __str__(self) -> str:
        """Return ``"CEs: 1000 published, 100 here"``."""
        return f"{self.name}: {self.published} published, {self.here} here"


@dataclass(frozen=True)
class ConditionRule:
    """Rule for the comparison of a condition that a paper states with the run."""

    name: str  # name of the condition in reports
    read: Callable[[Json, Json], Any]  # reads the run's value from a record's JSON and the facts
    matches: Callable[[Any, Any], bool | None] = operator.eq  # compares it with the published one
    form: str = "{}"  # format of both values

    def compare(self, published: Any, record: Json, facts: Json) -> PublishedCondition:
        """Compare a published value with that of the run."""
        here = self.read(record, facts)
        text = UNKNOWN_CONDITION if here is None else self.form.format(here)
        alike = None if here is None else self.matches(here, published)
        return PublishedCondition(self.name, self.form.format(published), text, alike)


def compare_conditions(entry: Json, record: Record, facts: Json) -> list[PublishedCondition]:
    """Compare all conditions of an entry of ``published.json`` with a record.

    Args:
        facts: facts of the run, from :func:`v6t.analysis.published.library.collect_facts`.
    """
    conditions = []
    if facts["simulated"]:
        conditions.append(PublishedCondition("frames", "sent", "simulated", False))
    if facts["modifier"]:
        conditions.append(PublishedCondition("modifier", "none", facts["modifier"], False))
    values = record.to_json()
    stated = {**record.published_conditions, **entry["conditions"]}
    if facts["device"] == CHAIN_DRIVER:
        stated.pop("driver", None)
    for name, published in stated.items():
        unknown = ConditionRule(name.replace("_", " "), lambda record, facts: None)
        conditions.append(_RULES.get(name, unknown).compare(published, values, facts))
    return conditions


def _read_field(name: str) -> Callable[[Json, Json], Any]:
    """Return a function that reads a field of the record."""
    return lambda record, facts: record.get(name)


def _is_driver(actual: str, published: str) -> bool | None:
    """Check whether a driver is the published one; None: the driver does not show the device."""
    return None if actual in GENERIC_DRIVERS else actual == published


def _read_traffic(record: Json, facts: Json) -> str | None:
    n, m = facts["params"].get("n"), facts["params"].get("m")
    if n is None or m is None:
        return None
    return "foreground only" if n == m else f"{m} of {n} frames foreground"


def _read_rule(record: Json, facts: Json) -> str:
    known = {"rule_ipv6": None, "rule_ipv4": None, "ea_len": None, **facts["params"]}
    return "{rule_ipv6} {rule_ipv4} EA {ea_len}".format_map(known)


def _read_tolerance(record: Json, facts: Json) -> float:
    if "tolerance_connections" in record:
        return 0.0  # no connection may be lost
    return float(record.get("loss_tolerance", facts["procedure"]["loss_tolerance"]))


def _read_connections(record: Json, facts: Json) -> Any:
    connections = record["conditions"].get("connections") or {}
    return record.get("connections", connections.get("count"))


def _read_ports(name: str) -> Callable[[Json, Json], str | None]:
    """Return a function that reads a range of ports."""

    def read(record: Json, facts: Json) -> str | None:
        ports = facts["params"].get(name)
        return None if ports is None else f"{ports['min']}-{ports['max']}"

    return read


def _has_same_width(actual: str, published: str) -> bool:
    """Check whether a range of ports is the published one, or as wide if that begins below 1024."""
    (low, high), (first, last) = (map(int, ports.split("-")) for ports in (actual, published))
    return actual == published or (high - low == last - first and first < 1024)


def _read_variation(record: Json, facts: Json) -> str | None:
    if "initiator_ports" in facts["params"]:
        return describe_tuples(facts["params"])
    return describe_variation(facts["params"])


def _read_host_count(record: Json, facts: Json) -> int | str | None:
    if "random IP" not in (describe_variation(facts["params"]) or ""):
        return "fixed addresses"
    return count_hosts(facts["params"])


def _make_near_check(share: float) -> Callable[[float, float], bool]:
    """Make a check that a value is within a share of the published one."""
    return lambda here, published: abs(here - published) <= share * published


# rules by the names of conditions in `published.json`
_RULES: Mapping[str, ConditionRule] = {
    "driver": ConditionRule("device", lambda r, f: f["device"], _is_driver),
    "test_setup": ConditionRule("test setup", lambda record, facts: "single DUT"),
    "customer_edge": ConditionRule("customer's edge", lambda r, f:
                                   {True: "two servers", False: "one server"}.get(f["apart"])),
    "ipv4_frame": ConditionRule("frame", lambda r, f: r["frame_sizes"]["ipv4"],
                                form="{} octets ipv4"),
    "ipv6_frame": ConditionRule("frame", lambda r, f: r["frame_sizes"]["ipv6"],
                                form="{} octets ipv6"),
    "traffic": ConditionRule("traffic", _read_traffic, lambda here, published:
                             here == "foreground only" and "DNS" not in published),
    "rule": ConditionRule("rule", _read_rule),
    "ces": ConditionRule("CEs", lambda r, f: f["params"].get("ces")),
    # 2^20 matches the million of the papers
    "connections": ConditionRule("connections", _read_connections, _make_near_check(0.05), "{:,}"),
    "initiator_ports": ConditionRule("initiator ports", _read_ports("initiator_ports"),
                                     _has_same_width),
    "responder_ports": ConditionRule("responder ports", _read_ports("responder_ports"),
                                     _has_same_width),
    "loss_tolerance": ConditionRule("loss tolerance", _read_tolerance, _make_near_check(1e-6), "{:.4%}"),
    "repetitions": ConditionRule("repetitions", _read_field("repetitions"), operator.ge),
    "rate_fps": ConditionRule("rate", _read_field("rate"), _make_near_check(0.01), "{:,.0f} fps"),
    "trial_s": ConditionRule("trial", lambda r, f:
                             max(r["duration_s"], r.get("final_duration_s") or 0.0),
                             operator.ge, "{:g} s"),
    "duration_s": ConditionRule("stream, s", _read_field("duration_s")),
    "tagged": ConditionRule("tags", _read_field("tags")),
    "first_tag_s": ConditionRule("first tag, s", _read_field("first_tag_s")),
    "active_cores": ConditionRule("active cores", lambda r, f: f["cores"]),
    "per_frame_timeout_ms": ConditionRule("per-frame timeout, ms", lambda r, f:
                                          1000 * (r.get("frame_timeout_s") or 0.0)),
    "variation": ConditionRule("what varies", _read_variation),
    "ips_per_side": ConditionRule("hosts per side", _read_host_count, lambda here, published:
                                  here in (published, "fixed addresses")),
}  # fmt: skip
