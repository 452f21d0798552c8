"""The tutorials show the packages in ``tests``; ``tests/packaging`` installs and runs those."""

from __future__ import annotations

import pytest

from .pages import CHECKOUT, DOCS, blocks

TESTS = CHECKOUT / "tests"
EXAMPLES = {
    "plugin": ("v6t_nptv6.py",),
    "driver": ("v6t_mytayga.py", "v6t_ip6snat.py"),
    "benchmark": ("v6t_mrr.py",),
    "tester": ("v6t_impaired.py",),
}
"""Modules that a tutorial shows one below the other; they are in ``tests/example_NAME``."""


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
def test_the_tutorial_shows_the_whole_modules_and_nothing_else(tutorial):
    folder = TESTS / f"example_{tutorial}"
    modules = [(folder / name).read_text(encoding="utf-8") for name in EXAMPLES[tutorial]]
    assert lines(code(tutorial)) == lines("\n".join(modules))


@pytest.mark.parametrize("tutorial", EXAMPLES)
def test_the_tutorial_shows_the_package(tutorial):
    (shown,) = [b for b in blocks(DOCS / "tutorials" / f"{tutorial}.md") if b.language == "toml"]
    project = TESTS / f"example_{tutorial}" / "pyproject.toml"
    assert shown.text == project.read_text(encoding="utf-8")
