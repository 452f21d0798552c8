"""Samples of a device's readings, one each second."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from v6t.base.errors import DutError
from v6t.drivers.duts.readings import Reading
from v6t.drivers.duts.session.shell import (
    SECTION_HEADING,
    Section,
    build_batch_script,
    parse_sections,
)
from v6t.drivers.transport.contract import HeldCommand

SAMPLE_END = f"{SECTION_HEADING} tick"  # the line after each sample
LINE_DEADLINE_S = 10.0  # time for one line of a sample
WATCH_INTERVAL_S = 1.0  # between samples


@dataclass(frozen=True)
class Sample:
    """Figures of a device at one time."""

    figures: Mapping[str, Mapping[str, float]]  # values by reading, then by name of the figure
    seen_s: float = 0.0  # wall clock time of arrival
    readings: Mapping[str, Reading] = field(default_factory=dict)


def number_commands(readings: Mapping[str, Reading]) -> dict[str, str]:
    """Return the commands of readings by their numbers, for a batch."""
    return {str(n): r.command for n, r in enumerate(readings.values())}


def make_sample(sections: Mapping[str, Section], readings: Mapping[str, Reading]) -> Sample:
    """Return the sample in the outputs of :func:`number_commands`, which have just arrived."""
    figures = {}
    for number, (name, reading) in enumerate(readings.items()):
        section = sections.get(str(number))
        figures[name] = dict(reading.parse(section.text)) if section else {}
    return Sample(figures, time.time(), readings)


def build_watch_script(readings: Mapping[str, Reading], interval_s: float) -> str:
    """Return a shell loop that takes samples until its standard input is closed."""
    sample = build_batch_script(number_commands(readings))
    return (
        # the standard input of the loop is not the one whose end is awaited
        "exec 3<&0; me=$$; ( cat <&3 >/dev/null; kill $me ) & "
        f"while :; do\n{sample}\necho; echo '{SAMPLE_END}'; sleep {interval_s:g}; done"
    )


def read_samples(process: HeldCommand, readings: Mapping[str, Reading]) -> Iterator[Sample]:
    """Yield the samples that the loop of :func:`build_watch_script` prints."""
    lines: list[str] = []
    while True:
        line = process.line(LINE_DEADLINE_S)
        if line == SAMPLE_END:
            yield make_sample(parse_sections("\n".join(lines)), readings)
            lines = []
        else:
            lines.append(line)


class TelemetryWatcher:
    """A thread that collects samples until :meth:`stop`, or until the connection breaks."""

    def __init__(self, samples: Iterator[Sample], stop_sampling: Callable[[], object]) -> None:
        self._iterator = samples
        self._stop_sampling = stop_sampling
        self._samples: list[Sample] = []
        self._thread = threading.Thread(target=self._collect, name="v6t-watch", daemon=True)
        self._thread.start()

    def stop(self) -> list[Sample]:
        """End the thread and return the samples."""
        self._stop_sampling()
        self._thread.join(LINE_DEADLINE_S)
        return list(self._samples)

    def _collect(self) -> None:
        with contextlib.suppress(DutError, OSError, ValueError):
            for sample in self._iterator:
                self._samples.append(sample)
