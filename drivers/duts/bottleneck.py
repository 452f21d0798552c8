"""What limits a device at its highest rate, with the evidence (BN-02, BN-04)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from v6t.drivers.duts.readings import Lost
from v6t.drivers.duts.session.telemetry import Sample
from v6t.drivers.duts.shape import Telemetry, shaped, shares_of

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
FULL_TABLE = 99.0
"""A table of whose entries more than this are in use has no room [%]."""
MOST = 50.0
"""Losses of one kind are the matter where they are at least this part of all [%]."""
STRAY = 10.0
"""What a device has dropped says nothing of what was lost if it is a smaller part of that [%]."""
FEW = 10.0
"""So few losses are no reason to look past a core that has no time left, and where nobody knows what was lost
they may be of any frames: router solicitations, LLDP [frames]."""
NOT_COUNTED = "frames were lost, and no counter of this device says that it was here"


@dataclass(frozen=True)
class Verdict:
    """What limits a device, with the evidence.

    Attributes:
        limited_by: ``cpu``, ``table``, ``rules``, ``queue``, ``contention``, ``tester``, ``nothing here`` or
            ``unknown``.
        says: one sentence.
        evidence: figures it rests on, one line each.
    """

    limited_by: str
    says: str
    evidence: tuple[str, ...]


def verdict_of(
    samples: Sequence[Sample], tester: str = "", lost: int | None = None, *, shared: bool = False
) -> Verdict:
    """Return the verdict on one device.

    Args:
        samples: of a trial at the highest rate without loss or just above, its first and last second
            left out by the caller if the load was not on.
        tester: what the tester says of a limit of its own; empty: it has none here.
        lost: frames that the tester missed meanwhile; None: it does not say, or there are more devices that
            may have lost them.
        shared: the tester works on the device's cores.
    """
    told = shaped(samples)
    evidence = tuple(_evidence(samples, told, lost))
    cores = {} if told.polls else shares_of(samples, "idle")
    no_time = _by_full_cores(cores, tester if shared else "")
    heard = told if _speaks(told, lost) else replace(told, drops={})
    found = (
        _by_table(told, lost, at_least=FEW)
        or _by_rules(heard, lost)
        or _by_process(told)
        or _by_full_vectors(told)
        or (("tester", tester) if tester and not heard.drops else None)
        or (None if no_time else _by_table(told, lost))
        or _by_waiting(heard)
        or _by_vectors_room(heard, lost)
        or _by_polling(heard, lost)
        or _by_room(heard)
        or no_time
        or _by_cores(cores, heard, lost)
    )
    return Verdict(*found, evidence)


def _speaks(told: Telemetry, lost: int | None) -> bool:
    """Whether the drops of the device are enough to explain what was lost."""
    dropped = sum(told.reasons.values())
    return dropped >= FEW if lost is None else 0 < STRAY * lost <= 100 * dropped


def verdict_of_all(verdicts: Mapping[str, Verdict]) -> str:
    """Return the verdict on several devices in a row (BN-02); empty for a single one."""
    if len(verdicts) < 2:
        return ""
    if all(v.limited_by == "tester" for v in verdicts.values()):
        return "the tester limits: none of the devices was asked for all that it has"
    full = [name for name, v in verdicts.items() if v.limited_by == "cpu"]
    losing = ("queue", "table", "contention", "rules")
    short = [name for name, v in verdicts.items() if v.limited_by in losing]
    limiting = full or short
    others = {n: v.limited_by for n, v in verdicts.items() if n not in limiting}
    room = all(what == "nothing here" for what in others.values())
    rest = "the others have room" if room else "; ".join(f"{n}: {w}" for n, w in others.items())
    if len(limiting) == 1:
        why = "has no time left" if full else f"loses frames ({verdicts[short[0]].limited_by})"
        return f"{limiting[0]} limits: it {why}; {rest}"
    if limiting:
        advice = "one of them more cores" if full else "each what it is short of"
        return f"{' and '.join(limiting)} limit together: give {advice} and repeat"
    return "none of them is seen to limit: look at the tester and the cables"


def _evidence(samples: Sequence[Sample], told: Telemetry, lost: int | None) -> list[str]:
    soft = shares_of(samples, "softirq")
    lines = [] if lost is None else [f"the tester missed {lost:,} frames in this trial"]
    for core, shares in shares_of(samples, "idle").items():
        low, middle = min(shares), sorted(shares)[len(shares) // 2]
        line = f"{core}: idle {low:.0f} % at least, {middle:.0f} % in the middle"
        if told.polls:
            line += " (it polls: that is no measure of its load)"
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


def _by_table(told: Telemetry, lost: int | None, at_least: float = 0.0) -> tuple[str, str] | None:
    """Judge losses for want of room: most of all, or any where the table is full.

    Frames of connections that the device does not know follow from that, and are none of the others.
    """
    is_full = told.table.get("full", 0.0) >= FULL_TABLE
    unknown = told.lost(Lost.UNKNOWN)
    short = told.lost(Lost.ROOM, Lost.ENTRY) | (unknown if is_full else {})
    if not short or sum(short.values()) < at_least:
        return None
    reason = _most(short)
    if is_full:
        full = f"{told.table['full']:.0f} % of it are in use"
        return "table", f"its table has no room for a connection more: {full}, and {reason} grew"
    others = max(sum(told.reasons.values()), lost or 0) - sum(unknown.values())
    if 100 * sum(short.values()) < MOST * others:
        return None
    if told.lost_for[reason] == Lost.ENTRY:
        why = "no port was free for them, or two frames began one at once"
        return "table", f"connections were not entered into its table: {why}; {reason} grew"
    return "table", f"its table has no room for a connection more, or no port: {reason} grew"


def _by_rules(told: Telemetry, lost: int | None) -> tuple[str, str] | None:
    """Judge losses that occur at any rate."""
    refused = told.lost(Lost.RULE, Lost.UNKNOWN)
    everything = max(sum(told.reasons.values()), lost or 0)
    if not refused or 100 * sum(refused.values()) < MOST * everything:
        return None
    return "rules", f"it drops frames that it does not take at any rate: {_most(refused)} grew"


def _by_process(told: Telemetry) -> tuple[str, str] | None:
    """Judge a process by the time that it was given."""
    if not told.process or told.polls:
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
    return "cpu", _not_let(told)


def _not_let(told: Telemetry) -> str:
    """Describe a thread that was ready to run and did not."""
    idle = [] if told.polls else [100 - core["busy"] for core in told.cores.values()]
    if not idle:
        whom = "others on its cores, or a quota, held it back"
    elif max(idle) > 100 - FREE_IDLE:
        whom = "a core was idle meanwhile, so a quota held it back or it is bound to other cores"
    elif "throttled" in told.process:  # and not by more than HELD_BACK
        whom = "others were on its cores"
    else:
        whom = "no core was idle, so others were on its cores, or a quota held it back"
    ran, waited = told.process["run"], told.process["wait"]
    return f"its busiest thread ran {ran:.0f} % of the time and waited for a core for {waited:.0f} %: {whom}"


def _by_waiting(told: Telemetry) -> tuple[str, str] | None:
    """Judge a device that lost frames while it was ready to run: it lacked time, whatever its queues count.

    A share of waiting below FULL_THREAD is enough here: frames come while it waits, and queues overflow.
    """
    if not told.drops or told.process.get("wait", 0.0) <= HELD_BACK or _for_want_of_room(told):
        return None
    return "cpu", f"{_not_let(told)}; {_worst(told)} grew"


def _for_want_of_room(told: Telemetry) -> bool:
    """Whether a table refused most of the drops, which has nothing to do with time."""
    return told.lost_for[_worst(told)] in (Lost.ROOM, Lost.ENTRY)


def _by_full_vectors(told: Telemetry) -> tuple[str, str] | None:
    if not told.vectors_per_call:
        return None
    node, most = _fullest(told)
    if most < FULL_VECTOR:
        return None
    return "cpu", f"its workers are full: {node} takes {most:.0f} vectors per call"


def _by_vectors_room(told: Telemetry, lost: int | None) -> tuple[str, str] | None:
    """Judge a VPP that is not full; its cores tell nothing."""
    if not told.vectors_per_call:
        return None
    room = f"its workers have room: at most {_fullest(told)[1]:.0f} vectors per call, of 256"
    if told.drops and told.lost_for[_worst(told)] == Lost.ALL:
        return (
            "unknown",
            f"{room}; {_worst(told)} grew, and no reason that is read explains half of it",
        )
    if told.drops:
        return "queue", f"{room}; {_worst(told)} grew"
    if lost:
        return "unknown", f"{room}; {NOT_COUNTED}"
    return "nothing here", room


def _by_polling(told: Telemetry, lost: int | None) -> tuple[str, str] | None:
    """Judge a device that polls, and does not count what it found."""
    if not told.polls or told.vectors_per_call:
        return None
    unfetched = told.lost(Lost.INGRESS)
    if 100 * sum(unfetched.values()) >= MOST * sum(told.reasons.values()) > 0:
        return (
            "cpu",
            f"it polls, and frames came faster than it fetched them: {_most(unfetched)} grew",
        )
    if told.drops:
        return "queue", f"a queue is full: {_worst(told)} grew"
    why = NOT_COUNTED if lost else "nothing was lost here"
    return "unknown", f"it polls: its cores are busy without load, too; {why}"


def _by_room(told: Telemetry) -> tuple[str, str] | None:
    """Judge a process that slept and lost frames; :func:`_by_waiting` comes first."""
    if not told.process or not told.drops or _for_want_of_room(told):
        return None
    slept = 100 - told.process["run"] - told.process["wait"]
    return "queue", (
        f"a queue in front of it overflowed although it had time left, {slept:.0f} % of it: "
        f"{_worst(told)} grew"
    )


def _worst(told: Telemetry) -> str:
    return _most(told.reasons)


def _most(counts: Mapping[str, float]) -> str:
    return max(counts, key=lambda reason: counts[reason])


def _by_full_cores(cores: Mapping[str, Sequence[float]], tester: str) -> tuple[str, str] | None:
    """Judge cores without idle time."""
    busy = [core for core, middle in _middles(cores).items() if middle <= BUSY_IDLE]
    if not busy:
        return None
    says = f"{', '.join(busy)} had no time left ({len(busy)} of {len(cores)} cores)"
    if tester:
        return "unknown", f"{says}, and nobody can tell whose time it was: {tester}"
    return "cpu", says


def _by_cores(
    cores: Mapping[str, Sequence[float]], told: Telemetry, lost: int | None
) -> tuple[str, str]:
    """Judge a device none of whose cores is full."""
    if not cores:
        return "unknown", "it says nothing about its cores"
    middles = _middles(cores)
    if told.drops:
        return (
            "contention" if min(middles.values()) < FREE_IDLE else "queue",
            "no core was busy throughout, yet it lost frames: a queue, a table or a lock is short",
        )
    if lost:
        return "unknown", f"no core was busy throughout; {NOT_COUNTED}"
    if min(middles.values()) > FREE_IDLE:
        return "nothing here", "every core was mostly idle: look at the other device"
    return "unknown", "no core was busy throughout, and nothing was lost here"


def _middles(cores: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {core: sorted(shares)[len(shares) // 2] for core, shares in cores.items()}
