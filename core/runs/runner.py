"""A run: the preflight, the benchmarks at each point, and the results on disk."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from v6t.analysis.record import Record
from v6t.analysis.rundata import RunData
from v6t.base.errors import BeyondTester, EnvironmentLacking, TranslationError, UsageError
from v6t.benchmarks import registry
from v6t.benchmarks.base import Benchmark, Phase
from v6t.benchmarks.connections import prepare_connections
from v6t.benchmarks.point import Measurement, Point
from v6t.core.config.checks import check_capabilities
from v6t.core.config.run_setup import RunSetup, make_setup
from v6t.core.config.warnings import list_setting_warnings, list_tester_warnings
from v6t.core.runs import results, rundir
from v6t.core.runs.device import COUNTERS_KEY
from v6t.core.runs.events import Listener, make_headline, open_log
from v6t.core.runs.journal import read_journal
from v6t.core.runs.manifest import add_version, format_utc_now, make_manifest
from v6t.core.runs.plan import RunPlan, plan, plan_first_stage, plan_stage
from v6t.core.runs.preflight import report_phase_one_failure, run_preflight
from v6t.core.runs.trials import TrialExecutor, make_point, make_tcp_point, remeasure_tester
from v6t.procedures.stateful.phases import PhaseOneError
from v6t.procedures.tester_rate import MAX_REMEASUREMENTS, compute_usable_rate
from v6t.profiles.mixes import Sizes

WRITING_INTERVAL_FACTOR = 20  # interval between writes, as a multiple of the time of one


def execute(
    setup: RunSetup, path: Path, events: Listener, run_plan: RunPlan | None = None
) -> RunData:
    """Execute a run in a new directory and return its data.

    Raises:
        UsageError: the directory cannot be used.
        V6tError: see :mod:`v6t.base.errors`; finished trials stay on disk.
    """
    check_capabilities(setup)
    run_plan = run_plan or plan(setup)
    with rundir.RunDir(path, new=True) as run_dir:
        document = make_manifest(setup.settings, setup.technology, simulated=setup.tester.simulates)
        config = rundir.format_json(setup.settings.to_json())
        document[rundir.CONFIG_DIGEST] = rundir.compute_digest(config.encode())
        run_dir.write_json(rundir.MANIFEST, document)
        run_dir.write_text(rundir.CONFIG, config)
        try:
            with open_log(path, events) as log:
                for warning in list_setting_warnings(setup):
                    log.on_message(f"note: {warning}")
                journal = read_journal(path, {}, document)
                files = results.RunFiles(path, setup.settings, document, {}, journal)
                return Runner(run_plan, run_dir, log, files).run()
        except EnvironmentLacking:  # this machine cannot measure: there is nothing to resume
            with suppress(UsageError, OSError):
                run_dir.delete_if_empty()
            raise


def resume(path: Path, events: Listener, run_plan: RunPlan | None = None) -> RunData:
    """Resume an interrupted run and return its data; only load it if it is complete."""
    with rundir.RunDir(path, new=False) as run_dir:
        files = results.read_run(path)
        if files.is_complete:
            return results.make_stored_data(files)
        return measure_rest(run_dir, files, events, run_plan or plan(make_setup(files.settings)))


def measure_rest(
    run_dir: rundir.RunDir, files: results.RunFiles, events: Listener, run_plan: RunPlan
) -> RunData:
    """Resume an interrupted run whose files were read, and return its data."""
    with open_log(run_dir.path, events) as log:
        return Runner(run_plan, run_dir, log, files).run()


class Runner:
    """Executes a run: measures every benchmark at every point and writes the results.

    Benchmarks are measured frame size by frame size, phase by phase, mode by mode, and find their
    trials in the journal if the run is resumed. Finished records do not change.
    """

    def __init__(
        self, run_plan: RunPlan, run_dir: rundir.RunDir, events: Listener, files: results.RunFiles
    ) -> None:
        """Open the journal; ``files`` are the contents of the directory."""
        self._setup, self._run = run_plan.setup, run_plan.setup.settings
        self._run_dir, self._events = run_dir, events
        self._files, self._journal = files, files.journal
        with rundir.report_damage(run_dir.path):
            manifest = files.manifest and add_version(files.manifest)
        # the self-test, preflight or phase 1 whose failure ended the run is measured again
        if manifest and (failed_check := manifest.pop(rundir.FAILED_CHECK, None)):
            self._journal.discard_from(failed_check)
        self._journal.open()
        if manifest and manifest != files.manifest:
            run_dir.write_json(rundir.MANIFEST, manifest)
            self._files = replace(files, manifest=manifest)
        self._results = results.ResultWriter(run_dir, self._journal, files.results)
        self._executor = TrialExecutor(run_plan, run_dir, files, events)
        self._tcp_rates: Mapping[str, Sequence[float]] = {}
        self._status = results.RUNNING
        self._next_write = 0.0

    def run(self) -> RunData:
        """Measure all points, restore the device and return the data of the run.

        Raises:
            V6tError: finished trials and results stay on disk.
        """
        if self._journal.torn:
            text = "the last line of the journal was incomplete; its trial is measured again"
            self._events.on_message(text)
        self._events.on_run_data(self.get_data)
        try:
            self._write_results()
            with report_phase_one_failure():
                self._measure()
            self._status = results.COMPLETE
        except TranslationError:
            self._status = results.INCORRECT
            raise
        finally:
            tester = None
            try:
                # a device that cannot be restored must not cost the results
                with closing(self._executor):
                    tester = self._executor.bench.describe()
            finally:
                self._write_manifest(tester)
                self._write_results()
                self._journal.close()
        return self.get_data()

    def get_data(self) -> RunData:
        files = replace(self._files, results=self._results.content)
        return results.make_run_data(files, self._setup.technology, [*self._results.records])

    def _measure(self) -> None:
        try:
            for number, size in enumerate(self._run.frame_sizes):
                sizes = self._setup.technology.make_sizes(size)
                self._measure_size(sizes, is_first_size=number == 0)
        except PhaseOneError as exc:
            self._executor.failed_check = exc.first_key
            raise

    def _measure_size(self, sizes: Sizes, *, is_first_size: bool) -> None:
        """Measure all phases at a frame size, each in every mode or only once."""
        executor = self._executor
        stage = plan_first_stage(self._setup, sizes.label, is_first_size=is_first_size)
        executor.begin_stage(stage)
        streams = executor.load(sizes)
        self._check_translation(sizes, is_first_size=is_first_size)
        once = make_point(executor, sizes, "forward", streams, opens_connections=self._run.connects)
        rates, selected = self._tcp_rates, registry.select_benchmarks(self._setup)
        for phase in sorted(Phase, key=lambda phase: phase.sized):  # TCP first
            benchmarks = [b for b in selected if b.phase == phase]
            if not benchmarks or not (phase.sized or is_first_size):
                continue
            points = [once] if phase.sized else [make_tcp_point(executor, streams)]
            if phase.directed:
                points = [make_point(executor, sizes, mode, streams) for mode in self._run.modes]
            for point in points:
                current = replace(point, measured_rates=rates)
                measured = self._measure_point(phase, benchmarks, current)
                rates = rates if phase.directed else {**rates, **measured}
            if not phase.sized:
                self._tcp_rates = rates

    def _check_translation(self, sizes: Sizes, *, is_first_size: bool) -> None:
        self._events.on_message(f"{sizes.label} octets: checking the translation")
        failure = run_preflight(self._setup, sizes, self._executor.measure_device)
        if failure is not None:
            self._executor.mark_failed_check()
            self._executor.raise_mismatch(failure)
        if is_first_size:
            for warning in self._list_tester_warnings():
                self._events.on_message(f"note: {warning}")

    def _list_tester_warnings(self) -> list[str]:
        """List warnings about the tester; the manifest describes one that is not open."""
        tester = self._executor.bench.describe() or (self._files.manifest or {}).get("tester") or {}
        return [*list_tester_warnings(self._run, tester, in_lab=self._setup.tester.in_lab)]

    def _measure_point(
        self, phase: Phase, benchmarks: Sequence[Benchmark[Any, Any]], point: Point
    ) -> dict[str, Sequence[float]]:
        """Measure the benchmarks of a phase at a point and return their rates by benchmark."""
        records: list[Record] = []
        rates: dict[str, Sequence[float]] = {}
        refusal = ""
        if phase != Phase.VARIANTS:
            _ = point.tester_capacity  # the tester itself goes first
        if phase == Phase.STREAMS and self._run.connects:
            connected = prepare_connections(point)
            refusal = "" if connected else "no connection rate passed"
            point = connected or point
        for benchmark in benchmarks:
            current = replace(point, measured_rates={**point.measured_rates, **rates})
            if refusal:
                measurement = benchmark.skip(current, refusal)
            else:
                current, measurement = self._measure_benchmark(benchmark, current)
                point = replace(current, measured_rates=point.measured_rates)
            rates[benchmark.name] = measurement.rates
            records.append(measurement.record)
            self._store_record(benchmark, measurement)
        self._events.on_point_end(records)
        return rates

    def _measure_benchmark(
        self, benchmark: Benchmark[Any, Any], point: Point
    ) -> tuple[Point, Measurement]:
        """Measure a benchmark; return the point, which a new self-test changes, and the result."""
        place = f"{point.sizes.label} octets"
        if benchmark.phase.directed:
            place += f", {point.mode}"
        if benchmark.phase == Phase.VARIANTS:
            self._executor.load(point.sizes)  # the previous benchmark's variant is still loaded
        else:
            self._events.on_message(f"{place}: {benchmark.name}")
        try:
            measurement = self._measure_stage(benchmark, point)
            for number in range(1, MAX_REMEASUREMENTS + 1):
                exceeds = self._exceeds_tester(benchmark, point, measurement)
                better = remeasure_tester(point, number) if exceeds else None
                if better is None:
                    break
                point, measurement = better, self._measure_stage(benchmark, better)
        except BeyondTester as exc:
            self._events.on_message(f"{place}: {benchmark.name} is not measured: {exc.message}")
            measurement = benchmark.skip(point, exc.message)
        record = measurement.record
        names = {"benchmark": record.benchmark, "direction": record.direction}
        entry = {**names, "frame_sizes": record.frame_sizes.to_json()}
        self._executor.counts.end(self._executor.bench.session, entry)
        return point, measurement

    def _measure_stage(self, benchmark: Benchmark[Any, Any], point: Point) -> Measurement:
        """Measure a benchmark as a stage that is planned with the rates measured so far."""
        self._executor.begin_stage(plan_stage(benchmark, point)[0])
        return benchmark.measure(point)

    def _exceeds_tester(
        self, benchmark: Benchmark[Any, Any], point: Point, measurement: Measurement
    ) -> bool:
        """Return whether a result implausibly exceeds the capacity that the self-test found."""
        if benchmark.phase != Phase.STREAMS or not measurement.rates:
            return False
        margin = self._run.procedure.selftest_margin
        usable_fps = compute_usable_rate(point.tester_capacity.rate_fps, margin)
        return median(measurement.rates) > self._setup.search_share * usable_fps

    def _store_record(self, benchmark: Benchmark[Any, Any], measurement: Measurement) -> None:
        """Store a finished record; write the results unless the last write was too recent."""
        self._results.add(benchmark, measurement)
        began = time.monotonic()
        if began >= self._next_write:
            self._write_results()
            ended = time.monotonic()
            self._next_write = ended + (WRITING_INTERVAL_FACTOR - 1) * (ended - began)

    def _write_results(self) -> None:
        """Write results, repetitions and raw trials, unless the stored results are more complete."""
        executor = self._executor
        optional = {
            "run": self._journal.run,
            "finding": executor.finding,
            "bottleneck": self._results.stored.get("bottleneck"),
            COUNTERS_KEY: executor.counts.entries,
        }
        head = {
            "schema": results.SCHEMA,
            "status": self._status,
            "label": self._run.label,
            "caveats": [*executor.list_warnings(), *self._list_tester_warnings()],
            **{name: value for name, value in optional.items() if value},
        }
        self._results.write(head, has_new_trials=executor.measured_count > 0)

    def _write_manifest(self, tester: dict[str, Any] | None) -> None:
        """Add the tester, the end of the run, its status and its first result to the manifest."""
        if self._files.manifest is None and tester is None:
            return
        records = self._results.records
        content = {
            **(self._files.manifest or {"run": self._journal.run or ""}),
            "status": self._status,
            "headline": make_headline(records[0]) if records else "",
        }
        if self._executor.failed_check:
            content[rundir.FAILED_CHECK] = self._executor.failed_check
        if tester:
            content["tester"] = tester
            content["finished"] = [*content.get("finished", ()), format_utc_now()]
        text = rundir.format_json(content)
        self._run_dir.write_text(rundir.MANIFEST, text)
        self._files = replace(self._files, manifest=json.loads(text))  # as another run reads it
