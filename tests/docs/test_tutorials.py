"""The tutorials show the packages beside the tests; ``tests/packaging`` installs and runs those."""

from __future__ import annotations

import pytest

from .pages import CHECKOUT, DOCS, blocks

TESTS = CHECKOUT / "tests"
EXAMPLES = {
    "plugin": TESTS / "example_plugin" / "v6t_nptv6.py",
    "driver": TESTS / "example_driver" / "v6t_nftfilter.py",
    "benchmark": TESTS / "example_benchmark" / "v6t_mrr.py",
    "tester": TESTS / "example_tester" / "v6t_impaired.py",
}


def code(tutorial: str) -> str:
    shown = [
        b.text
        for b in blocks(DOCS / "tutorials" / f"{tutorial}.md")
        if b.language == "python" and not b.reason
    ]
    return "\n".join(shown)


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("tutorial", EXAMPLES)
def test_the_tutorial_shows_the_whole_module_and_nothing_else(tutorial):
    assert lines(code(tutorial)) == lines(EXAMPLES[tutorial].read_text(encoding="utf-8"))


@pytest.mark.parametrize("tutorial", EXAMPLES)
def test_the_tutorial_shows_the_package(tutorial):
    (shown,) = [b for b in blocks(DOCS / "tutorials" / f"{tutorial}.md") if b.language == "toml"]
    assert shown.text == (EXAMPLES[tutorial].parent / "pyproject.toml").read_text(encoding="utf-8")
