"""Identifiers of requirements are explained on one page: all that are used, each once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "requirements.md"
ROOMS = (
    "analysis",
    "base",
    "core",
    "docs",
    "drivers",
    "plugins",
    "procedures",
    "profiles",
    "tests",
)
GROUPS = (
    "GEN", "TP", "FLR", "B2B", "REC", "RST", "LAT", "PDV", "IPDV", "ST", "DD", "SC", "MIX",
    "SELF", "BN", "MAP", "SIIT", "TRX",
)  # fmt: skip
IDENTIFIER = re.compile(rf"\b(?:{'|'.join(GROUPS)})-\d\d\b")

if not PAGE.exists():
    pytest.skip("the documentation is not installed", allow_module_level=True)


def explained() -> list[str]:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [row.split("|")[1].strip() for row in rows if "Identifier" not in row]


def cited() -> dict[str, str]:
    """Identifiers, and a file that uses each."""
    found = {}
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for room in ROOMS:
        pages += [p for p in (ROOT / room).rglob("*") if p.suffix in {".py", ".md", ".json"}]
    for path in pages:
        if path != PAGE:
            for name in IDENTIFIER.findall(path.read_text(encoding="utf-8")):
                found[name] = str(path.relative_to(ROOT))
    return found


def test_every_identifier_in_code_and_pages_is_explained():
    known = set(explained())
    assert {name: where for name, where in cited().items() if name not in known} == {}


def test_each_is_explained_once_and_is_used():
    assert [name for name, times in Counter(explained()).items() if times > 1] == []
    assert set(explained()) <= set(cited())


def test_each_row_is_a_sentence_of_a_known_group():
    for line in PAGE.read_text().splitlines():
        if line.startswith("| ") and "Identifier" not in line:
            name, sentence, after = (cell.strip() for cell in line.strip("|").split("|"))
            assert IDENTIFIER.fullmatch(name), name
            assert sentence.endswith("."), name
            assert sentence[0].isupper(), name
            assert after, name


def test_no_other_identifiers_are_used():
    """A new group is added here and on the page."""
    shape = re.compile(r"\((?:see )?([A-Z][A-Z0-9]{1,4})-\d\d\b")
    groups = {}
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            for group in shape.findall(path.read_text(encoding="utf-8")):
                groups[group] = str(path.relative_to(ROOT))
    assert {group: where for group, where in groups.items() if group not in GROUPS} == {}


def test_compliance_and_requirements_lead_to_each_other():
    assert "(requirements.md)" in (PAGE.parent / "compliance.md").read_text()
    assert "(compliance.md)" in PAGE.read_text()
