"""A device watched while it works: one round of readings a second (BN-01)."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from v6t.drivers.duts import batch
from v6t.drivers.duts.commands import Reading
from v6t.drivers.transport.contract import ConnectionLost, DeadlinePassed, Transport

TICK = "tick"
PATIENCE_S = 10.0


@dataclass(frozen=True)
class Sample:
    """Figures of one second, by reading and name; counters count from some start.

    Attributes:
        figures: what was read.
        seen_s: when it arrived here [s, wall clock].
        readings: what was asked for, which says what the figures are.
    """

    figures: Mapping[str, Mapping[str, float]]
    seen_s: float = 0.0
    readings: Mapping[str, Reading] = field(default_factory=dict)


def round_script(readings: Mapping[str, Reading]) -> str:
    """Shell lines that read all of them once."""
    return batch.script({str(n): r.command for n, r in enumerate(readings.values())})


def sample_of(text: str, readings: Mapping[str, Reading]) -> Sample:
    """What :func:`round_script` printed, just now."""
    read = batch.read(text)
    figures = {}
    for number, (name, reading) in enumerate(readings.items()):
        part = read.get(str(number))
        figures[name] = dict(reading.parse(part.text)) if part else {}
    return Sample(figures, time.time(), readings)


def watching_script(readings: Mapping[str, Reading], interval_s: float) -> str:
    """A shell loop that ends with its standard input."""
    one = round_script(readings)
    return (
        # the loop's own standard input is not the one that is waited for
        "exec 3<&0; me=$$; ( cat <&3 >/dev/null; kill $me ) & "
        f"while :; do\n{one}\necho; echo '{batch.MARK} {TICK}'; sleep {interval_s:g}; done"
    )


class Watcher:
    """Collects samples in a thread from its making until :meth:`stop`."""

    def __init__(
        self, transport: Transport, readings: Mapping[str, Reading], interval_s: float = 1.0
    ) -> None:
        """Start.

        Args:
            transport: an open connection; the watcher has a command of its own on it.
            readings: what to read, by name.
            interval_s: between rounds [s].
        """
        self._readings = dict(readings)
        self._samples: list[Sample] = []
        self._held = transport.hold(watching_script(readings, interval_s))
        self._thread = threading.Thread(target=self._collect, name="v6t-watch", daemon=True)
        self._ended = False
        self._thread.start()

    def stop(self) -> list[Sample]:
        """End, and give what was seen."""
        self._ended = True
        self._held.release()
        self._thread.join(PATIENCE_S)
        return list(self._samples)

    def _collect(self) -> None:
        lines: list[str] = []
        while not self._ended:
            try:
                line = self._held.line(PATIENCE_S)
            except (ConnectionLost, DeadlinePassed, OSError, ValueError):
                return  # what was seen until then is kept
            if line == f"{batch.MARK} {TICK}":
                self._samples.append(sample_of("\n".join(lines), self._readings))
                lines = []
            else:
                lines.append(line)
