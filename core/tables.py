"""One table per benchmark, in the form of its RFC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

Record = Mapping[str, Any]
UNDEFINED = "undefined"


def tables(records: Sequence[Record]) -> list[Table]:
    """Tables of the benchmarks that were measured, in the order of their first record."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record["benchmark"], []).append(record)
    return [_TABLES[name](group) for name, group in groups.items() if _measured(group)]


def remarks(records: Sequence[Record]) -> list[str]:
    """What must be said below the tables: why there is no number, what is odd about one."""
    said: list[str] = []
    for record in records:
        sizes = record["frame_sizes"]
        place = f"{record['benchmark']} {sizes['ipv6']}/{sizes['ipv4']} {record['direction']}"
        if record.get("not_measured"):
            said.append(f"{place}: not measured, {record['not_measured']}")
        if record.get("non_monotonic"):
            said.append(f"{place}: a rate passed above one that failed (TP-04)")
        if record.get("below_rfc_tags"):
            said.append(f"{place}: fewer tagged frames than the 500 of RFC 8219")
        if record.get("hit_longest"):
            said.append(f"{place}: the longest burst of the search lost nothing")
        said += [f"{place}: {note}" for note in record.get("notes", ())]
        for way, figures in record.get("directions", {}).items():
            for name in ("tl", "wcl", "pdv"):
                noted = figures.get(name, {}).get("notes", ()) if name in figures else ()
                said += [f"{place}, {way} {name.upper()}: {note}" for note in noted]
            if sum(figures.get("clamped", ())):
                said.append(
                    f"{place}, {way}: {sum(figures['clamped'])} negative delays counted as 0"
                )
    return said


def _measured(group: Sequence[Record]) -> bool:
    return any(r["benchmark"] == "throughput" or not r.get("not_measured") for r in group)


def _table(title: str, columns: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in columns:
        justify: Any = "left" if name in ("direction", "") else "right"
        table.add_column(name, justify=justify, no_wrap=True)
    return table


def _throughput(group: Sequence[Record]) -> Table:
    """RFC 2544 section 26.1 with the summary of RFC 8219 section 12 (TP-08)."""
    columns = [
        *("IPv6/IPv4\noctets", "direction", "median fps\nper direction", "P1", "P99"),
        *("aggregate\nfps", "loss", "frames\nmatched", ""),
    ]
    table = _table(group[0]["title"], columns)
    for record in group:
        both = record["direction"] == "bidirectional"
        losses = [v for v in record["loss"].values() if v is not None]
        share = record["matched"]
        limited = record["tester_limited"] or record["upper_bound_hit"]
        table.add_row(
            _sizes(record),
            record["direction"],
            f"{record['median']:,.0f}",
            f"{record['p1']:,.0f}",
            f"{record['p99']:,.0f}",
            f"{record['aggregate_median']:,.0f}" if both else "-",
            f"{max(losses):.4%}" if losses else UNDEFINED,
            UNDEFINED if share is None else f"{share:.2%}",
            "*" if limited else "",
        )
    return table


def _timing(
    group: Sequence[Record], figures: Sequence[tuple[str, str]], summarised: Sequence[str]
) -> Table:
    """Size, rate, one row per stream; medians, and P1 and P99 of the headline figures."""
    columns = ["IPv6/IPv4\noctets", "direction", "fps per\ndirection"]
    for key, name in figures:
        columns.append(f"{name}\nms")
        if key in summarised:
            columns += ["P1", "P99"]
    table = _table(f"{_one_title(group)}, milliseconds", [*columns, "lost"])
    for record in group:
        if record.get("not_measured"):
            continue
        for way, found in record["directions"].items():
            cells = [_sizes(record), _way(record, way), f"{record['rate']:,.0f}"]
            for key, _ in figures:
                cells.append(_ms(found[key]["median"]))
                if key in summarised:
                    cells += [_ms(found[key]["p1"]), _ms(found[key]["p99"])]
            table.add_row(*cells, f"{sum(found['lost']):,}")
    return table


def _latency(group: Sequence[Record]) -> Table:
    """RFC 8219 section 7.2: typical and worst case latency (LAT-08)."""
    return _timing(group, (("tl", "TL"), ("wcl", "WCL")), ("tl", "wcl"))


def _pdv(group: Sequence[Record]) -> Table:
    """RFC 8219 section 7.3.1 (PDV-04)."""
    figures = (("pdv", "PDV"), ("min", "Dmin"), ("p99_9", "D99.9"), ("max", "Dmax"))
    return _timing(group, figures, ("pdv",))


def _ipdv(group: Sequence[Record]) -> Table:
    """RFC 8219 section 7.3.2 (IPDV-01)."""
    return _timing(group, (("min", "min"), ("med", "median"), ("max", "max")), ())


def _frame_loss(group: Sequence[Record]) -> Table:
    """RFC 2544 section 26.3: raw values, input rate as a share of the maximum (FLR-07)."""
    columns = [
        *("IPv6/IPv4\noctets", "direction", "% of the\nmedium", "fps per\ndirection"),
        *("loss %\nmedian", "P1", "P99", "trials"),
    ]
    table = _table(_one_title(group), columns)
    for record in group:
        for row in record["rates"]:
            for way, loss in row["loss_percent"].items():
                table.add_row(
                    _sizes(record),
                    _way(record, way),
                    f"{row['media_percent']:.2f}",
                    f"{row['rate']:,.0f}",
                    *(_percent(loss[k]) for k in ("median", "p1", "p99")),
                    str(row["trials"]),
                )
    return table


def _bursts(group: Sequence[Record]) -> Table:
    """RFC 9004 section 6: average, extremes and deviation, buffer times (B2B-04)."""
    columns = [
        *("IPv6/IPv4\noctets", "direction", "average\nframes", "min", "max", "deviation"),
        *("repetitions", "implied\nbuffer ms", "corrected\nbuffer ms"),
    ]
    table = _table(_one_title(group), columns)
    for record in group:
        if record.get("not_measured"):
            continue
        spread = record["deviation"]
        table.add_row(
            _sizes(record),
            record["direction"],
            f"{record['average']:,.1f}",
            f"{record['min']:,.0f}",
            f"{record['max']:,.0f}",
            UNDEFINED if spread is None else f"{spread:,.1f}",
            str(record["repetitions"]),
            f"{record['implied_buffer_s'] * 1000:.3f}",
            f"{record['corrected_buffer_s'] * 1000:.3f}",
        )
    return table


def _seconds(group: Sequence[Record]) -> Table:
    """RFC 2544 section 26.5 and RFC 6201: average recovery time (REC-03, RST-02)."""
    columns = [
        *("IPv6/IPv4\noctets", "direction", "offered fps\nper direction", "average s"),
        *("median", "min", "max", "repetitions"),
    ]
    table = _table(_one_title(group), columns)
    for record in group:
        if record.get("not_measured"):
            continue
        for way, found in record["directions"].items():
            table.add_row(
                _sizes(record),
                _way(record, way),
                f"{record.get('overload', record.get('rate')):,.0f}",
                *(_s(found[k]) for k in ("average", "median", "min", "max")),
                str(record["repetitions"]),
            )
    return table


def _one_title(group: Sequence[Record]) -> str:
    return str(next(r["title"] for r in group if not r.get("not_measured")))


def _sizes(record: Record) -> str:
    return f"{record['frame_sizes']['ipv6']}/{record['frame_sizes']['ipv4']}"


def _way(record: Record, way: str) -> str:
    """A stream; those of a bidirectional point are told from those that run alone."""
    return f"{way} (of both)" if record["direction"] == "bidirectional" and way != "sum" else way


def _ms(value: float | None) -> str:
    # a negative difference that rounds to nothing has no sign
    return UNDEFINED if value is None else f"{round(value, 4) + 0.0:,.4f}"


def _s(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:,.4f}"


def _percent(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:.4f}"


_TABLES = {
    "throughput": _throughput,
    "throughput-frame-timeout": _throughput,
    "frame-loss": _frame_loss,
    "back-to-back": _bursts,
    "latency": _latency,
    "pdv": _pdv,
    "ipdv": _ipdv,
    "system-recovery": _seconds,
    "reset": _seconds,
}
