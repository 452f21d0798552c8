"""The reference is what the code says, and the site holds together."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from v6t.core.config.lookup import every_setting
from v6t.tools import reference_pages

from .pages import CHECKOUT, DOCS


def test_the_pages_in_the_repository_are_those_the_code_writes(tmp_path):
    shutil.copytree(DOCS / "duts", tmp_path / "duts")
    reference_pages.write(tmp_path / "reference")
    written = {p.name: p.read_text() for p in (tmp_path / "reference").iterdir()}
    kept = {p.name: p.read_text() for p in (DOCS / "reference").iterdir()}
    assert sorted(written) == sorted(kept)
    for name, text in written.items():
        assert kept[name] == text, f"docs/reference/{name} is out of date: run `make docs`"


def test_every_setting_says_what_it_is():
    silent = [row.name for row in every_setting() if not row.text.strip()]
    assert silent == []


def test_every_key_of_the_results_says_what_it_is():
    text = (DOCS / "reference" / "results.md").read_text()
    silent = [line for line in text.splitlines() if line.startswith("| `") and "|  |" in line[-6:]]
    assert silent == []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="needs mkdocs: pip install 'v6t[dev]'")
    place = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(place)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return place


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_holds_every_page(site):
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix("")
        name = name.parent if name.name == "index" else name
        assert (site / name / "index.html").is_file(), page


@pytest.mark.slow
def test_the_site_fetches_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        for mark in ('src="http', "url(http", 'rel="stylesheet" href="http'):
            assert mark not in text, f"{page.name}: {mark}"


def test_every_page_is_in_the_navigation(site):
    front = (site / "index.html").read_text()
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix("")
        if name.name != "index":
            assert f'href="{name}/"' in front, f"{name} is not in the navigation"
