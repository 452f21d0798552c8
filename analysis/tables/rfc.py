"""One table per benchmark, in the form of its RFC."""

from __future__ import annotations

from collections.abc import Sequence

from v6t.analysis.sheet import (
    INVALID,
    UNDEFINED,
    Record,
    Sheet,
    count,
    interval,
    milliseconds,
    percent,
    seconds,
    sheet,
    sizes_of,
    way_of,
)
from v6t.analysis.tables import connections


def grouped(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Records by benchmark, in the order of their first one."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record["benchmark"], []).append(record)
    return groups


def sheets(records: Sequence[Record]) -> list[Sheet]:
    """Tables of the benchmarks that were measured, in the order of their first record."""
    groups = grouped(records)
    return [_TABLES[name](group) for name, group in groups.items() if _measured(group)]


def _measured(group: Sequence[Record]) -> bool:
    return not all(r.get("not_measured") for r in group)


def _throughput(group: Sequence[Record]) -> Sheet:
    """RFC 2544 section 26.1 with the summary of RFC 8219 section 12 (TP-08)."""
    names = [
        *("IPv6/IPv4\noctets", "<direction", "median fps\nper direction", "P1", "P99"),
        *("+95 % interval\nof the median", "+dispersion\n%", "aggregate\nfps", "loss"),
        *("frames\nmatched", "+repetitions", "+bound of\nthe search", "+its\nreason", "<"),
    ]
    rows = []
    for record in group:
        if record.get("not_measured"):
            continue
        both = record["direction"] == "bidirectional"
        losses = [v for v in record["loss"].values() if v is not None]
        share = record["matched"]
        limited = record["tester_limited"] or record["upper_bound_hit"]
        rows.append(
            [
                sizes_of(record),
                record["direction"],
                *(count(record[k]) for k in ("median", "p1", "p99")),
                interval(record["median_interval"]),
                percent(record["dispersion"]),
                count(record["aggregate_median"]) if both else "-",
                f"{max(losses):.4%}" if losses else UNDEFINED,
                UNDEFINED if share is None else f"{share:.2%}",
                str(record["repetitions"]),
                count(record["upper_bound"]),
                record["upper_bound_reason"],
                "*" if limited else "",
            ]
        )
    return sheet(_one_title(group), names, rows)


def _timing(
    group: Sequence[Record], figures: Sequence[tuple[str, str]], summarised: Sequence[str]
) -> Sheet:
    """Size, rate, one row per stream; medians, and P1 and P99 of the headline figures."""
    names = ["IPv6/IPv4\noctets", "<direction", "fps per\ndirection"]
    for key, name in figures:
        names.append(f"{name}\nms")
        if key in summarised:
            names += ["P1", "P99", "+95 % interval"]
    rows = []
    for record in group:
        if record.get("not_measured"):
            continue
        for way, found in record["directions"].items():
            cells = [sizes_of(record), way_of(record, way), count(record["rate"])]
            for key, _ in figures:
                cells.append(milliseconds(found[key]["median"]))
                if key in summarised:
                    cells += [milliseconds(found[key]["p1"]), milliseconds(found[key]["p99"])]
                    cells.append(interval(found[key]["median_interval"], milliseconds))
            frames = (f"{sum(found[k]):,}" for k in ("lost", "timed"))
            rows.append([*cells, *frames, str(record["repetitions"])])
    return sheet(
        f"{_one_title(group)}, milliseconds", [*names, "lost", "+timed", "+repetitions"], rows
    )


def _latency(group: Sequence[Record]) -> Sheet:
    """RFC 8219 section 7.2: typical and worst case latency (LAT-08)."""
    return _timing(group, (("tl", "TL"), ("wcl", "WCL")), ("tl", "wcl"))


def _pdv(group: Sequence[Record]) -> Sheet:
    """RFC 8219 section 7.3.1 (PDV-04)."""
    figures = (("pdv", "PDV"), ("min", "Dmin"), ("p99_9", "D99.9"), ("max", "Dmax"))
    return _timing(group, figures, ("pdv",))


def _ipdv(group: Sequence[Record]) -> Sheet:
    """RFC 8219 section 7.3.2 (IPDV-01)."""
    return _timing(group, (("min", "min"), ("med", "median"), ("max", "max")), ())


def _frame_loss(group: Sequence[Record]) -> Sheet:
    """RFC 2544 section 26.3: raw values, input rate as a share of the maximum (FLR-07)."""
    names = [
        *("IPv6/IPv4\noctets", "<direction", "% of the\nmedium", "fps per\ndirection"),
        *("loss %\nmedian", "P1", "P99", "trials"),
    ]
    rows = []
    for record in group:
        if record.get("not_measured"):
            continue
        for row in record["rates"]:
            for way, loss in row["loss_percent"].items():
                rows.append(
                    [
                        sizes_of(record),
                        way_of(record, way),
                        f"{row['media_percent']:.2f}",
                        count(row["rate"]),
                        *(_loss(loss[k], row["valid"]) for k in ("median", "p1", "p99")),
                        str(row["trials"]),
                    ]
                )
    return sheet(_one_title(group), names, rows)


def _bursts(group: Sequence[Record]) -> Sheet:
    """RFC 9004 section 6: average, extremes and deviation, buffer times (B2B-04)."""
    names = [
        *("IPv6/IPv4\noctets", "<direction", "average\nframes", "min", "max", "deviation"),
        *("repetitions", "+burst rate\nfps", "implied\nbuffer ms", "corrected\nbuffer ms"),
    ]
    rows = []
    for record in group:
        if record.get("not_measured"):
            continue
        spread = record["deviation"]
        rows.append(
            [
                sizes_of(record),
                record["direction"],
                f"{record['average']:,.1f}",
                *(count(record[k]) for k in ("min", "max")),
                UNDEFINED if spread is None else f"{spread:,.1f}",
                str(record["repetitions"]),
                count(record["burst_rate"]),
                *(f"{record[f'{k}_buffer_s'] * 1000:.3f}" for k in ("implied", "corrected")),
            ]
        )
    return sheet(_one_title(group), names, rows)


def _seconds(group: Sequence[Record]) -> Sheet:
    """RFC 2544 section 26.5 and RFC 6201: average recovery time (REC-03, RST-02)."""
    names = [
        *("IPv6/IPv4\noctets", "<direction", "offered fps\nper direction", "average s"),
        *("median", "min", "max", "repetitions"),
    ]
    rows = []
    for record in group:
        if record.get("not_measured"):
            continue
        for way, found in record["directions"].items():
            rows.append(
                [
                    sizes_of(record),
                    way_of(record, way),
                    count(record.get("overload", record.get("rate"))),
                    *(seconds(found[k]) for k in ("average", "median", "min", "max")),
                    str(record["repetitions"]),
                ]
            )
    return sheet(_one_title(group), names, rows)


def _flows(group: Sequence[Record]) -> Sheet:
    """RFC 8219 section 10: degradation by the number of flows (SC-04)."""
    names = [
        *("IPv6/IPv4\noctets", "<direction", "flows", "<start", "median fps\nper direction"),
        *("P1", "P99", "Xpd %", "+tester's own\nceiling", "frames\nmatched", "<"),
    ]
    rows = []
    for record in group:
        for found in record["points"]:
            share, xpd = found["matched"], found["degradation_percent"]
            start = found["start"]
            if start == "successive":
                start = f"one every {record['interval_s']:g} s"
            rows.append(
                [
                    sizes_of(record),
                    record["direction"],
                    f"{found['flows']:,}",
                    start if found["flows"] > 1 else "-",
                    *(count(found[k]) for k in ("median", "p1", "p99")),
                    UNDEFINED if xpd is None else f"{xpd:+.2f}",
                    count(found["tester_ceiling"]),
                    UNDEFINED if share is None else f"{share:.2%}",
                    "*" if found["tester_limited"] else "",
                ]
            )
    return sheet(_one_title(group), names, rows)


_CASES = {
    "fixed": "fixed ports and addresses",
    "ports": "ports vary",
    "addresses": "addresses vary",
    "both": "ports and addresses vary",
}


def _probe(group: Sequence[Record]) -> Sheet:
    """Throughput by what varies in the headers (GEN-12)."""
    names = [
        *("IPv6/IPv4\noctets", "<direction", "<case", "median fps\nper direction", "P1", "P99"),
        *("+tester's own\nceiling", "frames\nmatched", "<", "<use"),
    ]
    rows = []
    for record in group:
        for case, found in record["cases"].items():
            share = found["matched"]
            rows.append(
                [
                    sizes_of(record),
                    record["direction"],
                    _CASES[case],
                    *(count(found[k]) for k in ("median", "p1", "p99")),
                    count(found["tester_ceiling"]),
                    UNDEFINED if share is None else f"{share:.2%}",
                    "*" if found["tester_limited"] else "",
                    "this" if case == record["use"] else "",
                ]
            )
    return sheet(_one_title(group), names, rows)


def _one_title(group: Sequence[Record]) -> str:
    return str(next(r["title"] for r in group if not r.get("not_measured")))


def _loss(value: float | None, valid: int) -> str:
    if not valid:
        return INVALID
    return UNDEFINED if value is None else f"{value:.4f}"


_TABLES = {
    "throughput": _throughput,
    "throughput-frame-timeout": _throughput,
    "frame-loss": _frame_loss,
    "frame-loss-frame-timeout": _frame_loss,
    "back-to-back": _bursts,
    "latency": _latency,
    "pdv": _pdv,
    "ipdv": _ipdv,
    "system-recovery": _seconds,
    "reset": _seconds,
    "flows": _flows,
    "rss-probe": _probe,
    "connection-rate": connections.connection_rate,
    "teardown": connections.teardown,
    "capacity": connections.capacity,
}
