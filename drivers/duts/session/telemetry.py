"""The readings of a device while it works: one round a second (BN-01)."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from v6t.drivers.duts.readings import Reading
from v6t.drivers.duts.session.batch import HEADING, batch_script, parse_sections
from v6t.drivers.transport.contract import ConnectionLost, DeadlinePassed, Transport

SAMPLE_END = f"{HEADING} tick"
LINE_DEADLINE_S = 10.0


@dataclass(frozen=True)
class Sample:
    """Figures of one second, by reading and name; counters count from some start.

    Attributes:
        figures: by reading and name.
        seen_s: time of arrival [s, wall clock].
        readings: what was read, which says what the figures are.
    """

    figures: Mapping[str, Mapping[str, float]]
    seen_s: float = 0.0
    readings: Mapping[str, Reading] = field(default_factory=dict)


def sample_script(readings: Mapping[str, Reading]) -> str:
    """Return shell lines that read everything once."""
    return batch_script({str(n): r.command for n, r in enumerate(readings.values())})


def parse_sample(text: str, readings: Mapping[str, Reading]) -> Sample:
    """Parse what :func:`sample_script` has printed just now."""
    sections = parse_sections(text)
    figures = {}
    for number, (name, reading) in enumerate(readings.items()):
        section = sections.get(str(number))
        figures[name] = dict(reading.parse(section.text)) if section else {}
    return Sample(figures, time.time(), readings)


def watch_script(readings: Mapping[str, Reading], interval_s: float) -> str:
    """Return a shell loop that ends with its standard input."""
    return (
        # the standard input of the loop is not the one whose end is awaited
        "exec 3<&0; me=$$; ( cat <&3 >/dev/null; kill $me ) & "
        f"while :; do\n{sample_script(readings)}\necho; echo '{SAMPLE_END}'; sleep {interval_s:g}; done"
    )


class TelemetryWatcher:
    """Collects samples in a thread until :meth:`stop`.

    Args:
        transport: an open connection, on which the watcher has a command of its own.
        readings: what to read, by name.
        interval_s: between rounds [s].
    """

    def __init__(
        self, transport: Transport, readings: Mapping[str, Reading], interval_s: float = 1.0
    ) -> None:
        self._readings = dict(readings)
        self._samples: list[Sample] = []
        self._process = transport.hold(watch_script(readings, interval_s))
        self._thread = threading.Thread(target=self._collect, name="v6t-watch", daemon=True)
        self._stopping = False
        self._thread.start()

    def stop(self) -> list[Sample]:
        """End, and return the samples."""
        self._stopping = True
        self._process.release()
        self._thread.join(LINE_DEADLINE_S)
        return list(self._samples)

    def _collect(self) -> None:
        lines: list[str] = []
        while not self._stopping:
            try:
                line = self._process.line(LINE_DEADLINE_S)
            except (ConnectionLost, DeadlinePassed, OSError, ValueError):
                return  # the samples until now stay
            if line == SAMPLE_END:
                self._samples.append(parse_sample("\n".join(lines), self._readings))
                lines = []
            else:
                lines.append(line)
