"""Degradation while connecting: both tables, and what must be said beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from v6t.analysis.presentation import Presentation, Quantity
from v6t.analysis.presentations.common import POINT, at, offered, share
from v6t.analysis.records.churn import ChurnRecord, middle
from v6t.analysis.sheet import Sheet, count, sheet
from v6t.procedures.churn import NEXT_TO_NOTHING


class ChurnPresentation(Presentation[ChurnRecord]):
    """Loss and latency of both, alone and together."""

    name = "churn"
    title = "Degradation while connecting"
    record = ChurnRecord

    def sheet(self, records: Sequence[ChurnRecord]) -> Sheet:
        """The stream."""
        names = [
            *POINT,
            *("stream fps\nper direction", "new connections\nper second", "median loss"),
            *("largest loss", "median delay\nus", "99.9 %\nus", "trials"),
        ]
        rows = [
            [
                *at(r, way),
                offered(r, r.rate),
                "none" if kind == "stream" else count(r.connections_cps),
                *(share(middle(stream.loss)), share(max(stream.loss, default=None))),
                *(_micro(middle(stream.median_us)), _micro(middle(stream.worst_us))),
                str(len(stream.loss)),
            ]
            for r in records
            for kind, way, stream in r.ordered
        ]
        return sheet(f"{self.title}: the stream", names, rows)

    def tables(self, records: Sequence[ChurnRecord]) -> Iterator[Sheet]:
        """The stream, and the connections."""
        yield self.sheet(records)
        names = [
            *POINT,
            *("new connections\nper second", "stream fps\nper direction", "attempted"),
            *("established", "answered", "median of\nmean time us", "slowest\nus"),
            *("log records\nper connection", "trials"),
        ]
        rows = [
            [
                *at(r),
                count(r.connections_cps),
                offered(r, r.rate) if kind == "both" else count(r.rate * NEXT_TO_NOTHING),
                *(count(sum(c.attempted)), count(sum(c.established)), count(sum(c.answered))),
                *(_micro(middle(c.mean_us)), _micro(max(filter(None, c.slowest_us), default=None))),
                *(_records(c.log_records, c.attempted), str(len(c.attempted))),
            ]
            for r in records
            for kind, c in r.connecting.items()
        ]
        yield sheet(f"{self.title}: the connections", names, rows)

    def quantities(self, record: ChurnRecord) -> Iterator[Quantity]:
        """Loss of the stream with connections beside it, and of the connections beside it."""
        for kind, way, stream in record.ordered:
            if kind == "both":
                yield Quantity(f"loss while connecting {way}", record.unit, stream.loss, False,
                               at=f"{record.rate:,.0f} fps", share=True,
                               limited=bool(record.above_usable))  # fmt: skip

    def remarks(self, record: ChurnRecord) -> Iterator[str]:
        """How connections come and go."""
        yield (
            f"every connection asks for an object of {record.exchange.object_octets:,} octets as soon "
            "as it is open, and ends then"
        )


def _micro(value: float | None) -> str:
    return "undefined" if value is None else f"{value:,.1f}"


def _records(written: Sequence[int | None], attempted: Sequence[int]) -> str:
    known = [(n, of) for n, of in zip(written, attempted, strict=True) if n is not None]
    total = sum(of for _, of in known)
    return f"{sum(n for n, _ in known) / total:.4g}" if total else "-"
