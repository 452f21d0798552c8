"""Tables of the benchmarks of stateful devices, with the rows RFC 9693 asks for (ST-14)."""

from __future__ import annotations

from collections.abc import Sequence

from v6t.analysis.sheet import Record, Sheet, count, percent, seconds, sheet, sizes_of


def connection_rate(group: Sequence[Record]) -> Sheet:
    """Maximum connection establishment rate."""
    names = [
        *("IPv6/IPv4\noctets", "connections", "median\nconnections/s", "P1", "P99"),
        *("+dispersion\n%", "source\nports", "destination\nports", "validated\nat"),
        *("+DUT\ncounts", "+public\nendpoints", "+DUT\ntimeout s", "+DUT's table\nentries"),
        *("+connections\nper bucket", "+repetitions", "<"),
    ]
    rows = []
    for record in group:
        counts = record["counts"] or {}
        device = counts.get("device") or {}
        buckets = device.get("nf_conntrack_buckets")
        limited = record["tester_limited"] or record["upper_bound_hit"]
        rows.append(
            [
                sizes_of(record),
                count(record["connections"]),
                *(count(record[k]) for k in ("median", "p1", "p99")),
                percent(record["dispersion"]),
                *_ports(record),
                f"{record['alpha']:g} R" if record["validated"] else "not",
                _told(counts.get("sessions")),
                _told(counts.get("public_endpoints")),
                _told(device.get("timeout_s")),
                _told(device.get("nf_conntrack_max")),
                f"{record['connections'] / buckets:.3g}" if buckets else "-",
                str(record["repetitions"]),
                "*" if limited else "",
            ]
        )
    return sheet(group[0]["title"], names, rows)


def teardown(group: Sequence[Record]) -> Sheet:
    """Connection tear-down rate."""
    names = [
        *("IPv6/IPv4\noctets", "connections", "median\nconnections/s", "P1", "P99"),
        *("full table\ns", "empty table\ns", "repetitions"),
    ]
    rows = [
        [
            sizes_of(record),
            count(record["connections"]),
            *(count(record.get(k)) for k in ("median", "p1", "p99")),
            *(seconds(max(record[k], default=None)) for k in ("full_s", "idle_s")),
            str(record["repetitions"]),
        ]
        for record in group
        if not record.get("not_measured")
    ]
    return sheet(_title(group), names, rows)


def capacity(group: Sequence[Record]) -> Sheet:
    """Connection tracking table capacity."""
    names = [
        *("IPv6/IPv4\noctets", "capacity\nconnections", "error", "rate at it\nconnections/s"),
        *("C0", "R0", "alpha", "beta", "gamma", "steps"),
    ]
    rows = [
        [
            sizes_of(record),
            ("at least " if record["at_least"] else "") + count(record["capacity"]),
            count(record["error"]),
            count(record["rate_cps"]),
            count(record["first_connections"]),
            count(record["r0"]),
            "-" if record["alpha"] is None else f"{record['alpha']:g}",
            f"{record['beta']:g}",
            f"{record['gamma']:g}",
            str(len(record["steps"])),
        ]
        for record in group
        if not record.get("not_measured")
    ]
    return sheet(_title(group), names, rows)


def _title(group: Sequence[Record]) -> str:
    return str(next(r["title"] for r in group if not r.get("not_measured")))


def _ports(record: Record) -> tuple[str, str]:
    setup = record["setup"]
    found = []
    for name in ("initiator_ports", "responder_ports"):
        ports = setup.get(name) or {}
        found.append(f"{ports['min']}-{ports['max']}" if ports else "-")
    return found[0], found[1]


def _told(value: float | None) -> str:
    return "-" if value is None else f"{value:,g}" if value % 1 else f"{int(value):,}"
