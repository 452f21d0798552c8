"""What presentations of several benchmarks share: cells of tables, clauses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from v6t.analysis.presentation import Clause, clause
from v6t.analysis.records.base import Interval, Record
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import UNDEFINED, count

REPETITIONS, TRIAL_S = 20, 60.0
POINT = ("IPv6/IPv4\noctets", "<direction")
"""Headings of every table."""


def at(record: Record, way: str | None = None) -> tuple[str, str]:
    """Cells below :data:`POINT`; ``way``: of one direction."""
    return record.sizes, record.direction if way is None else record.way(way)


def interval(found: Interval | None, show: Callable[[float | None], str] = count) -> str:
    """The confidence interval of a median, or that there are too few values for one."""
    if found is None or found.low is None or found.high is None:
        return "-"
    return f"{show(found.low)} to {show(found.high)}"


def share(value: float | None) -> str:
    """A share in per cent."""
    return UNDEFINED if value is None else f"{value:.2%}"


def matched(value: float | None) -> str:
    """The share of compared frames that were as they must be; a dash where none was compared."""
    return "-" if value is None else share(value)


def marked(number: str, limited: bool) -> str:
    """A number with the mark of what the tester or the medium limits: they are never apart."""
    return f"{number} *" if limited else number


def repeated(name: str, records: Sequence[Record]) -> Clause:
    """Twenty repetitions of everything (GEN-17)."""
    least = min((r.repetitions for r in records), default=None)
    return clause(f"RFC 8219 section 7 (GEN-17), {name}", f"at least {REPETITIONS} repetitions",
                  "none yet" if least is None else str(least),
                  None if least is None else least >= REPETITIONS)  # fmt: skip


def at_throughput(name: str, given: float | None, data: RunData) -> Clause:
    """Streams at the throughput (LAT-01); ``given``: or at this rate [fps]."""
    done = (
        f"{given:,.0f} fps, given"
        if given
        else f"the {data.procedure['rate_from']} of the throughput"
    )
    return clause(f"RFC 8219 section 7 (LAT-01), {name}", "at the throughput", done, not given)


def long_enough(name: str, length_s: float, asked: str = "60 s") -> Clause:
    """Trials of 60 s (GEN-16)."""
    return clause(f"RFC 2544 section 24 (GEN-16), {name}", asked, f"{length_s:g} s",
                  length_s >= TRIAL_S)  # fmt: skip
