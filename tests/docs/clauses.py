"""Clauses of RFCs and v6t's own requirements, read from docs/clauses, and the compliance page made of them."""

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
"""In the order of the page."""
FOLLOWED, DEVIATES, NOT_DONE = "followed", "deviates", "not done"
FAST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where PyYAML has it: every worker of the tests reads all files."""
VERDICTS = (FOLLOWED, DEVIATES, NOT_DONE)
WORD = re.compile(r"\b(MUST|SHOULD|SHALL|RECOMMENDED|MAY|REQUIRED|OPTIONAL)\b")
"""What makes a sentence a demand."""
SMALL = re.compile(r"\b(must|should|shall)\b")
"""The same in RFCs that do not tell capital letters from small ones."""


@dataclass(frozen=True)
class Row:
    """One demand."""

    name: str  # section of an RFC, or identifier
    asks: str  # what it demands, in v6t's words
    verdict: str  # one of :data:`VERDICTS`
    words: dict[str, int] = field(default_factory=dict)
    """Key words of the RFC's sentence, and how often."""
    where: list[str] = field(default_factory=list)
    """Files, with a colon and the object where one file holds several."""
    tests: list[str] = field(default_factory=list)
    """Functions under ``tests/``; ``name_*`` for all that begin so."""
    how: str = ""  # how it deviates, why it is not done, or what to know of it
    after: str = ""  # the document that decides in case of doubt


@dataclass(frozen=True)
class Part:
    """One table of the page."""

    title: str  # its heading
    scope: str  # which sections are in it
    words: dict[str, dict[str, int]]  # key words of the text, by section; empty for what is no RFC
    rows: list[Row]  # the demands

    def count(self, verdict: str) -> int:
        return sum(r.verdict == verdict for r in self.rows)


def read(name: str) -> dict[str, Any]:
    """Load one of the files."""
    text = (CLAUSES / f"{name}.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.load(text, Loader=FAST)  # noqa: S506 - a safe one
    return loaded


def sections(*kinds: str) -> dict[str, list[str]]:
    """Sections by RFC; of those ``read``, or ``unread`` whose cited sections are known by name only."""
    table = read("sections")
    return {rfc: text.split() for kind in kinds for rfc, text in table[kind].items()}


def rfc(number: str) -> Part:
    """Load the demands of an RFC."""
    held = read(f"rfc{number}")
    rows = [Row(c.pop("section"), **c) for c in held["clauses"]]
    return Part(f"RFC {number}: {held['title']}", held["scope"], held["words"], rows)


def requirements() -> Part:
    """Load v6t's own requirements, each with the document that decides in case of doubt."""
    rows = [Row(name, **held) for name, held in read("requirements").items()]
    return Part(
        "Requirements", "v6t's own; in parentheses: what decides in case of doubt", {}, rows
    )


def acceptance() -> Part:
    """Load the acceptance tests."""
    rows = [Row(name, **held) for name, held in read("acceptance").items()]
    return Part("Acceptance tests", "each with the functions it is made of", {}, rows)


def parts() -> list[Part]:
    """Return all tables of the page."""
    return [*(rfc(number) for number in RFCS), requirements(), acceptance()]


def render_page() -> str:
    """Return the text of the compliance page."""
    return "\n".join([*_head(parts()), *(line for p in parts() for line in _table(p))]) + "\n"


def _head(all_parts: list[Part]) -> Iterator[str]:
    yield "# Compliance\n"
    yield (
        "What the RFCs ask of a benchmark, clause by clause, and every requirement of v6t's own: "
        "whether it is followed, where, and which test proves it. *Followed* needs a place and a "
        "test, and holds for all of the clause; what holds for a part only *deviates*. This page "
        "is about v6t; what a run followed is told by its report.\n"
    )
    yield (
        "Every MUST, SHOULD, RECOMMENDED, MAY, REQUIRED and OPTIONAL of the sections named has its "
        "row (in RFC 2544 and 3511 also must and should in small letters); a test counts them. "
        "Rows without such a word are procedures or references that demand something without it. "
        "The sentences are v6t's own. RFC 9693 has no table: its text was not at hand. What it "
        "asks for is in ST-01 to ST-15, after the papers and the tester of its authors.\n"
    )
    yield (
        "Names of tests are those of functions under `tests/`; `name_*` stands for all that begin "
        "so.\n"
    )
    yield "| | clauses | followed | deviates | not done |"
    yield "|---|---:|---:|---:|---:|"
    total: Counter[str] = Counter()
    for part in all_parts:
        total.update(r.verdict for r in part.rows)
        yield _counted(f"[{part.title}](#{_anchor(part.title)})", part.rows)
    yield _counted("**together**", [r for p in all_parts for r in p.rows])
    yield ""


def _counted(title: str, rows: list[Row]) -> str:
    counts = Counter(r.verdict for r in rows)
    return _line([title, str(len(rows)), *(str(counts[v]) for v in VERDICTS)])


def _table(part: Part) -> Iterator[str]:
    yield f"## {part.title}\n"
    yield f"{part.scope[0].upper()}{part.scope[1:]}.\n"
    of_rfc = bool(part.words)
    yield _line(
        ["Section", "Word", "Asked for", "Verdict", "Where, test", "How, why"]
        if of_rfc
        else ["Identifier", "Asked for", "Verdict", "Where, test", "How, why"]
    )
    yield "|---|---|---|---|---|---|" if of_rfc else "|---|---|---|---|---|"
    for row in part.rows:
        words = ", ".join(w + f" ({n})" * (n > 1) for w, n in row.words.items())
        asks = f"{row.asks} ({row.after})" if row.after else row.asks
        proof = "; ".join(t for t in (_code(row.where), _code(row.tests)) if t)
        yield _line(
            [row.name, *([words or "-"] if of_rfc else []), asks, row.verdict, proof, row.how]
        )
    yield ""


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _anchor(title: str) -> str:
    """Make the anchor as the site does."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def count_words(text: str, *, small: bool) -> Counter[str]:
    """Count the key words of a section."""
    matches = Counter(WORD.findall(text))
    return matches + Counter(SMALL.findall(text)) if small else matches
