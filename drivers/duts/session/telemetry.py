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

SAMPLE_END = f"{SECTION_HEADING} tick"  # line that ends each sample
LINE_DEADLINE_S = 10.0  # time limit for one line of a sample
WATCH_INTERVAL_S = 1.0  # time between two samples


@dataclass(frozen=True)
class Sample:
    """Figures that were read from a device at one time."""

    figures: dict[str, dict[str, float]]  # values by reading name and figure name
    time_s: float = 0.0  # wall clock time at which the sample arrived
    readings: Mapping[str, Reading] = field(default_factory=dict)  # sampled readings by name


def parse_sample(sections: Mapping[str, Section], readings: Mapping[str, Reading]) -> Sample:
    """Parse the outputs of the readings' commands into a sample with the current time."""
    figures = {}
    for name, reading in readings.items():
        section = sections.get(reading.command)
        figures[name] = dict(reading.parse(section.text)) if section else {}
    return Sample(figures, time.time(), readings)


def build_watch_script(readings: Mapping[str, Reading], interval_s: float) -> str:
    """Return a shell loop that takes samples until its standard input is closed."""
    sample = build_batch_script(reading.command for reading in readings.values())
    return (
        # commands must not read the standard input, whose end stops the loop
        "exec 3<&0; me=$$; ( cat <&3 >/dev/null; kill $me ) & "
        f"while :; do\n{sample}\necho; echo '{SAMPLE_END}'; sleep {interval_s:g}; done"
    )


def read_samples(process: HeldCommand, readings: Mapping[str, Reading]) -> Iterator[Sample]:
    """Yield the samples that the script of :func:`build_watch_script` prints."""
    commands = [reading.command for reading in readings.values()]
    lines: list[str] = []
    while True:
        line = process.line(LINE_DEADLINE_S)
        if line == SAMPLE_END:
            yield parse_sample(parse_sections("\n".join(lines), commands), readings)
            lines = []
        else:
            lines.append(line)


class TelemetryWatcher:
    """A thread that collects samples until :meth:`stop`, or until the connection breaks."""

    def __init__(self, samples: Iterator[Sample], stop_sampling: Callable[[], object]) -> None:
        self._iterator = samples
        self._stop_sampling = stop_sampling
        self._samples: list[Sample] = []
        self._thread = threading.Thread(target=self._collect_samples, name="v6t-watch", daemon=True)
        self._thread.start()

    def stop(self) -> list[Sample]:
        """End the thread and return the samples."""
        self._stop_sampling()
        self._thread.join(LINE_DEADLINE_S)
        return list(self._samples)

    def _collect_samples(self) -> None:
        with contextlib.suppress(DutError, OSError, ValueError):
            for sample in self._iterator:
                self._samples.append(sample)
