"""Samples of a device's readings, one each second, and their summary in one form for all devices.

The summary is made of these readings and figures, all of them optional:

* ``cpu``: ``CORE.idle``, ``CORE.softirq``, ``CORE.steal``, ``CORE.total`` [ticks], or without ticks
  ``CORE.idle_percent`` of the last second or so;
* ``link NAME``: ``rx.packets`` and losses of an interface that faces the tester (``interfaces``: of all of
  them); an interface inside the device is not a ``link``, since its packets were counted before;
* ``process``: ``THREAD.run_ns``, ``THREAD.wait_ns`` (ready, but not running), ``quota.periods``,
  ``quota.throttled`` (periods in which a cgroup throttled it);
* ``runtime``: ``THREAD.node.NAME.calls``, ``.vectors``, ``.clocks`` since the counters were reset;
* ``perf``: ``cycles_per_s``, ``instructions_per_s`` of all cores together;
* ``table``: ``used``, ``limit`` [connections];
* any other: figures that its reading declares to count lost frames, by reason; of the rest, the change.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from statistics import median_high
from typing import Any

from v6t.base.errors import DutError
from v6t.drivers.duts.readings import LossReason, Reading
from v6t.drivers.duts.session import shell
from v6t.drivers.transport.contract import HeldCommand

SAMPLE_END = f"{shell.SECTION_HEADING} tick"  # line that ends each sample
LINE_DEADLINE_S = 10.0  # time limit for one line of a sample
WATCH_INTERVAL_S = 1.0  # time between two samples


@dataclass(frozen=True)
class Sample:
    """Figures that were read from a device at one time."""

    figures: dict[str, dict[str, float]]  # values by reading name and figure name
    time_s: float = 0.0  # wall clock time at which the sample arrived
    readings: Mapping[str, Reading] = field(default_factory=dict)  # sampled readings by name


def parse_sample(sections: Mapping[str, shell.Section], readings: Mapping[str, Reading]) -> Sample:
    """Parse the outputs of the readings' commands into a sample with the current time."""
    figures = {}
    for name, reading in readings.items():
        section = sections.get(reading.command)
        figures[name] = dict(reading.parse(section.text)) if section else {}
    return Sample(figures, time.time(), readings)


def build_watch_script(readings: Mapping[str, Reading], interval_s: float) -> str:
    """Return a shell loop that takes samples until its standard input is closed."""
    sample = shell.build_batch_script(reading.command for reading in readings.values())
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
        if (line := process.read_line(LINE_DEADLINE_S)) == SAMPLE_END:
            yield parse_sample(shell.parse_sections("\n".join(lines), commands), readings)
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
        self._stop_sampling()
        self._thread.join(LINE_DEADLINE_S)
        return list(self._samples)

    def _collect_samples(self) -> None:
        with contextlib.suppress(DutError, OSError, ValueError):
            for sample in self._iterator:
                self._samples.append(sample)


_Figures = Mapping[str, float]  # figures of one reading, by name
LINK_PREFIX = "link "  # prefix of the reading names of interfaces that face the tester
INTERFACES_READING = "interfaces"  # name of the reading of all interfaces that face the tester
# prefixes of the names of figures whose readings have the same meaning for all devices
COMMON_READINGS = tuple(
    f"{name} "
    for name in ("cpu", "link", "process", "runtime", "perf", "table", INTERFACES_READING)
)
ROUNDING_ERROR = 0.005  # maximum relative error of figures with three digits
MAX_RELATIVE_ERROR = 0.1  # a difference of rounded figures with a larger error is left out


@dataclass(frozen=True)
class TelemetrySummary:
    """Summary of a device's telemetry; shares are percentages, and empty fields are unknown."""

    seconds: float = 0.0  # duration from the first to the last sample [s]
    polls: bool = False  # the device polls: its cores are busy even without load
    # median ``busy``, ``softirq`` and ``steal`` shares of each core
    cores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    # median ``run`` and ``wait`` shares of the busiest thread; share of ``throttled`` quota periods
    process: Mapping[str, float] = field(default_factory=dict)
    # median frames per call of each busy VPP node, in the thread with the highest median
    vectors_per_call: Mapping[str, float] = field(default_factory=dict)
    # ``cycles`` and ``instructions`` of all cores; ``clocks`` of VPP nodes other than polling ones
    per_packet: Mapping[str, float] = field(default_factory=dict)
    # number of lost frames, by the name of the device's counter
    drops: Mapping[str, float] = field(default_factory=dict)
    lost_for: Mapping[str, LossReason] = field(default_factory=dict)  # reason, by counter name
    # change of each other figure of the driver's own readings, by name
    changes: Mapping[str, float] = field(default_factory=dict)
    # the connection table at its fullest: entries ``used``, their ``limit``, and the share ``full``
    table: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the known fields as JSON values."""
        return {name: value for name, value in asdict(self).items() if value}

    @property
    def distinct_drops(self) -> Mapping[str, float]:
        """Drops without totals; all drops if the other counters explain less than half of the totals."""
        single = self.select_drops(*set(LossReason) - {LossReason.TOTAL})
        sums = sum(self.drops.values()) - sum(single.values())
        return single if 2 * sum(single.values()) >= sums else self.drops

    def select_drops(self, *reasons: LossReason) -> dict[str, float]:
        """Return the drops for these reasons, by counter name."""
        return {n: count for n, count in self.drops.items() if self.lost_for[n] in reasons}


def summarize_samples(samples: Sequence[Sample]) -> TelemetrySummary:
    """Return the summary of telemetry samples; rates need at least two samples."""
    more = {kind: compute_core_shares(samples, kind) for kind in ("softirq", "steal")}
    cores = {}
    for core, shares in compute_core_shares(samples, "idle").items():
        cores[core] = {"busy": _compute_median([100 - share for share in shares])}
        cores[core] |= {kind: _compute_median(by[core]) for kind, by in more.items() if core in by}
    changes = list(_list_changes(samples))
    drops = {name: change for name, change, why in changes if why is not None and change > 0}
    return TelemetrySummary(
        seconds=round(samples[-1].time_s - samples[0].time_s, 1) if samples else 0.0,
        polls=is_polling(samples),
        cores=cores,
        process=_summarize_process(samples),
        vectors_per_call=_compute_vectors_per_call(samples),
        per_packet=_compute_costs_per_packet(samples),
        drops=drops,
        lost_for={name: why for name, _, why in changes if why is not None and name in drops},
        changes={
            name: change
            for name, change, why in changes
            if why is None and change and not name.startswith(COMMON_READINGS)
        },
        table=_summarize_table(samples),
    )


def is_polling(samples: Sequence[Sample]) -> bool:
    """Return whether the device polls, that is, whether its cores are busy even without load."""
    return any(reading.polls for sample in samples for reading in sample.readings.values())


def compute_core_shares(samples: Sequence[Sample], kind: str) -> dict[str, list[float]]:
    """Return the share [%] of ``idle``, ``softirq`` or ``steal`` time of each core in each second."""
    shares: dict[str, list[float]] = {}
    for sample in samples:
        for name, share in sample.figures.get("cpu", {}).items():
            core, _, what = name.rpartition(".")
            if what == f"{kind}_percent":
                shares.setdefault(core, []).append(share)
    for first, last in _pair_figures(samples, "cpu"):
        for name, total in last.items():
            core, _, what = name.partition(".")
            part = f"{core}.{kind}"
            is_known = what == "total" and part in last and name in first
            if is_known and (spent := total - first[name]) > 0:
                share = 100.0 * (last[part] - first.get(part, 0.0)) / spent
                shares.setdefault(core, []).append(share)
    return shares


def _pair_figures(samples: Sequence[Sample], reading: str) -> Iterator[tuple[_Figures, _Figures]]:
    return pairwise(sample.figures.get(reading, {}) for sample in samples)


def _list_changes(samples: Sequence[Sample]) -> Iterator[tuple[str, float, LossReason | None]]:
    """Yield the name, the change and the loss reason of each figure in the first and last sample."""
    for name, reading in samples[-1].readings.items() if len(samples) > 1 else ():
        before = samples[0].figures.get(name, {})
        for figure, last in samples[-1].figures.get(name, {}).items() if before else ():
            change = last - before.get(figure, 0.0)
            yield f"{name} {figure}", change, reading.find_loss_reason(figure)


def _summarize_process(samples: Sequence[Sample]) -> dict[str, float]:
    """Return ``run`` and ``wait`` shares of the busiest thread, and the share of throttled periods."""
    threads: dict[str, list[tuple[float, float]]] = {}
    times = pairwise(sample.time_s for sample in samples)
    for (began, ended), (first, last) in zip(times, _pair_figures(samples, "process"), strict=True):
        for name in last if ended > began else ():
            thread, _, what = name.partition(".")
            wait = f"{thread}.wait_ns"
            if what == "run_ns" and {name, wait} <= first.keys() & last.keys():
                ran, waited = ((last[n] - first[n]) / (1e7 * (ended - began)) for n in (name, wait))
                threads.setdefault(thread, []).append((ran, waited))
    if not threads:
        return {}
    busiest = max(threads.values(), key=lambda shares: sum(map(sum, shares)))
    ran, waited = map(_compute_median, zip(*busiest, strict=True))
    summary = {"run": ran, "wait": waited}
    quota = ("quota.periods", "quota.throttled")
    periods, throttled = (_measure_growth(samples, "process", name) for name in quota)
    return {**summary, "throttled": round(100 * throttled / periods, 1)} if periods else summary


def _compute_vectors_per_call(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the median frames per call of each VPP node, in the thread where it is highest."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for first, last in _pair_figures(samples, "runtime"):
        for name, vectors in last.items():
            thread, _, node = name.removesuffix(".vectors").partition(".node.")
            calls = name.removesuffix("vectors") + "calls"
            if not name.endswith(".vectors") or calls not in last:
                continue
            called = last[calls] - first.get(calls, 0.0)
            taken = vectors - first.get(name, 0.0)
            if first and called > 0 and taken >= 0:  # smaller values: the counters were cleared
                seconds.setdefault((thread, node), []).append(taken / called)
    vectors_per_call: dict[str, float] = {}
    for (_, node), shares in seconds.items():
        vectors_per_call[node] = max(vectors_per_call.get(node, 0.0), _compute_median(shares))
    return vectors_per_call


def _compute_costs_per_packet(samples: Sequence[Sample]) -> dict[str, float]:
    """Return cycles, instructions and VPP clocks per packet received from the tester."""
    seconds = samples[-1].time_s - samples[0].time_s if samples else 0.0
    if seconds <= 0:
        return {}
    links = [n for n in samples[-1].figures if n.startswith(LINK_PREFIX) or n == INTERFACES_READING]
    packets = sum(_measure_growth(samples, link, "rx.packets") for link in links)
    # clocks of VPP, unless rounding hides them
    first, last = (
        sum(v for n, v in s.figures.get("runtime", {}).items() if n.endswith(".clocks"))
        for s in (samples[0], samples[-1])
    )
    used = last - first
    is_exact = used > 0 and ROUNDING_ERROR * (first + last) <= MAX_RELATIVE_ERROR * used
    costs = {"clocks": round(used / packets, 1)} if is_exact and packets else {}
    for what in ("cycles", "instructions"):
        seen = [s.figures.get("perf", {}).get(f"{what}_per_s") for s in samples]
        if (counted := [value for value in seen if value]) and packets:
            costs[what] = round(_compute_median(counted) * seconds / packets, 1)
    return costs


def _summarize_table(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the figures of the connection table in the sample in which it was fullest."""
    tables = [s.figures["table"] for s in samples if "used" in s.figures.get("table", {})]
    fullest = max(tables, key=lambda figures: figures["used"], default={})
    limit = fullest.get("limit", 0.0)
    return {**fullest, "full": round(100 * fullest["used"] / limit, 1)} if limit else {**fullest}


def _measure_growth(samples: Sequence[Sample], reading: str, figure: str) -> float:
    """Return how much a figure grew between the first and the last sample that have it."""
    rows = [s.figures.get(reading, {}) for s in samples]
    values = [row[figure] for row in rows if figure in row]
    return max(0.0, values[-1] - values[0]) if values else 0.0


def _compute_median(values: Sequence[float]) -> float:
    """Return the upper median, rounded to one decimal."""
    return round(median_high(values), 1)
