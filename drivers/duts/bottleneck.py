"""What limits a device at its highest rate, with the evidence (BN-02, BN-04)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from v6t.drivers.duts.shape import OF_TABLES, Telemetry, growing, shaped, shares_of
from v6t.drivers.duts.telemetry import Sample

__all__ = ["Verdict", "growing", "idle_by_core", "verdict_of", "verdict_of_all"]

BUSY_IDLE = 3.0
"""A core that is idle for less than this is busy throughout [%]."""
FREE_IDLE = 80.0
"""A device all of whose cores are idle for more than this does not limit anything [%]."""
FULL_VECTOR = 200.0
"""Vectors per call from which a VPP is near its 256: it polls, and its cores are never idle."""
FULL_THREAD = 90.0
"""A thread that runs, or is ready to and is not let, for more than this has no time left [%]."""
HELD_BACK = 25.0
"""A quota that holds a process back in more of its periods than this limits it [%]."""


@dataclass(frozen=True)
class Verdict:
    """Never without its evidence.

    Attributes:
        limited_by: ``cpu``, ``table``, ``queue``, ``contention``, ``tester``, ``nothing here`` or
            ``unknown``.
        says: one sentence.
        evidence: figures it rests on, one line each.
    """

    limited_by: str
    says: str
    evidence: tuple[str, ...]


def idle_by_core(samples: Sequence[Sample]) -> dict[str, list[float]]:
    """Share of idle time [%] of every core in every second; nothing is averaged (BN-01)."""
    return shares_of(samples, "idle")


def verdict_of(samples: Sequence[Sample], tester: str = "") -> Verdict:
    """The verdict on one device.

    Args:
        samples: of a trial at the highest rate without loss or just above, its first and last second
            left out by the caller if the load was not on.
        tester: what the tester says of a limit of its own; empty: it has none here.
    """
    told = shaped(samples)
    evidence = tuple(_evidence(samples, told))
    found = (
        _by_table(told)
        or _by_process(told)
        or _by_vectors(told)
        or (("tester", tester) if tester and not told.drops else None)
        or _by_room(told)
        or _by_cores(idle_by_core(samples), told.drops)
    )
    return Verdict(*found, evidence)


def verdict_of_all(verdicts: Mapping[str, Verdict]) -> str:
    """What several devices one after the other say together (BN-02); empty for a single one.

    Args:
        verdicts: by device, from left to right.
    """
    if len(verdicts) < 2:
        return ""
    if all(v.limited_by == "tester" for v in verdicts.values()):
        return "the tester limits: none of the devices was asked for all that it has"
    full = [name for name, v in verdicts.items() if v.limited_by == "cpu"]
    short = [
        name for name, v in verdicts.items() if v.limited_by in ("queue", "table", "contention")
    ]
    limiting = full or short
    if len(limiting) == 1:
        why = "has no time left" if full else "loses frames with time left"
        return f"{limiting[0]} limits: it {why}, the others have room"
    if limiting:
        return f"{' and '.join(limiting)} limit together: give one of them more cores and repeat"
    return "none of them is seen to limit: look at the tester and the cables"


def _evidence(samples: Sequence[Sample], told: Telemetry) -> list[str]:
    soft = shares_of(samples, "softirq")
    lines = []
    for core, shares in idle_by_core(samples).items():
        low, middle = min(shares), sorted(shares)[len(shares) // 2]
        line = f"{core}: idle {low:.0f} % at least, {middle:.0f} % in the middle"
        if core in soft:
            line += f", softirq up to {max(soft[core]):.0f} %"
        lines.append(line)
    if told.process:
        lines.append(
            f"its busiest thread ran {told.process['run']:.0f} % of the time and was ready to for "
            f"another {told.process['wait']:.0f} %"
        )
    if "throttled" in told.process:
        lines.append(f"a quota held it back in {told.process['throttled']:.0f} % of its periods")
    if told.table:
        limit = f" of {told.table['limit']:,.0f}" if "limit" in told.table else ""
        lines.append(f"its table held {told.table['used']:,.0f}{limit} connections at most")
    lines += [f"{name}: {count:,.0f} more" for name, count in told.drops.items()]
    if told.vectors_per_call:
        lines.append("{}: up to {:.0f} vectors per call".format(*_fullest(told)))
    lines += [f"{count:,.0f} {what} per packet" for what, count in told.per_packet.items()]
    return lines


def _fullest(told: Telemetry) -> tuple[str, float]:
    return max(told.vectors_per_call.items(), key=lambda item: item[1])


def _by_table(told: Telemetry) -> tuple[str, str] | None:
    reasons = [name for name in told.drops if OF_TABLES.search(name)]
    if not reasons:
        return None
    return "table", f"its table has no room for a connection more: {reasons[0]} grew"


def _by_process(told: Telemetry) -> tuple[str, str] | None:
    """A device that is a process, on the time that this was given."""
    if not told.process:
        return None
    ran, waited = told.process["run"], told.process["wait"]
    if ran >= FULL_THREAD:
        return "cpu", f"its busiest thread ran {ran:.0f} % of the time: one core is all it can use"
    throttled = told.process.get("throttled", 0.0)
    if throttled > HELD_BACK:
        words = f"in {throttled:.0f} % of its periods"
        return "cpu", f"a quota of its cgroup held the process back {words}; it ran {ran:.0f} %"
    if ran + waited < FULL_THREAD:
        return None
    idle = [100 - core["busy"] for core in told.cores.values()]
    whom = (
        "a quota holds it back, for a core was idle meanwhile"
        if idle and max(idle) > 100 - FREE_IDLE
        else "a quota, or others on its cores, held it back"
    )
    return "cpu", (
        f"its busiest thread ran {ran:.0f} % of the time and was ready to for another "
        f"{waited:.0f} %: {whom}"
    )


def _by_vectors(told: Telemetry) -> tuple[str, str] | None:
    if not told.vectors_per_call:
        return None
    node, most = _fullest(told)
    if most >= FULL_VECTOR:
        return "cpu", f"its workers are full: {node} takes {most:.0f} vectors per call"
    return (
        "queue" if told.drops else "nothing here",
        f"its workers have room: at most {most:.0f} vectors per call, of 256",
    )


def _by_room(told: Telemetry) -> tuple[str, str] | None:
    """A process with time left that nevertheless was not given all frames."""
    if not told.process or not told.drops:
        return None
    name = max(told.drops, key=lambda reason: told.drops[reason])
    return "queue", f"a queue before it is full, and it has time left: {name} grew"


def _by_cores(cores: Mapping[str, Sequence[float]], losses: Mapping[str, float]) -> tuple[str, str]:
    if not cores:
        return "unknown", "it says nothing about its cores"
    middles = {core: sorted(shares)[len(shares) // 2] for core, shares in cores.items()}
    busy = [core for core, middle in middles.items() if middle <= BUSY_IDLE]
    if busy:
        return "cpu", f"{', '.join(busy)} had no time left ({len(busy)} of {len(cores)} cores)"
    if losses:
        return (
            "contention" if min(middles.values()) < FREE_IDLE else "queue",
            "no core was busy throughout, yet it lost frames: a queue, a table or a lock is short",
        )
    if min(middles.values()) > FREE_IDLE:
        return "nothing here", "every core was mostly idle: look at the other device"
    return "unknown", "no core was busy throughout, and nothing was lost here"
