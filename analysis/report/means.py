"""Comparison with IPv6NET, which published means over frame sizes only (S5, tables 2 and 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from v6t.analysis.published.library import is_about, read_library
from v6t.analysis.record import Record
from v6t.analysis.report.campaign_run import CampaignRun
from v6t.analysis.sheet import Column, Table, make_table

METRIC_DIFFERENCES = {
    "throughput": "UDP only, both directions, forwarded at the medium's full rate, no D-ITG",
    "round-trip delay": "both one-way medians added, at the throughput, no D-ITG",
}
"""Metrics that can be set beside the paper's, and how they differ from them."""


def make_mean_tables(runs: Sequence[CampaignRun]) -> list[Table]:
    """Make a table for each published table with a comparable mean."""
    simulated = any(run.data.simulated for run in runs if run.data is not None)
    tables: dict[str, list[tuple[dict[str, Any], float]]] = {}
    for entry, measured in match_published_means(runs):
        tables.setdefault(entry["table"], []).append((entry, measured))
    columns: Sequence[Column[tuple[dict[str, Any], float]]] = (
        Column("what", lambda pair: _name_mean(pair[0]), text=True),
        Column("published device", lambda pair: "{dut}, {test_system}".format_map(pair[0]), text=True,
               wide=True),
        Column("published\nmean", lambda pair: pair[0]["mean"], ",.5g"),
        Column("99 %\nmargin", lambda pair: pair[0]["margin_of_error_99"], ",.3g", wide=True),
        Column("measured\nmean", lambda pair: pair[1], ",.5g"),
        Column("unit", lambda pair: pair[0]["unit"], text=True),
        Column("ratio", lambda pair: pair[1] / pair[0]["mean"], ".3f"),
        Column("what differs", lambda pair: METRIC_DIFFERENCES[_get_metric(pair[0])]
               + "; simulated" * simulated, text=True, wide=True),
    )  # fmt: skip
    title = "Measured beside ipv6net-2015, {}: means over frame sizes"
    return [make_table(title.format(table), rows, columns) for table, rows in tables.items()]


def _get_metric(entry: Mapping[str, Any]) -> str:
    return str(entry["metric"]).partition(" (")[0]


def _name_mean(entry: Mapping[str, Any]) -> str:
    return f"{entry['technology']}, {_get_metric(entry)}, {entry['conditions']['workload']}"


def match_published_means(runs: Sequence[CampaignRun]) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield each published mean over frame sizes with the mean of the matching run."""
    for entry in read_library()["records"]:
        metric = _get_metric(entry)
        if "mean" not in entry or metric not in METRIC_DIFFERENCES:
            continue
        megabits = float(entry["conditions"]["workload"].partition(" ")[0])
        for run in runs:
            if run.data is None or run.data.config["line_rate_bps"] != megabits * 1e6:
                continue
            config = run.data.config
            if not is_about(entry, config["plugin"], run.data.params, config["dut"]["driver"]):
                continue
            if values := _LIST_VALUES[metric](run.records):
                yield entry, fmean(values)


def _list_bit_rates(records: Sequence[Record]) -> list[float]:
    forwarded = ((r.forwarded_at_full_load_fps, r.frame_sizes.ipv4) for r in records)
    return [fps * octets * 8 / 1000 for fps, octets in forwarded if fps is not None]


def _list_delays(records: Sequence[Record]) -> list[float]:
    return [r.round_trip_ms for r in records if r.round_trip_ms is not None]


_LIST_VALUES = {"throughput": _list_bit_rates, "round-trip delay": _list_delays}
"""Values of a run by the metric of the paper."""
