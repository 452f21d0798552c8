"""The run directory: its files and lock, the search for runs, and the settings of a run as files."""

import hashlib
import itertools
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from v6t.base import files
from v6t.base.entry_points import describe_culprit
from v6t.base.errors import UsageError
from v6t.core.config import settings as models
from v6t.core.config.settings import RunFileSettings, Settings, Testbed
from v6t.core.config.yaml_file import YamlFile, to_yaml, write_files

CONFIG, MANIFEST, JOURNAL = "config.json", "manifest.json", "journal.jsonl"
RESULTS, REPETITIONS, TRIALS = "results.json", "results.csv", "trials.csv"
MEDIANS = "medians.csv"  # in a run directory
LOG, BOTTLENECK = "log.txt", "bottleneck.json"
AUDIT = "audit.json"  # in an audit directory
CAMPAIGN = "campaign.json"  # in a campaign directory
# Files that only the owner may read: they contain host names and commands for the device.
PRIVATE_FILES = frozenset({CONFIG, MANIFEST})
CONFIG_DIGEST = "config_sha256"  # key of the manifest: SHA-256 of config.json as the run began
# Key of the manifest: first trial of the self-test, preflight or phase 1 whose failure ended the run.
FAILED_CHECK = "failed_check"
OTHER_VERSION_HINT = f"use the v6t that wrote it; {MANIFEST} names its version"
LATEST = "latest"  # keyword for the last changed run in the current directory or ./runs
_RUN_FILES = (CONFIG, MANIFEST, JOURNAL, RESULTS, REPETITIONS, TRIALS, MEDIANS)
# Files to remove from the directory of a run that ended before its first trial.
_REMOVABLE_FILES = {*_RUN_FILES, *(f".{name}.part" for name in _RUN_FILES)}
# Files of runs, audits and campaigns, which other commands must not replace.
_OWNED_FILES = frozenset({
    *_RUN_FILES, LOG, BOTTLENECK, AUDIT, CAMPAIGN, "summary.json",
    *("report.html", "report.md", "report.json", "audit.html", "audit.md"),
})  # fmt: skip


def make_no_run_error(path: Path) -> UsageError:
    """Return the error for a directory without a run."""
    problem, hint = f"{path} does not contain a run", "give the directory of an earlier `v6t run`"
    if (path / AUDIT).is_file():
        problem = f"{path} contains an audit, not a run"
        hint = (
            "its report is audit.html; `v6t compare` compares audits with audits and runs with runs"
        )
    elif (path / CAMPAIGN).is_file():
        problem = f"{path} contains a campaign, not a run"
        hint = f"`v6t list {path}` prints its runs; `v6t campaign --resume {path}` continues it"
    return UsageError(problem, hint, code="no-such-run")


def check_paths_exist(paths: Iterable[Path]) -> None:
    """Raise UsageError if a path, except the keyword ``latest``, does not exist."""
    for path in paths:
        if not path.exists() and str(path) != LATEST:
            problem = f"{path} does not exist"
            hint = "give the directory of an earlier run or campaign"
            raise UsageError(problem, hint, code="file-not-found")


def describe_content(directory: Path) -> str:
    """Return ``a run``, ``a campaign`` or ``an audit``; empty if the directory holds none."""
    kinds = {CONFIG: "a run", CAMPAIGN: "a campaign", AUDIT: "an audit"}
    return next((kind for name, kind in kinds.items() if (directory / name).is_file()), "")


def check_file_not_owned(file: Path) -> None:
    """Raise UsageError if a file to be written belongs to a run, a campaign or an audit."""
    if file.name in _OWNED_FILES and (owner := describe_content(file.parent)):
        raise UsageError(f"{file} is a file of {owner}", "choose another file", code="file-exists")


def check_report_directory(output: Path | None, directory: Path) -> None:
    """Raise UsageError if the report of a directory would be written into another run's."""
    if output and output.resolve() != directory.resolve() and (content := describe_content(output)):
        hint = "choose another directory with -o"
        raise UsageError(f"{output} holds {content}", hint, code="file-exists")


def check_directory_free(path: Path) -> None:
    """Raise UsageError unless a run can be made in this directory.

    It must be absent, empty or contain only a run without trials, and must not be in that of a run.
    """
    with files.report_write_errors(path):
        parents = Path(os.path.realpath(path)).parents
        if outer := next((p for p in parents if (p / JOURNAL).is_file()), None):
            problem = f"{path} is in the directory of a run, {outer}"
            raise UsageError(problem, "choose another directory with -o", code="file-exists")
        entries = {p.name: p for p in path.iterdir()} if path.exists() else {}
        begun = JOURNAL in entries and entries[JOURNAL].stat().st_size > 0
        if RESULTS in entries:  # a published run has no journal
            content = read_json_object(path / RESULTS)
            begun |= content is None or bool(content.get("results"))
    if not begun and entries.keys() <= {files.LOCK_NAME, LOG, *_REMOVABLE_FILES}:
        return
    problem, hint = f"{path} is not empty", "choose another directory with -o"
    if CONFIG in entries:
        problem = f"{path} holds a run already"
        hint = f"v6t resume {shlex.quote(str(path))}, or choose another -o"
    raise UsageError(problem, hint, code="file-exists")


class RunDir(AbstractContextManager["RunDir"]):
    """Run directory that is locked while it is open."""

    def __init__(self, path: Path, *, new: bool) -> None:
        """Create the directory of a ``new`` run, or open that of an existing one, and lock it."""
        self.path = path
        if new:
            check_directory_free(path)
            with files.report_write_errors(path):
                path.mkdir(parents=True, exist_ok=True)
        elif not (path / CONFIG).is_file():
            raise make_no_run_error(path)
        self._lock = files.acquire_lock(path)
        if new:
            try:
                check_directory_free(path)
                for name in _REMOVABLE_FILES:
                    (path / name).unlink(missing_ok=True)
            except BaseException:
                self.close()
                raise

    def delete_if_empty(self) -> None:
        """Delete the directory of a run without trials, unless it contains other files."""
        check_directory_free(self.path)
        for name in {LOG, *_REMOVABLE_FILES}:
            (self.path / name).unlink(missing_ok=True)
        self.close()
        (self.path / files.LOCK_NAME).unlink(missing_ok=True)
        self.path.rmdir()

    def write_json(self, name: str, value: Any) -> None:
        self.write_text(name, format_json(value))

    def write_text(self, name: str, text: str) -> None:
        """Replace the content of a file with a text, atomically and durably."""
        files.write_atomically(self.path / name, text, private=name in PRIVATE_FILES, durable=True)

    def close(self) -> None:
        self._lock.release()

    def __exit__(self, *_: object) -> None:
        self.close()


def format_json(value: Any) -> str:
    """Format a JSON value as in the files of a run."""
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def compute_digest(content: bytes) -> str:
    """Return the SHA-256 digest of the content in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def read_optional_json(path: Path) -> Any:
    """Read a JSON file; None if it does not exist."""
    try:
        return files.read_json(path)
    except UsageError as exc:
        if exc.code != "file-not-found":
            raise
        return None


def read_json_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None if the file is unreadable or has other content."""
    with suppress(UsageError):
        content = files.read_json(path)
        return content if isinstance(content, dict) else None
    return None


def read_config(path: Path, manifest: Any = None) -> Settings:
    """Read the configuration of a run from its directory or its ``config.json``.

    Raises:
        UsageError: it cannot be read, or its digest in the manifest differs. Manifests of earlier
            versions and of published runs have no digest: nothing is compared.
    """
    if path.is_dir():
        path /= CONFIG
    digest = manifest.get(CONFIG_DIGEST) if isinstance(manifest, dict) else None
    octets = files.read_octets(path)
    try:
        config = files.parse_json(octets)
    except ValueError as exc:
        raise UsageError(f"{path} is not valid JSON: {exc}", code="invalid-json") from exc
    if digest not in (None, compute_digest(octets)):
        problem = f"{path} or {MANIFEST} next to it was changed after the run began"
        hint = "restore them; to measure with other settings, start a new run"
        raise UsageError(problem, hint, code="damaged-file")
    try:
        return Settings.from_config(config)
    except ValueError as exc:
        problem = f"{path} is not a configuration of this version of v6t"
        raise UsageError(problem, code="damaged-file") from exc


@contextmanager
def report_damage(directory: Path) -> Iterator[None]:
    """Convert exceptions caused by damaged files of a run to UsageError."""
    try:
        yield
    except (
        *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError),
        *(RecursionError, AssertionError),
    ) as exc:
        if describe_culprit(exc) is not None:  # an extension's fault
            raise
        problem = f"{directory} contains a damaged file ({type(exc).__name__}: {exc})"
        defect = "this is a defect of v6t, and `v6t --debug ...` shows the traceback"
        hint = f"restore the file; if it was not changed, {defect}"
        raise UsageError(problem, hint, code="damaged-file") from exc


def resolve_run_path(path: Path | None) -> Path:
    """Return the path of a run; None and ``latest`` stand for the latest run."""
    if path is not None and (str(path) != LATEST or path.exists()):
        return path
    return find_latest_runs(1)[0]


def find_latest_runs(count: int) -> list[Path]:
    """Return the paths of the ``count`` most recently changed runs, the most recent one last."""
    places = [*Path("runs").glob("*"), *Path().glob("*")]
    # os.path tolerates directories that may not be searched
    runs = sorted((p for p in places if os.path.isfile(p / CONFIG)), key=_find_last_change)
    if len(runs) < count:
        many = "no run exists" if count == 1 else f"fewer than {count} runs exist"
        problem = f"{many} here or below ./runs"
        hint = "give the directory of the run; `latest` searches only here"
        raise UsageError(problem, hint, code="no-such-run")
    return runs[-count:]


def _find_last_change(path: Path) -> tuple[float, str]:
    """Return the time of the last change of a run, and its name, as a sort key."""
    return max(p.stat().st_mtime for p in (path / CONFIG, path / JOURNAL) if p.exists()), path.name


def choose_default_path(run: Settings) -> Path:
    """Return an unused path ``runs/<UTC>-<plugin>[-<label>]``."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", run.label).strip("-.")
    return find_unused_path(Path("runs") / "-".join(filter(None, (stamp, run.plugin, label))))


def find_unused_path(path: Path) -> Path:
    """Return the path, with a number appended to its name if it already exists."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return next(each for each in itertools.chain([path], numbered) if not each.exists())


def write_run_files(source: Path, directory: Path) -> list[Path]:
    """Write a run file and a testbed file that repeat a run, and return their paths."""
    head = f"# The configuration of {source}, in full.\n"
    contents = make_settings_files(read_config(source))
    return write_files({directory / name: head + to_yaml(v) for name, v in contents.items()})


def read_run_files(source: Path) -> tuple[YamlFile, YamlFile]:
    """Return a run file and a testbed file that repeat a run."""
    contents = make_settings_files(read_config(source)).values()
    run_file, testbed = (YamlFile(source / CONFIG, to_yaml(content)) for content in contents)
    return run_file, testbed


def make_settings_files(run: Settings) -> dict[str, dict[str, Any]]:
    """Return the contents of a run file and a testbed file that repeat a run, by file name."""
    values = run.model_dump(mode="json", by_alias=True)
    preset = models.make_preset_procedure(run.preset).model_dump(mode="json")
    procedure = values["procedure"]
    # a technology may replace the preset's number of connections
    connections = {"count": procedure["connections"]["count"]}
    differences = _find_differences(procedure, preset)
    differences["connections"] = {**differences.get("connections", {}), **connections}
    values["procedure"] = differences
    values["line_rate"] = _format_rate(run.line_rate_bps)
    return {
        file: {
            name: values[name] for name in models.list_file_names(model) if values[name] is not None
        }
        for file, model in (("run.yaml", RunFileSettings), ("testbed.yaml", Testbed))
    }


def _format_rate(rate_bps: float) -> str:
    """Format a line rate as in a testbed file, for example ``10G``."""
    for letter, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if (rate_bps / factor).is_integer():
            return f"{rate_bps / factor:.0f}{letter}"
    return f"{rate_bps:.17g}"


def _find_differences(settings: Mapping[str, Any], preset: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from a preset, at any depth."""
    differences: dict[str, Any] = {}
    for name, value in settings.items():
        known = preset.get(name)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            if inner := _find_differences(value, known):
                differences[name] = inner
        elif value != known:
            differences[name] = value
    return differences
