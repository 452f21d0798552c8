"""The clauses are complete, name existing code and tests, and are all on the page."""

import ast
import importlib
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from v6t.tests.packaging.support import FOLDERS

from . import clauses
from .clauses import DEVIATES, FOLLOWED, NOT_DONE, ROOT, ClauseRow, ClauseTable

if not clauses.CLAUSES.exists():
    pytest.skip("the documentation is not installed", allow_module_level=True)

REQUIREMENTS_PER_GROUP = {
    "GEN": 30, "TP": 9, "FLR": 7, "B2B": 4, "REC": 3, "RST": 3, "LAT": 10, "PDV": 4, "IPDV": 2,
    "ST": 18, "SC": 7, "MIX": 6, "SELF": 7, "BN": 4, "DD": 5, "TRX": 13, "MAP": 19, "SIIT": 7,
}  # fmt: skip
CITATION = re.compile(
    r"RFC ?(\d{4}),? (?:\(?sections?|sect\.|appendix) "
    r"((?:[A-Z]\.)?[A-Z\d][\d.]*(?:(?:, | and | to |-)(?:[A-Z]\.)?\d[\d.]*(?!\d* ?%))*)",
    re.IGNORECASE,
)
SECTION_NUMBER = re.compile(r"(?:[A-Z]\.)?\d+(?:\.\d+)*|\b[A-Z]\b")
LINE_BREAK = re.compile(r"\s*\n\s*(?:# ?|> ?)?")
TABLES = clauses.load_tables()
RFC_TEXTS = os.environ.get("V6T_RFC_TEXTS")


def list_rows() -> list[ClauseRow]:
    return [row for table in TABLES for row in table.rows]


def get_title(table: ClauseTable) -> str:
    return table.title.partition(":")[0]


@cache
def list_test_names() -> frozenset[str]:
    test_names: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        test_names |= {node.name for node in body if isinstance(node, ast.FunctionDef)}
    return frozenset(name for name in test_names if name.startswith("test_"))


@cache
def read_files() -> dict[str, str]:
    """Return the contents of all files that may cite an RFC or a requirement, by path."""
    paths = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    for room in (*FOLDERS, "docs", "tests"):
        suffixes = {".py", ".md", ".json", ".yaml"}
        paths += [p for p in (ROOT / room).rglob("*") if p.suffix in suffixes]
    return {str(p.relative_to(ROOT)): p.read_text("utf-8", errors="replace") for p in paths}


def find_cited_sections() -> dict[tuple[str, str], str]:
    """Return every cited section of an RFC, with a file that cites it."""
    return {
        (rfc, number): path
        for path, text in read_files().items()
        for rfc, numbers in CITATION.findall(LINE_BREAK.sub(" ", text))
        for number in SECTION_NUMBER.findall(numbers)
    }


# ------------------------------------------------------------------ completeness


@pytest.mark.parametrize("table", [t for t in TABLES if t.key_words], ids=get_title)
def test_key_words_of_section_have_rows(table: ClauseTable) -> None:
    counted: dict[str, Counter[str]] = {}
    for row in table.rows:
        counted.setdefault(row.name, Counter()).update(row.key_words)
    for section in {*table.key_words, *counted}:
        assert counted.get(section, Counter()) == Counter(table.key_words.get(section, {})), section


@pytest.mark.skipif(not RFC_TEXTS, reason="set V6T_RFC_TEXTS to a directory with rfcNNNN.txt")
@pytest.mark.parametrize("number", clauses.RFCS)
def test_key_word_counts_equal_rfc_text(number: str) -> None:
    lowercase = number in ("2544", "3511")
    counted: dict[str, Counter[str]] = {}
    text_file = Path(str(RFC_TEXTS)) / f"rfc{number}.txt"
    if not text_file.exists():
        pytest.skip(f"{RFC_TEXTS} does not contain RFC {number}")
    for section, text in split_sections(text_file):
        key_words = clauses.count_key_words(text, lowercase=lowercase)
        counted[section] = counted.get(section, Counter()) + key_words
    table = clauses.load_rfc(number)
    for section in {*table.key_words, *(r.name for r in table.rows)}:
        assert counted[section] == Counter(table.key_words.get(section, {})), section


def split_sections(path: Path) -> list[tuple[str, str]]:
    """Return number and text of each section, without page headers and footers."""
    heading = re.compile(r"(?:Appendix )?([A-Z](?=\b)|[A-Z]\.\d[\d.]*|\d+(?:\.\d+)*)[.:]? {1,3}\S")
    sections: list[list[str]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").replace("\f", "").splitlines():
        if re.match(r"RFC \d+ .*\d{4}$", line) or (line.endswith("]") and "[Page " in line):
            continue
        head = heading.match(line)
        entry = re.search(r"\. ?\. |\.{3,}| \d+$", line)  # of the table of contents
        if head and not entry and (line[0].isdigit() or line[:9] == "Appendix " or line[1] == "."):
            sections.append([head[1].rstrip("."), line])
        elif sections:
            sections[-1].append(line)
    return [(number, "\n".join(text)) for number, *text in sections]


def test_every_requirement_has_a_row() -> None:
    defined = clauses.load_file("requirements")
    assert Counter(name.rpartition("-")[0] for name in defined) == Counter(REQUIREMENTS_PER_GROUP)
    assert set(clauses.load_file("acceptance")) == {f"A{number}" for number in range(1, 31)}


def test_identifiers_in_code_and_pages_are_defined() -> None:
    identifier = re.compile(rf"\b(?:{'|'.join(REQUIREMENTS_PER_GROUP)})-\d\d\b")
    used = {name: path for path, text in read_files().items() for name in identifier.findall(text)}
    in_brackets = re.compile(r"\((?:see )?([A-Z][A-Z0-9]{1,4}-\d\d)\b")
    for path, text in read_files().items():
        if path.endswith(".py"):
            used |= dict.fromkeys(in_brackets.findall(text), path)
    defined = clauses.load_file("requirements")
    assert {name: path for name, path in used.items() if name not in defined} == {}


def test_requirement_is_defined_once() -> None:
    lines = (clauses.CLAUSES / "requirements.yaml").read_text(encoding="utf-8").splitlines()
    names = [line for line in lines if line.endswith(":") and not line.startswith((" ", "#"))]
    assert len(names) == len(set(names)) == len(clauses.load_file("requirements"))


# ------------------------------------------------------------------ rows


def test_row_has_sentence_and_verdict_with_evidence() -> None:
    for row in list_rows():
        label = f"{row.name}: {row.requirement}"
        assert row.requirement.endswith("."), label
        assert row.verdict in clauses.VERDICTS, label
        if row.verdict == FOLLOWED:
            assert row.tests, label
            assert row.implementation or re.fullmatch(r"A\d+", row.name), label
        else:
            assert row.comment, label
        if row.verdict == NOT_DONE:
            assert not row.implementation, label


def test_deviation_has_implementation_or_refers_to_rows() -> None:
    for table in TABLES:
        for row in table.rows:
            has_code = row.implementation or re.fullmatch(r"A\d+", row.name)
            if row.verdict == DEVIATES and not has_code:
                assert re.search(r"\brows?\b", row.comment), (table.title, row.name)


@pytest.mark.parametrize("table", TABLES, ids=get_title)
def test_implementation_of_row_exists(table: ClauseTable) -> None:
    for place in {place for row in table.rows for place in row.implementation}:
        path, _, name = place.partition(":")
        assert (ROOT / path).is_file(), place
        if path.endswith(".py"):
            module = importlib.import_module("v6t." + path.removesuffix(".py").replace("/", "."))
            assert not name or name in vars(module), place


def test_tests_of_row_exist() -> None:
    known = list_test_names()
    for row in list_rows():
        for name in row.tests:
            prefix = name.removesuffix("*")
            exists = any(f.startswith(prefix) for f in known) if "*" in name else name in known
            assert exists, f"{row.name}: {name}"


# ------------------------------------------------------------------ sections


def test_cited_sections_exist() -> None:
    known = clauses.list_sections("read", "unread")
    wrong = {
        f"RFC {rfc} section {number}": path
        for (rfc, number), path in find_cited_sections().items()
        if number not in known.get(rfc, ())
    }
    assert wrong == {}


def test_clauses_belong_to_sections_of_read_rfcs() -> None:
    known = clauses.list_sections("read")
    for number in clauses.RFCS:
        table = clauses.load_rfc(number)
        assert {*table.key_words, *(r.name for r in table.rows)} <= set(known[number])


def test_listed_sections_of_unread_rfcs_are_cited() -> None:
    used = set(find_cited_sections())
    for rfc, numbers in clauses.list_sections("unread").items():
        assert [n for n in numbers if (rfc, n) not in used] == [], rfc


# ------------------------------------------------------------------ the page


def test_compliance_page_has_a_row_for_each_clause() -> None:
    lines = Counter(clauses.render_page().splitlines())
    for row in list_rows():
        start = f"| {row.name} | "
        assert any(row.requirement in line for line in lines if line.startswith(start)), row
    assert sum(line.startswith("| [") for line in lines) == len(TABLES)
