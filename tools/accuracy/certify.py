"""Measure a tester in front of all known devices and write its certificate.

Every check is on disk before the next begins: what is interrupted goes on where it was.
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
from v6t.core.config.run_setup import validate_params
from v6t.core.runs.bench import compile_directions
from v6t.core.runs.manifest import describe_machine, find_commit, utc_now
from v6t.core.runs.tester_capacity import collect_tester_facts
from v6t.drivers import clock
from v6t.drivers.lab.setup import frame_octets
from v6t.drivers.tester import OracleDecorator, Tester
from v6t.packets.reference import Expected
from v6t.procedures.throughput import ThroughputSpec, measure_throughput
from v6t.tools.accuracy import comparing
from v6t.tools.accuracy.checks import SLOWEST_FPS, Check, checks
from v6t.tools.accuracy.known_device import KnownDevice, Truth
from v6t.tools.accuracy.record import SCHEMA, Capacity, Certificate, Counted, Paced, Timed
from v6t.tools.accuracy.report import document
from v6t.trials.conditions import Conditions
from v6t.trials.result import DirectionResult, TrialResult
from v6t.trials.trial import Trial

if TYPE_CHECKING:
    from v6t.core.config.run_setup import RunSetup
    from v6t.packets.arrays import U8
    from v6t.packets.direction import Direction
    from v6t.profiles.model import FramePair

TECHNOLOGY, OCTETS = "ipv6-router", 84
"""IPv6 test frames: the shortest frame size of RFC 5180 that holds a trailer."""
STEPS = ".accuracy-steps.json"
FILES = {"json": "accuracy.json", "md": "accuracy.md", "html": "accuracy.html"}
ATTEMPTS = 6
"""Repetitions of a trial in which the tester or the known device failed."""
SENDING_TOLERANCE = 1.05
_SECTIONS: Mapping[str, type[Any]] = {
    "counted": Counted,
    "timed": Timed,
    "paced": Paced,
    "capacity": Capacity,
}
ProgressReporter = Callable[[str], None]


def identity(setup: RunSetup) -> str:
    """Return a key of the tester, its options, this machine and this version."""
    facts = [SCHEMA, version("v6t"), collect_tester_facts(setup)]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def write(path: Path, text: str) -> None:
    """Replace a file atomically."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


class Unchanged(OracleDecorator):
    """Oracle of the known device, which forwards frames unchanged."""

    def expect(self, direction: Direction, frames: U8) -> Expected:
        """Expect the frames unchanged."""
        count, length = frames.shape
        lengths = np.full(count, length, dtype=np.int32)
        return Expected(frames, lengths, np.zeros(count, dtype=np.uint8))


def certify(setup: RunSetup, out: Path, report_progress: ProgressReporter) -> Certificate:
    """Run the checks that are not on disk yet and write the certificate.

    Args:
        setup: setup of a run with the tester.
        out: directory for the certificate.
        report_progress: called with a line of text when a check begins.

    Raises:
        UsageError: the directory cannot be used.
        TesterError: the tester fails before a known device.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise UsageError(f"{out} cannot be used: {exc.strerror}", code="file-unwritable") from exc
    load = os.getloadavg()[0]
    steps = _Steps(out / STEPS, identity(setup))
    bench = _Bench(setup)
    try:
        todo = checks()
        for number, check in enumerate(todo, 1):
            if check.name in steps.rows:
                continue
            report_progress(f"{number}/{len(todo)} {check.name}")
            section, row = bench.run(check)
            steps.add(check.name, section, row.to_json(), bench.described)
    except KeyboardInterrupt:
        report_progress(
            f"{len(steps.rows)} of {len(todo)} checks are kept: the same command goes on from there"
        )
        raise
    finally:
        bench.close()
    certificate = Certificate(
        made=utc_now(),
        version=version("v6t"),
        source_commit=find_commit(),
        tester=steps.tester,
        options=setup.settings.tester.options,
        machine=describe_machine(),
        load=[round(load, 2), round(os.getloadavg()[0], 2)],
        traffic=f"{TECHNOLOGY}, {OCTETS} octets, left to right",
        **steps.sections(),
    )
    report = document(certificate)
    write(out / FILES["json"], json.dumps(certificate.to_json(), indent=1) + "\n")
    write(out / FILES["md"], to_markdown(report))
    write(out / FILES["html"], to_html(report))
    steps.path.unlink(missing_ok=True)
    return certificate


def check_certifiable(setup: RunSetup) -> None:
    """Refuse testers to which the known device cannot be connected.

    Raises:
        UsageError: it is simulated, or not in the lab.
    """
    if setup.tester.simulates or not setup.tester.in_lab:
        raise UsageError(
            f"the {setup.tester.name} tester's error can be measured in the lab only: a device of "
            "known behaviour must stand before it",
            "--tester embedded, or --tester trex --set-tester lab=true",
            code="unsupported-by-tester",
        )


class _Steps:
    """Results so far, stored on disk."""

    def __init__(self, path: Path, identity: str) -> None:
        self.path, self._identity = path, identity
        self.rows: dict[str, Any] = {}
        self.tester: Mapping[str, Any] = {}
        try:
            document = read_json(path)
        except (OSError, UsageError):
            return
        if isinstance(document, dict) and document.get("identity") == identity:
            self.rows, self.tester = document["rows"], document["tester"]

    def add(self, name: str, section: str, row: Mapping[str, Any], tester: Any) -> None:
        """Store a row with the tester's description."""
        self.rows[name] = [section, row]
        self.tester = tester
        document = {"identity": self._identity, "rows": self.rows, "tester": self.tester}
        write(self.path, json.dumps(document))

    def sections(self) -> dict[str, Any]:
        """Rows by section of the certificate."""
        sections: dict[str, list[Any]] = {name: [] for name in _SECTIONS}
        for section, row in self.rows.values():
            sections[section].append(_SECTIONS[section].model_validate(row))
        return sections


class _Bench:
    """Tester and known device, opened when a check needs them."""

    def __init__(self, setup: RunSetup) -> None:
        self._setup = setup
        links = setup.technology.links
        self._device = KnownDevice(frame_octets(links))
        plugin = load_technology_type(TECHNOLOGY)
        self._technology = plugin(validate_params(plugin, {}), links)
        self._sizes: FramePair = self._technology.make_frame_pair(OCTETS)
        self._tester: Tester | None = None
        self.described: Mapping[str, Any] = {}

    def run(self, check: Check) -> tuple[str, Any]:
        """Run a check and return its section of the certificate and its row."""
        if check.kind == "capacity":
            return "capacity", self._capacity(check)
        if check.kind == "pace":
            return "paced", comparing.paced(check, [self._measure(check, check.rate_fps)
                                                    for _ in range(check.trials)])  # fmt: skip
        if check.kind == "delay":
            return "timed", comparing.timed(check, *self._measure(check, check.rate_fps))
        rate = check.rate_fps
        while True:
            try:
                return "counted", comparing.counted(check, *self._measure(check, rate, attempts=2))
            except TesterError as exc:
                rate /= 2
                if rate < SLOWEST_FPS or hides_interrupt(exc):
                    raise

    def close(self) -> None:
        """Close the tester and remove the lab."""
        if self._tester is not None:
            self._tester.close()

    def _measure(
        self, check: Check, rate_fps: float, attempts: int = ATTEMPTS
    ) -> tuple[Trial, DirectionResult, Truth]:
        """Run a trial until it is valid; return it, its result and what the device did."""
        trial = self._trial(check, rate_fps, check.frames / rate_fps)
        why = ""
        for again in range(attempts):
            keyed_trial = replace(trial, key=f"{trial.key}/a{again + 1}")
            result, truth = self._ask(check, keyed_trial)
            direction = result.directions["forward"]
            why = _faltered(keyed_trial, result, truth)
            if not why:
                return keyed_trial, direction, truth
        raise TesterError(
            f"{check.name}: {why}",
            "is the machine busy with something else?",
            code="check-failed",
        )

    def _ask(self, check: Check, trial: Trial) -> tuple[TrialResult, Truth]:
        tester = self._open()
        self._device.behave(check.known, seed=1)
        began = clock.read()
        result = tester.measure(trial)
        if not result.faults:  # TRex's stamps are no time of day, but the truth is
            result = replace(result, faults=tuple(clock.find_faults_since(began)))
        return result, self._device.truth()

    def _trial(self, check: Check, rate_fps: float, duration_s: float) -> Trial:
        trial = self._conditions().make_trial("accuracy", rate_fps, duration_s, delays=check.delays)
        return replace(trial, key=f"accuracy/{check.name}")

    def _conditions(self) -> Conditions:
        return Conditions(
            ipv6_frame_size=self._sizes.ipv6,
            ipv4_frame_size=self._sizes.ipv4,
            mode="forward",
            residual_wait_s=0.3,
            pause_s=0.1,
            sending_time_tolerance=SENDING_TOLERANCE,
            invalid_retries=ATTEMPTS,
        )

    def _capacity(self, check: Check) -> Capacity:
        capacity = check.known.capacity_fps
        spec = ThroughputSpec(
            self._conditions(),
            upper_bound_fps=1.5 * capacity,
            upper_bound_reason="media",
            resolution_fps=capacity / 500,
            duration_s=check.duration_s,
            repetitions=1,
        )
        result = measure_throughput(spec, lambda trial: self._offer(check, trial))
        return comparing.capacity(
            check, result.repetitions[0].rate_fps, spec.duration_s, spec.resolution_fps
        )

    def _offer(self, check: Check, trial: Trial) -> TrialResult:
        """Run a trial of a search; frames lost for lack of buffer make it invalid."""
        result, truth = self._ask(check, trial)
        if not truth.missed:
            return result
        return replace(result, faults=(*result.faults, _missed(truth)))

    def _open(self) -> Tester:
        if self._tester is None:
            tester = self._setup.tester.make(
                self._technology.links, self._device, loopback=False, delays=True,
                seed=self._setup.settings.seed,
            )  # fmt: skip
            self._tester = tester
            tester.open()
            streams = compile_directions(self._technology, self._sizes, self._setup.settings.seed)
            tester.load(streams, Unchanged(self._technology))
            self.described = tester.describe()
        return self._tester


def _missed(truth: Truth) -> str:
    return f"the known device missed {truth.missed} frames"


def _faltered(trial: Trial, result: TrialResult, truth: Truth) -> str:
    """Return why a trial cannot show the tester's accuracy; empty if it can."""
    direction = result.directions["forward"]
    if result.faults:
        return result.faults[0]
    if truth.missed:
        return _missed(truth)
    if direction.count_frames("sent") != trial.frames or len(truth.arrived_ns) != trial.frames:
        sent, arrived = direction.count_frames("sent"), len(truth.arrived_ns)
        return f"{sent} of {trial.frames} frames were sent, {arrived} came"
    if direction.sending_time_s > trial.total_duration_s * SENDING_TOLERANCE:
        return f"sending took {direction.sending_time_s:.3f} s instead of {trial.total_duration_s:.3f} s"
    return ""
