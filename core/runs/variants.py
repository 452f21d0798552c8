"""Benchmarks that compare variants of a run's traffic: entropy (GEN-12), flows (SC-04)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from v6t.analysis.records.throughput import ThroughputRecord, throughput_record
from v6t.analysis.records.variants import flow_rows, flows_record, probe_record, probe_rows
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs import specs
from v6t.core.runs.benchmarks import Measured, Place
from v6t.plugins.base import Technology
from v6t.procedures.flows import FlowPoint, flow_points, flow_spec
from v6t.procedures.rss_probe import CASES, Case, advise, holds
from v6t.procedures.throughput import ThroughputResult, measure_throughput
from v6t.procedures.trial import directions_of
from v6t.profiles.errors import UsageError
from v6t.profiles.model import DIRECTIONS, Traffic
from v6t.profiles.transform.entropy import flows, held, varies

Vary = Callable[[Traffic], Traffic]
Places = Callable[[str, Vary], Place]
"""Loads a variant of the traffic and says where it is measured; its trials have keys of their own."""


def probe(places: Places) -> Iterator[Measured]:
    """The throughput with fixed headers, random ports, random addresses, and both."""
    found: dict[Case, ThroughputRecord] = {}
    rows = []
    at: Place | None = None
    for case in CASES:
        ports, addresses = holds(case)
        at = places(f"{case}-", partial(held, ports=ports, addresses=addresses))
        at.say(f"{at.sizes.label} octets, {at.mode}: {specs.RSS_PROBE}, {case}")
        result = _throughput(at, f"{case}-")
        found[case] = _record(at, result)
        rows += probe_rows(case, result)
    if at is None:
        return
    limited = [case for case, record in found.items() if record.tester_limited]
    advice = advise({case: record.median for case, record in found.items()}, limited)
    record = probe_record(found, advice, conditions=at.conditions)
    yield Measured(specs.RSS_PROBE, record, rows)


def measure_flows(places: Places) -> Iterator[Measured]:
    """The throughput of one flow, and how it changes with more of them."""
    at = places("flows1-", partial(flows, count=1))
    wanted = at.run.procedure.flows
    found: list[tuple[FlowPoint, ThroughputRecord]] = []
    rows = []
    for point in flow_points(wanted.counts, wanted.starts):
        if point.flows > 1:
            at = places(point.variant, partial(flows, count=point.flows))
        words = f"{point.flows} flows, {point.start}" if point.flows > 1 else "one flow"
        at.say(f"{at.sizes.label} octets, {at.mode}: {words}")
        spec = specs.throughput_spec(at.run, at.sizes, at.mode, at.media_fps, at.ceiling.rate_fps)
        spec = flow_spec(spec, point, wanted.interval_s)
        result = measure_throughput(spec, at.measure, at.watch)
        found.append((point, _record(at, result)))
        rows += flow_rows(point, result)
    record = flows_record(found, interval_s=wanted.interval_s, conditions=at.conditions)
    yield Measured(specs.FLOWS, record, rows)


def check_flows(plugin: Technology, run: ResolvedRun) -> None:
    """Refuse more flows than the traffic has.

    Raises:
        UsageError: too many, or a stateful technology.
    """
    if plugin.stateful:
        raise UsageError(
            f"{specs.FLOWS} is for stateless technologies: of {plugin.name} the number of "
            "connections is varied",
            "run a campaign over connections.count",
        )
    for size in run.frame_sizes:
        for direction in DIRECTIONS:
            flows(
                plugin.traffic(direction, plugin.frame_pair(size)),
                max(run.procedure.flows.counts, default=1),
            )


def _throughput(at: Place, variant: str) -> ThroughputResult:
    spec = specs.throughput_spec(at.run, at.sizes, at.mode, at.media_fps, at.ceiling.rate_fps)
    conditions = replace(spec.conditions, variant=variant)
    return measure_throughput(replace(spec, conditions=conditions), at.measure, at.watch)


def _record(at: Place, result: ThroughputResult) -> ThroughputRecord:
    return throughput_record(
        result,
        at.find,
        ceiling_fps=at.ceiling.rate_fps,
        selftest_margin=at.run.procedure.selftest_margin,
        conditions=at.conditions,
    )


def spread_of(plugin: type[Technology], benchmarks: tuple[str, ...]) -> Mapping[str, Any]:
    """Parameters under the user's own: for the probe, those that let addresses vary."""
    return dict(plugin.spread) if specs.RSS_PROBE in benchmarks else {}


def check_probe(plugin: Technology, benchmarks: tuple[str, ...], mode: Any, size: int) -> None:
    """Refuse a probe that could tell nothing.

    Raises:
        UsageError: other benchmarks beside it, a stateful technology, or traffic that does not
            vary.
    """
    if specs.RSS_PROBE not in benchmarks:
        return
    if len(benchmarks) > 1:
        raise UsageError(
            f"{specs.RSS_PROBE} has a run of its own: its traffic varies more than that of others",
            "leave the others out of --measure",
        )
    if plugin.stateful:
        raise UsageError(
            f"{specs.RSS_PROBE} is for stateless technologies: connections of {plugin.name} vary "
            "as the RFC asks"
        )
    sizes = plugin.frame_pair(size)
    for direction in DIRECTIONS:
        if direction not in directions_of(mode):
            continue
        ports, addresses = varies(plugin.traffic(direction, sizes))
        if not (ports and addresses):
            what = "ports" if addresses else "addresses"
            raise UsageError(
                f"the {what} of {plugin.name}'s {direction} traffic do not vary, so there is "
                "nothing to probe",
                "`v6t plugins " + plugin.name + "` lists the parameters that let them vary",
            )
