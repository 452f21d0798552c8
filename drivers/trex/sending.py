"""How long sending took: what a port had sent, read at the server and timed by its clock.

A look at the port counters stands between two readings of the server's clock, so neither the way to
the server nor the client's own delays blur it: between the last look that saw no frame and the
first that saw all of them lies the whole sending. That holds for stamped frames and others, and for
any number of cores; how close the looks were is the error. Traffic starts at a moment of that clock
which the client names, so that it knows when to look.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

LOOK_S = 0.002
"""Between two looks, with the way there and back: measured 0.5 to 2 ms on the same machine, and
up to 5.5 ms at 1,000 fps (docs/accuracy.md)."""


@dataclass(frozen=True)
class Look:
    """Port counters at a time.

    Attributes:
        before_s, after_s: the server's clock before and after it counted, from the moment for
            which the start was ordered [s].
        sent: frames of a trial that had left, by port.
    """

    before_s: float
    after_s: float
    sent: dict[int, int]


@dataclass(frozen=True)
class Took:
    """A time that lies within ``error_s`` around ``time_s`` [s]."""

    time_s: float
    error_s: float

    @property
    def most_s(self) -> float:
        """It is no longer."""
        return self.time_s + self.error_s


def looks(raw: Iterable[Sequence[Any]]) -> list[Look]:
    """As the worker wrote them down."""
    return [
        Look(before, after, {int(port): int(count) for port, count in sent.items()})
        for before, sent, after in raw
    ]


def sending_time(seen: Iterable[Look], port: int, frames: int, duration_s: float) -> Took | None:
    """From the first frame to the end of the last one's slot; None if some never left.

    Args:
        seen: in order.
        port: that sent.
        frames: how many.
        duration_s: asked for; TRex does not outrun its schedule.
    """
    begun = first = going = None
    for look in seen:
        count = look.sent[port]
        if count == 0:
            begun = look.before_s
        elif first is None:
            first = look.after_s
        if count < frames or begun is None:
            going = look.before_s
            continue
        most = look.after_s - begun + duration_s / frames
        least = min(duration_s, most)
        if first is not None and going is not None:
            least = min(most, max(least, going - first))
        return Took((most + least) / 2, (most - least) / 2)
    return None
