"""What of a record can be compared: values of repetitions with their unit and direction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from v6t.analysis.sheet import Record

_DELAYS = {"latency": ("tl", "wcl"), "pdv": ("pdv",), "ipdv": ("max",)}
_WORDS = {"tl": "TL", "wcl": "WCL", "pdv": "PDV", "max": "IPDV max"}


@dataclass(frozen=True)
class Quantity:
    """One quantity of a record.

    Attributes:
        name: what it is.
        unit: of its values.
        values: of the repetitions; None where a lost frame decides.
        more_is_better: whether larger values are the better ones.
        resolution: by how much a true value may lie above a found one.
        limited: whether the tester or the medium, not the device, decided.
        at: under which load it was measured; empty where that is the quantity itself.
        share: whether it is a share already: then differences say more than factors.
    """

    name: str
    unit: str
    values: Sequence[float | None]
    more_is_better: bool
    resolution: float = 0.0
    limited: bool = False
    at: str = ""
    share: bool = False

    @property
    def defined(self) -> list[float]:
        """The values that are numbers."""
        return [v for v in self.values if v is not None]


def quantities(record: Record) -> Iterator[Quantity]:
    """Everything of a record that can be compared."""
    benchmark = record["benchmark"]
    if benchmark.startswith("throughput"):
        limited = bool(record["tester_limited"] or record["upper_bound_hit"])
        yield Quantity(
            "rate", "fps", record["rates"], True, record["resolution_fps"] or 0.0, limited
        )
    elif record.get("unit") == "connections per second":
        limited = bool(record.get("tester_limited") or record.get("upper_bound_hit"))
        resolution = float(record.get("resolution_cps", 0.0))
        yield Quantity("rate", "connections/s", record["rates"], True, resolution, limited)
    elif benchmark == "back-to-back":
        resolution = float(record["resolution_frames"])
        longest = bool(record["hit_longest"])
        yield Quantity("burst", "frames", record["values"], True, resolution, longest)
    elif benchmark in ("frame-loss", "frame-loss-frame-timeout"):
        yield from _losses(record)
    elif benchmark in ("flows", "rss-probe"):
        yield from _variants(record)
    elif benchmark in _DELAYS:
        load = f"{record['rate']:,.0f} fps"
        for way, found in record["directions"].items():
            for figure in _DELAYS[benchmark]:
                name = f"{_WORDS[figure]} {way}"
                yield Quantity(name, "ms", found[figure]["values"], False, at=load)
    else:
        for way, found in record.get("directions", {}).items():
            yield Quantity(f"recovery {way}", "s", found["values"], False)


def _variants(record: Record) -> Iterator[Quantity]:
    for point in record.get("points", ()):
        yield _variant(point, f"rate, {point['flows']:,} flows, {point['start']}")
    for case, found in record.get("cases", {}).items():
        yield _variant(found, f"rate, varying: {'nothing' if case == 'fixed' else case}")


def _variant(found: Mapping[str, Any], name: str) -> Quantity:
    limited = bool(found["tester_limited"] or found["upper_bound_hit"])
    return Quantity(name, "fps", found["rates"], True, found["resolution_fps"] or 0.0, limited)


def _losses(record: Record) -> Iterator[Quantity]:
    for row in record["rates"]:
        ways = row["frames"].values()
        required = list(zip(*(way["required"] for way in ways), strict=True))
        received = list(zip(*(way["received"] for way in ways), strict=True))
        losses = [
            100 * (1 - sum(came) / sum(sent))
            for sent, came in zip(required, received, strict=True)
            if sum(sent)
        ]
        yield Quantity(
            f"loss at {row['media_percent']:.2f} % of the medium", "%", losses, False, share=True
        )
