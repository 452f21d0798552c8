"""Which entropy a device needs (GEN-12): the throughput by what varies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from v6t.base.errors import UsageError
from v6t.base.strict_model import StrictModel
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.point import Cost, Measured, MeasurementPoint, Point
from v6t.benchmarks.presentations.variants import ProbePresentation
from v6t.benchmarks.records.throughput import ThroughputRecord
from v6t.benchmarks.records.variants import ProbeRecord, probe_record, probe_rows
from v6t.benchmarks.throughput import search_cost, search_record, search_spec
from v6t.packets.direction import DIRECTIONS
from v6t.procedures.rss_probe import CASES, Case, advise, holds
from v6t.procedures.throughput import measure_throughput
from v6t.profiles.entropy import find_variation, hold_variables
from v6t.trials.trial import list_directions

if TYPE_CHECKING:
    from v6t.benchmarks.context import RunContext, TechnologyClass


class RssProbe(ProbePresentation, Benchmark[ProbeRecord, StrictModel]):
    """The throughput with fixed headers, random ports, random addresses, and both."""

    summary = "Which pseudorandom header fields spread frames over the device's cores."
    phase = Phase.VARIANTS
    order = 20
    heeds = frozenset({"adaptive"})
    alone = True
    in_all = False

    def parameters(self, plugin: TechnologyClass) -> Mapping[str, Any]:
        """Those that let addresses vary."""
        return dict(plugin.spread)

    def check(self, bound: RunContext) -> None:
        """Refuse a probe that could tell nothing: its traffic does not vary."""
        plugin, run = bound.technology, bound.settings
        sizes = plugin.sizes_of(run.frame_sizes[0])
        active = {way for mode in run.modes for way in list_directions(mode)}
        for direction in DIRECTIONS:
            if direction not in active:
                continue
            ports, addresses = find_variation(plugin.sized_traffic(direction, sizes))
            if not (ports and addresses):
                what = "ports" if addresses else "addresses"
                raise UsageError(
                    f"the {what} of {plugin.name}'s {direction} traffic do not vary, so there is "
                    "nothing to probe",
                    "`v6t plugins " + plugin.name + "` lists the parameters that let them vary",
                    code="unsuitable-benchmark",
                )

    def cost(self, point: Point) -> Cost:
        """One search after the other for each case."""
        return search_cost(search_spec(point, point.conditions())) * len(CASES)

    def run(self, point: MeasurementPoint) -> Measured:
        """All cases, then what follows from them."""
        by_case: dict[Case, ThroughputRecord] = {}
        rows = []
        at = point
        for case in CASES:
            ports, addresses = holds(case)
            at = point.vary(f"{case}-", partial(hold_variables, ports=ports, addresses=addresses))
            at.say(f"{at.sizes.label} octets, {at.mode}: {self.name}, {case}")
            spec = search_spec(at, at.conditions(variant=f"{case}-"))
            result = measure_throughput(spec, at.measure, at.watch)
            by_case[case] = search_record(at, result)
            rows += probe_rows(case, result)
        limited = [case for case, record in by_case.items() if record.tester_limited]
        advice = advise({case: record.median for case, record in by_case.items()}, limited)
        return Measured(probe_record(by_case, advice, conditions=at.said), rows)
