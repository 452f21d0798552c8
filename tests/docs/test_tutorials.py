"""The tutorials show the example packages in ``tests``, which ``tests/packaging`` installs and runs."""

import pytest

from .pages import CHECKOUT, DOCS, read_blocks

TESTS = CHECKOUT / "tests"
EXAMPLES = {
    "plugin": ("v6t_nptv6.py",), "driver": ("v6t_mytayga.py", "v6t_ip6snat.py"),
    "benchmark": ("v6t_mrr.py",), "tester": ("v6t_impaired.py",),
}  # fmt: skip
"""Modules that a tutorial shows, in order; they are in ``tests/example_NAME``."""


def strip_lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("tutorial", EXAMPLES)
def test_tutorial_shows_complete_modules_only(tutorial):
    folder = TESTS / f"example_{tutorial}"
    modules = [(folder / name).read_text(encoding="utf-8") for name in EXAMPLES[tutorial]]
    blocks = read_blocks(DOCS / "tutorials" / f"{tutorial}.md")
    shown = [b.text for b in blocks if b.language == "python" and not b.reason]
    assert strip_lines("\n".join(shown)) == strip_lines("\n".join(modules))


@pytest.mark.parametrize("tutorial", EXAMPLES)
def test_tutorial_shows_package_file(tutorial):
    blocks = read_blocks(DOCS / "tutorials" / f"{tutorial}.md")
    (shown,) = [block for block in blocks if block.language == "toml"]
    project = TESTS / f"example_{tutorial}" / "pyproject.toml"
    assert shown.text == project.read_text(encoding="utf-8")
