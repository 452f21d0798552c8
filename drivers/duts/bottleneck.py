"""What limits a device at its highest rate, with the evidence (BN-02, BN-04)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from v6t.drivers.duts.telemetry import Sample

BUSY_IDLE = 3.0
"""A core that is idle for less than this is busy throughout [%]."""
FREE_IDLE = 80.0
"""A device all of whose cores are idle for more than this does not limit anything [%]."""
FULL_VECTOR = 200.0
"""Vectors per call from which a VPP is near its 256: it polls, and its cores are never idle."""
_LOSSES = re.compile(
    r"drop|miss|overrun|insert_failed|memory|limit|congestion|vector_rate_drop", re.IGNORECASE
)


@dataclass(frozen=True)
class Verdict:
    """Never without its evidence.

    Attributes:
        limited_by: ``cpu``, ``queue``, ``contention``, ``nothing here`` or ``unknown``.
        says: one sentence.
        evidence: figures it rests on, one line each.
    """

    limited_by: str
    says: str
    evidence: tuple[str, ...]


def idle_by_core(samples: Sequence[Sample]) -> dict[str, list[float]]:
    """Share of idle time [%] of every core in every second; nothing is averaged (BN-01)."""
    return _shares(samples, "idle")


def verdict_of(samples: Sequence[Sample]) -> Verdict:
    """The verdict on one device.

    Args:
        samples: of a trial at the highest rate without loss, its first and last second left out
            by the caller if the load was not on.
    """
    cores = idle_by_core(samples)
    soft = _shares(samples, "softirq")
    evidence = []
    for core, shares in cores.items():
        low, middle = min(shares), sorted(shares)[len(shares) // 2]
        line = f"{core}: idle {low:.0f} % at least, {middle:.0f} % in the middle"
        if core in soft:
            line += f", softirq up to {max(soft[core]):.0f} %"
        evidence.append(line)
    losses = growing(samples)
    evidence += [f"{name}: {count:,.0f} more" for name, count in losses.items()]
    vectors = _vectors(samples)
    if vectors:
        node, most = max(vectors.items(), key=lambda item: item[1])
        evidence.append(f"{node}: up to {most:.0f} vectors per call")
        if most >= FULL_VECTOR:
            return Verdict("cpu", f"its workers are full: {node} takes {most:.0f} vectors per call",
                           tuple(evidence))  # fmt: skip
        return Verdict(
            "queue" if losses else "nothing here",
            f"its workers have room: at most {most:.0f} vectors per call, of 256",
            tuple(evidence),
        )
    return _by_cores(cores, losses, tuple(evidence))


def verdict_of_all(verdicts: Mapping[str, Verdict]) -> str:
    """What several devices one after the other say together (BN-02); empty for a single one.

    Args:
        verdicts: by device, from left to right.
    """
    if len(verdicts) < 2:
        return ""
    full = [name for name, v in verdicts.items() if v.limited_by == "cpu"]
    short = [name for name, v in verdicts.items() if v.limited_by in ("queue", "contention")]
    limiting = full or short
    if len(limiting) == 1:
        why = "has no time left" if full else "loses frames with time left"
        return f"{limiting[0]} limits: it {why}, the others have room"
    if limiting:
        return f"{' and '.join(limiting)} limit together: give one of them more cores and repeat"
    return "none of them is seen to limit: look at the tester and the cables"


def growing(samples: Sequence[Sample]) -> dict[str, float]:
    """Counters of lost frames that grew, and by how much."""
    if len(samples) < 2:
        return {}
    found = {}
    for name, figures in samples[-1].figures.items():
        for figure, last in figures.items():
            first = samples[0].figures.get(name, {}).get(figure)
            if first is not None and last > first and _LOSSES.search(f"{name} {figure}"):
                found[f"{name} {figure}"] = last - first
    return found


def _by_cores(
    cores: Mapping[str, Sequence[float]], losses: Mapping[str, float], evidence: tuple[str, ...]
) -> Verdict:
    if not cores:
        return Verdict("unknown", "it says nothing about its cores", evidence)
    middles = {core: sorted(shares)[len(shares) // 2] for core, shares in cores.items()}
    busy = [core for core, middle in middles.items() if middle <= BUSY_IDLE]
    if busy:
        names = ", ".join(busy)
        return Verdict("cpu", f"{names} had no time left ({len(busy)} of {len(cores)} cores)",
                       evidence)  # fmt: skip
    if losses:
        return Verdict(
            "contention" if min(middles.values()) < FREE_IDLE else "queue",
            "no core was busy throughout, yet it lost frames: a queue, a table or a lock is short",
            evidence,
        )
    if min(middles.values()) > FREE_IDLE:
        return Verdict("nothing here", "every core was mostly idle: look at the other device",
                       evidence)  # fmt: skip
    return Verdict("unknown", "no core was busy throughout, and nothing was lost here", evidence)


def _shares(samples: Sequence[Sample], kind: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for before, after in pairwise(samples):
        first, last = before.figures.get("cpu", {}), after.figures.get("cpu", {})
        for name, total in last.items():
            core, _, what = name.partition(".")
            part = f"{core}.{kind}"
            if what != "total" or part not in last or name not in first:
                continue
            spent = total - first[name]
            if spent > 0:
                share = 100.0 * (last[part] - first.get(part, 0.0)) / spent
                found.setdefault(core, []).append(share)
    return found


def _vectors(samples: Sequence[Sample]) -> dict[str, float]:
    found: dict[str, float] = {}
    for sample in samples:
        for name, value in sample.figures.get("runtime", {}).items():
            if name.endswith(".vectors_per_call"):
                node = name.removeprefix("node.").removesuffix(".vectors_per_call")
                found[node] = max(found.get(node, 0.0), value)
    return found
