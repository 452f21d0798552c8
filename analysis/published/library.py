"""Published measurements that match a measured record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from v6t.analysis.presentation import Presentation, Presentations
from v6t.analysis.published.conditions import PublishedCondition, compare_conditions
from v6t.analysis.record import Record
from v6t.analysis.scaling import count_cores


@dataclass(frozen=True)
class PublishedReference:
    """A published number for the technology, benchmark and point of a record.

    Attributes:
        measured: value of the run in the published unit and convention; None if undefined.
        conditions: those that the paper states, and those that follow from the test setup.
    """

    entry: Mapping[str, Any]  # the record of `published.json`
    measured: float | None
    direction: str  # of that value
    conditions: Sequence[PublishedCondition]

    @property
    def source(self) -> str:
        """Paper and table of the number."""
        return f"{self.entry['seed']}, {self.entry['table']}"

    @property
    def unit(self) -> str:
        """Unit of both values; always connections per second for connection rates."""
        return "cps" if self.entry["metric"].startswith("max conn") else str(self.entry["unit"])

    @property
    def published_median(self) -> float:
        """Median that the paper prints."""
        return float(self.entry["median"])

    @property
    def ratio(self) -> float | None:
        """Measured over published value; None if the measured one is undefined."""
        return None if self.measured is None else self.measured / self.published_median

    @property
    def alike(self) -> bool:
        """Whether every condition is met: only then is the number a reference line."""
        return not self.differing

    @property
    def differing(self) -> list[PublishedCondition]:
        """Conditions that are not met, or not known to be."""
        return [c for c in self.conditions if not c.alike]


CABLE_DEVICE = "cable"  # what stands for the device where the tester's ports are joined

_CUSTOMER_EDGE_PARTS = frozenset({"b4", "ce", "clat", "napt"})
"""Parts of a customer's edge, where several devices are in a row."""


@cache
def read_library() -> Mapping[str, Any]:
    """Read ``published.json``."""
    text = files("v6t.analysis").joinpath("data/published.json").read_text(encoding="utf-8")
    document: Mapping[str, Any] = json.loads(text)
    return document


def list_sources() -> Mapping[str, str]:
    """Return the full references of the papers by their short names."""
    seeds: Mapping[str, str] = read_library()["seeds"]
    return seeds


def collect_facts(
    config: Mapping[str, Any], params: Mapping[str, Any], *, simulated: bool
) -> dict[str, Any]:
    """Collect the facts of a run that are compared with published conditions."""
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


def is_testbed_of(entry: Mapping[str, Any], testbed: str) -> bool:
    """Check whether the name of a testbed is that of the test system of a published number."""
    texts = [v for v in entry["conditions"].values() if isinstance(v, str)]
    place = str(entry["test_system"]).partition(" ")[0]
    return bool(testbed) and (place == testbed or any(f"at {v}" in testbed for v in texts))


def _has_two_servers(parts: Mapping[str, Any]) -> bool | None:
    """Return whether the two functions of a customer edge have a server each; None: unknown."""
    servers = [
        (parts.get(name, {}).get("options", {}).get("ssh") or {}).get("host")
        for name in ("napt", "ce")
    ]
    return servers[0] != servers[1] if all(servers) else None


def _count_cores(options: Mapping[str, Any]) -> int | None:
    """Return active cores; in a chain those of the provider edge (Lencse and Bazsó 2024, section 3.2.3)."""
    cores = count_cores(options.get("cores")) or count_cores(options.get("workers"))
    parts: Mapping[str, Mapping[str, Any]] = options.get("parts", {})
    edge = {
        _count_cores(part.get("options", {}))
        for n, part in parts.items()
        if n not in _CUSTOMER_EDGE_PARTS
    }
    known = edge - {None}
    return cores or (known.pop() if len(known) == 1 else None)


def is_about(entry: Mapping[str, Any], plugin: str, params: Mapping[str, Any], device: str) -> bool:
    """Check that a paper's technology is what a plugin measures with these parameters.

    Results of joined tester ports belong to no device.
    """
    known = read_library()["technologies"].get(entry["technology"])
    if known is None or known["plugin"] != plugin:
        return False
    if known.get("device", device) != device or (device == CABLE_DEVICE and "device" not in known):
        return False
    return all(params.get(name) == value for name, value in known["params"].items())


def find_references(
    record: Record,
    facts: Mapping[str, Any],
    presentations: Presentations,
    *,
    paper: str | None = None,
) -> list[PublishedReference]:
    """Find published numbers for the technology, benchmark, direction and frame size of a record."""
    comparable: list[PublishedReference] = []
    presentation = presentations.find(record)
    for entry in read_library()["records"] if record.measured and presentation.metrics else ():
        about = is_about(entry, facts["plugin"], facts["params"], facts["device"])
        if not about or entry.get("median") is None or paper not in (None, entry["seed"]):
            continue
        placed = _find_value(entry, record, presentation)
        if placed is None:
            continue
        met = compare_conditions(entry, record, facts)
        if all(c.alike for c in met if c.name == "frame"):
            comparable.append(PublishedReference(entry, *placed, met))
    return comparable


def _find_value(
    entry: Mapping[str, Any], record: Record, presentation: Presentation[Any]
) -> tuple[float | None, str] | None:
    """Return the measured value of an entry with its direction; None if the record has none."""
    metric = str(entry["metric"])
    direction = next((d for d in ("forward", "reverse") if metric.endswith(f" {d}")), "")
    metric = metric.removesuffix(f" {direction}")
    if "per_frame_timeout_ms" in entry["conditions"]:
        metric += " with timeout"
    name = presentation.metrics.get(metric)
    modes = ("connections", entry.get("mode", "bidirectional"))
    if name is None or record.direction not in modes:
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
