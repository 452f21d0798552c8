"""Render the compliance page from the clauses and requirements in docs/clauses."""

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
LOWERCASE_KEY_WORD = re.compile(r"\b(must|should|shall)\b")
"""Key words as RFC 2544 and RFC 3511 also write them."""


@dataclass(frozen=True)
class ClauseRow:
    """Requirement with its verdict and evidence."""

    name: str  # section of an RFC, or identifier
    requirement: str  # paraphrased
    verdict: str  # one of :data:`VERDICTS`
    key_words: dict[str, int] = field(default_factory=dict)
    """Number of occurrences of each key word in the RFC's sentence."""
    implementation: list[str] = field(default_factory=list)
    """Files that implement it, or objects as ``file:name``."""
    tests: list[str] = field(default_factory=list)
    """Test functions; ``name_*`` stands for all names with this prefix."""
    comment: str = ""  # deviation, reason or explanation
    source: str = ""  # authoritative document


@dataclass(frozen=True)
class ClauseTable:
    """Table of the compliance page."""

    title: str
    scope: str  # covered sections
    key_words: dict[str, dict[str, int]]  # by section of the RFC; empty for other documents
    rows: list[ClauseRow]


def load_file(name: str) -> dict[str, Any]:
    text = (CLAUSES / f"{name}.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.load(text, Loader=YAML_LOADER)  # noqa: S506 - a safe loader
    return loaded


def list_sections(*kinds: str) -> dict[str, list[str]]:
    """Return sections by RFC: ``read`` RFCs have all, ``unread`` ones the cited sections."""
    table = load_file("sections")
    return {rfc: text.split() for kind in kinds for rfc, text in table[kind].items()}


def load_rfc(number: str) -> ClauseTable:
    content = load_file(f"rfc{number}")
    rows = [ClauseRow(c.pop("section"), **c) for c in content["clauses"]]
    title = f"RFC {number}: {content['title']}"
    return ClauseTable(title, content["scope"], content["key_words"], rows)


def load_requirements() -> ClauseTable:
    return ClauseTable(
        "Requirements", "v6t's own requirements, with the authoritative document in parentheses",
        {}, [ClauseRow(name, **row) for name, row in load_file("requirements").items()],
    )  # fmt: skip


def load_acceptance_tests() -> ClauseTable:
    rows = [ClauseRow(name, **row) for name, row in load_file("acceptance").items()]
    return ClauseTable("Acceptance tests", "each with its test functions", {}, rows)


def load_tables() -> list[ClauseTable]:
    return [*map(load_rfc, RFCS), load_requirements(), load_acceptance_tests()]


def render_page() -> str:
    tables = load_tables()
    lines = [*_format_head(tables), *(line for t in tables for line in _format_table(t)), ""]
    return "\n".join(lines)


def _format_head(tables: list[ClauseTable]) -> Iterator[str]:
    yield "# Compliance\n"
    yield (
        "Every clause of the RFCs and every requirement of v6t, with its implementation and its "
        "tests. *Followed* means that the complete clause is implemented and tested; a partly "
        "implemented clause *deviates*. The report of a run lists the clauses that the run "
        "followed.\n"
    )
    yield (
        "Each MUST, SHOULD, RECOMMENDED, MAY, REQUIRED and OPTIONAL of the listed sections has a "
        "row (in RFC 2544 and 3511 also must and should in lowercase), and a test counts them. "
        "Rows without a key word are procedures or references. Requirements are paraphrased. "
        "RFC 9693 has no table, because its text was not available; ST-01 to ST-15 follow the "
        "papers and the tester of its authors.\n"
    )
    yield "Tests are functions under `tests/`; `name_*` stands for all names with this prefix.\n"
    yield "| | clauses | followed | deviates | not done |"
    yield "|---|---:|---:|---:|---:|"
    total: Counter[str] = Counter()
    for table in tables:
        total.update(r.verdict for r in table.rows)
        yield _format_counts(f"[{table.title}](#{_make_anchor(table.title)})", table.rows)
    yield _format_counts("**total**", [r for t in tables for r in t.rows])
    yield ""


def _format_counts(title: str, rows: list[ClauseRow]) -> str:
    counts = Counter(r.verdict for r in rows)
    return _format_row([title, str(len(rows)), *(str(counts[v]) for v in VERDICTS)])


def _format_table(table: ClauseTable) -> Iterator[str]:
    yield f"## {table.title}\n"
    yield f"{table.scope[0].upper()}{table.scope[1:]}.\n"
    is_rfc = bool(table.key_words)
    yield _format_row(
        ["Section", "Word", "Requirement", "Verdict", "Implementation, tests", "Comment"]
        if is_rfc
        else ["Identifier", "Requirement", "Verdict", "Implementation, tests", "Comment"]
    )
    yield "|---|---|---|---|---|---|" if is_rfc else "|---|---|---|---|---|"
    for row in table.rows:
        words = ", ".join(w + f" ({n})" * (n > 1) for w, n in row.key_words.items()) or "-"
        requirement = f"{row.requirement} ({row.source})" if row.source else row.requirement
        evidence = "; ".join(filter(None, map(_format_code, (row.implementation, row.tests))))
        start = [row.name, words] if is_rfc else [row.name]
        yield _format_row([*start, requirement, row.verdict, evidence, row.comment])
    yield ""


def _format_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _format_code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _make_anchor(title: str) -> str:
    """Return the anchor that the site gives a heading."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def count_key_words(text: str, *, lowercase: bool) -> Counter[str]:
    """Count the key words of a section; ``lowercase`` includes those in lowercase."""
    matches = Counter(KEY_WORD.findall(text))
    return matches + Counter(LOWERCASE_KEY_WORD.findall(text)) if lowercase else matches
