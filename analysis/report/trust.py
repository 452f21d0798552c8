"""Validity of a run: invalid trials, headroom and health of the tester, limits of the device."""

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from v6t.analysis.blocks import Block, BulletList, Collapsible, Paragraph, Tone
from v6t.analysis.record import FPS, FrameSizes, InvalidTrial, RateRecord, Record
from v6t.analysis.rundata import RunData, flatten
from v6t.analysis.sheet import (
    Column,
    Table,
    format_count,
    make_table,
    make_text_columns,
    make_text_table,
)

MAX_INVALID_ROWS = 50  # rows of the table of invalid trials
_NUMBER = re.compile(r"\d[\d.,]*")  # matches numbers in reasons


def assess_validity(data: RunData) -> Iterator[Block]:
    """Yield tables and sentences that show whether the results are valid."""
    trials = sum(len(r.trials) for r in data.records)
    invalid = [(r, t) for r in data.records for t in r.invalid_trials]
    if not trials:
        yield Paragraph("No trial of any benchmark was made.", "warning")
    elif invalid:
        text = (
            f"{len(invalid)} of {trials} trials are invalid: the tester failed. They were "
            "repeated, and none of them counts as loss of the device."
        )
        yield Paragraph(text, "warning")
        yield _make_invalid_table(invalid)
    else:
        yield Paragraph(f"All {trials} trials are valid: the tester had no faults.", "good")
    yield from filter(lambda table: table.rows, [_make_headroom_table(data)])
    yield from _describe_translation(data)
    if control := sum(c.control for t in data.trials for c in t.result.directions.values()):
        yield Paragraph(f"Not counted, because not test frames (ARP, ND, LLDP ...): {control:,}.")
    yield from filter(lambda table: table.rows, [_make_health_table(data)])
    yield from _list_limits(data)


def _describe_translation(data: RunData) -> Iterator[Block]:
    checked = sum(c.checked for t in data.trials for c in t.result.directions.values())
    matched = sum(c.matched for t in data.trials for c in t.result.directions.values())
    if data.simulated:
        yield Paragraph("No frame was sent, so none was compared with the reference translation.")
    elif checked:
        compared = (
            f"{checked:,} received frames were compared with the reference translation, "
            f"{matched:,} were equal to it."
        )
        if data.shares_oracle:
            compared += (
                " The reference device uses the same translation code: this verifies the path "
                "between the ports, not the translation."
            )
        tone: Tone = "plain" if data.shares_oracle else "good"
        yield Paragraph(compared, tone if matched == checked else "bad")
    if data.behaviour:
        yield Paragraph("Where RFCs leave a choice, the device wrote:")
        choices = [
            f"{direction}, {what} ({frames:,} frames)"
            for direction, counts in data.behaviour.items()
            for what, frames in counts.items()
        ]
        yield BulletList(choices)


def _make_invalid_table(pairs: list[tuple[Record, InvalidTrial]]) -> Table:
    # reasons that differ in their numbers only have one row, with the first reason
    by_reason: dict[tuple[str, ...], list[str]] = {}
    for record, trial in pairs:
        for reason in trial.reasons[:1]:
            place = (record.benchmark, record.sizes, record.direction)
            by_reason.setdefault((*place, _NUMBER.sub("#", reason)), []).append(reason)
    frequent = sorted(by_reason.items(), key=lambda item: -len(item[1]))[:MAX_INVALID_ROWS]
    rows = [(*key[:3], reasons[0], str(len(reasons))) for key, reasons in frequent]
    names = make_text_columns("benchmark", "octets", "direction", "reason (of the first)")
    return make_text_table("Invalid trials", [*names, "trials"], rows)


def _make_headroom_table(data: RunData) -> Table:
    records = (r.as_rate_record for r in data.records if r.unit == FPS)
    columns: Sequence[Column[Any]] = (
        Column("octets", lambda r: r.sizes, text=True),
        Column("direction", lambda r: r.direction, text=True),
        Column("median fps", lambda r: r.median),
        Column("tester alone fps", lambda r: r.tester_ceiling),
        Column("share", lambda r: r.median / r.tester_ceiling, ".1%"),
        Column("headroom", _describe_headroom, text=True),
    )
    known = [record for record in records if record and record.tester_ceiling]
    return make_table("Headroom of the tester, per direction", known, columns)


def _describe_headroom(record: RateRecord) -> str:
    if record.tester_limited:
        return "the tester limits the result"
    if record.upper_bound_reason == "tester" and record.upper_bound_hit:
        return "the search ended at the tester's maximum"
    return "enough"


def _make_health_table(data: RunData) -> Table:
    by_name: dict[str, list[float]] = {}
    for trial in data.trials:
        for name, value in _list_numbers(trial.result.tester):
            by_name.setdefault(name, []).append(value)
    rows = [
        (name, str(len(values)), *(f"{f(values):,.6g}" for f in (min, median, max)))
        for name, values in sorted(by_name.items())
        if name != "virtual_time_s"
    ]
    columns = [*make_text_columns("figure"), "trials", "min", "median", "max"]
    return make_text_table("Health of the tester", columns, rows)


def _list_numbers(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the numbers among nested values by their names."""
    for name, value in flatten(values, separator=" "):
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield name, float(value)


def _list_limits(data: RunData) -> Iterator[Block]:
    """Yield what is known about the limits of tester and device."""
    if evidence := list(_list_evidence(data)):
        yield BulletList(evidence)
    if (counts := _make_counts_table(data)).rows:
        yield Collapsible(counts.title, [counts])
    if data.bottleneck:
        columns: Sequence[Column[Any]] = (
            Column("octets", lambda entry: str(_read_sizes(entry)), text=True),
            Column("direction", lambda entry: entry["direction"], text=True),
            Column("fps per direction", lambda entry: entry["rate_fps"]),
            Column("judged at", _get_judged_rate),
            Column("samples", lambda entry: str(entry["samples"])),
            Column(
                "what limits it",
                lambda entry: "; ".join(filter(None, (entry.get("unsustained"), entry["says"]))),
                text=True,
            ),
        )
        yield make_table("What limits the device, watched every second", data.bottleneck, columns)
        for entry in data.bottleneck:
            if (values := _make_telemetry_table(entry)) is not None:
                yield Collapsible(values.title, [values])
        lines = [
            f"{_read_sizes(e)} {e['direction']}: {line}"
            for e in data.bottleneck
            for line in e["evidence"]
        ]
        if lines:
            yield Collapsible(f"{len(lines)} supporting observations", [BulletList(lines)])
    elif data.config["dut"]["driver"] != "reference" and not data.simulated:
        yield Paragraph(
            "The bottleneck of the device was not determined. `v6t dut bottleneck` measures the "
            "results again and finds it."
        )


def _make_counts_table(data: RunData) -> Table:
    rows = []
    for entry in data.results.get("device", ()):
        place = (str(_read_sizes(entry)), entry["direction"], entry["benchmark"], entry["device"])
        drops = [(reason, format_count(frames)) for reason, frames in entry["drops"].items()]
        entries = [
            (f"table, {when}: {name}", f"{value:,.6g}")
            for when, table in entry["table"].items()
            for name, value in table.items()
        ]
        changes = [(name, f"{value:+,.6g}") for name, value in entry.get("changes", {}).items()]
        values = (drops or [("dropped, by its counters", "0")]) + changes + entries
        rows += [(*place, *value) for value in values]
    names = [*make_text_columns("octets", "direction", "benchmark", "device", "figure"), "value"]
    return make_text_table("What the device counted over all trials of each benchmark", names, rows)


def _make_telemetry_table(entry: Mapping[str, Any]) -> Table | None:
    """Make a table of the device's own figures with a column for each time; None without figures."""
    telemetry: Mapping[str, Mapping[str, Any]] = entry.get("telemetry") or {}
    figures = {when: dict(_list_numbers(values)) for when, values in telemetry.items()}
    rows = [
        (name, *(f"{known[name]:,.6g}" if name in known else "-" for known in figures.values()))
        for name in dict.fromkeys(name for known in figures.values() for name in known)
    ]
    title = f"{entry['device']}: telemetry at {_read_sizes(entry)} octets, {entry['direction']}"
    columns = [*make_text_columns("figure"), *figures]
    return make_text_table(title, columns, rows) if rows else None


def _read_sizes(entry: Mapping[str, Any]) -> FrameSizes:
    return FrameSizes.model_validate(entry["frame_sizes"])


def _get_judged_rate(entry: Mapping[str, Any]) -> float:
    """Return the offered rate that the verdict on the device is about [fps]."""
    rate_fps: float = entry.get("judged_fps") or entry["rate_fps"]
    return rate_fps


def _list_evidence(data: RunData) -> Iterator[str]:
    """Yield sentences of tester and device about their limits."""
    tester = data.manifest.get("tester") or {}
    for facts in (tester, tester.get("device") or {}):
        bottleneck = facts.get("bottleneck")
        if isinstance(bottleneck, str):
            yield bottleneck
        elif isinstance(bottleneck, Mapping):
            yield from (f"{k}: {v}" for k, v in bottleneck.items())
    for entry in data.results.get("bottleneck", ()):
        yield (
            f"{entry['device']} at {format_count(_get_judged_rate(entry))} fps {entry['direction']}, "
            f"{_read_sizes(entry)} octets: {entry['says']} ({'; '.join(entry['evidence'])})"
        )
