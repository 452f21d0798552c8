"""Find rates that measure a device's queues instead of its forwarding, by other trials of the run."""

from __future__ import annotations

from collections.abc import Iterator

from v6t.analysis.record import Record
from v6t.analysis.rundata import RunData
from v6t.benchmarks.connections import ConnectionRateRecord
from v6t.benchmarks.delay import DelayRecord
from v6t.benchmarks.throughput import ThroughputRecord

LOST, QUEUED = "‡", "§"
"""Marks of rates that other trials contradict."""
LOST_MEANING = (
    f"{LOST} longer trials at this rate or below lost frames: queues may have hidden an overload in the "
    "search"
)
QUEUED_MEANING = (
    f"{QUEUED} above the frame rate that the device forwards in both directions together: its queues held "
    "the rest, so the device cannot keep this rate"
)


def loses_elsewhere(data: RunData, record: Record) -> bool:
    """Return whether valid delay trials at or below a throughput lost too many frames.

    Args:
        data: the run, with its trials; without them nothing is known.
        record: of a throughput; of anything else: no.
    """
    if not isinstance(record, ThroughputRecord) or not record.measured:
        return False
    delays = [r for r in data.records if isinstance(r, DelayRecord) and _alike(r, record)]
    tolerated = data.procedure.get("loss_tolerance") or 0.0
    return any(
        counted.count_frames("required") - counted.count_frames("received")
        > tolerated * counted.count_frames("required")
        for trial in data.list_valid_trials(delays)
        if trial.request["rate_fps"] <= record.median
        for counted in trial.result.directions.values()
    )


def is_queued(data: RunData, record: Record) -> bool:
    """Return whether connections were opened faster than the device forwards frames.

    Args:
        data: the run.
        record: of a rate of connections; of anything else: no.
    """
    if not isinstance(record, ConnectionRateRecord) or not record.measured:
        return False
    most = [_carried(r) for r in _forwarding(data, record)]
    return bool(most) and record.median > max(most)


def _forwarding(data: RunData, record: Record) -> Iterator[ThroughputRecord]:
    """Yield the throughputs of the same frames; none if the tester limits one of them."""
    mine = [r for r in data.records if isinstance(r, ThroughputRecord) and r.measured]
    mine = [r for r in mine if r.sizes == record.sizes]
    if not any(r.limited for r in mine):
        yield from mine


def _carried(record: ThroughputRecord) -> float:
    """Return the frame rate of all directions [1/s], or an upper bound if no rate passed."""
    ways = 2 if record.direction == "bidirectional" else 1
    return ways * (record.median or record.resolution_fps)


def _alike(record: Record, other: Record) -> bool:
    return (record.sizes, record.direction) == (other.sizes, other.direction)
