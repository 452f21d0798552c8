"""The checklist of docs/operations.md names tests that exist, and counts right."""

from __future__ import annotations

import re

from .pages import CHECKOUT, DOCS

PAGE = (DOCS / "operations.md").read_text(encoding="utf-8")
SOURCE = (CHECKOUT / "tests" / "core" / "test_operational.py").read_text(encoding="utf-8")
TESTS = re.findall(r"^def (test_\w+)", SOURCE, re.MULTILINE)


def tasks(heading):
    section = PAGE.split(f"## {heading}")[1].split("\n## ")[0]
    return [line for line in section.splitlines() if re.match(r"\| [A-Z]\w*\d:", line)]


def test_every_task_of_the_paper_is_there_and_counted():
    for heading in ("Configuration", "Troubleshooting"):
        rows = tasks(heading)
        assert len(rows) == 10
        done, of = re.search(rf"## {heading}: (\d+) of (\d+)", PAGE).groups()
        assert int(of) == len(rows)
        assert int(done) == sum("not done" not in row for row in rows)


def test_every_named_test_exists():
    for row in tasks("Configuration") + tasks("Troubleshooting"):
        named = row.rsplit("|", 2)[1]
        for words in re.findall(r"`([^`]+)`", named):
            if words.startswith("tests/"):
                assert (CHECKOUT / words).is_file(), words
            else:
                assert any(re.fullmatch(words.replace("*", r"\w+"), t) for t in TESTS), words


def test_no_task_is_left_without_a_test():
    page = set(re.findall(r"`(test_[a-z_]+_\d)_\*`", PAGE))
    assert page == {re.match(r"test_[a-z_]+?_\d", name)[0] for name in TESTS}
