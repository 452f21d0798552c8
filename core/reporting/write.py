"""Reports of finished and unfinished runs, written beside their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.base.errors import UsageError, V6tError
from v6t.base.files import explain_read_error, read_json, read_text, write_atomically
from v6t.core.runs import rundir as names

if TYPE_CHECKING:
    from v6t.analysis.rundata import RunData
    from v6t.plugins.base import Technology

FILES = {
    "html": "report.html",
    "md": "report.md",
    "json": "report.json",
    "junit": "junit.xml",
    "csv": names.REPETITIONS,
}
"""What a report consists of; the last is written by the run itself, in siitperf's column order."""
UNREPORTED = (
    *(V6tError, OSError, ImportError, ValueError, TypeError, AttributeError, RuntimeError),
    *(ArithmeticError, LookupError),
)
"""What may go wrong with a report, or within a library that draws, and costs no results."""
ASKED = {**FILES, "openmetrics": "results.prom", "tex": "tables.tex"}
"""With what is written only for those who ask for it."""


def load(path: Path, technology: Technology | None = None) -> RunData:
    """Read a run directory; nothing in it is touched, and the run may be going on.

    Args:
        path: the directory.
        technology: of the run, if it is known; else its parameters are validated again.

    Raises:
        UsageError: it holds no run, or a file in it is damaged.
    """
    from v6t.analysis.rundata import RunData, RunTrial
    from v6t.core.config.settings import saved_run
    from v6t.core.runs.bottleneck import FILE
    from v6t.core.runs.journal import mark_of, read_journal
    from v6t.core.runs.results_file import read_results, records_of
    from v6t.profiles.mixes import describe_sequence

    config = _json(path / names.CONFIG)
    results = read_results(path)
    manifest = _json(path / names.MANIFEST)
    if config is None:
        raise names.no_run(path)
    try:
        run = saved_run(config)
    except ValueError as exc:
        raise UsageError(
            f"{path / names.CONFIG} is not a configuration of this version of v6t",
            code="damaged-file",
        ) from exc
    of_plugin = _technology(run, technology)
    if manifest and "setup" in manifest:
        of_plugin["setup"] = manifest["setup"]
    records = records_of(path, results)
    mixes = dict.fromkeys(r.frame_sizes.mix for r in records if r.frame_sizes.mix)
    return RunData(
        name=path.resolve().name,
        results=results or {"status": "nothing measured yet"},
        records=records,
        config=config,
        manifest=manifest or {},
        settings=run.procedure.model_dump(mode="json"),
        trials=[
            RunTrial(*entry) for entry in read_journal(path / names.JOURNAL, mark_of(manifest))
        ],
        bottleneck=_json(path / FILE) or (),
        mix_sequences={mix: describe_sequence(mix) for mix in mixes},
        **of_plugin,
    )


def write(
    path: Path,
    output: Path | None = None,
    formats: Sequence[str] = tuple(FILES),
    *,
    paper: str | None = None,
    figures: bool = True,
    all_figures: bool = False,
    technology: Technology | None = None,
) -> list[Path]:
    """Write the report of a run.

    Args:
        path: the run directory.
        output: another directory for the report; made if absent.
        formats: some of :data:`ASKED`.
        paper: reproduce the tables of this paper.
        figures: whether to draw.
        all_figures: draw more of them than fit a page.
        technology: of the run, if it is known.

    Returns:
        The files, in the order of ``formats``.

    Raises:
        UsageError: no run, no such paper, or the directory cannot be written.
    """
    from v6t.analysis.published.library import sources
    from v6t.analysis.report.run import MOST_FIGURES

    if paper is not None and paper not in sources():
        raise UsageError(
            f"unknown paper '{paper}'", "one of " + ", ".join(sources()), code="unknown-name"
        )
    with names.reading(path):
        data = load(path, technology)
        most = (None if all_figures else MOST_FIGURES) if figures else 0
        texts = _texts(path, data, paper, most)
    place = output or path
    written = []
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for kind in formats:
            target = place / ASKED[kind]
            if kind != "csv" or output is not None:
                with names.reading(path):
                    text = texts[kind]()
                write_atomically(target, text)
            written.append(target)
    except OSError as exc:
        raise UsageError(f"cannot write {place}: {exc.strerror}", code="file-unwritable") from exc
    return written


def _texts(
    path: Path, data: RunData, paper: str | None, most_figures: int | None
) -> Mapping[str, Callable[[], str]]:
    from v6t.analysis.report.junit import to_junit
    from v6t.analysis.report.latex import to_latex
    from v6t.analysis.report.machine_readable import to_json
    from v6t.analysis.report.openmetrics import to_openmetrics
    from v6t.analysis.report.render import to_html, to_markdown
    from v6t.analysis.report.run import build
    from v6t.benchmarks.registry import presentations

    known = presentations()

    return {
        "html": lambda: to_html(build(data, known, paper=paper, most_figures=most_figures)),
        "md": lambda: to_markdown(build(data, known, paper=paper, most_figures=0)),
        "json": lambda: to_json(data, known, paper),
        "junit": lambda: to_junit(data, known),
        "openmetrics": lambda: to_openmetrics(data, known),
        "tex": lambda: to_latex(data, known),
        "csv": lambda: read_text(path / names.REPETITIONS),
    }


def _technology(run: Any, plugin: Technology | None) -> dict[str, Any]:
    """Describe the technology; nothing where it is no longer installed."""
    from v6t.core.config.plugins import load_plugin
    from v6t.core.config.technology import links_of, params_of
    from v6t.core.runs.manifest import setup

    try:
        if plugin is None:
            kind = load_plugin(run.plugin)
            links = links_of(run.links_left, run.links_right, run.initiator)
            plugin = kind(params_of(kind, run.params), links)
    except UsageError:
        return {"params": run.params}
    return {
        "params": plugin.params.model_dump(mode="json"),
        "title": plugin.title,
        "rfcs": plugin.rfcs,
        "rfc_frame_sizes": plugin.rfc_frame_sizes,
        "setup": setup(plugin, run.frame_sizes),
    }


def _json(path: Path) -> Any:
    try:
        return read_json(path)
    except FileNotFoundError:
        return None
    except NotADirectoryError as exc:
        raise UsageError(f"{path.parent} is not a directory", code="not-a-directory") from exc
    except OSError as exc:
        raise explain_read_error(path, exc) from exc
