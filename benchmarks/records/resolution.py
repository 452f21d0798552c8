"""Records of DNS resolution performance for ``results.json`` (RFC 8219 section 9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from v6t.analysis.record import (
    FindResult,
    Model,
    Number,
    RatesFound,
    Record,
    Row,
    Series,
    bounded_by_tester,
    head,
    rates_found,
)
from v6t.benchmarks.records.throughput import decisive_trial
from v6t.procedures.throughput import ThroughputResult

QPS: Literal["queries per second"] = "queries per second"


class SelfTest(Model):
    """What the tester does without a device (RFC 8219 section 9.2.1)."""

    capacity_qps: Number
    """AAAA queries that its authoritative server answered its client in time [queries per second]"""
    timeout_s: Number
    """within which: a quarter of the time-out [s]"""
    delta: Number
    """share by which the tester must do better than twice the rate"""
    covered_qps: Number
    """highest rate that it covers; no result may be above it [queries per second]"""


class Combination(RatesFound):
    """Names cached and names with an AAAA record of their own, and the rate found with them."""

    cached_percent: int
    """queries for names that were asked before the trial [%]"""
    own_aaaa_percent: int
    """names that have an AAAA record of their own [%]"""
    refused: str | None = None
    """why the rate is no result: the self-test does not cover it"""
    asked_aaaa: Number | None
    """AAAA questions to the authoritative server for each query, in the deciding trials"""
    asked_a: Number | None
    """A questions to the authoritative server for each query, in the deciding trials"""
    cached_found_percent: Number | None
    """of the queries for names asked before, those for which the device asked nobody [%]; null:
    there were none"""
    reasons: dict[str, int]
    """queries that were not answered rightly in time, by what was wrong, in all trials"""
    response_us: Number | None
    """median time to an answer in the last deciding trial [microseconds]"""
    decisive_trials: list[str]
    """trial that decided each repetition: the highest that passed"""


class ResolutionRecord(Record):
    """Most queries a second that are all answered rightly, for each combination."""

    unit: Literal["queries per second"] = QPS
    """of all rates"""
    combinations: list[Combination]
    """the first is nothing cached and no AAAA record of its own: the result of section 9.2"""
    selftest: SelfTest
    """of the tester"""
    timeout_s: Number
    """an answer that takes longer is none [s]"""
    duration_s: Number
    """length of each trial [s]"""
    resolution_qps: Number
    """error of the search [queries per second]"""
    upstream: Literal[4, 6]
    """version of IP between device and authoritative server"""
    sending_time_tolerance: Number = 1.00001
    """longest sending time of a valid trial, as a multiple of its length"""

    @property
    def limited(self) -> bool:
        return any(combination.limited for combination in self.combinations)

    @property
    def odd(self) -> Sequence[str]:
        return [note for combination in self.combinations for note in combination.notes]

    def series(self) -> Iterator[tuple[str, Series, str]]:
        for combination in self.combinations:
            yield f"{name_of(combination)} ", combination, "queries/s"


@dataclass(frozen=True)
class Searched:
    """A combination and its searches."""

    cached_percent: int
    own_aaaa_percent: int
    result: ThroughputResult


def name_of(combination: Combination | Searched) -> str:
    """``"20 % cached, 40 % AAAA"``."""
    return f"{combination.cached_percent} % cached, {combination.own_aaaa_percent} % AAAA"


def resolution_record(
    searched: Sequence[Searched],
    find: FindResult,
    *,
    selftest: SelfTest,
    upstream: Literal[4, 6],
    conditions: Mapping[str, Any],
) -> ResolutionRecord:
    """The record of all combinations.

    Args:
        searched: the first is the required one.
        find: where counts come from.
        selftest: of the tester.
        upstream: version of IP behind the device.
        conditions: what else the reader must know.
    """
    spec = searched[0].result.spec
    at = spec.conditions
    attempts = [a for s in searched for r in s.result.repetitions for a in r.attempts]
    combinations = [_combination(s, find, selftest) for s in searched]
    title = "DNS resolution performance"
    return ResolutionRecord(
        **head(at, spec.benchmark, title, attempts, conditions, direction="queries"),
        repetitions=combinations[0].repetitions,
        not_measured=combinations[0].refused,
        combinations=combinations,
        selftest=selftest,
        timeout_s=at.queries.timeout_s if at.queries else 0.0,
        duration_s=spec.duration_s,
        resolution_qps=max(s.result.error_fps for s in searched),
        upstream=upstream,
        sending_time_tolerance=at.sending_time_tolerance,
    )


def _combination(searched: Searched, find: FindResult, selftest: SelfTest) -> Combination:
    result, spec = searched.result, searched.result.spec
    rates = rates_found([r.rate_fps for r in result.repetitions], "queries/s")
    decisive = [key for key in map(decisive_trial, result.repetitions) if key]
    counted = [find(key).directions["forward"] for key in decisive]
    heard = [c.answers for c in counted if c.answers]
    queries = sum(c.count_frames("required") for c in counted)
    again = queries * searched.cached_percent / 100
    every = [find(a.trial.key) for r in result.repetitions for a in r.attempts]
    reasons = [d.answers.reasons for t in every for d in t.directions.values() if d.answers]
    hit = any(r.search.hit_upper_bound for r in result.repetitions)
    by_tester = hit and spec.upper_bound_reason == "tester"
    last = counted[-1].delay_us if counted else None
    return Combination(
        **rates,
        cached_percent=searched.cached_percent,
        own_aaaa_percent=searched.own_aaaa_percent,
        refused=(
            f"refused: the device answers at least {selftest.covered_qps:,.0f} queries/s, and the "
            f"tester's self-test covers no more (RFC 8219 section 9.2.1)"
        )
        if by_tester
        else None,
        tester_limited=by_tester
        or any(bounded_by_tester(r.rate_fps, r.attempts) for r in result.repetitions),
        tester_ceiling=selftest.capacity_qps,
        upper_bound=spec.upper_bound_fps,
        upper_bound_reason=spec.upper_bound_reason,
        upper_bound_hit=hit,
        asked_aaaa=sum(a.aaaa_queries for a in heard) / queries if queries else None,
        asked_a=sum(a.a_queries for a in heard) / queries if queries else None,
        cached_found_percent=100 * (1 - sum(a.repeated_queries for a in heard) / again)
        if again
        else None,
        reasons={
            why: sum(t.get(why, 0) for t in reasons)
            for why in sorted({w for t in reasons for w in t})
        },
        response_us=last["p50"] if last else None,
        decisive_trials=decisive,
    )


def resolution_rows(searched: Sequence[Searched], find: FindResult) -> list[Row]:
    """One row per repetition of each combination."""
    return [
        {
            "No": r.number,
            "cached %": s.cached_percent,
            "own AAAA %": s.own_aaaa_percent,
            "Duration": s.result.spec.duration_s,
            "Initial Rate": s.result.spec.upper_bound_fps,
            "Error": r.error_fps(s.result.spec.resolution_fps),
            "Date": find(r.attempts[0].trial.key).started if r.attempts else "",
            "Iterations": len(r.attempts),
            "queries/s": r.rate_fps,
        }
        for s in searched
        for r in s.result.repetitions
    ]
