"""Published measurements that match a measured record."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from v6t.analysis.presentation import Presentation, Presentations
from v6t.analysis.published.conditions import Json, PublishedCondition, compare_conditions
from v6t.analysis.record import Record
from v6t.analysis.scaling import count_cores


@dataclass(frozen=True)
class PublishedReference:
    """A published number for the technology, benchmark and point of a record."""

    entry: Json  # entry of `published.json`
    measured: float | None  # value of the run in the published unit; None if undefined
    direction: str  # direction of the measured value
    conditions: Sequence[PublishedCondition]  # conditions of the paper and its setup, compared

    @property
    def source(self) -> str:
        """Paper and table of the number."""
        return f"{self.entry['seed']}, {self.entry['table']}"

    @property
    def unit(self) -> str:
        """Unit of both values; connections per second for connection rates."""
        return "cps" if self.entry["metric"].startswith("max conn") else str(self.entry["unit"])

    @property
    def published_median(self) -> float:
        """Median that the paper prints."""
        return float(self.entry["median"])

    @property
    def ratio(self) -> float | None:
        """Measured value over the published one; None if the measured one is undefined."""
        return None if self.measured is None else self.measured / self.published_median

    @property
    def alike(self) -> bool:
        """Whether all conditions are known to be equal, so that the values can be compared."""
        return not self.differing

    @property
    def differing(self) -> list[PublishedCondition]:
        """Conditions that differ, or are not known to be equal."""
        return [c for c in self.conditions if not c.alike]


CABLE_DEVICE = "cable"  # driver for tester ports that are joined without a device
_CUSTOMER_EDGE_PARTS = frozenset({"b4", "ce", "clat", "napt"})  # devices in a chain


@cache
def read_library() -> Json:
    """Read the published measurements of ``published.json``."""
    text = files("v6t.analysis").joinpath("data/published.json").read_text(encoding="utf-8")
    document: Json = json.loads(text)
    return document


def list_sources() -> Mapping[str, str]:
    """Return the full references of the papers by their short names."""
    seeds: Mapping[str, str] = read_library()["seeds"]
    return seeds


def collect_facts(config: Json, params: Json, *, simulated: bool) -> dict[str, Any]:
    """Collect the facts about a run that are compared with published conditions."""
    return {
        "plugin": config["plugin"],
        "params": params,
        "procedure": config["procedure"],
        "simulated": simulated,
        "modifier": config.get("modifier"),
        "device": config["dut"]["driver"],
        "cores": _count_cores(config["dut"].get("options", {})),
        "apart": _has_two_servers(config["dut"].get("options", {}).get("parts", {})),
    }


def is_testbed_of(entry: Json, testbed: str) -> bool:
    """Check whether a testbed has the name of the test system of a published number."""
    texts = [v for v in entry["conditions"].values() if isinstance(v, str)]
    place = str(entry["test_system"]).partition(" ")[0]
    return bool(testbed) and (place == testbed or any(f"at {v}" in testbed for v in texts))


def _has_two_servers(parts: Json) -> bool | None:
    """Return whether both functions of a customer edge have their own server; None: not known."""
    servers = [
        (parts.get(name, {}).get("options", {}).get("ssh") or {}).get("host")
        for name in ("napt", "ce")
    ]
    return servers[0] != servers[1] if all(servers) else None


def _count_cores(options: Json) -> int | None:
    """Return the number of active cores; in a chain, of those of the provider edge.

    See section 3.2.3 of Lencse and Bazsó (2024).
    """
    cores = count_cores(options.get("cores")) or count_cores(options.get("workers"))
    parts: Mapping[str, Json] = options.get("parts", {})
    edge = [part for name, part in parts.items() if name not in _CUSTOMER_EDGE_PARTS]
    known = {_count_cores(part.get("options", {})) for part in edge} - {None}
    return cores or (known.pop() if len(known) == 1 else None)


def is_about(entry: Json, plugin: str, params: Json, device: str) -> bool:
    """Check whether a published number is about the technology of a plugin with these parameters."""
    known = read_library()["technologies"].get(entry["technology"])
    if known is None or known["plugin"] != plugin:
        return False
    if known.get("device", device) != device or (device == CABLE_DEVICE and "device" not in known):
        return False
    return all(params.get(name) == value for name, value in known["params"].items())


def find_references(
    record: Record, facts: Json, presentations: Presentations, *, paper: str | None = None
) -> list[PublishedReference]:
    """Find published numbers for the technology, benchmark, direction and frame size of a record.

    Args:
        paper: short name of the only paper to search.
    """
    references: list[PublishedReference] = []
    presentation = presentations.find(record)
    for entry in read_library()["records"] if record.measured and presentation.metrics else ():
        is_relevant = is_about(entry, facts["plugin"], facts["params"], facts["device"])
        if not is_relevant or entry.get("median") is None or paper not in (None, entry["seed"]):
            continue
        if (value := _find_value(entry, record, presentation)) is None:
            continue
        conditions = compare_conditions(entry, record, facts)
        if all(c.alike for c in conditions if c.name == "frame"):
            references.append(PublishedReference(entry, *value, conditions))
    return references


def _find_value(
    entry: Json, record: Record, presentation: Presentation[Any]
) -> tuple[float | None, str] | None:
    """Return the measured value for a published number with its direction, or None."""
    metric = str(entry["metric"])
    direction = next((d for d in ("forward", "reverse") if metric.endswith(f" {d}")), "")
    metric = metric.removesuffix(f" {direction}")
    if "per_frame_timeout_ms" in entry["conditions"]:
        metric += " with timeout"
    name = presentation.metrics.get(metric)
    if name is None or record.direction not in ("connections", entry.get("mode", "bidirectional")):
        return None
    name = f"{name} {direction}".rstrip()
    result = next((r for r in presentation.list_quantities(record) if r.name == name), None)
    if result is None or result.summary is None:
        return None
    median = result.summary.median
    if direction:
        return median, f"{direction}, both"
    if record.direction == "connections":
        return median, "phase 1"
    if "sum" in str(entry.get("rate_convention")):
        return median and record.load_directions * median, "sum of both directions"
    return median, record.direction
