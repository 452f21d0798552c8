"""The tables and figures of a run for a paper, as LaTeX with booktabs and graphicx."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version

from v6t.analysis.blocks import Drawing, ReportDocument, walk
from v6t.analysis.presentation import Presentations
from v6t.analysis.report.render import make_environment
from v6t.analysis.report.verdict import make_title
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import explain_marks

CITATION = "Measured with v6t (CITATION.cff of the project) by the procedures of RFC 8219."
PLOT_START = re.compile(r'<svg id="([^"]+)-figure"')
"""Start of a figure with a name; the drawing of the test setup has none."""
LATEX_ESCAPES = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "*": r"\textsuperscript{*}",
    "µ": r"\textmu{}",
}


def to_latex(data: RunData, presentations: Presentations) -> str:
    """Write each table of a run as a ``table``, with the conditions in comments."""
    sheets = [
        table.narrow()
        for presentation, records in presentations.group_measured(data.records)
        for table in presentation.make_brief_tables(records)
    ]
    notes = (*explain_marks(data.records), *data.results.get("caveats", ()))
    return _render("tables.tex", data, sheets=sheets, notes=notes)


def figures_to_latex(data: RunData, document: ReportDocument) -> str:
    """Write each plot of a report as a ``figure`` that includes ``figures/NAME.pdf``."""
    figures = [
        (name[1], block.caption)
        for section in document.sections
        for block in walk(section.blocks)
        if isinstance(block, Drawing) and (name := PLOT_START.match(block.svg))
    ]
    return _render("figures.tex", data, figures=figures)


def _render(template: str, data: RunData, **values: object) -> str:
    filters = {"tex": escape_latex, "comment": lambda text: " ".join(text.split())}
    return (
        make_environment(**filters)
        .get_template(template)
        .render(
            data=data,
            version=version("v6t"),
            caption=f"{make_title(data)}, {data.config['tester']['kind']} tester",
            conditions=list(_list_conditions(data)),
            **values,
        )
    )


def escape_latex(text: str) -> str:
    """Escape the characters that LaTeX takes for commands."""
    return re.sub(
        r"[&%$#_{}\\~^<>*µ]", lambda found: LATEX_ESCAPES[found[0]], " ".join(text.split())
    )


def _list_conditions(data: RunData) -> Iterator[str]:
    yield data.heading
    yield f"measured {data.manifest.get('created', '')}, status: {data.status}"
    yield CITATION
