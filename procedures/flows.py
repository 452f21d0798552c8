"""Degradation of the throughput with the number of network flows (RFC 8219 section 10)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from v6t.procedures.throughput import ThroughputSpec
from v6t.trials.trial import FlowStarts

BENCHMARK = "flows"
StartMode = Literal["together", "successive"]


@dataclass(frozen=True)
class FlowPoint:
    """A number of flows and how they start."""

    flows: int  # n, network flows per direction
    start: StartMode  # ``together`` for one flow

    @property
    def variant(self) -> str:
        """Prefix of the keys of its trials: ``flows16-`` or ``successive16-``."""
        return f"{'flows' if self.start == 'together' else self.start}{self.flows}-"


def list_flow_points(counts: Sequence[int], starts: Sequence[StartMode]) -> Iterator[FlowPoint]:
    """Yield the point of one flow, then each number of flows with each order of starts."""
    yield FlowPoint(1, "together")
    for start in starts:
        for count in sorted(set(counts) - {1}):
            yield FlowPoint(count, start)


def make_flow_starts(point: FlowPoint, interval_s: float) -> FlowStarts | None:
    """Return the start times of the flows of a point, or None if all start with the first frame."""
    return None if point.start == "together" else FlowStarts(point.flows, interval_s)


def specify_flow_search(
    spec: ThroughputSpec, point: FlowPoint, interval_s: float
) -> ThroughputSpec:
    """Specify the throughput search for a number of flows.

    A search with short trials would end before the last flow begins, so flows that begin one
    after the other are always searched with full trials.
    """
    conditions = replace(spec.conditions, variant=point.variant)
    starts = make_flow_starts(point, interval_s)
    if starts is None:
        return replace(spec, conditions=conditions)
    longer = starts.last_start_s
    return replace(
        spec,
        conditions=replace(conditions, flow_starts=starts),
        duration_s=spec.duration_s + longer,
        final_duration_s=None if spec.final_duration_s is None else spec.final_duration_s + longer,
        search="binary",
    )
