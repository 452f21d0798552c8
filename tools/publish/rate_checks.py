"""Check rates against other trials of the same run: full queues can make a rate too high."""

from v6t.analysis.record import Record
from v6t.analysis.rundata import RunData
from v6t.benchmarks.connections import ConnectionRateRecord
from v6t.benchmarks.delay import DelayRecord
from v6t.benchmarks.throughput import ThroughputRecord

LOSS_MARK, QUEUE_MARK = "‡", "§"
LOSS_NOTE = (
    f"{LOSS_MARK} longer trials at this rate or below lost frames: queues may have hidden an overload in the "
    "search"
)
QUEUE_NOTE = (
    f"{QUEUE_MARK} above the frame rate that the device forwards in both directions together: its queues "
    "held the rest, so the device cannot keep this rate"
)


def mark_rate(data: RunData | None, record: Record) -> str:
    """Return the mark of a rate that other trials of its run contradict; empty without any."""
    if data is None:
        return ""
    if exceeds_forwarding_rate(data, record):
        return QUEUE_MARK
    return LOSS_MARK if has_loss_in_delay_trials(data, record) else ""


def has_loss_in_delay_trials(data: RunData, record: Record) -> bool:
    """Return whether valid delay trials at or below a throughput lost too many frames.

    Args:
        data: the run with its trials.
        record: the throughput; the result is False for other records.
    """
    if not isinstance(record, ThroughputRecord) or not record.measured:
        return False
    point = (record.sizes, record.direction)
    delays = [
        r for r in data.records if isinstance(r, DelayRecord) and (r.sizes, r.direction) == point
    ]
    loss_tolerance = data.procedure.get("loss_tolerance") or 0.0
    return any(
        result.count_frames("required") - result.count_frames("received")
        > loss_tolerance * result.count_frames("required")
        for trial in data.list_valid_trials(delays)
        if trial.request["rate_fps"] <= record.median
        for result in trial.result.directions.values()
    )


def exceeds_forwarding_rate(data: RunData, record: Record) -> bool:
    """Return whether connections were opened faster than the device forwards frames.

    Args:
        data: the run.
        record: the connection rate; the result is False for other records, and if no throughput of the
            same frame sizes was measured or the tester limited one.
    """
    if not isinstance(record, ConnectionRateRecord) or not record.measured:
        return False
    throughputs = [
        r
        for r in data.records
        if isinstance(r, ThroughputRecord) and r.measured and r.sizes == record.sizes
    ]
    if not throughputs or any(r.limited for r in throughputs):
        return False
    return bool(record.median > max(map(_sum_directions, throughputs)))


def _sum_directions(record: ThroughputRecord) -> float:
    """Return the frame rate of all directions [1/s], or an upper bound if no rate passed."""
    directions = 2 if record.direction == "bidirectional" else 1
    return directions * (record.median or record.resolution_fps)
