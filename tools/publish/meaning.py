"""Introduction of a campaign's page: what its numbers mean with the settings of its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from v6t.analysis.blocks import Block, BulletList, Paragraph
from v6t.analysis.record import FPS
from v6t.analysis.rundata import CampaignRun
from v6t.analysis.sheet import pluralize
from v6t.benchmarks.base import RFC_REPETITIONS, RFC_TRIAL_S
from v6t.benchmarks.connections import ConnectionRateRecord
from v6t.benchmarks.throughput import ThroughputRecord
from v6t.procedures.trial_runner import SHARED_CORES_WARNING
from v6t.tools.publish.differing import MARK, TITLE
from v6t.tools.publish.doubts import is_queued
from v6t.tools.publish.reasons import why_invalid

FEW = 100
"""Number of values below which P1 is the minimum and P99 the maximum (RFC 2330, section 11.3)."""
UNLIKE = (
    f"Rows marked {MARK} have other parameters than most rows of their technology, for example "
    "another number of customers, because the device or its driver needs them. Do not compare such "
    f"a row with the others. The section '{TITLE}' lists the differences."
)


def meaning(made: Sequence[CampaignRun], unlike: bool = False) -> Iterator[Block]:
    """Yield the introduction of the page.

    Args:
        made: runs that found something.
        unlike: some of them were measured otherwise than others of their technology.
    """
    if not made:
        return
    yield from _machine(made)
    if unlike:
        yield Paragraph(UNLIKE, "warning")
    yield _lengths(made)
    told = (_rates, _connections, _spread, _faltering, _translation)
    yield BulletList([sentence for of in told for sentence in of(made)])
    caveats = _caveats(made)
    if caveats:
        yield Paragraph("Warnings of the runs:")
        yield BulletList(caveats, "warning")


def _machine(made: Sequence[CampaignRun]) -> Iterator[Block]:
    simulated = [r for r in made if r.data and r.data.simulated]
    if simulated:
        yield Paragraph(
            f"{_part(simulated, made).capitalize()} was simulated: no frame was sent, and the numbers "
            "are those of a model.",
            "warning",
        )
    shared = [
        r for r in made if r.data and SHARED_CORES_WARNING in r.data.results.get("caveats", ())
    ]
    if shared:
        known = [(r.data.manifest.get("machine") or {}).get("cores") for r in shared if r.data]
        found = "/".join(map(str, dict.fromkeys(c for c in known if c is not None)))
        cores = f"{found} cores" if found else "cores"
        yield Paragraph(
            f"In {_part(shared, made)}, tester and device shared the {cores} of one machine. A "
            "number describes the device, the tester, this machine and that day. Compare numbers "
            "of one table with each other, not with those of a device on its own server.",
            "warning",
        )
        yield from _kernels(shared)


def _kernels(shared: Sequence[CampaignRun]) -> Iterator[Block]:
    """Describe devices that run another kernel than their tester."""
    others: dict[str, list[str]] = {}
    for run in shared:
        tester = (run.data.manifest.get("tester") or {}) if run.data else {}
        told, mine = tester.get("device") or {}, str(tester.get("kernel") or "")
        for part in (told.get("parts") or {"": told}).values():
            system = str(part.get("system") or "")
            if mine and system and mine not in system:
                others.setdefault(system, []).append(str(part.get("kind", "?")))
    for system, names in others.items():
        yield Paragraph(
            f"These devices had another kernel than the tester: {', '.join(dict.fromkeys(names))} "
            f"({system}). Do not compare their rates with the others.",
            "warning",
        )


def _part(some: Sequence[CampaignRun], of: Sequence[CampaignRun]) -> str:
    """Return the share of the runs in words."""
    if len(some) == len(of):
        return "every run"
    return f"{len(some)} of {pluralize(len(of), 'run')}"


def _lengths(made: Sequence[CampaignRun]) -> Block:
    """Compare trials and repetitions with RFC 8219 section 7 and RFC 2544 section 24."""
    trials = [_long(r) for r in made]
    times = [n for n in (_value(r, "repetitions") for r in made) if n is not None]
    said = (
        f"Trials of {' and '.join(f'{s:g}' for s in dict.fromkeys(trials))} s and "
        f"{' and '.join(map(str, dict.fromkeys(times)))} repetitions"
    )
    asked = f"RFC 8219 and RFC 2544 ask for {RFC_TRIAL_S:g} s and {RFC_REPETITIONS}"
    short = [
        r
        for r in made
        if _long(r) < RFC_TRIAL_S or (_value(r, "repetitions") or 0) < RFC_REPETITIONS
    ]
    if not short:
        return Paragraph(f"{said}: {asked}.")
    which = "these are" if len(short) == len(made) else f"{_part(short, made)} are"
    return Paragraph(f"{said}; {asked}: {which} demonstrations, not RFC 8219 results.", "warning")


def _long(run: CampaignRun) -> float:
    """Return the duration of the deciding trials of a search (RFC 2544 section 24) [s]."""
    return max(_value(run, "trial_duration_s") or 0.0, _value(run, "final_duration_s") or 0.0)


def _rates(made: Sequence[CampaignRun]) -> Iterator[str]:
    """Describe the traffic directions and the tolerated loss."""
    ways = {r.direction for m in made for r in m.records if r.unit == FPS}
    both, one = "bidirectional" in ways, ways - {"bidirectional"}
    if both:
        which = "Rates of bidirectional traffic" if one else "Rates"
        yield (
            f"{which} are frames per second in each direction. Both directions are active, so twice "
            "as many frames cross the device."
        )
    if one:
        which = "Rates of one direction" if both else "Rates"
        yield f"{which} are frames per second while the other direction is idle."
    if any(isinstance(r, ThroughputRecord) for m in made for r in m.records):
        losses = dict.fromkeys(_value(r, "loss_tolerance") or 0.0 for r in made)
        said = " or ".join(
            "no frame was lost" if x == 0 else f"at most {100 * x:g} % of the frames were lost"
            for x in losses
        )
        yield f"A throughput is the highest rate of a search at which {said} in either direction."
        longest = max(map(_long, made))
        if longest < RFC_TRIAL_S:
            yield (
                f"In trials of {longest:g} s, queues can hide an overload: a device whose delays "
                "are a large part of the trial cannot keep this rate."
            )


def _connections(made: Sequence[CampaignRun]) -> Iterator[str]:
    """Explain how queues affect a rate at which few connections are opened."""
    found = [r for m in made for r in m.records if isinstance(r, ConnectionRateRecord)]
    counts = " or ".join(f"{n:,}" for n in dict.fromkeys(r.connections for r in found))
    if found:
        yield (
            f"A maximum connection establishment rate is the highest rate at which none of {counts} "
            "connections was missing. Frames in the device's queues count as carried, so long "
            "queues make this rate too high."
        )


def _spread(made: Sequence[CampaignRun]) -> Iterator[str]:
    """Explain median, P1 and P99 of few values."""
    times = dict.fromkeys(r.repetitions for m in made for r in m.records if r.repetitions > 1)
    if times:
        few = [str(n) for n in sorted(times) if n < FEW]
        ends = f"; with {' or '.join(few)} repetitions, the smallest and the largest value" * bool(
            few
        )
        yield f"A value is the median of the repetitions. P1 and P99 are their percentiles{ends}."


def _faltering(made: Sequence[CampaignRun]) -> Iterator[str]:
    again = any(_value(r, "invalid_retries") for r in made)
    what = "invalid and repeated" if again else "invalid"
    records = [r for m in made for r in m.records]
    trials = sum(len(r.trials) for r in records)
    invalid = [t for r in records for t in r.invalid_trials]
    why = f": {why_invalid(invalid)}" if invalid else ""
    yield (
        f"A trial in which the tester failed is {what}, and never counted as loss. Of "
        f"{pluralize(trials, 'trial')}, {len(invalid):,} were invalid{why}."
    )
    rates = [(m, r) for m in made for r in m.records if str(r.unit).endswith("per second")]
    limited = sum(r.limited and not (m.data and is_queued(m.data, r)) for m, r in rates)
    if limited:
        yield (
            f"{limited} of {pluralize(len(rates), 'rate')} are marked *: the tester or the medium "
            "was the limit, and the device may be faster."
        )


def _value(run: CampaignRun, key: str) -> Any:
    """Return a setting of the run's procedures."""
    settings: Mapping[str, Any] = run.data.procedure if run.data else {}
    return settings.get(key)


def _translation(made: Sequence[CampaignRun]) -> Iterator[str]:
    """Summarize the comparison of frames with the reference translation."""
    counted = [
        c for r in made if r.data for t in r.data.trials for c in t.result.directions.values()
    ]
    frames = [c for c in counted if c.answers is None]
    checked, matched = (sum(getattr(c, name) for c in frames) for name in ("checked", "matched"))
    if checked:
        yield (
            f"{matched:,} of {checked:,} compared frames were equal to the reference translation."
        )
    reasons: Counter[str] = Counter()
    for answers in (c.answers for c in counted if c.answers is not None):
        reasons.update(answers.reasons)
    if len(frames) < len(counted):
        right = sum(c.matched for c in counted if c.answers is not None)
        wrong = "; ".join(f"{count:,}: {reason}" for reason, count in reasons.most_common())
        yield (
            f"In all trials, also those above the result, {right:,} queries were answered correctly "
            f"and in time. The others: {wrong or 'none'}."
        )
    if any(r.data and r.data.shares_oracle for r in made):
        yield (
            "The device 'reference' uses v6t's own translation code, so its matching frames verify "
            "the test path only."
        )


def _caveats(made: Sequence[CampaignRun]) -> list[str]:
    said = [c for r in made if r.data for c in r.data.results.get("caveats", ())]
    # advice that concerns few devices is printed with their runs
    return [c for c in dict.fromkeys(said) if said.count(c) > len(made) // 4]
