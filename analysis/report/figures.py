"""Which figures belong to which benchmark of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from v6t.analysis.blocks import Drawing
from v6t.analysis.figures import delays, loss, rates
from v6t.analysis.figures.canvas import CYCLE
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import Record, sizes_of
from v6t.procedures.distribution import Distribution
from v6t.procedures.trial import Trial
from v6t.procedures.validity import assess_trial
from v6t.profiles.wire import max_frame_rate_fps

MOST_STEPS = 2000
"""Trials that a search trace still shows one by one."""


def drawings(data: RunData, benchmark: str, records: Sequence[Record]) -> list[Drawing]:
    """Figures of one benchmark; none where nothing was measured."""
    measured = [r for r in records if not r.get("not_measured")]
    draw = _FIGURES.get(benchmark)
    return list(draw(data, benchmark, measured)) if draw and measured else []


def _throughput(data: RunData, benchmark: str, records: Sequence[Record]) -> Iterator[Drawing]:
    line_rate = data.config["line_rate_bps"]
    media = {
        sizes_of(r): float(max_frame_rate_fps(line_rate, r["frame_sizes"]["ipv6"])) for r in records
    }
    found = "; ".join(
        f"{sizes_of(r)} {r['direction']}: {r['median']:,.0f} of {media[sizes_of(r)]:,.0f}"
        for r in records
    )
    yield Drawing(
        rates.rate_by_size(records, f"{benchmark}-sizes", media),
        "Frame rate against frame size: median of the repetitions, bars from P1 to P99, the "
        "theoretical maximum of the medium for the larger (IPv6) frame, and what the tester "
        "itself carries in loopback. Frames per second per direction.",
        f"Throughput by frame size, frames per second per direction. {found}.",
    )
    for record in records:
        point = _name(benchmark, record)
        where = f"{sizes_of(record)} octets, {record['direction']}"
        steps = _steps(data, record)
        if steps:
            yield Drawing(
                rates.search_trace(steps, record["median"], f"{point}-trace"),
                f"Search trace, {where}: every trial of the point in order, {len(steps)} trials"
                + ("" if len(steps) < MOST_STEPS else " (the first ones)")
                + ".",
                f"Search trace of {where}: {len(steps)} trials, median "
                f"{record['median']:,.0f} frames per second per direction.",
            )
        if len(record["rates"]) > 2:
            yield Drawing(
                rates.repetitions(record, f"{point}-repetitions"),
                f"Repetitions, {where}.",
                f"Rates of {len(record['rates'])} repetitions of {where}.",
            )


def _frame_loss(_data: RunData, benchmark: str, records: Sequence[Record]) -> Iterator[Drawing]:
    for part, some in enumerate(_readable(records)):
        points = "; ".join(f"{sizes_of(r)} {r['direction']}" for r in some) + "."
        name = f"-{part}" if part else ""
        yield Drawing(
            loss.loss_curve(some, f"{benchmark}-curve{name}"),
            "Frame loss against the offered rate as a share of the medium's maximum for the frame "
            "size: median, bars from P1 to P99; of both directions together where both were "
            "loaded.",
            "Frame loss curve: " + points,
        )
        yield Drawing(
            loss.forwarded_curve(some, f"{benchmark}-forwarded{name}"),
            "Frames forwarded against frames offered, per second and all directions together: a "
            "flat line beyond the knee is a device that stays stable under overload.",
            "Forwarded against offered frames per second: " + points,
        )


def _readable(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """As many lines as a figure tells apart; more in further figures, a direction each."""
    if len(records) <= len(CYCLE):
        yield records
        return
    for mode in dict.fromkeys(r["direction"] for r in records):
        here = [r for r in records if r["direction"] == mode]
        for first in range(0, len(here), len(CYCLE)):
            yield here[first : first + len(CYCLE)]


def _timing(data: RunData, benchmark: str, records: Sequence[Record]) -> Iterator[Drawing]:
    kind = "ipdv" if benchmark == "ipdv" else "delays"
    for record in records:
        found = merged(data, record, kind)
        if not found:
            continue
        where = f"{sizes_of(record)} octets, {record['direction']}"
        frames = ", ".join(f"{way} {d.frames:,}" for way, d in found.items())
        if kind == "ipdv":
            figure = delays.variation_figure(found, _name(benchmark, record))
            caption = f"Differences of consecutive delays, {where}; pairs: {frames}."
        else:
            figure = delays.delay_figure(found, _name(benchmark, record))
            caption = (
                f"One-way delays, {where}, all repetitions together: histogram, and share of "
                f"frames that take longer. Timed frames: {frames}. Lost frames count as "
                "infinitely late."
            )
        yield Drawing(figure, caption, caption)


def merged(data: RunData, record: Record, kind: str) -> dict[str, Distribution]:
    """Delays (or their differences) of all valid trials of a record, by direction."""
    invalid = {t["key"] for t in record["invalid_trials"]}
    found: dict[str, Distribution] = {}
    for trial in data.of(record):
        if trial.key in invalid:
            continue
        for way, counted in trial.result.directions.items():
            times: Mapping[str, Distribution] | None = getattr(counted, kind)
            for one in (times or {}).values():
                found[way] = found[way].merged(one) if way in found else one
    return {way: one for way, one in found.items() if one.values_ns}


def _steps(data: RunData, record: Record) -> list[rates.Step]:
    """The trials of a search with how they ended, judged as the procedure judged them."""
    steps = []
    for number, trial in enumerate(data.of(record), 1):
        if number > MOST_STEPS:
            break
        repetition = re.search(r"/r(\d+)/", trial.key)
        plain = {k: trial.asked[k] for k in _PLAIN}
        verdict = assess_trial(
            Trial(**plain),
            trial.result,
            loss_tolerance=record["loss_tolerance"],
            sending_time_tolerance=record["sending_time_tolerance"],
        )
        outcome = "passed" if verdict.passed else "failed" if verdict.valid else "invalid"
        steps.append(
            rates.Step(
                int(repetition[1]) if repetition else 0, number, trial.asked["rate_fps"], outcome
            )
        )
    return steps


_PLAIN = (
    *("benchmark", "key", "ipv6_frame_size", "ipv4_frame_size", "mode", "rate_fps", "duration_s"),
    *("residual_wait_s", "pause_s"),
)


def _name(benchmark: str, record: Record) -> str:
    return f"{benchmark}-{record['frame_sizes']['ipv6']}-{record['direction']}"


_Draw = Callable[[RunData, str, Sequence[Record]], Iterator[Drawing]]
_FIGURES: Mapping[str, _Draw] = {
    "throughput": _throughput,
    "throughput-frame-timeout": _throughput,
    "frame-loss": _frame_loss,
    "frame-loss-frame-timeout": _frame_loss,
    "latency": _timing,
    "pdv": _timing,
    "ipdv": _timing,
}
