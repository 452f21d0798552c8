"""Measure a tester in front of the known device and write a record and a report.

Each result is on disk before the next check begins, so that an interrupted study continues there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.analysis.report.render import to_html, to_markdown
from v6t.base.errors import TesterError, UsageError, hides_interrupt
from v6t.base.files import read_json
from v6t.core.config.plugins import load_technology_type
from v6t.core.runs.bench import compile_directions
from v6t.core.runs.manifest import describe_machine, find_commit, format_utc_now
from v6t.core.runs.tester_capacity import collect_tester_facts
from v6t.drivers import clock
from v6t.drivers.lab.setup import compute_frame_octets
from v6t.drivers.tester import OracleDecorator, Tester
from v6t.packets.reference import Expected
from v6t.procedures.throughput import ThroughputSpec, measure_throughput
from v6t.tools.accuracy import compare
from v6t.tools.accuracy.checks import MINIMUM_COUNT_FPS, Check, list_checks
from v6t.tools.accuracy.known_device import KnownDevice, Truth
from v6t.tools.accuracy.record import (
    SCHEMA,
    AccuracyRecord,
    CapacityRow,
    CountRow,
    DelayRow,
    PaceRow,
)
from v6t.tools.accuracy.report import make_document
from v6t.trials.conditions import Conditions
from v6t.trials.result import DirectionResult, TrialResult
from v6t.trials.trial import Trial

if TYPE_CHECKING:
    from v6t.core.config.run_setup import RunSetup
    from v6t.packets.arrays import U8
    from v6t.packets.direction import Direction
    from v6t.profiles.model import FramePair

TECHNOLOGY, FRAME_SIZE = "ipv6-router", 84
"""IPv6 test frames: the shortest frame size of RFC 5180 that holds a trailer."""
ROWS_FILE = ".accuracy-rows.json"
ATTEMPTS = 6
"""Attempts at a trial in which the tester or the known device failed."""
SENDING_TIME_TOLERANCE = 1.05
ROW_TYPES: Mapping[str, type[Any]] = {
    "counts": CountRow,
    "delays": DelayRow,
    "pace": PaceRow,
    "capacity": CapacityRow,
}


def check_supported(setup: RunSetup) -> None:
    """Refuse testers to which the known device cannot be connected.

    Raises:
        UsageError: the tester is simulated, or not in the lab.
    """
    if setup.tester.simulates or not setup.tester.in_lab:
        raise UsageError(
            f"the accuracy of the {setup.tester.name} tester can be measured in the lab only, where "
            "the known device can be connected",
            "--tester embedded, or --tester trex --set-tester lab=true",
            code="unsupported-by-tester",
        )


def run_study(setup: RunSetup, out: Path, report_progress: Callable[[str], None]) -> AccuracyRecord:
    """Run the checks that are not on disk yet; write the record and the report.

    Args:
        setup: setup of a run with the tester.
        out: directory of the results.
        report_progress: called with a line of text when a check begins.

    Raises:
        UsageError: the directory cannot be used.
        TesterError: the tester fails in front of the known device.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise UsageError(f"{out} cannot be used: {exc.strerror}", code="file-unwritable") from exc
    load = os.getloadavg()[0]
    stored = StoredRows(out / ROWS_FILE, setup)
    bench = Bench(setup)
    checks = list_checks()
    try:
        for number, check in enumerate(checks, 1):
            if check.name in stored.rows:
                continue
            report_progress(f"{number}/{len(checks)} {check.name}")
            section, row = bench.run(check)
            stored.add(check.name, section, row.to_json(), bench.tester_facts)
    except KeyboardInterrupt:
        report_progress(
            f"{len(stored.rows)} of {len(checks)} checks are stored: repeat the command to continue"
        )
        raise
    finally:
        bench.close()
    record = AccuracyRecord(
        made=format_utc_now(),
        version=version("v6t"),
        source_commit=find_commit(),
        tester=stored.tester,
        options=setup.settings.tester.options,
        machine=describe_machine(),
        load=[round(load, 2), round(os.getloadavg()[0], 2)],
        traffic=f"{TECHNOLOGY}, {FRAME_SIZE} octets, left to right",
        **stored.list_by_section(),
    )
    document = make_document(record)
    replace_file(out / "accuracy.json", json.dumps(record.to_json(), indent=1) + "\n")
    replace_file(out / "accuracy.md", to_markdown(document))
    replace_file(out / "accuracy.html", to_html(document))
    stored.path.unlink(missing_ok=True)
    return record


def replace_file(path: Path, text: str) -> None:
    """Replace a file atomically."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


class StoredRows:
    """Rows on disk; those of another tester, machine or version are ignored."""

    def __init__(self, path: Path, setup: RunSetup) -> None:
        """Load the rows if there are any."""
        facts = [SCHEMA, version("v6t"), collect_tester_facts(setup)]
        self._key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]
        self.path = path
        self.rows: dict[str, Any] = {}  # section and row of each finished check
        self.tester: Mapping[str, Any] = {}  # the tester's description
        try:
            stored = read_json(path)
        except UsageError:
            return
        if isinstance(stored, dict) and stored.get("key") == self._key:
            self.rows, self.tester = stored["rows"], stored["tester"]

    def add(self, name: str, section: str, row: Mapping[str, Any], tester: Any) -> None:
        """Store a row with the tester's description."""
        self.rows[name] = [section, row]
        self.tester = tester
        stored = {"key": self._key, "rows": self.rows, "tester": self.tester}
        replace_file(self.path, json.dumps(stored))

    def list_by_section(self) -> dict[str, Any]:
        """Return the rows of each section of the record."""
        sections: dict[str, list[Any]] = {name: [] for name in ROW_TYPES}
        for section, row in self.rows.values():
            sections[section].append(ROW_TYPES[section].model_validate(row))
        return sections


class UnchangedFrames(OracleDecorator):
    """Oracle of the known device, which forwards frames unchanged."""

    def expect(self, direction: Direction, frames: U8) -> Expected:
        """Expect the frames unchanged."""
        count, length = frames.shape
        lengths = np.full(count, length, dtype=np.int32)
        return Expected(frames, lengths, np.zeros(count, dtype=np.uint8))


class Bench:
    """Tester and known device, opened when the first check needs them."""

    def __init__(self, setup: RunSetup) -> None:
        """Prepare without opening anything."""
        self._setup = setup
        links = setup.technology.links
        self._device = KnownDevice(compute_frame_octets(links))
        technology_type = load_technology_type(TECHNOLOGY)
        self._technology = technology_type(links=links)
        self._sizes: FramePair = self._technology.make_frame_pair(FRAME_SIZE)
        self._tester: Tester | None = None
        self.tester_facts: Mapping[str, Any] = {}  # the tester's description, once it is open

    def run(self, check: Check) -> tuple[str, Any]:
        """Run a check; return the section of its row, and the row.

        Raises:
            TesterError: no trial was valid.
        """
        if check.kind == "capacity":
            return "capacity", self._measure_capacity(check)
        if check.kind == "pace":
            trials = [self._measure(check, check.rate_fps) for _ in range(check.trials)]
            return "pace", compare.compare_pace(check, trials)
        if check.kind == "delay":
            return "delays", compare.compare_delays(check, *self._measure(check, check.rate_fps))
        rate = check.rate_fps
        while True:
            try:
                measured = self._measure(check, rate, attempts=2)
            except TesterError as exc:
                rate /= 2
                if rate < MINIMUM_COUNT_FPS or hides_interrupt(exc):
                    raise
            else:
                return "counts", compare.compare_counts(check, *measured)

    def close(self) -> None:
        """Close the tester and remove the lab."""
        if self._tester is not None:
            self._tester.close()

    def _measure(
        self, check: Check, rate_fps: float, attempts: int = ATTEMPTS
    ) -> tuple[Trial, DirectionResult, Truth]:
        """Repeat a trial until it is valid; return it, its result and what happened at the device."""
        duration_s = check.frames / rate_fps
        trial = self._make_conditions().make_trial(
            "accuracy", rate_fps, duration_s, delays=check.delays
        )
        reason = ""
        for attempt in range(1, attempts + 1):
            keyed_trial = replace(trial, key=f"accuracy/{check.name}/a{attempt}")
            result, truth = self._run_trial(check, keyed_trial)
            reason = _find_fault(keyed_trial, result, truth)
            if not reason:
                return keyed_trial, result.directions["forward"], truth
        raise TesterError(
            f"{check.name}: {reason}",
            "is the machine busy with something else?",
            code="check-failed",
        )

    def _run_trial(self, check: Check, trial: Trial) -> tuple[TrialResult, Truth]:
        tester = self._open()
        self._device.start_trial(check.impairments, seed=1)
        clocks = clock.read()
        result = tester.measure(trial)
        if not result.faults:  # TRex's time stamps are not of the day's clock, but the device's are
            result = replace(result, faults=tuple(clock.find_faults_since(clocks)))
        return result, self._device.end_trial()

    def _measure_capacity(self, check: Check) -> CapacityRow:
        capacity_fps = check.impairments.capacity_fps
        spec = ThroughputSpec(
            self._make_conditions(),
            upper_bound_fps=1.5 * capacity_fps,
            upper_bound_reason="media",
            resolution_fps=capacity_fps / 500,
            duration_s=check.duration_s,
            repetitions=1,
        )

        def measure(trial: Trial) -> TrialResult:
            result, truth = self._run_trial(check, trial)
            if truth.missed:
                result = replace(result, faults=(*result.faults, _describe_missed(truth)))
            return result

        (repetition,) = measure_throughput(spec, measure).repetitions
        return compare.compare_capacity(
            check, repetition.rate_fps, spec.duration_s, spec.resolution_fps
        )

    def _make_conditions(self) -> Conditions:
        return Conditions(
            ipv6_frame_size=self._sizes.ipv6,
            ipv4_frame_size=self._sizes.ipv4,
            mode="forward",
            residual_wait_s=0.3,
            pause_s=0.1,
            sending_time_tolerance=SENDING_TIME_TOLERANCE,
            invalid_retries=ATTEMPTS,
        )

    def _open(self) -> Tester:
        if self._tester is None:
            seed = self._setup.settings.seed
            self._tester = tester = self._setup.tester.make(
                self._technology.links, self._device, loopback=False, delays=True, seed=seed
            )
            tester.open()
            streams = compile_directions(self._technology, self._sizes, seed)
            tester.load(streams, UnchangedFrames(self._technology))
            self.tester_facts = tester.describe()
        return self._tester


def _describe_missed(truth: Truth) -> str:
    return f"the known device missed {truth.missed} frames"


def _find_fault(trial: Trial, result: TrialResult, truth: Truth) -> str:
    """Return why a trial cannot show the tester's accuracy; empty if it can."""
    if result.faults:
        return result.faults[0]
    if truth.missed:
        return _describe_missed(truth)
    direction = result.directions["forward"]
    sent, arrived = direction.count_frames("sent"), len(truth.arrivals_ns)
    if not sent == arrived == trial.frames:
        return f"{sent} of {trial.frames} frames were sent, {arrived} arrived"
    if direction.sending_time_s > trial.total_duration_s * SENDING_TIME_TOLERANCE:
        return f"sending took {direction.sending_time_s:.3f} s instead of {trial.total_duration_s:.3f} s"
    return ""
