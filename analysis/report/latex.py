"""The tables and figures of a run for a paper, as LaTeX with booktabs and graphicx."""

import re
from importlib.metadata import version

from v6t.analysis.blocks import Drawing, ReportDocument, walk
from v6t.analysis.presentation import Presentations
from v6t.analysis.report.render import make_environment
from v6t.analysis.report.verdict import make_title
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import explain_marks

# sentence in the comments of each file
CITATION = "Measured with v6t (CITATION.cff of the project) by the procedures of RFC 8219."
PLOT_START = re.compile(r'<svg id="([^"]+)-figure"')  # matches plots, not the setup
LATEX_ESCAPES: dict[str, str] = {
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


def _render(name: str, data: RunData, **values: object) -> str:
    """Render a template with the conditions of a run and further values."""
    filters = {"tex": escape_latex, "comment": lambda text: " ".join(text.split())}
    measured = f"measured {data.manifest.get('created', '')}, status: {data.status}"
    template = make_environment(**filters).get_template(name)
    return template.render(
        data=data,
        version=version("v6t"),
        caption=f"{make_title(data)}, {data.config['tester']['kind']} tester",
        conditions=[data.heading, measured, CITATION],
        **values,
    )


def escape_latex(text: str) -> str:
    """Escape the special characters of LaTeX."""
    return "".join(LATEX_ESCAPES.get(c, c) for c in " ".join(text.split()))
