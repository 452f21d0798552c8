"""The clauses are complete, name existing objects and tests, and are all on the page."""

from __future__ import annotations

import ast
import importlib
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from v6t.tests.packaging.support import ROOMS

from . import clauses
from .clauses import DEVIATES, FOLLOWED, NOT_DONE, ROOT, Part, Row

if not clauses.CLAUSES.exists():
    pytest.skip("the documentation is not installed", allow_module_level=True)

GROUPS = {
    "GEN": 30, "TP": 9, "FLR": 7, "B2B": 4, "REC": 3, "RST": 3, "LAT": 10, "PDV": 4, "IPDV": 2,
    "ST": 18, "SC": 7, "MIX": 6, "SELF": 7, "BN": 4, "DD": 5, "TRX": 13, "MAP": 19, "SIIT": 7,
}  # fmt: skip
CITED = re.compile(
    r"RFC ?(\d{4}),? (?:\(?sections?|sect\.|appendix) "
    r"((?:[A-Z]\.)?[A-Z\d][\d.]*(?:(?:, | and | to |-)(?:[A-Z]\.)?\d[\d.]*(?!\d* ?%))*)",
    re.IGNORECASE,
)
NUMBER = re.compile(r"(?:[A-Z]\.)?\d+(?:\.\d+)*|\b[A-Z]\b")
WRAPPED = re.compile(r"\s*\n\s*(?:# ?|> ?)?")
PARTS = clauses.parts()
TEXTS = os.environ.get("V6T_RFC_TEXTS")


def rows() -> list[Row]:
    return [row for part in PARTS for row in part.rows]


def title(part: Part) -> str:
    return part.title.partition(":")[0]


@cache
def list_test_names() -> frozenset[str]:
    """Return the names of all tests."""
    test_names: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        test_names |= {node.name for node in body if isinstance(node, ast.FunctionDef)}
    return frozenset(name for name in test_names if name.startswith("test_"))


@cache
def read_texts() -> dict[str, str]:
    """Return the text of all files that may cite an RFC or a requirement, by path."""
    paths = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    for room in (*ROOMS, "docs", "tests"):
        known = {".py", ".md", ".json", ".yaml"}
        paths += [p for p in (ROOT / room).rglob("*") if p.suffix in known]
    return {
        str(p.relative_to(ROOT)): p.read_text(encoding="utf-8", errors="replace") for p in paths
    }


def find_cited_sections() -> dict[tuple[str, str], str]:
    """Return every cited section of an RFC, with a file that cites it."""
    return {
        (rfc, number): path
        for path, text in read_texts().items()
        for rfc, numbers in CITED.findall(WRAPPED.sub(" ", text))
        for number in NUMBER.findall(numbers)
    }


# ------------------------------------------------------------------ completeness


@pytest.mark.parametrize("part", [p for p in PARTS if p.words], ids=title)
def test_key_words_of_section_have_rows(part: Part) -> None:
    counted: dict[str, Counter[str]] = {}
    for row in part.rows:
        counted.setdefault(row.name, Counter()).update(row.words)
    for section in {*part.words, *counted}:
        assert counted.get(section, Counter()) == Counter(part.words.get(section, {})), section


@pytest.mark.skipif(not TEXTS, reason="set V6T_RFC_TEXTS to a directory with rfcNNNN.txt")
@pytest.mark.parametrize("number", clauses.RFCS)
def test_key_word_counts_equal_rfc_text(number: str) -> None:
    small = number in ("2544", "3511")
    counted: dict[str, Counter[str]] = {}
    text_file = Path(str(TEXTS)) / f"rfc{number}.txt"
    if not text_file.exists():
        pytest.skip(f"{TEXTS} does not contain RFC {number}")
    for section, text in split_sections(text_file):
        counted[section] = counted.get(section, Counter()) + clauses.count_words(text, small=small)
    part = clauses.rfc(number)
    for section in {*part.words, *(r.name for r in part.rows)}:
        assert counted[section] == Counter(part.words.get(section, {})), section


def split_sections(path: Path) -> list[tuple[str, str]]:
    """Return number and text of each section, without page headers and footers."""
    heading = re.compile(r"(?:Appendix )?([A-Z](?=\b)|[A-Z]\.\d[\d.]*|\d+(?:\.\d+)*)[.:]? {1,3}\S")
    sections: list[list[str]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").replace("\f", "").splitlines():
        if re.match(r"RFC \d+ .*\d{4}$", line) or (line.endswith("]") and "[Page " in line):
            continue
        head = heading.match(line)
        contents = re.search(r"\. ?\. |\.{3,}| \d+$", line)
        if (
            head
            and not contents
            and (line[0].isdigit() or line[:9] == "Appendix " or line[1] == ".")
        ):
            sections.append([head[1].rstrip("."), line])
        elif sections:
            sections[-1].append(line)
    return [(number, "\n".join(text)) for number, *text in sections]


def test_every_requirement_has_a_row() -> None:
    defined = clauses.read("requirements")
    assert Counter(name.rpartition("-")[0] for name in defined) == Counter(GROUPS)
    assert set(clauses.read("acceptance")) == {f"A{number}" for number in range(1, 31)}


def test_identifiers_in_code_and_pages_are_defined() -> None:
    identifier = re.compile(rf"\b(?:{'|'.join(GROUPS)})-\d\d\b")
    used = {name: path for path, text in read_texts().items() for name in identifier.findall(text)}
    in_brackets = re.compile(r"\((?:see )?([A-Z][A-Z0-9]{1,4}-\d\d)\b")
    for path, text in read_texts().items():
        if path.endswith(".py"):
            used |= dict.fromkeys(in_brackets.findall(text), path)
    defined = clauses.read("requirements")
    assert {name: path for name, path in used.items() if name not in defined} == {}


def test_requirement_is_defined_once() -> None:
    lines = (clauses.CLAUSES / "requirements.yaml").read_text(encoding="utf-8").splitlines()
    names = [line for line in lines if line.endswith(":") and not line.startswith((" ", "#"))]
    assert len(names) == len(set(names)) == len(clauses.read("requirements"))


# ------------------------------------------------------------------ rows


def test_row_has_sentence_and_verdict_with_evidence() -> None:
    for row in rows():
        place = f"{row.name}: {row.asks}"
        assert row.asks.endswith("."), place
        assert row.verdict in clauses.VERDICTS, place
        if row.verdict == FOLLOWED:
            assert row.tests, place
            assert row.where or re.fullmatch(r"A\d+", row.name), place
        else:
            assert row.how, place
        if row.verdict == NOT_DONE:
            assert not row.where, place


def test_deviation_has_place_or_refers_to_rows() -> None:
    for part in PARTS:
        for row in part.rows:
            if row.verdict == DEVIATES and not row.where and not re.fullmatch(r"A\d+", row.name):
                assert re.search(r"\brows?\b", row.how), (part.title, row.name)


@pytest.mark.parametrize("part", PARTS, ids=title)
def test_places_of_row_exist(part: Part) -> None:
    for place in {place for row in part.rows for place in row.where}:
        path, _, name = place.partition(":")
        assert (ROOT / path).is_file(), place
        if path.endswith(".py"):
            module = importlib.import_module("v6t." + path.removesuffix(".py").replace("/", "."))
            assert not name or name in vars(module), place


def test_tests_of_row_exist() -> None:
    known = list_test_names()
    for row in rows():
        for name in row.tests:
            start = name.removesuffix("*")
            exists = any(f.startswith(start) for f in known) if "*" in name else name in known
            assert exists, f"{row.name}: {name}"


# ------------------------------------------------------------------ sections


def test_cited_sections_exist() -> None:
    known = clauses.sections("read", "unread")
    wrong = {
        f"RFC {rfc} section {number}": where
        for (rfc, number), where in find_cited_sections().items()
        if number not in known.get(rfc, ())
    }
    assert wrong == {}


def test_clauses_belong_to_sections_of_read_read_texts() -> None:
    known = clauses.sections("read")
    for number in clauses.RFCS:
        part = clauses.rfc(number)
        assert {*part.words, *(r.name for r in part.rows)} <= set(known[number])


def test_listed_sections_of_unread_texts_are_find_cited_sections() -> None:
    used = set(find_cited_sections())
    for rfc, numbers in clauses.sections("unread").items():
        assert [n for n in numbers if (rfc, n) not in used] == [], rfc


# ------------------------------------------------------------------ the page


def test_compliance_page_has_a_row_for_each_clause() -> None:
    lines = Counter(clauses.render_page().splitlines())
    for row in rows():
        start = f"| {row.name} | "
        assert any(row.asks in line for line in lines if line.startswith(start)), row
    overview = sum(line.startswith("| [") for line in lines)
    assert overview == len(PARTS)
