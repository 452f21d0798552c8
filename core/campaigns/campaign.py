"""A campaign: many runs, one after the other or on several testbeds at once, resumable as a whole.

Everything is decided before the first run and written to ``campaign.json``; each run has its own
directory. A killed campaign can be continued from its directory alone.
"""

import json
import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import StringConstraints, TypeAdapter, ValidationError
from v6t.analysis.published.library import list_sources
from v6t.base.entry_points import attribute_errors
from v6t.base.errors import UsageError, V6tError, hides_interrupt
from v6t.base.files import read_json, report_write_errors, write_atomically
from v6t.core.campaigns import list_packaged_campaigns
from v6t.core.campaigns.file import PlannedRun, read_campaign
from v6t.core.config.resolve import resolve_setup
from v6t.core.config.run_setup import make_setup
from v6t.core.config.settings import Settings
from v6t.core.config.yaml_file import YamlFile
from v6t.core.runs import rundir
from v6t.core.runs.events import Listener, format_duration
from v6t.core.runs.plan import RunPlan, plan
from v6t.core.runs.results import COMPLETE, INCORRECT, RUNNING
from v6t.core.runs.runner import execute, resume
from v6t.core.runs.tester_capacity import Streams
from v6t.drivers.duts.session.undo_store import LOCAL_RECORD
from v6t.drivers.testers import load_kind

SCHEMA = "v6t-campaign-plan/1"  # schema identifier in campaign.json
PLAN, FAILURES = rundir.CAMPAIGN, "failures"
SUMMARY_FILE = "summary.json"  # file of a published campaign that `compare` and `trend` read
WAITING, FAILED = "waiting", "failed"
# Name of a directory that runs are made in.
RunDirectory = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


@dataclass(frozen=True)
class CampaignEntry:
    """Planned run of a campaign."""

    directory: RunDirectory  # within the directory of the campaign
    experiment: str
    testbed: str
    axes: dict[str, Any]  # values of the varying settings
    config: dict[str, Any]  # all settings, as in ``config.json``
    trials: int  # planned number
    duration_s: float  # planned
    plan_sha256: str = ""  # digest of the plan; empty in campaigns of earlier versions

    @property
    def settings(self) -> Settings:
        """Settings of the run.

        Raises:
            UsageError: this version of v6t cannot read them.
        """
        try:
            return Settings.from_config(self.config)
        except ValueError as exc:
            problem = f"{self.directory} was planned with settings that this v6t cannot read"
            hint = "continue with the version of v6t that planned it"
            raise UsageError(problem, hint, code="campaign-changed") from exc

    @property
    def key(self) -> tuple[str, str, str]:
        """Experiment, testbed and varying values, which identify a run in its campaign."""
        return self.experiment, self.testbed, json.dumps(self.axes, sort_keys=True)


@dataclass(frozen=True)
class CompiledRun(CampaignEntry):
    """Planned run with its compiled plan, which is not stored: other processes plan it again."""

    plan: RunPlan = field(kw_only=True, repr=False, compare=False)


@dataclass(frozen=True)
class CampaignPlan:
    """Campaign with all its planned runs."""

    name: str
    title: str
    paper: str | None  # published results to compare with
    notes: dict[str, str]  # by experiment; the key of general notes is empty
    runs: tuple[CampaignEntry, ...]

    @property
    def duration_s(self) -> float:
        """Planned duration [s] if all testbeds are used in parallel."""
        return max((sum(r.duration_s for r in g) for g in self.group_runs().values()), default=0.0)

    def group_runs(self) -> dict[str, list[CampaignEntry]]:
        """Group runs by testbed; testbeds that share a tester form one group."""
        groups: dict[str, list[CampaignEntry]] = {}
        names: dict[str, str] = {}
        for run in self.runs:
            tester = run.config["tester"]
            shared = load_kind(tester["kind"], tester["options"]).exclusive_resource
            name = run.testbed if shared is None else names.setdefault(shared, run.testbed)
            groups.setdefault(name, []).append(run)
        return groups


def plan_campaign(
    file: Path | YamlFile,
    *,
    testbeds: Mapping[str, Path] | None = None,
    experiments: Sequence[str] = (),
    run_filter: Mapping[str, str] | None = None,
    tester: str | None = None,
    **options: Any,
) -> CampaignPlan:
    """Read a campaign file and return the campaign with the settings of all its runs.

    Args:
        testbeds: testbed files that replace those of the campaign, by name; the name may be empty if
            the campaign has only one testbed.
        experiments: names of the selected experiments; all if empty.
        run_filter: comma-separated values by setting; selects the runs that have one of them.
        tester: another tester, without options unless the testbed has the same kind of tester.
        options: ``preset``, ``setting_flags`` and ``procedure``; see :func:`resolve_setup`.
    """
    document = file if isinstance(file, YamlFile) else YamlFile(file)
    content, planned = read_campaign(document, testbeds, experiments)
    is_packaged = document.path in list_packaged_campaigns().values()
    if is_packaged and not testbeds and tester is None and not all(map(_uses_lab, planned)):
        problem = f"the campaign {document.path.stem} comes without a testbed"
        hint = "give one with --testbed (`v6t init` writes an example); --tester sim rehearses"
        raise UsageError(problem, hint, code="missing-setting")
    stream_cache: dict[str, Mapping[str, Streams]] = {}
    runs: list[CampaignEntry] = [
        _resolve_run(number, run, tester, options, stream_cache)
        for number, run in enumerate(planned, 1)
    ]
    for name, values in (run_filter or {}).items():
        runs = _select_runs(runs, name, values)
    notes = {e.name: _add_differences(e.note, e.differs) for e in content.experiments}
    if content.differs:
        notes[""] = _add_differences("", content.differs)
    return CampaignPlan(content.name, content.title, content.paper, notes, tuple(runs))


def _select_runs(runs: Sequence[CampaignEntry], name: str, values: str) -> list[CampaignEntry]:
    """Return the runs in which a setting has one of the comma-separated values.

    Raises:
        UsageError: no run has such a value; the hint lists those that occur.
    """
    by_value: dict[str, list[CampaignEntry]] = {}
    for run in runs:
        setting: Any = run.config
        for part in name.split("."):
            setting = setting.get(part) if isinstance(setting, dict) else None
        for value in setting if isinstance(setting, list) else [setting]:
            by_value.setdefault(str(value), []).append(run)
    requested = {value.strip() for value in values.split(",")}
    selected = [run for value in requested & by_value.keys() for run in by_value[value]]
    if not selected:
        known = ", ".join(sorted(by_value.keys() - {"None"}))
        hint = f"values in this campaign: {known}" if known else f"no run sets {name}"
        raise UsageError(f"no run has {name}={values}", hint, code="unknown-name")
    return [run for run in runs if run in selected]


def _uses_lab(planned_run: PlannedRun) -> bool:
    tester = planned_run.testbed_settings.data.get("tester") or {}
    return bool(tester) and load_kind(tester["kind"], tester.get("options", {})).in_lab


def _add_differences(note: str, differences: Mapping[str, str]) -> str:
    text = "; ".join(text.rstrip(".") for text in differences.values())
    return f"{note} Differs from the paper: {text}.".strip() if differences else note


def _resolve_run(
    number: int,
    planned_run: PlannedRun,
    tester: str | None,
    options: Mapping[str, Any],
    stream_cache: dict[str, Mapping[str, Streams]],
) -> CompiledRun:
    testbed = planned_run.testbed_settings
    settings = testbed.data.get("tester") or {}
    # a tester that is not a section is rejected by resolve_setup
    if tester is not None and isinstance(settings, dict) and settings.get("kind") != tester:
        testbed.data["tester"] = {"kind": tester}
    setup = resolve_setup(planned_run.run, testbed, **options)
    run_plan = plan(setup, stream_cache)
    return CompiledRun(
        name_directory(f"{number:03d}", planned_run.experiment, planned_run.axes),
        planned_run.experiment,
        planned_run.testbed,
        dict(planned_run.axes),
        setup.settings.to_json(),
        run_plan.trial_count,
        run_plan.duration_s,
        run_plan.digest,
        plan=run_plan,
    )


def name_directory(number: str, experiment: str, axes: Mapping[str, Any]) -> str:
    """Return a directory name made of a run's number, experiment and varying values."""
    words = [number, experiment, *map(_make_slug, axes.values())]
    return "-".join(w for w in words if w)[:100]


def _make_slug(value: Any) -> str:
    if isinstance(value, dict):
        value = [f"{k}{v}" for k, v in value.items()]
    if isinstance(value, list):
        value = "-".join(map(str, value))
    return re.sub(r"[^A-Za-z0-9.]+", "-", str(value)).strip("-.")[:24]


def create_campaign(campaign: CampaignPlan, directory: Path) -> None:
    """Create the directory of a campaign and write its plan."""
    if (directory / PLAN).exists():
        problem = f"{directory} holds a campaign already"
        hint = f"v6t campaign --resume {shlex.quote(str(directory))}"
        raise UsageError(problem, hint, code="file-exists")
    with report_write_errors(directory):
        if directory.exists() and any(directory.iterdir()):
            problem = f"{directory} is not empty"
            raise UsageError(problem, "choose another directory with -o", code="file-exists")
        directory.mkdir(parents=True, exist_ok=True)
        _write_plan(directory, campaign)


def load_campaign(directory: Path) -> CampaignPlan:
    """Load a campaign from its directory."""
    try:
        content = read_json(directory / PLAN)
        if content.pop("schema", SCHEMA) != SCHEMA:
            raise ValueError("its version is unknown")
        campaign: CampaignPlan = TypeAdapter(CampaignPlan).validate_python(content)
        if campaign.paper is not None and campaign.paper not in list_sources():
            raise ValueError(f"unknown paper {campaign.paper!r}")
        if len({run.directory for run in campaign.runs}) < len(campaign.runs):
            raise ValueError("two runs have the same directory")
        for tester in (run.config.get("tester") for run in campaign.runs):
            if not isinstance(tester, dict) or not {"kind", "options"} <= tester.keys():
                raise ValueError("a run has no tester")
        return campaign
    except ValidationError as exc:
        where = ".".join(map(str, exc.errors()[0]["loc"]))
        problem = f"{directory / PLAN} is damaged: {where}: {exc.errors()[0]['msg']}"
        raise UsageError(problem, code="damaged-file") from exc
    except UsageError as exc:
        if exc.code not in ("file-not-found", "not-a-directory"):
            raise
        problem = f"{directory} does not contain a campaign"
        hint = "give the directory of an earlier `v6t campaign`"
        raise UsageError(problem, hint, code="no-such-run") from exc
    except (ValueError, AttributeError, TypeError) as exc:
        raise UsageError(f"cannot read {directory / PLAN}: {exc}", code="file-unreadable") from exc


def _write_plan(directory: Path, campaign: CampaignPlan) -> None:
    content = {"schema": SCHEMA, **TypeAdapter(CampaignPlan).dump_python(campaign)}
    write_atomically(directory / PLAN, json.dumps(content, indent=1) + "\n", private=True)


def extend_campaign(directory: Path, planned: CampaignPlan, campaign: CampaignPlan) -> CampaignPlan:
    """Add new runs of a campaign to the plan in a directory, and return the campaign of all runs.

    Runs with the same experiment, testbed and axes are the same; the plan keeps all its runs.
    """
    if planned.name != campaign.name:
        problem = f"{directory} holds the campaign {planned.name}, not {campaign.name}"
        raise UsageError(problem, "give it another directory with -o", code="campaign-changed")
    known = {run.key: run for run in planned.runs}
    runs, starts = [], [run.directory.partition("-")[0] for run in planned.runs]
    number = max((int(start) for start in starts if start.isdigit()), default=0)
    for run in campaign.runs:
        if (previous := known.pop(run.key, None)) is None:
            number += 1
            name = name_directory(f"{number:03d}", run.experiment, run.axes)
        elif previous.settings == run.settings:
            name = previous.directory
        else:
            problem = f"{previous.directory} was planned with different settings"
            hint = "measure the changed campaign in another directory with -o"
            raise UsageError(problem, hint, code="campaign-changed")
        runs.append(replace(run, directory=name))
    notes = {**planned.notes, **campaign.notes}
    extended = replace(campaign, runs=(*runs, *known.values()), notes=notes)
    _write_plan(directory, extended)
    return extended


def read_status(directory: Path, run: CampaignEntry) -> str:
    """Return the stored status of a run; that of an interrupted run is still ``running``."""
    if read_failure(directory, run):
        return FAILED
    manifest = rundir.read_json_object(directory / run.directory / rundir.MANIFEST)
    return WAITING if manifest is None else str(manifest.get("status", RUNNING))


def read_failure(directory: Path, run: CampaignEntry) -> dict[str, Any] | None:
    """Return the stored error of a run, or None if the run has not failed."""
    return rundir.read_json_object(directory / FAILURES / f"{run.directory}.json")


def run_campaign(
    directory: Path, runs: Sequence[CampaignEntry], events: Listener
) -> list[V6tError]:
    """Execute the incomplete runs and return the errors of those that failed.

    Raises:
        V6tError: a run's error that hides a Ctrl-C.
    """
    errors: list[V6tError] = []
    pending = [r for r in enumerate(runs, 1) if read_status(directory, r[1]) != COMPLETE]
    remaining_s = sum(run.duration_s for _, run in pending)
    planned_s = spent_s = 0.0  # of the finished runs
    for number, run in pending:
        events.on_run_start(run.directory)
        estimate_s = remaining_s * (spent_s / planned_s if planned_s else 1.0)
        remaining = format_duration(max(0.0, estimate_s))
        events.on_message(f"run {number} of {len(runs)}, {run.directory}, about {remaining} left")
        began = time.monotonic()
        try:
            with attribute_errors():
                _execute_run(directory, run, events)
        except V6tError as exc:
            errors.append(exc)
            _write_failure(directory, run, exc)
            if hides_interrupt(exc):
                raise
            events.on_message(f"{run.directory} failed: {exc.message}")
        else:  # a failed run takes less time than planned
            planned_s += run.duration_s
            spent_s += time.monotonic() - began
        remaining_s -= run.duration_s
    events.on_run_start("")
    return errors


def _execute_run(directory: Path, run: CampaignEntry, events: Listener) -> None:
    path = directory / run.directory
    (directory / FAILURES / f"{run.directory}.json").unlink(missing_ok=True)
    if read_status(directory, run) == INCORRECT or not (path / rundir.CONFIG).exists():
        # a device that translated incorrectly is checked again; a directory without configuration
        # belongs to a run that was killed before its first trial
        if any(path.glob(f"**/{LOCAL_RECORD}")):
            backup = path.rename(rundir.find_unused_path(path))  # maybe the last copy of the record
            events.on_message(f"{backup} keeps the undo record of a device that was not restored")
        shutil.rmtree(path, ignore_errors=True)
    run_plan = _find_plan(run)
    run_plan.setup.tester.prepare()
    if (path / rundir.CONFIG).exists():
        resume(path, events, run_plan)
    else:
        execute(run_plan.setup, path, events, run_plan)


def _find_plan(run: CampaignEntry) -> RunPlan:
    """Return the plan of a run, made again if another process planned it.

    Raises:
        UsageError: the plan differs, for example because another version of v6t made it.
    """
    if isinstance(run, CompiledRun):
        return run.plan
    run_plan = plan(make_setup(run.settings))
    if run.plan_sha256 not in ("", run_plan.digest):
        problem = f"{run.directory} was planned with other trials or traffic"
        hint = "continue with the version of v6t that planned it, or add the campaign's FILE"
        raise UsageError(problem, hint, code="campaign-changed")
    return run_plan


def _write_failure(directory: Path, run: CampaignEntry, exc: V6tError) -> None:
    if read_status(directory, run) == INCORRECT:
        return  # its results record the mismatch
    folder = directory / FAILURES
    folder.mkdir(exist_ok=True)
    content = {"message": exc.message, "hint": exc.hint, "exit_code": exc.exit_code}
    write_atomically(folder / f"{run.directory}.json", json.dumps(content, indent=1) + "\n")
