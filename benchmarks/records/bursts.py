"""Records of back-to-back frames for ``results.json`` (RFC 9004)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from v6t.analysis.notes import notes
from v6t.analysis.record import Number, Record, Row, Series, head
from v6t.analysis.statistics import summary_json
from v6t.procedures.back_to_back import FORMULA, BurstResult, deviation


class BurstRecord(Series, Record):
    """Longest burst without loss (RFC 9004)."""

    unit: Literal["frames"]
    """of the bursts"""
    burst_rate: Number
    """rate within the bursts [frames per second per direction]"""
    burst_rate_reason: str = ""
    """`media` or `tester`"""
    throughput: Number | None = None
    """that the search begins from [frames per second per direction]"""
    invalid_repetitions: int = 0
    """repetitions that are left out: the tester could not send their bursts as asked"""
    average: Number | None
    """mean length of the longest burst without loss; the benchmark of RFC 9004 [frames]"""
    deviation: Number | None
    """standard deviation (RFC 9004 section 6.4) [frames]"""
    median: Number | None = None
    """middle value; null is undefined"""
    p1: Number | None = None
    """1st percentile, nearest rank"""
    p99: Number | None = None
    """99th percentile, nearest rank"""
    min: Number | None = None
    """shortest"""
    max: Number | None = None
    """longest"""
    dispersion: Number | None = None
    """(P99 - P1) / median [%]"""
    values: list[Number]
    """each repetition's burst"""
    notes: Sequence[str] = ()
    """what is odd about the repetitions"""
    hit_longest: int = 0
    """repetitions in which no burst lost anything, up to the longest of the search"""
    longest_frames: int | None = None
    """longest burst of the search"""
    resolution_frames: int
    """step size of the search [frames]"""
    algorithm: str = ""
    """the search algorithm (RFC 9004 section 6.2)"""
    verifications: int | None = None
    """times a burst that loses is offered again before it counts"""
    shortest_frames: int | None = None
    """shortest burst that is offered: of shorter ones the tester cannot prove that they left back to back"""
    longest_s: Number | None = None
    """time to send the longest burst of the search [s]"""
    loss_tolerance: Number | None = None
    """share of a burst's frames that may be lost"""
    implied_buffer_s: Number | None
    """average burst over burst rate [s]"""
    corrected_buffer_s: Number | None
    """buffer time less what was forwarded during the burst [s]"""
    formula: str = ""
    """of the corrected buffer time (RFC 9004 section 6.4)"""
    residual_wait_s: Number | None = None
    """wait for late frames [s]"""

    @property
    def repeated(self) -> Sequence[float | None]:
        return self.values

    @property
    def odd(self) -> Sequence[str]:
        return self.notes

    @property
    def offered(self) -> Sequence[float]:
        return [self.burst_rate]

    def series(self) -> Iterator[tuple[str, Series, str]]:
        yield "", self, self.unit


def burst_record(
    result: BurstResult, *, refused: str | None, conditions: Mapping[str, Any]
) -> BurstRecord:
    """The record of one back-to-back point (B2B-01, B2B-02, B2B-04).

    Args:
        result: the repetitions; none if the benchmark does not apply or was refused.
        refused: why it was not measured (B2B-03); None if it was.
        conditions: what else the reader must know.
    """
    spec = result.spec
    at = spec.conditions
    bursts = [float(frames) for frames in result.bursts]
    time = result.buffer_time
    title = "Back-to-back frames"
    if spec.rate_reason == "tester":
        title += " at the tester's maximum rate"
    attempts = [a for r in result.repetitions for a in r.attempts]
    return BurstRecord(
        **head(at, "back-to-back", title, attempts, conditions),
        unit="frames",
        burst_rate=spec.rate_fps,
        burst_rate_reason=spec.rate_reason,
        throughput=spec.throughput_fps,
        not_measured=refused or spec.not_applicable or _unsent(result),
        repetitions=len(bursts),
        invalid_repetitions=sum(not r.valid for r in result.repetitions),
        average=result.average_frames,
        deviation=deviation(bursts),
        **{k: v for k, v in summary_json(bursts).items() if k != "count"},
        values=bursts,
        notes=notes(bursts, "frames"),
        hit_longest=sum(r.hit_longest for r in result.repetitions),
        longest_frames=spec.most_frames,
        resolution_frames=spec.resolution_frames,
        algorithm=spec.search,
        verifications=spec.verifications,
        shortest_frames=spec.least_frames,
        longest_s=spec.longest_s,
        loss_tolerance=at.loss_tolerance,
        implied_buffer_s=time.implied_s if time else None,
        corrected_buffer_s=time.corrected_s if time else None,
        formula=FORMULA,
        residual_wait_s=at.residual_wait_s,
    )


def _unsent(result: BurstResult) -> str | None:
    if result.bursts:
        return None
    if any(r.attempts[-1].verdict.valid for r in result.repetitions):
        return (
            f"even the shortest burst lost frames ({result.spec.shortest_frames:,}): of shorter "
            "ones the tester cannot prove that they left back to back"
        )
    return "the tester could not send the bursts as asked in any repetition"


def burst_rows(result: BurstResult) -> list[Row]:
    """One row per repetition."""
    spec = result.spec
    return [
        {
            "No": r.number,
            "Size": spec.conditions.size_label,
            "Dir": spec.conditions.mode[0],
            "burst_rate": spec.rate_fps,
            "frames": r.frames if r.valid else "",
            "hit_longest": r.hit_longest,
            "trials": len(r.attempts),
        }
        for r in result.repetitions
    ]
