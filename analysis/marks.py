"""Marks of numbers that the tester or the medium limits, and their footnotes."""

from __future__ import annotations

from collections.abc import Iterable

from v6t.analysis.record import Record
from v6t.analysis.sheet import count

LIMITED = "limited by the tester or the medium: the device may be faster"
"""Meaning of the mark of a result."""
UNCOVERED = (
    "at an offered rate: above what the tester's self-test covers, loss and delay may be its own"
)
"""Meaning of the mark of an offered rate."""


def marked(number: str, limited: bool) -> str:
    """Return a number, with an asterisk if the tester or the medium limits it."""
    return f"{number} *" if limited else number


def offered(record: Record, rate: float) -> str:
    """Return an offered rate, marked if the tester's self-test does not cover it."""
    return marked(count(rate), rate in record.above_usable)


def footnotes(records: Iterable[Record]) -> list[str]:
    """Explain the marks that the measured records have."""
    measured = [record for record in records if record.measured]
    meanings = (
        (LIMITED, any(record.limited for record in measured)),
        (UNCOVERED, any(record.above_usable for record in measured)),
    )
    return [f"* {meaning}" for meaning, is_used in meanings if is_used]
