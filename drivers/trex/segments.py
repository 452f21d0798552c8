"""Traffic whose rate changes without a gap (REC-01), as bursts that follow each other in the core.

A burst of TRex's begins when its inter-stream gap is over, by the data path's own clock. So the
second rate is a second set of streams that waits for the first to end and goes on where that ended:
no request to the server is needed meanwhile, and the change is as exact as the pace of frames.
"""

from __future__ import annotations

from dataclasses import replace

from v6t.drivers.trex.stamping import GROUPS_PER_DIRECTION, Burst, bursts
from v6t.profiles.compiler.schedule import count_frames
from v6t.profiles.streams import StreamSet, start_at_frame
from v6t.trials.trial import Trial


def segmented(streams: StreamSet, trial: Trial) -> tuple[StreamSet, list[Burst]]:
    """Streams and bursts of a trial with two rates; of others, its own.

    Args:
        streams: of one direction.
        trial: what is asked of it.
    """
    if trial.second_segment is None:
        return streams, bursts(streams, trial, stamp=True)
    first = bursts(streams, replace(trial, second_segment=None), stamp=True)
    part_trial = replace(
        trial,
        second_segment=None,
        rate_fps=trial.second_segment.rate_fps,
        duration_s=trial.second_segment.duration_s,
    )
    sent = count_frames([s.weight for s in streams.streams], trial.first_segment_frames)
    later = tuple(
        replace(
            start_at_frame(stream, frames), stream_id=stream.stream_id + GROUPS_PER_DIRECTION // 2
        )
        for stream, frames in zip(streams.streams, sent, strict=True)
    )
    second = [
        replace(b, index=b.index + len(later), isg=b.isg + 1e6 * trial.duration_s)
        for b in bursts(replace(streams, streams=later), part_trial, stamp=True)
    ]
    return replace(streams, streams=(*streams.streams, *later)), [*first, *second]
