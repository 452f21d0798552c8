"""Find what limits a device at its highest rate, with the evidence."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from statistics import median_high

from v6t.drivers.duts.readings import LossReason
from v6t.drivers.duts.session import telemetry

SATURATED_CORE_IDLE_PERCENT = 3.0  # a core is saturated up to this share of idle time
FREE_CORE_IDLE_PERCENT = 80.0  # a device is not the limit if every core is idle for a larger share
FULL_VECTORS_PER_CALL = 200.0  # VPP is saturated from this number of frames per call (256 at most)
FULL_THREAD_PERCENT = 90.0  # a thread is saturated if it runs or waits for this share of time
THROTTLED_PERCENT = 25.0  # a CPU quota is the limit if it throttles more of its periods
FULL_TABLE_PERCENT = 99.0  # a table is full from this share of its entries in use
MAJORITY_PERCENT = 50.0  # losses for one reason decide the verdict from this share of all losses
STRAY_DROPS_PERCENT = 10.0  # drops below this share of the lost frames do not explain the loss
# frames; fewer losses may be LLDP or router solicitations and do not outweigh a saturated core
MIN_RELEVANT_LOSSES = 10.0
UNEXPLAINED_LOSS = "frames were lost, but no counter of this device accounts for them"


@dataclass(frozen=True)
class BottleneckVerdict:
    """The limit of a device under load, with the evidence."""

    limited_by: str  # kind of limit, such as ``cpu`` or ``nothing here``
    explanation: str  # one sentence
    evidence: tuple[str, ...]  # one sentence for each figure


def judge_device(
    samples: Sequence[telemetry.Sample],
    tester_limit: str = "",
    lost: int | None = None,
    *,
    shares_cores: bool = False,
) -> BottleneckVerdict:
    """Return a verdict on what limits a device under load, based on its telemetry.

    Args:
        samples: of a trial at the highest rate without loss or just above, without its first and last
            second if there was no load in them.
        tester_limit: the limit that the tester has reached, in one sentence; empty: none.
        lost: frames lost meanwhile; None: unknown, or other devices may have lost them.
        shares_cores: the tester runs on the device's cores.
    """
    summary = telemetry.summarize_samples(samples)
    dropped = sum(summary.distinct_drops.values())
    # the drops of the device must be enough to explain what was lost
    explained = 0 < STRAY_DROPS_PERCENT * (lost or 0) <= 100 * dropped
    speaks = dropped >= MIN_RELEVANT_LOSSES if lost is None else explained
    losses = _VerdictRules(summary, lost)
    device = losses if speaks else _VerdictRules(replace(summary, drops={}), lost)
    cores = {} if summary.polls else telemetry.compute_core_shares(samples, "idle")
    median_idle = {core: median_high(shares) for core, shares in cores.items()}
    no_time = _judge_full_cores(median_idle, tester_limit if shares_cores else "")
    finding = (
        losses.judge_table(min_losses=MIN_RELEVANT_LOSSES)
        or next(device.list_full_parts(), None)
        or (("tester", tester_limit) if tester_limit and not device.summary.drops else None)
        or (None if no_time else losses.judge_table())
        or next(device.list_spare_parts(), None)
        or no_time
        or device.judge_cores(median_idle)
    )
    return BottleneckVerdict(*finding, tuple(_list_evidence(samples, summary, lost)))


def summarize_verdicts(verdicts: Mapping[str, BottleneckVerdict]) -> str:
    """Return a sentence on which of several devices are the limit; empty for a single device."""
    if len(verdicts) < 2:
        return ""
    limits = {name: verdict.limited_by for name, verdict in verdicts.items()}
    if set(limits.values()) == {"tester"}:
        return "the tester is the limit: it did not fully load any of the devices"
    full = [name for name, limit in limits.items() if limit == "cpu"]
    losing = ("queue", "table", "contention", "rules")
    limiting = full or [name for name, limit in limits.items() if limit in losing]
    remaining_limits = {n: limit for n, limit in limits.items() if n not in limiting}
    if len(limiting) == 1:
        why = "has no time left" if full else f"loses frames ({limits[limiting[0]]})"
        context = "; ".join(f"{name}: {limit}" for name, limit in remaining_limits.items())
        if set(remaining_limits.values()) <= {"nothing here"}:
            context = "the others have spare capacity"
        return f"{limiting[0]} limits: it {why}; {context}"
    if limiting:
        advice = "one of them more cores" if full else "each what it is short of"
        return f"{' and '.join(limiting)} limit together: give {advice} and repeat"
    return "none of them appears to be the limit: check the tester and the cables"


def _list_evidence(
    samples: Sequence[telemetry.Sample], summary: telemetry.TelemetrySummary, lost: int | None
) -> list[str]:
    """Return one sentence for each figure on which a verdict is based."""
    soft = telemetry.compute_core_shares(samples, "softirq")
    lines = [] if lost is None else [f"{lost:,} frames were lost in this trial"]
    for core, shares in telemetry.compute_core_shares(samples, "idle").items():
        least, median = min(shares), median_high(shares)
        line = f"{core}: idle {least:.0f} % at least, {median:.0f} % in the median"
        line += " (it polls, so this does not show its load)" if summary.polls else ""
        line += f", softirq up to {max(soft[core]):.0f} %" if core in soft else ""
        lines.append(line)
    if summary.process:
        ran, waited = summary.process["run"], summary.process["wait"]
        activity = f"ran {ran:.0f} % of the time and was ready to run for another {waited:.0f} %"
        lines.append(f"its busiest thread {activity}")
    if (throttled := summary.process.get("throttled")) is not None:
        lines.append(f"a CPU quota throttled it in {throttled:.0f} % of its periods")
    if summary.table:
        limit = f" of {summary.table['limit']:,.0f}" if "limit" in summary.table else ""
        lines.append(f"its table held {summary.table['used']:,.0f}{limit} connections at most")
    lines += [f"{name}: {count:,.0f} more" for name, count in summary.drops.items()]
    if summary.vectors_per_call:
        node, most = max(summary.vectors_per_call.items(), key=itemgetter(1))
        lines.append(f"{node}: up to {most:.0f} vectors per call")
    return lines + [f"{count:,.0f} {name} per packet" for name, count in summary.per_packet.items()]


_Finding = tuple[str, str]  # kind of limit and explanation, as in a verdict


class _VerdictRules:
    """Rules that find the limit of a device; the first finding counts."""

    def __init__(self, summary: telemetry.TelemetrySummary, lost: int | None) -> None:
        self.summary = summary
        self.lost = lost
        self.ran, self.waited = (summary.process.get(name, 0.0) for name in ("run", "wait"))
        nodes = summary.vectors_per_call.items()
        self.node, self.vectors = max(nodes, key=itemgetter(1), default=("", 0.0))
        self.worst = _find_largest(summary.distinct_drops) if summary.drops else ""
        # losses due to a full table have nothing to do with CPU time
        room = (LossReason.TABLE_FULL, LossReason.NO_ENTRY)
        self.lacks_room = bool(self.worst) and summary.lost_for[self.worst] in room

    def judge_table(self, min_losses: float = 0.0) -> _Finding | None:
        """Return a finding if most losses are due to a full table or to failed insertions into it.

        Frames of unknown connections are a consequence of a full table, and of no other finding.
        """
        summary = self.summary
        is_full = summary.table.get("full", 0.0) >= FULL_TABLE_PERCENT
        unknown = summary.select_drops(LossReason.NO_CONNECTION)
        short = summary.select_drops(LossReason.TABLE_FULL, LossReason.NO_ENTRY)
        short |= unknown if is_full else {}
        if not short or sum(short.values()) < min_losses:
            return None
        reason, problem = _find_largest(short), "its table has no room for another connection"
        if is_full:
            full = f"{summary.table['full']:.0f} % of it are in use"
            return "table", f"{problem}: {full}, and {reason} grew"
        if not self._is_at_least_half(sum(short.values()), sum(unknown.values())):
            return None
        if summary.lost_for[reason] == LossReason.NO_ENTRY:
            why = "no port was free, or two frames began the same one at once"
            return "table", f"connections were not entered into its table: {why}; {reason} grew"
        return "table", f"{problem}, or no port: {reason} grew"

    def list_full_parts(self) -> Iterator[_Finding]:
        """Yield findings for rules that drop most of the lost frames, and for saturated threads."""
        summary, ran = self.summary, f"{self.ran:.0f} %"
        refused = summary.select_drops(LossReason.RULE, LossReason.NO_CONNECTION)
        if refused and self._is_at_least_half(sum(refused.values())):
            reason = _find_largest(refused)
            yield "rules", f"its rules drop frames, whatever the frame rate: {reason} grew"
        if summary.process and not summary.polls:
            throttled = summary.process.get("throttled", 0.0)
            if self.ran >= FULL_THREAD_PERCENT:
                yield "cpu", f"its busiest thread ran {ran} of the time: one core is all it can use"
            if throttled > THROTTLED_PERCENT:
                quota = f"a quota of its cgroup throttled it in {throttled:.0f} % of its periods"
                yield "cpu", f"{quota}; it ran {ran}"
            if self.ran + self.waited >= FULL_THREAD_PERCENT:
                yield "cpu", self._waiting_text
        if self.vectors >= FULL_VECTORS_PER_CALL:  # the cores of VPP's workers are never idle
            full = f"{self.node} takes {self.vectors:.0f} vectors per call"
            yield "cpu", f"its workers are saturated: {full}"

    def list_spare_parts(self) -> Iterator[_Finding]:
        """Yield findings for lost frames although a thread, a worker or a core had time left."""
        summary, worst, waited = self.summary, self.worst, self.waited
        grew = f"{worst} grew"
        if worst and waited > THROTTLED_PERCENT and not self.lacks_room:
            yield "cpu", f"{self._waiting_text}; {grew}"
        if self.node:  # of VPP
            room = f"its workers have spare capacity: at most {self.vectors:.0f} vectors per call, of 256"
            if worst and summary.lost_for[worst] == LossReason.TOTAL:
                yield "unknown", f"{room}; {grew}, and no reason that v6t reads explains half of it"
            elif worst:
                yield "queue", f"{room}; {grew}"
            elif self.lost:
                yield "unknown", f"{room}; {UNEXPLAINED_LOSS}"
            yield "nothing here", room
        if summary.polls:
            unfetched = summary.select_drops(LossReason.INGRESS)
            all_drops = sum(summary.distinct_drops.values())
            if 100 * sum(unfetched.values()) >= MAJORITY_PERCENT * all_drops > 0:
                problem = "it polls, and frames came faster than it fetched them"
                yield "cpu", f"{problem}: {_find_largest(unfetched)} grew"
            if worst:
                yield "queue", f"a queue is full: {grew}"
            why = UNEXPLAINED_LOSS if self.lost else "nothing was lost here"
            yield "unknown", f"it polls: its cores are busy without load, too; {why}"
        if summary.process and worst and not self.lacks_room:
            unused = f"{100 - self.ran - waited:.0f} % of it: {grew}"
            yield "queue", f"a queue in front of it overflowed although it had time left, {unused}"

    def judge_cores(self, median_idle: Mapping[str, float]) -> _Finding:
        """Return a finding based on the median idle time [%] of cores that are not saturated."""
        if not median_idle:
            return "unknown", "it reports nothing about its cores"
        least, quiet = min(median_idle.values()), "no core was busy throughout"
        if self.worst:
            problem = f"{quiet}, yet it lost frames: a queue, a table or a lock is the bottleneck"
            return "contention" if least < FREE_CORE_IDLE_PERCENT else "queue", problem
        if self.lost:
            return "unknown", f"{quiet}; {UNEXPLAINED_LOSS}"
        if least > FREE_CORE_IDLE_PERCENT:
            return "nothing here", "every core was mostly idle: check the other device"
        return "unknown", f"{quiet}, and nothing was lost here"

    def _is_at_least_half(self, count: float, excluded: float = 0.0) -> bool:
        """Return whether a number of losses is at least half of all losses minus ``excluded``."""
        total = max(sum(self.summary.distinct_drops.values()), self.lost or 0) - excluded
        return 100 * count >= MAJORITY_PERCENT * total

    @property
    def _waiting_text(self) -> str:
        """Sentence on how long the busiest thread waited for a core and on the likely cause."""
        idle = [100 - core["busy"] for core in self.summary.cores.values()]
        if self.summary.polls or not idle:
            cause = "other processes on its cores, or a quota, limited it"
        elif max(idle) > 100 - FREE_CORE_IDLE_PERCENT:
            cause = (
                "a core was idle meanwhile, so a quota limited it or it is pinned to other cores"
            )
        elif "throttled" in self.summary.process:  # and not by more than THROTTLED_PERCENT
            cause = "other processes used its cores"
        else:
            cause = "no core was idle, so other processes used its cores, or a quota limited it"
        shares = f"{self.ran:.0f} % of the time and waited for a core for {self.waited:.0f} %"
        return f"its busiest thread ran {shares}: {cause}"


def _judge_full_cores(median_idle: Mapping[str, float], tester_limit: str) -> _Finding | None:
    """Return a finding if the median idle time [%] of cores shows that they are saturated."""
    busy = [core for core, idle in median_idle.items() if idle <= SATURATED_CORE_IDLE_PERCENT]
    if not busy:
        return None
    explanation = f"{', '.join(busy)} had no time left ({len(busy)} of {len(median_idle)} cores)"
    if tester_limit:  # a tester at its limit may use the same cores
        return "unknown", f"{explanation}, but the tester may have used it: {tester_limit}"
    return "cpu", explanation


def _find_largest(counts: Mapping[str, float]) -> str:
    return max(counts, key=lambda reason: counts[reason])
