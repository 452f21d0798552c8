"""The benchmarks of one point, one after the other: procedure, record, rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from v6t.analysis.records.base import FindResult, FrameSizes, Record
from v6t.analysis.records.bursts import burst_record, burst_rows, recovery_record, reset_record
from v6t.analysis.records.loss import frame_loss_record, frame_loss_rows
from v6t.analysis.records.throughput import repetition_rows, throughput_record
from v6t.analysis.records.timing import timing_record, timing_rows
from v6t.analysis.statistics import median, percentile
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs import specs
from v6t.procedures.back_to_back import BurstResult, measure_back_to_back
from v6t.procedures.conditions import Watch
from v6t.procedures.frame_loss import measure_frame_loss
from v6t.procedures.ipdv import measure_ipdv
from v6t.procedures.latency import measure_latency
from v6t.procedures.pdv import measure_pdv
from v6t.procedures.recovery import measure_recovery
from v6t.procedures.reset import measure_reset
from v6t.procedures.tester_rate import Ceiling, usable_fps
from v6t.procedures.throughput import ThroughputResult, ThroughputSpec, measure_throughput
from v6t.procedures.trial import Measure, Mode
from v6t.profiles.model import FramePair

Row = dict[str, Any]
_ELSEWHERE = (*specs.OF_CONNECTIONS, specs.FLOWS, specs.RSS_PROBE)


@dataclass(frozen=True)
class Measured:
    """One benchmark at one point.

    Attributes:
        benchmark: its name.
        record: its entry in ``results.json``.
        rows: one row per repetition, or per trial.
    """

    benchmark: str
    record: Record
    rows: list[Row]


@dataclass(frozen=True)
class Place:
    """Where and with what the benchmarks of one point are measured.

    Attributes:
        run: the whole run.
        sizes, mode: the point.
        media_fps: what the medium carries.
        ceiling: what the tester itself can do.
        measure: door to the device.
        loopback: door to the tester without a device.
        watch: told of every trial.
        say: told what begins.
        find: the counted result of a trial by its key.
        conditions: said with every number.
    """

    run: ResolvedRun
    sizes: FramePair
    mode: Mode
    media_fps: float
    ceiling: Ceiling
    measure: Measure
    loopback: Measure
    watch: Watch
    say: Callable[[str], None]
    find: FindResult
    conditions: dict[str, Any]


def measure_point(at: Place) -> Iterator[Measured]:
    """Every benchmark the run asks for; each is handed over as soon as it is complete."""
    for done in _measured(at):
        _gate(at, done.record)
        yield done


def _gate(at: Place, record: Record) -> None:
    """Say which offered rates the tester's self-test does not cover (SELF-02)."""
    usable = usable_fps(at.ceiling.rate_fps, at.run.procedure.selftest_margin)
    if record.offered:
        record.usable_fps = usable
        record.above_usable = [rate for rate in record.offered if rate > usable]


def _measured(at: Place) -> Iterator[Measured]:
    wanted = [name for name in specs.measured(at.run) if name not in _ELSEWHERE]
    spec = specs.throughput_spec(at.run, at.sizes, at.mode, at.media_fps, at.ceiling.rate_fps)
    found: ThroughputResult | None = None
    for benchmark in wanted:
        if benchmark != specs.THROUGHPUT or len(wanted) > 1:
            at.say(f"{at.sizes.label} octets, {at.mode}: {benchmark}")
        if benchmark == specs.THROUGHPUT:
            found = measure_throughput(spec, at.measure, at.watch)
            yield _throughput(at, found)
        elif benchmark == specs.WITH_TIMEOUT:
            timed = replace(spec, conditions=specs.deadline(spec.conditions, at.run))
            yield _throughput(at, measure_throughput(timed, at.measure, at.watch))
        elif benchmark in (specs.FRAME_LOSS, specs.LOSS_WITH_TIMEOUT):
            yield _frame_loss(at, benchmark)
        else:
            yield _AT_RATE[benchmark](at, benchmark, spec, found)


def _throughput(at: Place, result: ThroughputResult) -> Measured:
    record = throughput_record(
        result,
        at.find,
        ceiling_fps=at.ceiling.rate_fps,
        selftest_margin=at.run.procedure.selftest_margin,
        conditions=at.conditions,
    )
    rows = repetition_rows(result, lambda key: at.find(key).started)
    return Measured(result.spec.benchmark, record, rows)


def _frame_loss(at: Place, benchmark: str) -> Measured:
    conditions = specs.conditions(at.run, at.sizes, at.mode)
    if benchmark == specs.LOSS_WITH_TIMEOUT:
        conditions = specs.deadline(conditions, at.run)
    spec = specs.frame_loss_spec(at.run, conditions, at.media_fps, at.ceiling.rate_fps)
    result = measure_frame_loss(spec, at.measure, at.watch)
    record = frame_loss_record(result, media_fps=at.media_fps, conditions=at.conditions)
    return Measured(benchmark, record, frame_loss_rows(result))


def _timing(
    at: Place, benchmark: str, search: ThroughputSpec, found: ThroughputResult | None
) -> Measured:
    rate_fps, source = _rate(at.run, found)
    conditions = search.conditions
    if not rate_fps:
        return nothing(at, benchmark, "no rate passed, so there is no rate to measure at")
    try:
        spec = specs.timing_spec(at.run, benchmark, conditions, rate_fps, source)
    except ValueError as exc:
        return nothing(at, benchmark, str(exc))
    run = {
        specs.LATENCY: measure_latency,
        specs.PDV: measure_pdv,
        specs.IPDV: measure_ipdv,
    }[benchmark]
    own = None
    if benchmark == specs.LATENCY and rate_fps <= at.ceiling.rate_fps:
        own = run(replace(spec, repetitions=1), _Loopback(at.loopback), None)
    result = run(spec, at.measure, at.watch)
    record = timing_record(result, loopback=own, conditions=at.conditions)
    return Measured(benchmark, record, timing_rows(result))


def _bursts(
    at: Place, benchmark: str, search: ThroughputSpec, found: ThroughputResult | None
) -> Measured:
    throughput_fps, _ = _found(at.run, found)
    spec = specs.burst_spec(
        at.run, search.conditions, at.media_fps, at.ceiling.rate_fps, throughput_fps
    )
    refused = None
    if spec.rate_reason == "tester" and at.run.procedure.back_to_back.at == "media":
        refused = (
            f"the tester sends {at.ceiling.rate_fps:,.0f} fps, the medium carries "
            f"{at.media_fps:,.0f}: bursts would not be back to back "
            "(back_to_back.at: tester measures them all the same)"
        )
    result = BurstResult(spec, ()) if refused else measure_back_to_back(spec, at.measure, at.watch)
    record = burst_record(result, refused=refused, conditions=at.conditions)
    return Measured(benchmark, record, burst_rows(result))


def _recovery(
    at: Place, benchmark: str, search: ThroughputSpec, found: ThroughputResult | None
) -> Measured:
    throughput_fps, _ = _found(at.run, found)
    if not throughput_fps:
        return nothing(at, benchmark, "no rate passed, so there is nothing to overload")
    limit = min(at.media_fps, at.ceiling.rate_fps)
    spec = specs.recovery_spec(at.run, search.conditions, limit, throughput_fps)
    result = measure_recovery(spec, at.measure, at.watch)
    return Measured(benchmark, recovery_record(result, conditions=at.conditions), [])


def _reset(
    at: Place, benchmark: str, search: ThroughputSpec, found: ThroughputResult | None
) -> Measured:
    throughput_fps, _ = _found(at.run, found)
    if not throughput_fps:
        return nothing(at, benchmark, "no rate passed, so there is no rate to reset at")
    result = measure_reset(
        specs.reset_spec(at.run, search.conditions, throughput_fps), at.measure, at.watch
    )
    return Measured(benchmark, reset_record(result, conditions=at.conditions), [])


_AtRate = Callable[[Place, str, ThroughputSpec, "ThroughputResult | None"], Measured]
_AT_RATE: dict[str, _AtRate] = {
    **dict.fromkeys(specs.TIMED, _timing),
    specs.BACK_TO_BACK: _bursts,
    specs.RECOVERY: _recovery,
    specs.RESET: _reset,
}


class _Loopback:
    """The same trials without a device have keys of their own."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    def __call__(self, trial: Any) -> Any:
        return self._measure(replace(trial, key=f"loopback-{trial.key}"))


def _rate(run: ResolvedRun, found: ThroughputResult | None) -> tuple[float, str]:
    """Rate of a stream, and where it comes from (LAT-01)."""
    if run.procedure.rate_fps is not None:
        return run.procedure.rate_fps, "given"
    return _found(run, found)


def _found(run: ResolvedRun, found: ThroughputResult | None) -> tuple[float, str]:
    rates = [r.rate_fps for r in found.repetitions] if found else []
    if not rates:
        return 0.0, "none"
    if run.procedure.rate_from == "p1":
        return percentile(rates, 1), "P1 of the throughput"
    return median(rates), "median throughput"


def nothing(at: Place, benchmark: str, why: str) -> Measured:
    """A record that says why there is no number.

    Args:
        at: the point.
        benchmark: its name.
        why: one phrase.
    """
    record = Record(
        benchmark=benchmark,
        title=benchmark,
        direction=at.mode,
        frame_sizes=FrameSizes(ipv6=at.sizes.ipv6, ipv4=at.sizes.ipv4),
        not_measured=why,
        repetitions=0,
        trials=[],
        invalid_trials=[],
        conditions=at.conditions,
    )
    return Measured(benchmark, record, [])
