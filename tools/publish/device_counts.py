"""Table of the devices' own counters: dropped frames, table sizes and load, one row per run."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from v6t.analysis.rundata import CampaignRun, RunData
from v6t.analysis.sheet import Table, format_count, make_text_columns, make_text_table, pluralize
from v6t.benchmarks.throughput import ThroughputRecord
from v6t.trials.result import DeviceLoad

TITLE = "Drops, tables and load"
_TOTAL = "all"  # reason of a counter whose frames are also in counters of other reasons
_NOTES = (
    "dropped: the device's own counters over all benchmarks, also in trials above the result; two counters "
    "may count the same frame; the meaning of a counter is in brackets",
    "a device that is not listed counted no loss and has no table, or v6t cannot read its counters",
    "table: the largest number of entries before or after a benchmark",
)
_LOAD_NOTES = (
    "load: sampled once a second in trials of 3 s or longer; the median over the fastest trials that are not "
    "above the throughput",
    "if tester and device share cores, the load includes both",
)
_LIMIT_NOTES = ("limit: the verdict of --bottleneck",)


def make_device_table(
    runs: Sequence[CampaignRun], names: Mapping[str, tuple[str, str]]
) -> Table | None:
    """List the runs whose device counted drops, held a table or was sampled for its load.

    Args:
        runs: runs with results.
        names: (technology, device) of each run, by the run's directory.

    Returns:
        A table without the columns `load` and `limit` if they are empty; None without any row.
    """
    rows = []
    for run in runs:
        if run.data is not None:
            formats = (_format_drops, _format_tables, _format_load, _format_limit)
            cells = [format_cell(run.data) for format_cell in formats]
            if any(cells):
                rows.append([*names[run.directory], *cells])
    if not rows:
        return None
    columns = ["technology", "device", "dropped", "table", "load", "limit"]
    notes = [*_NOTES]
    for name, extra_notes in (("load", _LOAD_NOTES), ("limit", _LIMIT_NOTES)):
        index = columns.index(name)
        if any(row[index] for row in rows):
            notes += extra_notes
        else:
            columns.remove(name)
            rows = [row[:index] + row[index + 1 :] for row in rows]
    cells_or_dashes = [tuple(cell or "-" for cell in row) for row in rows]
    return make_text_table(TITLE, make_text_columns(*columns), cells_or_dashes, notes)


def _group_by_device(data: RunData) -> dict[str, list[Mapping[str, Any]]]:
    """Group the entries of the counters by device; the name of a single device is empty."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for entry in data.results.get("device") or ():
        groups.setdefault(str(entry["device"]), []).append(entry)
    return {"": groups.popitem()[1]} if len(groups) == 1 else groups


def _join_devices(texts: Mapping[str, str]) -> str:
    """Join the texts of the devices, each with the device's name unless that is empty."""
    return "; ".join(f"{name}: {text}" if name else text for name, text in texts.items() if text)


def _format_drops(data: RunData) -> str:
    """Format the dropped frames by counter, the largest first; empty without drops."""
    texts = {}
    for device, entries in _group_by_device(data).items():
        drops: Counter[tuple[str, str]] = Counter()
        for entry in entries:
            for name, frames in entry["drops"].items():
                drops[name, entry["lost_for"].get(name, _TOTAL)] += frames
        by_reason = Counter({key: n for key, n in drops.items() if key[1] != _TOTAL})
        # as in the verdict on a bottleneck, reasons that explain less than half are incomplete
        is_explained = 2 * by_reason.total() >= drops.total() - by_reason.total()
        texts[device] = ", ".join(
            f"{format_count(frames)} {name} ({'any reason' if reason == _TOTAL else reason})"
            for (name, reason), frames in (by_reason if is_explained else drops).most_common()
            if frames
        )
    return _join_devices(texts)


def _format_tables(data: RunData) -> str:
    """Format the entries of each device's fullest table; empty without tables."""
    texts = {}
    for device, entries in _group_by_device(data).items():
        tables = [t for entry in entries for t in entry["table"].values() if t.get("used")]
        if not tables:
            continue
        table = max(tables, key=lambda t: float(t["used"]))
        used, limit = pluralize(int(table["used"]), "entry"), table.get("limit")
        texts[device] = (
            f"{100 * table['used'] / limit:.1f} % ({used} of {format_count(limit)})"
            if limit
            else used
        )
    return _join_devices(texts)


def _format_load(data: RunData) -> str:
    """Format the load of the cores in the fastest sampled trials up to the throughput."""
    loads: dict[str, list[DeviceLoad]] = {}
    rate_fps = 0.0
    for record in data.records:
        if not isinstance(record, ThroughputRecord) or not record.measured:
            continue
        trials = [
            trial
            for trial in data.list_valid_trials([record])
            if trial.result.device_loads and trial.request["rate_fps"] <= record.median
        ]
        fastest_fps = max((trial.request["rate_fps"] for trial in trials), default=0.0)
        if fastest_fps > rate_fps:
            rate_fps, loads = fastest_fps, {}
            for trial in trials:
                if trial.request["rate_fps"] == fastest_fps:
                    for device, load in trial.result.device_loads.items():
                        loads.setdefault(device, []).append(load)
    if not loads:
        return ""
    texts = {
        "" if len(loads) == 1 else name: _format_cores(sampled) for name, sampled in loads.items()
    }
    return f"{_join_devices(texts)}, at {format_count(rate_fps)} fps"


def _format_cores(loads: Sequence[DeviceLoad]) -> str:
    """Format the medians [%] over the seconds of all trials."""
    busiest = median([percent for load in loads for percent in load.max_percent])
    mean = median([percent for load in loads for percent in load.mean_percent])
    return f"busiest core {busiest:.0f} %, all cores {mean:.0f} %"


def _format_limit(data: RunData) -> str:
    """Format the verdict of ``--bottleneck`` for each device; empty if it was not measured."""
    entries = list(data.results.get("bottleneck") or ())
    is_single = len({entry["device"] for entry in entries}) == 1
    texts = {}
    for entry in entries:
        telemetry = entry.get("telemetry", {}).get(entry.get("judged_at", "found"), {})
        device = "" if is_single else str(entry["device"])
        texts[device] = ", ".join([str(entry["says"]), *_format_telemetry(telemetry)])
    return _join_devices(texts)


def _format_telemetry(telemetry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the time in softirq [%] and the packets per vector, if the device reports them."""
    cores = telemetry.get("cores", {}).values()
    softirq_percent = max((core["softirq"] for core in cores if "softirq" in core), default=0)
    if softirq_percent >= 1:
        yield f"softirq {softirq_percent:.0f} %"
    vectors = telemetry.get("vectors_per_call", {})
    if vectors:
        node = max(vectors, key=lambda name: vectors[name])
        yield f"{vectors[node]:.0f} packets a call ({node})"
