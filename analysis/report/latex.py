"""The tables of a run for a paper, as LaTeX with booktabs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version

from v6t.analysis.marks import footnotes
from v6t.analysis.presentation import Presentations
from v6t.analysis.report.render import environment
from v6t.analysis.report.verdict import title_of
from v6t.analysis.rundata import RunData

CITATION = (
    "Tables were measured with v6t (CITATION.cff of the project) by the procedures of RFC 8219."
)
SPECIAL = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "*": r"\textsuperscript{*}",
    "µ": r"\textmu{}",
}


def to_latex(data: RunData, known: Presentations) -> str:
    """Write each table of a run as a ``table``, with the conditions in comments."""
    sheets = [
        table.narrow()
        for presentation, records in known.measured(data.records)
        for table in presentation.brief_tables(records)
    ]
    template = environment(
        tex=escape_latex, comment=lambda text: " ".join(text.split())
    ).get_template("tables.tex")
    return template.render(
        data=data,
        version=version("v6t"),
        sheets=sheets,
        caption=f"{title_of(data)}, {data.config['tester']['kind']} tester",
        notes=(*footnotes(data.records), *data.results.get("caveats", ())),
        conditions=list(_conditions(data)),
    )


def escape_latex(text: str) -> str:
    """Escape the characters that LaTeX takes for commands."""
    return re.sub(r"[&%$#_{}\\~^<>*µ]", lambda found: SPECIAL[found[0]], " ".join(text.split()))


def _conditions(data: RunData) -> Iterator[str]:
    yield data.heading
    yield f"measured {data.manifest.get('created', '')}, status: {data.status}"
    yield CITATION
