"""Reports of finished and unfinished runs, written next to their results."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from v6t.analysis.figures.plots import save_pdf
from v6t.analysis.published.library import list_sources
from v6t.analysis.report.exports import to_json, to_junit, to_openmetrics
from v6t.analysis.report.latex import figures_to_latex, to_latex
from v6t.analysis.report.render import to_html, to_markdown
from v6t.analysis.report.run import MAX_FIGURES, build_document
from v6t.analysis.rundata import RunData
from v6t.base.errors import V6tError
from v6t.base.files import read_text, report_write_errors, write_atomically
from v6t.benchmarks.registry import load_presentations
from v6t.core.config.yaml_file import check_name
from v6t.core.runs.results import load_run
from v6t.core.runs.rundir import REPETITIONS, check_report_directory, report_damage

DEFAULT_FILES = {  # of a report by format; the run itself writes the CSV file
    "html": "report.html",
    "md": "report.md",
    "json": "report.json",
    "junit": "junit.xml",
    "csv": REPETITIONS,
}
# Files of a report by format, including formats written only on request.
FILES_BY_FORMAT = {**DEFAULT_FILES, "openmetrics": "results.prom", "tex": "tables.tex"}
REPORT_ERRORS = (  # while making a report or its figures; they must not end a run
    *(V6tError, OSError, ImportError, ValueError, TypeError, AttributeError, RuntimeError),
    *(ArithmeticError, LookupError),
)
FigureSelection = Literal["none", "few", "all", "pdf"]  # figures of a report


def write_run_report(
    path: Path,
    output: Path | None = None,
    formats: Sequence[str] = (),
    *,
    paper: str | None = None,
    figures: FigureSelection = "few",
    data: RunData | None = None,
) -> list[Path]:
    """Write the report of a run and return the paths of its files.

    Args:
        output: another directory for the report; created if absent.
        formats: some of :data:`FILES_BY_FORMAT`; by default those of :data:`DEFAULT_FILES`.
        paper: reproduce the tables of this paper.
        figures: ``none``, ``few`` (at most 40), ``all``, or ``pdf`` (all, also as PDF files).
        data: data of the run; None to read it from the directory.

    Returns:
        The files, in the order of ``formats``; then ``figures.tex``.

    Raises:
        UsageError: the run, paper, format or choice of figures is unknown, or ``output`` holds
            another run or cannot be written.
    """
    if paper is not None:
        check_name(paper, tuple(list_sources()), "paper")
    formats = tuple(formats or DEFAULT_FILES)
    for name in formats:
        check_name(name, tuple(FILES_BY_FORMAT), "format")
    check_name(figures, get_args(FigureSelection), "choice of figures")
    check_report_directory(output, path)
    max_figures = {"none": 0, "few": MAX_FIGURES}.get(figures)
    data, known = data or load_run(path), load_presentations()
    renderers: Mapping[str, Callable[[], str]] = {
        "html": lambda: to_html(build_document(data, known, paper=paper, max_figures=max_figures)),
        "md": lambda: to_markdown(build_document(data, known, paper=paper, max_figures=0)),
        "json": lambda: to_json(data, known, paper),
        "junit": lambda: to_junit(data, known),
        "openmetrics": lambda: to_openmetrics(data, known),
        "tex": lambda: to_latex(data, known),
        "csv": lambda: read_text(path / REPETITIONS),
    }
    directory = output or path
    paths = []
    with report_write_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        for kind in dict.fromkeys(formats):
            paths.append(directory / FILES_BY_FORMAT[kind])
            if kind != "csv" or output is not None:
                with report_damage(path):
                    text = renderers[kind]()
                write_atomically(paths[-1], text)
        if figures == "pdf":
            paths.append(_write_pdf_figures(directory, data))
    return paths


def _write_pdf_figures(directory: Path, data: RunData) -> Path:
    """Write all figures as PDF, and return the path of the LaTeX file that includes them."""
    (directory / "figures").mkdir(exist_ok=True)
    with save_pdf(directory / "figures"):
        document = build_document(data, load_presentations(), max_figures=None)
    write_atomically(directory / "figures.tex", figures_to_latex(data, document))
    return directory / "figures.tex"
