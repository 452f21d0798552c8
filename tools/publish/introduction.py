"""Introduction of a campaign's page: how to read the numbers, given the settings of its runs."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from v6t.analysis.blocks import Block, BulletList, Paragraph
from v6t.analysis.record import FPS, InvalidTrial
from v6t.analysis.rundata import CampaignRun
from v6t.analysis.sheet import pluralize
from v6t.benchmarks.base import RFC_REPETITIONS, RFC_TRIAL_S
from v6t.benchmarks.connections import ConnectionRateRecord
from v6t.benchmarks.throughput import ThroughputRecord
from v6t.procedures.trial_runner import SHARED_CORES_WARNING
from v6t.tools.publish.rate_checks import exceeds_forwarding_rate
from v6t.tools.publish.setting_differences import MARK, SECTION_TITLE

PERCENTILE_VALUES = 100
"""Number of values below which P1 is the minimum and P99 the maximum (RFC 2330, section 11.3)."""
_DIFFERENCE_WARNING = (
    f"Rows marked {MARK} have other parameters than most rows of their technology, for example "
    "another number of customers, because the device or its driver needs them. Do not compare such "
    f"a row with the others. The section '{SECTION_TITLE}' lists the differences."
)
_DIRECTION = re.compile(r"^(forward|reverse): ")
_TOO_LONG = re.compile(r"^(.+?) took .* allowed .*$")
_NOT_SENT = re.compile(r"^the tester sent \d+ of \d+ frames")
_NUMBER = re.compile(r"\d[\d.,]*")


def write_introduction(runs: Sequence[CampaignRun], *, has_differences: bool) -> Iterator[Block]:
    """Yield the paragraphs and lists of the introduction; nothing without runs.

    Args:
        runs: runs with results.
        has_differences: the settings of some runs differ from most runs of their technology.
    """
    if not runs:
        return
    yield from describe_machines(runs)
    if has_differences:
        yield Paragraph(_DIFFERENCE_WARNING, "warning")
    yield _compare_with_rfcs(runs)
    writers = (
        _explain_rates,
        _explain_connection_rates,
        _explain_percentiles,
        count_invalid_trials,
        _count_matches,
    )
    yield BulletList([sentence for write in writers for sentence in write(runs)])
    warnings = _list_common_warnings(runs)
    if warnings:
        yield Paragraph("Warnings of the runs:")
        yield BulletList(warnings, "warning")


def describe_machines(runs: Sequence[CampaignRun]) -> Iterator[Block]:
    """Yield warnings about simulated runs, shared cores and devices with another kernel."""
    simulated = [r for r in runs if r.data and r.data.simulated]
    if simulated:
        yield Paragraph(
            f"{_format_share(simulated, runs).capitalize()} was simulated: no frame was sent, and the "
            "numbers are those of a model.",
            "warning",
        )
    shared = [r for r in runs if SHARED_CORES_WARNING in _list_warnings(r)]
    if not shared:
        return
    counts = [(r.data.manifest.get("machine") or {}).get("cores") for r in shared if r.data]
    known_counts = dict.fromkeys(str(count) for count in counts if count is not None)
    cores = f"{'/'.join(known_counts)} cores" if known_counts else "cores"
    yield Paragraph(
        f"In {_format_share(shared, runs)}, tester and device shared the {cores} of one machine. A "
        "number describes the device, the tester, this machine and that day. Compare numbers "
        "of one table with each other, not with those of a device on its own server.",
        "warning",
    )
    kernels: dict[str, list[str]] = {}
    for run in shared:
        tester = (run.data.manifest.get("tester") or {}) if run.data else {}
        device, tester_kernel = tester.get("device") or {}, str(tester.get("kernel") or "")
        for part in (device.get("parts") or {"": device}).values():
            system = str(part.get("system") or "")
            if tester_kernel and system and tester_kernel not in system:
                kernels.setdefault(system, []).append(str(part.get("kind", "?")))
    for system, names in kernels.items():
        yield Paragraph(
            f"These devices ran a different kernel from the tester: {', '.join(dict.fromkeys(names))} "
            f"({system}). Do not compare their rates with the others.",
            "warning",
        )


def _format_share(subset: Sequence[CampaignRun], runs: Sequence[CampaignRun]) -> str:
    """Format the number of runs: "every run" or "2 of 3 runs"."""
    if len(subset) == len(runs):
        return "every run"
    return f"{len(subset)} of {pluralize(len(runs), 'run')}"


def _compare_with_rfcs(runs: Sequence[CampaignRun]) -> Block:
    """Compare trials and repetitions with RFC 8219, section 7, and RFC 2544, section 24."""
    durations = [f"{_get_trial_duration_s(r):g}" for r in runs]
    repetitions = [str(n) for r in runs if (n := _get_setting(r, "repetitions")) is not None]
    settings = (
        f"Trials of {' and '.join(dict.fromkeys(durations))} s and "
        f"{' and '.join(dict.fromkeys(repetitions))} repetitions"
    )
    required = f"RFC 8219 and RFC 2544 ask for {RFC_TRIAL_S:g} s and {RFC_REPETITIONS}"
    demonstrations = [
        r
        for r in runs
        if _get_trial_duration_s(r) < RFC_TRIAL_S
        or (_get_setting(r, "repetitions") or 0) < RFC_REPETITIONS
    ]
    if not demonstrations:
        return Paragraph(f"{settings}: {required}.")
    is_all = len(demonstrations) == len(runs)
    subject = "these are" if is_all else f"{_format_share(demonstrations, runs)} are"
    return Paragraph(
        f"{settings}; {required}: {subject} demonstrations, not RFC 8219 results.", "warning"
    )


def _explain_rates(runs: Sequence[CampaignRun]) -> Iterator[str]:
    """Explain the traffic directions, the tolerated loss and the effect of queues."""
    records = [record for run in runs for record in run.records]
    directions = {r.direction for r in records if r.unit == FPS}
    has_both, has_one = "bidirectional" in directions, directions - {"bidirectional"}
    if has_both:
        yield (
            f"{'Rates of bidirectional traffic' if has_one else 'Rates'} are frames per second in each "
            "direction. Both directions are active, so twice as many frames cross the device."
        )
    if has_one:
        yield (
            f"{'Rates of one direction' if has_both else 'Rates'} are frames per second while the other "
            "direction is idle."
        )
    if not any(isinstance(r, ThroughputRecord) for r in records):
        return
    tolerances = dict.fromkeys(_get_setting(run, "loss_tolerance") or 0.0 for run in runs)
    conditions = " or ".join(
        "no frame was lost" if x == 0 else f"at most {100 * x:g} % of the frames were lost"
        for x in tolerances
    )
    yield f"A throughput is the highest rate of a search at which {conditions} in either direction."
    longest_s = max(map(_get_trial_duration_s, runs))
    if longest_s < RFC_TRIAL_S:
        yield (
            f"In trials of {longest_s:g} s, queues can hide an overload: a device whose delays "
            "are a large part of the trial cannot keep this rate."
        )


def _explain_connection_rates(runs: Sequence[CampaignRun]) -> Iterator[str]:
    """Explain that queues can make connection rates too high."""
    records = [r for run in runs for r in run.records if isinstance(r, ConnectionRateRecord)]
    if records:
        counts = dict.fromkeys(f"{r.connections:,}" for r in records)
        yield (
            f"A maximum connection establishment rate is the highest rate at which none of "
            f"{' or '.join(counts)} connections was missing. Frames in the device's queues count as "
            "carried, so long queues make this rate too high."
        )


def _explain_percentiles(runs: Sequence[CampaignRun]) -> Iterator[str]:
    """Explain median, P1 and P99 of repetitions."""
    repetitions = {r.repetitions for run in runs for r in run.records if r.repetitions > 1}
    few = [str(n) for n in sorted(repetitions) if n < PERCENTILE_VALUES]
    extremes = f"; with {' or '.join(few)} repetitions, the smallest and the largest value"
    if repetitions:
        yield (
            "A value is the median of the repetitions. P1 and P99 are their percentiles"
            f"{extremes if few else ''}."
        )


def count_invalid_trials(runs: Sequence[CampaignRun]) -> Iterator[str]:
    """Count invalid trials by reason, and rates that the tester or the medium limited."""
    is_repeated = any(_get_setting(run, "invalid_retries") for run in runs)
    records = [record for run in runs for record in run.records]
    trials = sum(len(r.trials) for r in records)
    invalid = [trial for r in records for trial in r.invalid_trials]
    yield (
        f"A trial in which the tester failed is {'invalid and repeated' if is_repeated else 'invalid'}, "
        f"and never counted as loss. Of {pluralize(trials, 'trial')}, {len(invalid):,} were invalid"
        f"{': ' * bool(invalid)}{summarize_reasons(invalid)}."
    )
    rates = [
        (run.data, r) for run in runs for r in run.records if str(r.unit).endswith("per second")
    ]
    limited = sum(
        r.limited and not (data and exceeds_forwarding_rate(data, r)) for data, r in rates
    )
    if limited:
        yield (
            f"{limited} of {pluralize(len(rates), 'rate')} are marked *: the tester or the medium "
            "was the limit, and the device may be faster."
        )


def summarize_reasons(trials: Sequence[InvalidTrial]) -> str:
    """Return why trials were invalid, the most frequent reason first; empty without trials.

    Reasons that differ only in numbers or direction are merged. A trial counts once for each reason.
    """
    counts = Counter(
        reason for t in trials for reason in dict.fromkeys(map(_generalize_reason, t.reasons))
    )
    return ", ".join(f"{count:,} because {reason}" for reason, count in counts.most_common())


def _generalize_reason(reason: str) -> str:
    """Remove the direction and the numbers from a reason."""
    reason = _DIRECTION.sub("", reason)
    if too_long := _TOO_LONG.match(reason):
        return f"{too_long[1]} took longer than allowed"
    return "frames were not sent" if _NOT_SENT.match(reason) else _NUMBER.sub("N", reason)


def _count_matches(runs: Sequence[CampaignRun]) -> Iterator[str]:
    """Count the frames that match the reference translation, and the correct DNS answers."""
    results = [
        result
        for run in runs
        if run.data
        for trial in run.data.trials
        for result in trial.result.directions.values()
    ]
    frames = [result for result in results if result.answers is None]
    checked = sum(result.checked for result in frames)
    if checked:
        yield (
            f"{sum(result.matched for result in frames):,} of {checked:,} compared frames were equal "
            "to the reference translation."
        )
    queries = [(result.matched, result.answers) for result in results if result.answers is not None]
    if queries:
        correct = sum(matched for matched, _ in queries)
        reasons: Counter[str] = Counter()
        for _, answers in queries:
            reasons.update(answers.reasons)
        wrong = "; ".join(f"{count:,}: {reason}" for reason, count in reasons.most_common())
        yield (
            f"In all trials, including those above the result, {correct:,} queries were answered correctly "
            f"and in time. The others: {wrong or 'none'}."
        )
    if any(run.data and run.data.shares_oracle for run in runs):
        yield (
            "The device 'reference' uses v6t's own translation code, so its matching frames verify "
            "the test path only."
        )


def _list_common_warnings(runs: Sequence[CampaignRun]) -> list[str]:
    """List each warning of more than a quarter of the runs; the rest is printed with single runs."""
    counts = Counter(warning for run in runs for warning in _list_warnings(run))
    return [warning for warning, count in counts.items() if count > len(runs) // 4]


def _list_warnings(run: CampaignRun) -> Sequence[str]:
    return run.data.results.get("caveats", ()) if run.data else ()


def _get_setting(run: CampaignRun, key: str) -> Any:
    """Return a setting of the run's procedures, or None if it is not set."""
    return run.data.procedure.get(key) if run.data else None


def _get_trial_duration_s(run: CampaignRun) -> float:
    """Return the duration of the trials that decide a search (RFC 2544, section 24) [s]."""
    return max(
        _get_setting(run, "trial_duration_s") or 0.0, _get_setting(run, "final_duration_s") or 0.0
    )
