"""The compliance table names every requirement, files that exist and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "compliance.md"

if not PAGE.exists():
    pytest.skip("the documentation is not installed", allow_module_level=True)

LAST = {
    "GEN": 30, "TP": 9, "FLR": 7, "B2B": 4, "REC": 3, "RST": 3, "LAT": 10, "PDV": 4, "IPDV": 2,
    "SC": 7, "MIX": 6, "SELF": 7, "BN": 4, "DD": 5,
}  # fmt: skip
ACCEPTANCE = (*range(1, 16), *range(20, 27), 28, 29)


def rows():
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip()[1:-1].split("|")]
        if line.startswith("|") and not cells[0].startswith(("Identifier", "Test", "---")):
            yield line, cells


def functions():
    found = set()
    for path in (ROOT / "tests").rglob("*.py"):
        found |= set(re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE))
    return found


def test_every_requirement_has_a_row():
    named = " ".join(cells[0] for _, cells in rows())
    for group, last in LAST.items():
        for number in range(1, last + 1):
            assert re.search(rf"\b{group}-{number:02d}\b", named), f"{group}-{number:02d}"
    for number in ACCEPTANCE:
        assert re.search(rf"\bA{number}\b", named), f"A{number}"


def test_what_it_names_exists():
    known = functions()
    for line, _ in rows():
        for name in re.findall(r"`([^`]+)`", line):
            if name.startswith("test_") and not name.endswith(".py"):
                matching = name.removesuffix("*")
                assert any(
                    f.startswith(matching) if name.endswith("*") else f == name for f in known
                ), name
            elif re.fullmatch(r"[a-z_]+(/[a-z_0-9]+)+\.py", name):
                assert (ROOT / name).is_file(), name


def test_what_has_no_test_is_said():
    for line, cells in rows():
        assert len(cells) == (3 if re.match(r"A\d", cells[0]) else 4), line
        if len(cells) == 4 and not cells[2]:
            assert cells[3], line
