"""Render the compliance page from the clauses and requirements in docs/clauses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CLAUSES = DOCS / "clauses"
RFCS = ("8219", "2544", "9004", "5180", "4814", "6985", "6201", "3511")
"""RFCs in the order of the page."""
FOLLOWED, DEVIATES, NOT_DONE = "followed", "deviates", "not done"
YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader if available, because every test worker reads all files."""
VERDICTS = (FOLLOWED, DEVIATES, NOT_DONE)
KEY_WORD = re.compile(r"\b(MUST|SHOULD|SHALL|RECOMMENDED|MAY|REQUIRED|OPTIONAL)\b")
"""Key words of RFC 2119."""
LOWERCASE_WORD = re.compile(r"\b(must|should|shall)\b")
"""Key words of RFCs that write them in small letters."""


@dataclass(frozen=True)
class Row:
    """Requirement with its verdict and evidence."""

    name: str  # section of an RFC, or identifier
    asks: str  # the requirement, in v6t's words
    verdict: str  # one of :data:`VERDICTS`
    words: dict[str, int] = field(default_factory=dict)
    """Number of occurrences of each key word in the RFC's sentence."""
    where: list[str] = field(default_factory=list)
    """Files that implement it, or objects as ``file:name``."""
    tests: list[str] = field(default_factory=list)
    """Test functions; ``name_*`` stands for all names with this prefix."""
    how: str = ""  # deviation, reason or comment
    after: str = ""  # the authoritative document


@dataclass(frozen=True)
class Part:
    """Table of the page."""

    title: str
    scope: str  # covered sections
    words: dict[str, dict[str, int]]  # key words of the text by section; empty without an RFC
    rows: list[Row]

    def count(self, verdict: str) -> int:
        return sum(r.verdict == verdict for r in self.rows)


def read(name: str) -> dict[str, Any]:
    """Load a file of docs/clauses."""
    text = (CLAUSES / f"{name}.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.load(text, Loader=YAML_LOADER)  # noqa: S506 - a safe loader
    return loaded


def sections(*kinds: str) -> dict[str, list[str]]:
    """Return section numbers by RFC.

    Args:
        kinds: ``read`` for RFCs with all sections, ``unread`` for RFCs with cited sections only.
    """
    table = read("sections")
    return {rfc: text.split() for kind in kinds for rfc, text in table[kind].items()}


def rfc(number: str) -> Part:
    """Load the clauses of an RFC."""
    content = read(f"rfc{number}")
    rows = [Row(c.pop("section"), **c) for c in content["clauses"]]
    return Part(f"RFC {number}: {content['title']}", content["scope"], content["words"], rows)


def requirements() -> Part:
    """Load v6t's own requirements."""
    rows = [Row(name, **row) for name, row in read("requirements").items()]
    return Part(
        "Requirements",
        "v6t's own requirements, with the authoritative document in parentheses",
        {},
        rows,
    )


def acceptance() -> Part:
    """Load the acceptance tests."""
    rows = [Row(name, **row) for name, row in read("acceptance").items()]
    return Part("Acceptance tests", "each with its test functions", {}, rows)


def parts() -> list[Part]:
    """Return all tables of the page."""
    return [*(rfc(number) for number in RFCS), requirements(), acceptance()]


def render_page() -> str:
    """Return the text of the compliance page."""
    return (
        "\n".join([*_format_head(parts()), *(line for p in parts() for line in _format_table(p))])
        + "\n"
    )


def _format_head(all_parts: list[Part]) -> Iterator[str]:
    yield "# Compliance\n"
    yield (
        "Every clause of the RFCs and every requirement of v6t, with its implementation and its "
        "tests. *Followed* means that the complete clause is implemented and tested; a partly "
        "implemented clause *deviates*. The report of a run lists the clauses that the run "
        "followed.\n"
    )
    yield (
        "Each MUST, SHOULD, RECOMMENDED, MAY, REQUIRED and OPTIONAL of the listed sections has a "
        "row (in RFC 2544 and 3511 also must and should in small letters), and a test counts them. "
        "Rows without a key word are procedures or references. The sentences are v6t's own. "
        "RFC 9693 has no table, because its text was not available; ST-01 to ST-15 follow the "
        "papers and the tester of its authors.\n"
    )
    yield "Tests are functions under `tests/`; `name_*` stands for all names with this prefix.\n"
    yield "| | clauses | followed | deviates | not done |"
    yield "|---|---:|---:|---:|---:|"
    total: Counter[str] = Counter()
    for part in all_parts:
        total.update(r.verdict for r in part.rows)
        yield _format_counts(f"[{part.title}](#{_make_anchor(part.title)})", part.rows)
    yield _format_counts("**total**", [r for p in all_parts for r in p.rows])
    yield ""


def _format_counts(title: str, rows: list[Row]) -> str:
    counts = Counter(r.verdict for r in rows)
    return _format_row([title, str(len(rows)), *(str(counts[v]) for v in VERDICTS)])


def _format_table(part: Part) -> Iterator[str]:
    yield f"## {part.title}\n"
    yield f"{part.scope[0].upper()}{part.scope[1:]}.\n"
    is_rfc = bool(part.words)
    yield _format_row(
        ["Section", "Word", "Requirement", "Verdict", "Implementation, tests", "Comment"]
        if is_rfc
        else ["Identifier", "Requirement", "Verdict", "Implementation, tests", "Comment"]
    )
    yield "|---|---|---|---|---|---|" if is_rfc else "|---|---|---|---|---|"
    for row in part.rows:
        words = ", ".join(w + f" ({n})" * (n > 1) for w, n in row.words.items())
        asks = f"{row.asks} ({row.after})" if row.after else row.asks
        proof = "; ".join(t for t in (_format_code(row.where), _format_code(row.tests)) if t)
        yield _format_row(
            [row.name, *([words or "-"] if is_rfc else []), asks, row.verdict, proof, row.how]
        )
    yield ""


def _format_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _format_code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _make_anchor(title: str) -> str:
    """Return the anchor that the site gives a heading."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def count_words(text: str, *, small: bool) -> Counter[str]:
    """Count the key words of a section, with ``small`` also those in small letters."""
    matches = Counter(KEY_WORD.findall(text))
    return matches + Counter(LOWERCASE_WORD.findall(text)) if small else matches
