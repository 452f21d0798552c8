"""How many connections TRex can have, what of them can be timed, and what that takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from v6t.base.errors import UsageError
from v6t.drivers.trex.stamping import MAX_TIMED_CLASSES

if TYPE_CHECKING:
    from v6t.trials.trial import Capability

MOST_ROWS = 32_768
"""Connections of a block: its lists have to fit into one request to TRex's server."""
MOST_CONNECTIONS = 1 << 24
"""More are refused: TRex's server takes more than 100 octets for each value of a list."""
IDS_PER_DIRECTION = MAX_TIMED_CLASSES
"""Streams of a direction that can be stamped, tags among them."""
MANY = 1_000_000
"""From here on it is said what they take."""
SERVER_OCTETS, OWN_OCTETS, RECORDED_OCTETS = 120, 150, 180
"""Of each connection, measured with nat44 and frames of 84 octets: TRex's server, v6t with its
worker, and the recording on the disk of TRex's host."""


def check(most: int, needs: frozenset[Capability]) -> None:
    """Refuse what cannot be.

    Args:
        most: connections of a trial.
        needs: what its phase 2 asks of the tester.

    Raises:
        UsageError: naming the limit.
    """
    if most > MOST_CONNECTIONS:
        raise UsageError(
            f"TRex sends learned connections from lists, of which v6t gives its server at most "
            f"{MOST_CONNECTIONS:,} rows; {most:,} connections are more",
            "lower connections.count (connections.capacity.most of a capacity search), or use "
            "the embedded tester, whose table takes 12 octets a connection",
            code="too-many-for-trex",
        )
    if needs & {"two-rates", "flow-starts"}:
        raise UsageError(
            "TRex sends connections from lists at one rate, all from the first frame on: no system "
            "recovery, and no flows that begin one after the other",
            "leave system-recovery out and set flows.starts to [together], or use the embedded tester",
            code="unsupported-by-tester",
        )
    stamped = IDS_PER_DIRECTION * MOST_ROWS
    if "frame-timeout" in needs and most > stamped:
        raise UsageError(
            f"a timeout for every frame needs TRex's stamp in every frame, and its 128 "
            f"identifiers stamp {stamped:,} connections; {most:,} are more",
            "lower connections.count, or leave the timeout out",
            code="too-many-for-trex",
        )
    if "ipdv" in needs and most > MOST_ROWS:
        raise UsageError(
            f"IPDV needs neighbouring frames in one of TRex's lists, which hold {MOST_ROWS:,} "
            f"connections; {most:,} are more",
            "lower connections.count, or measure PDV",
            code="too-many-for-trex",
        )


def notes(most: int, needs: frozenset[Capability]) -> Iterator[str]:
    """What should be known before a run with so many connections."""
    stamped = IDS_PER_DIRECTION * MOST_ROWS
    if most > stamped and needs & {"tags", "every-frame"}:
        yield (
            f"delays are those of about {stamped:,} of {most:,} connections, evenly spread: as many "
            "as TRex's 128 identifiers stamp"
        )
    if most >= MANY:
        yield (
            f"{most:,} connections on TRex take about {_gigabytes(most * SERVER_OCTETS)} of its "
            f"server's memory, {_gigabytes(most * OWN_OCTETS)} of v6t's and "
            f"{_gigabytes(most * RECORDED_OCTETS)} of disk on the server's host"
        )


def _gigabytes(octets: int) -> str:
    return f"{octets / 2**30:.1f} GiB"
