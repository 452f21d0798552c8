"""Everything that a report is made from: handed on by a run in memory, or read from its directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.analysis.rundata import RunData, RunTrial
from v6t.base.errors import UsageError
from v6t.core.config.bound import make_links, validate_params
from v6t.core.config.plugins import load_plugin
from v6t.core.config.settings import ResolvedRun
from v6t.core.runs.journal import find_mark, read_journal
from v6t.core.runs.manifest import setup
from v6t.core.runs.results_file import read_records, read_results
from v6t.core.runs.rundir import (
    CONFIG,
    JOURNAL,
    MANIFEST,
    no_run,
    read_config,
    read_optional_json,
    reading,
)
from v6t.profiles.mixes import describe_sequence

if TYPE_CHECKING:
    from v6t.analysis.record import Record
    from v6t.plugins.base import Technology


def load_run(path: Path, technology: Technology | None = None) -> RunData:
    """Read a run directory; nothing in it is changed, and the run may be in progress."""
    with reading(path):
        results = read_results(path)
        manifest = read_optional_json(path / MANIFEST)
        config = read_optional_json(path / CONFIG)
        if config is None:
            raise no_run(path)
        run = read_config(path / CONFIG)
        trials = read_journal(path / JOURNAL, find_mark(manifest))
        return make_run_data(
            path,
            config,
            run,
            technology or _make_technology(run),
            results or {"status": "nothing measured yet"},
            read_records(path, results),
            manifest,
            [RunTrial(*entry) for entry in trials],
        )


def make_run_data(
    path: Path,
    config: Mapping[str, Any],
    run: ResolvedRun,
    technology: Technology | None,
    results: Mapping[str, Any],
    records: Sequence[Record],
    manifest: Mapping[str, Any] | None,
    trials: Sequence[RunTrial],
) -> RunData:
    """Put the data of a run together."""
    about: dict[str, Any] = {"params": run.params}
    if technology is not None:
        about = {
            "params": technology.params.model_dump(mode="json"),
            "title": technology.title,
            "rfcs": technology.rfcs,
            "rfc_frame_sizes": technology.rfc_frame_sizes,
            "setup": setup(technology, run.frame_sizes),
        }
    if manifest and "setup" in manifest:
        about["setup"] = manifest["setup"]
    mixes = dict.fromkeys(r.frame_sizes.mix for r in records if r.frame_sizes.mix)
    return RunData(
        name=path.resolve().name,
        results=results,
        records=records,
        config=config,
        manifest=manifest or {},
        settings=run.procedure.model_dump(mode="json"),
        trials=trials,
        bottleneck=results.get("bottleneck") or (),
        mix_sequences={mix: describe_sequence(mix) for mix in mixes},
        **about,
    )


def _make_technology(run: ResolvedRun) -> Technology | None:
    try:
        plugin = load_plugin(run.plugin)
        links = make_links(run.links_left, run.links_right, run.initiator)
        return plugin(validate_params(plugin, run.params), links)
    except UsageError:
        return None
