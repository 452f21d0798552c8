"""Sums of what several testers counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from v6t.drivers.tester import PhaseCounts
from v6t.trials.delays import Distribution
from v6t.trials.result import DirectionResult, sum_classes
from v6t.trials.timeline import Timeline


def merge_directions(parts: Sequence[DirectionResult]) -> DirectionResult:
    """Return the result of all testers in one direction.

    The slowest sender and the longest gap of one tester stand for all. Of ``delay_us``, the smallest and
    the largest delay are exact, and the quantiles are those of the slowest tester; ``delays`` are exact.
    """
    first, slowest = parts[0], max(parts, key=lambda part: part.max_sending_time_s)
    summaries = [p.delay_us for p in parts if p.delay_us]

    def list_known_values(name: str) -> list[float]:
        return [value for p in parts if (value := getattr(p, name)) is not None]

    return replace(
        first,
        classes=sum_classes(item for p in parts for item in p.classes.items()),
        sending_time_s=slowest.sending_time_s,
        sending_time_error_s=slowest.sending_time_error_s,
        control=sum(p.control for p in parts),
        checked=sum(p.checked for p in parts),
        matched=sum(p.matched for p in parts),
        mismatch=next((p.mismatch for p in parts if p.mismatch), None),
        behaviour=dict(sum((Counter(p.behaviour) for p in parts if p.behaviour), Counter()))
        or None,
        missing=next((p.missing for p in parts if p.missing), None),
        delay_us={
            name: (min if name == "min" else max)(s[name] for s in summaries)
            for name in summaries[0]
        }
        if summaries
        else None,
        delays=_merge_distributions(p.delays for p in parts),
        ipdv=_merge_distributions(p.ipdv for p in parts),
        first_lost_s=min(list_known_values("first_lost_s"), default=None),
        last_lost_s=max(list_known_values("last_lost_s"), default=None),
        longest_gap_s=max(list_known_values("longest_gap_s"), default=None),
        timed_share=min(list_known_values("timed_share"), default=None),
        timeline=_merge_timelines([p.timeline for p in parts]),
        rate_change_error_s=max(list_known_values("rate_change_error_s"), key=abs, default=None),
    )


def merge_phases(parts: Mapping[str, PhaseCounts]) -> PhaseCounts:
    """Return the counts of all testers; their endpoints may coincide, so they are not counted."""
    phases = list(parts.values())
    return replace(
        phases[0],
        result=merge_directions([p.result for p in phases]),
        start_s=min(p.start_s for p in phases),
        end_s=max(p.end_s for p in phases),
        duplicate_tuples=sum(p.duplicate_tuples for p in phases),
        inside_endpoints=None,
        outside_endpoints=None,
        example=next((p.example for p in phases if p.example), None),
        faults=name_faults({name: p.faults for name, p in parts.items()}),
        started=min(p.started for p in phases),
        health={"servers": {name: p.health for name, p in parts.items()}},
    )


def name_faults(faults: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the faults of all testers, each with the tester's name."""
    return tuple(f"server {name}: {fault}" for name, own in faults.items() for fault in own)


def _merge_distributions(
    parts: Iterable[Mapping[str, Distribution] | None],
) -> dict[str, Distribution] | None:
    by_class: dict[str, list[Distribution]] = {}
    for part in parts:
        if part is None:
            return None
        for name, distribution in part.items():
            by_class.setdefault(name, []).append(distribution)
    return {name: Distribution.merge(own) for name, own in by_class.items()}


def _merge_timelines(parts: Sequence[Timeline | None]) -> Timeline | None:
    timelines = [part for part in parts if part is not None]
    if len(timelines) < len(parts) or len({t.slot_s for t in timelines}) > 1:
        return None
    received, lost = (
        tuple(map(sum, zip_longest(*rows, fillvalue=0)))
        for rows in ([t.received for t in timelines], [t.lost for t in timelines])
    )
    return Timeline(timelines[0].slot_s, received, lost)
