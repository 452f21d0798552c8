"""A campaign: many runs, one after the other or on several testbeds at once, resumable as a whole.

Everything a campaign needs is decided before its first run and written to ``campaign.json``; each
run has a directory of its own. So a campaign that was killed goes on from its directory alone.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from v6t.base.entry_points import attribute_errors
from v6t.base.errors import UsageError, V6tError, hides_interrupt
from v6t.base.files import read_json, write_atomically
from v6t.core.campaigns.file import Planned, Section, read
from v6t.core.campaigns.packaged import packaged
from v6t.core.config.bound import bind
from v6t.core.config.settings import ResolvedRun
from v6t.core.config.yaml_document import Document
from v6t.core.runs import rundir as names
from v6t.core.runs.events import Listener
from v6t.core.runs.plan import Streams, plan
from v6t.core.runs.progress import duration
from v6t.core.runs.results_file import COMPLETE, INCORRECT, RUNNING
from v6t.core.runs.runner import execute, resume
from v6t.drivers.testers import kind_of

SCHEMA = "v6t-campaign-plan/1"
PLAN, FAILURES = "campaign.json", "failures"
SUMMARY = "summary.json"
"""In the directory of a published page: what `compare` and `trend` read."""
WAITING, FAILED = "waiting", "failed"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class CampaignRun:
    """One run of a campaign.

    Attributes:
        directory: its name within the campaign's.
        experiment: what it belongs to.
        testbed: where it is measured.
        axes: what varies, by setting.
        config: the resolved run, as in ``config.json``.
        trials, duration_s: planned.
    """

    directory: str
    experiment: str
    testbed: str
    axes: dict[str, Any]
    config: dict[str, Any]
    trials: int
    duration_s: float

    @property
    def resolved(self) -> ResolvedRun:
        """The run to carry out."""
        return ResolvedRun.model_validate(self.config)


@dataclass(frozen=True)
class Campaign:
    """A whole campaign.

    Attributes:
        name, title, paper: from its file.
        notes: of the experiments, by name; of all of them, by ``""``.
        runs: in the order they are made.
    """

    name: str
    title: str
    paper: str | None
    notes: dict[str, str]
    runs: tuple[CampaignRun, ...]

    @property
    def duration_s(self) -> float:
        """Planned seconds; testbeds that work at the same time are counted once."""
        return max((sum(r.duration_s for r in g) for g in self.groups().values()), default=0.0)

    def groups(self) -> dict[str, list[CampaignRun]]:
        """Group runs by the testbed they need; those that share a tester wait for one another."""
        found: dict[str, list[CampaignRun]] = {}
        names: dict[str, str] = {}
        for run in self.runs:
            tester = run.config["tester"]
            shared = kind_of(tester["kind"], tester["options"]).shared
            name = run.testbed if shared is None else names.setdefault(shared, run.testbed)
            found.setdefault(name, []).append(run)
        return found


@dataclass(frozen=True)
class Overrides:
    """What the command line changes in every run.

    Attributes:
        beds: testbed files in place of the campaign's, by name; of the only one, by ``""``.
        only: experiments that are wanted; all if empty.
        tester: another tester; its options are those of the testbed only if it is the same one.
        preset, repetitions, procedure: see ``v6t run``.
    """

    beds: tuple[tuple[str, Path], ...] = ()
    only: tuple[str, ...] = ()
    tester: str | None = None
    preset: str | None = None
    repetitions: int | None = None
    procedure: tuple[tuple[str, str], ...] = ()


def lay_out(file: Path | Document, overrides: Overrides | None = None) -> Campaign:
    """Read a campaign file and resolve all its runs; nothing is touched.

    Raises:
        UsageError: what is wrong, with the line of its experiment.
    """
    changes = overrides or Overrides()
    path = file.path if isinstance(file, Document) else file
    content, planned = read(file, dict(changes.beds), changes.only)
    own = path in packaged().values() and not changes.beds and changes.tester is None
    if own and not all(_stands_here(p.bed) for p in planned):
        raise UsageError(
            f"the campaign {path.stem} comes without a testbed",
            "--testbed FILE names yours (`v6t init` writes an example); --tester sim rehearses",
            code="missing-setting",
        )
    compiled: dict[str, Mapping[str, Streams]] = {}
    runs = [_laid_out(i, p, changes, compiled) for i, p in enumerate(planned, 1)]
    notes = {e.name: _note(e.note, e.differs) for e in content.experiments}
    if content.differs:
        notes[""] = _note("", content.differs)
    return Campaign(content.name, content.title, content.paper, notes, tuple(runs))


def _stands_here(bed: Mapping[str, Any]) -> bool:
    """Whether a campaign's own testbed is this machine's lab, and no example of somebody's bench."""
    tester = bed.get("tester") or {}
    return bool(tester) and kind_of(tester["kind"], tester.get("options", {})).in_lab


def _note(note: str, differs: Mapping[str, str]) -> str:
    """Words for the report, with the differences from a paper."""
    said = "; ".join(text.rstrip(".") for text in differs.values())
    return f"{note} Differs from the paper: {said}.".strip() if differs else note


def start(campaign: Campaign, directory: Path) -> None:
    """Write the plan into a new directory.

    Raises:
        UsageError: the directory cannot be used.
    """
    if (directory / PLAN).exists():
        raise UsageError(
            f"{directory} holds a campaign already",
            f"v6t campaign --resume {shlex.quote(str(directory))}",
            code="file-exists",
        )
    try:
        if directory.exists() and any(directory.iterdir()):
            raise UsageError(
                f"{directory} is not empty", "choose another directory with -o", code="file-exists"
            )
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_plan(directory, campaign)
    except OSError as exc:
        raise UsageError(
            f"cannot create {directory}: {exc.strerror}", code="file-unwritable"
        ) from exc


def opened(directory: Path) -> Campaign:
    """Load the campaign of a directory.

    Raises:
        UsageError: it holds none.
    """
    from pydantic import TypeAdapter, ValidationError
    from v6t.analysis.published.library import sources

    try:
        content = read_json(directory / PLAN)
        if content.pop("schema", SCHEMA) != SCHEMA:
            raise ValueError("it is of a version that is not known here")
        found: Campaign = TypeAdapter(Campaign).validate_python(content)
        outside = [r.directory for r in found.runs if not _NAME.fullmatch(r.directory)]
        if outside:  # runs are made in them
            raise ValueError(f"{outside[0]!r} is no directory of a run")
        if found.paper is not None and found.paper not in sources():
            raise ValueError(f"there is no paper {found.paper!r}")
        return found
    except ValidationError as exc:
        where = ".".join(map(str, exc.errors()[0]["loc"]))
        raise UsageError(
            f"{directory / PLAN} is damaged: {where}: {exc.errors()[0]['msg']}", code="damaged-file"
        ) from exc
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise UsageError(
            f"{directory} does not contain a campaign",
            "give the directory of an earlier `v6t campaign`",
            code="no-such-run",
        ) from exc
    except (OSError, ValueError, AttributeError, TypeError) as exc:
        raise UsageError(f"cannot read {directory / PLAN}: {exc}", code="file-unreadable") from exc


def write_plan(directory: Path, campaign: Campaign) -> None:
    """Keep what is to be done, in place of what was kept."""
    content = {"schema": SCHEMA, **asdict(campaign)}
    write_atomically(directory / PLAN, json.dumps(content, indent=1) + "\n")


def status_of(directory: Path, run: CampaignRun) -> str:
    """Return ``waiting``, ``running`` (interrupted), ``complete``, ``translation incorrect``, ``failed``."""
    if failure_of(directory, run):
        return FAILED
    try:
        content = read_json(directory / run.directory / names.RESULTS)
    except (OSError, UsageError):
        return WAITING
    return str(content.get("status", RUNNING))


def failure_of(directory: Path, run: CampaignRun) -> dict[str, Any] | None:
    """Why a run could not be carried out; None if it could, or was not tried."""
    try:
        found = read_json(directory / FAILURES / f"{run.directory}.json")
    except (OSError, UsageError):
        return None
    return found if isinstance(found, dict) else None


def carry_out(
    directory: Path,
    runs: Sequence[CampaignRun],
    events: Listener,
) -> list[V6tError]:
    """Make the runs that are not complete; one that fails does not end the others.

    Args:
        directory: of the campaign.
        runs: which ones.
        events: receives the events of all runs.

    Returns:
        The errors of the runs that failed.

    Raises:
        V6tError: a run's, in the place of a Ctrl-C.
    """
    errors: list[V6tError] = []
    clock = _Clock(runs)
    for number, run in enumerate(runs, 1):
        status = status_of(directory, run)
        if status == COMPLETE:
            clock.passed(run)
            continue
        events.on_run_start(run.directory)
        events.on_message(f"run {number} of {len(runs)}, {run.directory}{clock.left()}")
        began = time.monotonic()
        try:
            with attribute_errors():
                _make(directory, run, events)
        except V6tError as exc:
            errors.append(exc)
            _note_failure(directory, run, exc)
            if hides_interrupt(exc):
                raise
            events.on_message(f"{run.directory} failed: {exc.message}")
        clock.made(run, time.monotonic() - began)
    events.on_run_start("")
    return errors


def _make(directory: Path, run: CampaignRun, events: Listener) -> None:
    path = directory / run.directory
    (directory / FAILURES / f"{run.directory}.json").unlink(missing_ok=True)
    if status_of(directory, run) == INCORRECT or not (path / names.CONFIG).exists():
        # a device that translated wrongly is looked at anew; a directory without configuration
        # was left by a run that was killed before its first trial
        shutil.rmtree(path, ignore_errors=True)
    bound = bind(run.resolved)
    bound.tester.prepare()
    if (path / names.CONFIG).exists():
        resume(path, events, plan(bound))
    else:
        execute(bound, path, events)


def _note_failure(directory: Path, run: CampaignRun, exc: V6tError) -> None:
    if status_of(directory, run) == INCORRECT:
        return  # its results say so themselves
    folder = directory / FAILURES
    folder.mkdir(mode=0o700, exist_ok=True)
    content = {"message": exc.message, "hint": exc.hint, "exit_code": exc.exit_code}
    write_atomically(folder / f"{run.directory}.json", json.dumps(content, indent=1) + "\n")


class _Clock:
    """How long the rest takes: the plan, corrected by how long the runs so far took."""

    def __init__(self, runs: Sequence[CampaignRun]) -> None:
        self._left_s = sum(r.duration_s for r in runs)
        self._planned_s = self._spent_s = 0.0

    def passed(self, run: CampaignRun) -> None:
        """Note a run that was complete already."""
        self._left_s -= run.duration_s

    def made(self, run: CampaignRun, seconds: float) -> None:
        """Note a run that was made now."""
        self.passed(run)
        self._planned_s += run.duration_s
        self._spent_s += seconds

    def left(self) -> str:
        """``", about 3 h 20 min left"``."""
        share = self._spent_s / self._planned_s if self._planned_s else 1.0
        return f", about {duration(max(0.0, self._left_s * share))} left"


def _laid_out(
    number: int, planned: Planned, overrides: Overrides, compiled: dict[str, Mapping[str, Streams]]
) -> CampaignRun:
    from v6t.core.config.files import Flags
    from v6t.core.config.resolve import resolve_and_bind

    bed = dict(planned.bed)
    # anything yet: who resolves the run says what is wrong with it
    tester = bed.get("tester") or {}
    other = isinstance(tester, dict) and tester.get("kind") != overrides.tester
    if overrides.tester is not None and other:
        bed["tester"] = {"kind": overrides.tester}
    flags = Flags(
        preset=overrides.preset,
        procedure={"repetitions": overrides.repetitions},
        procedure_texts=dict(overrides.procedure),
    )
    bound = resolve_and_bind(
        Section(planned.run, planned.document, planned.keys),
        Section(bed, planned.document, planned.keys),
        flags,
    )
    cost = plan(bound, compiled)
    directory = directory_of(f"{number:03d}", planned.experiment, planned.axes)
    config = bound.settings.model_dump(mode="json")
    return CampaignRun(
        directory,
        planned.experiment,
        planned.testbed,
        dict(planned.axes),
        config,
        cost.trials,
        cost.duration_s,
    )


def directory_of(number: str, experiment: str, axes: Mapping[str, Any]) -> str:
    """Name a run's directory: its number, its experiment, what varies."""
    words = [number, experiment, *(_slug(v) for v in axes.values())]
    return "-".join(w for w in words if w)[:100]


def _slug(value: Any) -> str:
    """Write a value as part of a directory's name."""
    if isinstance(value, dict):
        value = "-".join(f"{k}{v}" for k, v in value.items())
    if isinstance(value, list):
        value = "-".join(map(str, value))
    return re.sub(r"[^A-Za-z0-9.]+", "-", str(value)).strip("-.")[:24]
