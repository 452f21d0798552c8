"""The checklist of docs/operations.md names existing tests and has correct counts."""

import re

import pytest
from v6t.drivers import placement

from .pages import CHECKOUT, DOCS

PAGE = (DOCS / "operations.md").read_text(encoding="utf-8")
TESTS = {
    name
    for path in (CHECKOUT / "tests" / "core").glob("test_*.py")
    for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
}


def list_tasks(heading):
    section = PAGE.split(f"## {heading}")[1].split("\n## ")[0]
    return [line for line in section.splitlines() if re.match(r"\| [A-Z]\w*\d:", line)]


def test_tasks_of_paper_are_listed_and_counted():
    for heading in ("Configuration", "Troubleshooting"):
        rows = list_tasks(heading)
        assert len(rows) == 10
        done, total = re.search(rf"## {heading}: (\d+) of (\d+)", PAGE).groups()
        assert int(total) == len(rows)
        assert int(done) == sum("not done" not in row for row in rows)


@pytest.mark.parametrize("row", list_tasks("Configuration") + list_tasks("Troubleshooting"))
def test_tests_of_task_exist(row):
    named = re.findall(r"`([^`]+)`", row.rsplit("|", 2)[1])
    assert named
    for words in named:
        if words.startswith("tests/"):
            assert (CHECKOUT / words).is_file(), words
        else:
            assert any(re.fullmatch(words.replace("*", r"\w+"), t) for t in TESTS), words


def test_tuning_page_states_ring_sizes_and_niceness():
    page = (DOCS / "guides/tuning.md").read_text(encoding="utf-8")
    assert f"has {placement.RING_FRAMES:,} frames" in page
    assert f"{placement.MAX_RING_FRAMES:,} frames and {placement.RING_OCTETS >> 20} MiB" in page
    assert page.count(f"niceness {placement.DATA_PATH_NICENESS}") == 2
