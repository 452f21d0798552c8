"""Frame loss against the offered rate, and what a device still forwards under overload."""

from __future__ import annotations

from collections.abc import Sequence

from v6t.analysis.figures.canvas import axes, drawing, legend, look, svg, thousands
from v6t.benchmarks.records.loss import FrameLossRecord, LossAtRate

FULL = 60.0
"""Beyond this share of the medium's rate the axis shows all of it (FLR-07) [%]."""


def loss_curve(records: Sequence[FrameLossRecord], name: str) -> str:
    """Loss against the share of the medium's rate, one line per size (RFC 2544 26.3; FLR-07)."""
    with drawing(name):
        figure, (at,) = axes()
        for number, record in enumerate(records):
            rows = [
                (r.media_percent, r.loss.median, r.loss.p1 or 0.0, r.loss.p99 or 0.0)
                for r in _rows(record)
                if r.loss.median is not None
            ]
            at.errorbar(
                [share for share, *_ in rows],
                [median for _, median, _, _ in rows],
                yerr=[
                    [median - p1 for _, median, p1, _ in rows],
                    [p99 - median for _, median, _, p99 in rows],
                ],
                capsize=3,
                label=f"{record.sizes} {record.direction}",
                **look(number).line,
            )
        # a restricted range far below the medium's rate would be a blot on the left
        most = max((r.media_percent for record in records for r in record.rates), default=100)
        at.set_xlim(0, 100 if most > FULL else 1.1 * most)
        at.set_ylim(-2, 102)
        at.set_xlabel("offered rate, % of the medium's maximum for the frame size")
        at.set_ylabel("frames lost, %")
        legend(at)
        return svg(figure, name)


def forwarded_curve(records: Sequence[FrameLossRecord], name: str) -> str:
    """Frames forwarded per second against frames offered: stability under overload (FLR-05)."""
    with drawing(name):
        figure, (at,) = axes()
        top = 0.0
        for number, record in enumerate(records):
            ways = 2 if record.direction == "bidirectional" else 1
            rows = [(r.rate * ways, r.forwarded.median) for r in _rows(record)]
            offered = [rate for rate, carried in rows if carried is not None]
            top = max([top, *offered])
            point = f"{record.sizes} {record.direction}"
            forwarded = [carried for _, carried in rows if carried is not None]
            at.plot(offered, forwarded, label=point, **look(number).line)
        at.plot([0, top], [0, top], color="#999999", linewidth=0.8, label="all that is offered")
        at.set_xlim(left=0)
        at.set_ylim(bottom=0)
        at.set_xlabel("offered frames per second, all directions")
        at.set_ylabel("forwarded frames per second")
        thousands(at)
        thousands(at, "x")
        legend(at)
        return svg(figure, name)


def _rows(record: FrameLossRecord) -> list[LossAtRate]:
    return sorted(record.rates, key=lambda r: r.rate)
