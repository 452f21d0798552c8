"""Tables of the devices' own counters: dropped frames, sizes of tables and load, one line per run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from v6t.analysis.rundata import CampaignRun, RunData
from v6t.analysis.sheet import Table, format_count, make_text_columns, make_text_table, pluralize
from v6t.benchmarks.throughput import ThroughputRecord
from v6t.trials.timeline import DeviceLoad

TITLE = "What devices dropped, and how full their tables were"
_SUMS = "all"
"""Suffix of a drop reason whose frames other reasons count too."""
_NOTES = (
    "dropped: the device's own counters over all benchmarks, also in trials above the result; two counters "
    "may count the same frame; the meaning of a counter is in brackets",
    "a device without a line counted no loss and has no table, or v6t cannot read its counters",
    "table: the fuller of its states before and after a benchmark",
)
_LOAD = (
    "load: read once a second in trials of 3 s or longer, of the fastest that are not above the throughput; "
    "the middle second"
)
_SHARED = "where tester and device share cores, the load is of both"
_VERDICT = "limit: the verdict of --bottleneck"


def device_sheet(
    made: Sequence[CampaignRun], named: Callable[[CampaignRun], tuple[str, str]]
) -> Table | None:
    """List each run whose device counted losses, held a table or was watched; None without any.

    Args:
        made: runs that found something.
        named: technology and device of a run, as the rows of other tables have them.
    """
    lines = []
    for run in made:
        if run.data is not None:
            cells = (_dropped(run.data), _tables(run.data), _load(run.data), _verdict(run.data))
            if any(cells):
                lines.append((*named(run), *cells))
    if not lines:
        return None
    loaded, judged = (any(line[place] for line in lines) for place in (4, 5))
    names = make_text_columns("technology", "device", "dropped", "table", "load", "limit")
    kept = [0, 1, 2, 3, *[4] * loaded, *[5] * judged]
    rows = [tuple(line[place] or "-" for place in kept) for line in lines]
    notes = [*_NOTES, *[_LOAD, _SHARED] * loaded, *[_VERDICT] * judged]
    return make_text_table(TITLE, [names[place] for place in kept], rows, notes)


def _by_device(data: RunData) -> dict[str, list[Mapping[str, Any]]]:
    """Group the device's counters by device; a single device has the empty name."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for entry in data.results.get("device") or ():
        found.setdefault(str(entry["device"]), []).append(entry)
    return found if len(found) > 1 else dict(zip([""], found.values(), strict=False))


def _told(parts: Mapping[str, str]) -> str:
    """Join the texts of the devices, each with its name if it has one."""
    return "; ".join(f"{name}: {said}" if name else said for name, said in parts.items() if said)


def _dropped(data: RunData) -> str:
    return _told({name: _reasons(entries) for name, entries in _by_device(data).items()})


def _reasons(entries: Sequence[Mapping[str, Any]]) -> str:
    """Describe dropped frames by reason, the most frequent first."""
    drops: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        for name, frames in entry["drops"].items():
            drops[name, entry["lost_for"].get(name, _SUMS)] += frames
    single = {key: frames for key, frames in drops.items() if key[1] != _SUMS}
    # like the verdict on a bottleneck: reasons that explain less than half are incomplete
    explained = 2 * sum(single.values()) >= sum(drops.values()) - sum(single.values())
    told = Counter(single if explained else drops).most_common()
    return ", ".join(
        f"{format_count(frames)} {name} ({'any reason' if why == _SUMS else why})"
        for (name, why), frames in told
        if frames
    )


def _tables(data: RunData) -> str:
    return _told({name: _fullest(entries) for name, entries in _by_device(data).items()})


def _fullest(entries: Sequence[Mapping[str, Any]]) -> str:
    tables = [table for entry in entries for table in entry["table"].values() if table.get("used")]
    if not tables:
        return ""
    table = max(tables, key=lambda t: float(t["used"]))
    used = pluralize(int(table["used"]), "entry")
    if not table.get("limit"):
        return used
    return (
        f"{100 * table['used'] / table['limit']:.1f} % ({used} of {format_count(table['limit'])})"
    )


def _load(data: RunData) -> str:
    """Describe the load of the cores in the fastest watched trial up to the measured rate."""
    loads: dict[str, list[Any]] = {}
    rate_fps = 0.0
    for record in data.records:
        if not isinstance(record, ThroughputRecord) or not record.measured:
            continue
        watched = [t for t in data.list_valid_trials([record]) if t.result.device_loads]
        below = [t for t in watched if t.request["rate_fps"] <= record.median]
        fastest = max((t.request["rate_fps"] for t in below), default=0.0)
        if fastest > rate_fps:
            rate_fps, loads = fastest, {}
            for trial in below:
                if trial.request["rate_fps"] == fastest:
                    for name, load in trial.result.device_loads.items():
                        loads.setdefault(name, []).append(load)
    alone = len(loads) == 1
    said = _told({"" if alone else name: _cores(several) for name, several in loads.items()})
    return f"{said}, at {format_count(rate_fps)} fps" if said else ""


def _cores(loads: Sequence[DeviceLoad]) -> str:
    busiest = median([percent for load in loads for percent in load.max_percent])
    mean = median([percent for load in loads for percent in load.mean_percent])
    return f"busiest core {busiest:.0f} %, all cores {mean:.0f} %"


def _verdict(data: RunData) -> str:
    """Describe the device's bottleneck, with its figures, for a run that looked for one."""
    entries = list(data.results.get("bottleneck") or ())
    alone = len({entry["device"] for entry in entries}) == 1
    said = {}
    for entry in entries:
        name = "" if alone else str(entry["device"])
        told = entry.get("telemetry", {}).get(entry.get("judged_at", "found"), {})
        said[name] = ", ".join([str(entry["says"]), *_figures(told)])
    return _told(said)


def _figures(told: Mapping[str, Any]) -> Iterator[str]:
    """Describe interrupt time and packets per vector, as reported by the device."""
    softirq = [core["softirq"] for core in told.get("cores", {}).values() if "softirq" in core]
    if softirq and max(softirq) >= 1:
        yield f"softirq {max(softirq):.0f} %"
    vectors = told.get("vectors_per_call", {})
    if vectors:
        node = max(vectors, key=lambda name: vectors[name])
        yield f"{vectors[node]:.0f} packets a call ({node})"
