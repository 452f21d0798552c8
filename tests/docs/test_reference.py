"""The generated reference is complete, links lead to pages, and the site builds."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from v6t.core.cli.main import COMMANDS
from v6t.core.config.explain import list_all_settings

from .generated_pages import build_pages
from .pages import CHECKOUT, DOCS, list_pages

LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)[^)]*\)")


@pytest.fixture(scope="module")
def generated():
    return build_pages()


def test_reference_has_every_command(generated):
    headings = re.findall(r"^## v6t (\S+)$", generated["reference/commands.md"], re.MULTILINE)
    assert headings == list(COMMANDS)


def test_reference_has_every_setting(generated):
    pages = ("run", "testbed", "campaign")
    text = "".join(generated[f"reference/{page}-file.md"] for page in pages)
    shown = set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE))
    assert {row.name.removeprefix("procedure.") for row in list_all_settings()} - shown == set()


def test_settings_have_descriptions():
    assert [row.name for row in list_all_settings() if not row.text.strip()] == []


def test_result_keys_have_descriptions(generated):
    lines = generated["reference/results.md"].splitlines()
    assert [line for line in lines if line.startswith("| `") and "|  |" in line[-6:]] == []


def test_links_of_committed_pages_lead_to_committed_files():
    broken = [
        f"{page.relative_to(CHECKOUT)}: {target}"
        for page in list_pages()
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_links_of_generated_pages_lead_to_pages(generated):
    for uri, text in generated.items():
        for target in LINK.findall(text):
            path = os.path.normpath(os.path.join(os.path.dirname(uri), target))
            assert path in generated or (DOCS / path).is_file(), f"{uri}: {target}"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="needs mkdocs: pip install 'v6t[dev]'")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    home = tmp_path_factory.mktemp("site")
    build(load_config(str(CHECKOUT / "mkdocs.yml"), strict=True, site_dir=str(home)))
    return home


@pytest.mark.slow
def test_site_builds_without_warning_and_has_every_page(site, generated):
    committed = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    for page in {*committed, *(uri for uri in generated if uri.endswith(".md"))}:
        assert (site / page).with_suffix(".html").is_file(), page


@pytest.mark.slow
def test_site_fetches_nothing_from_other_hosts(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        for mark in ('src="http', "url(http", 'rel="stylesheet" href="http'):
            assert mark not in text, f"{page.name}: {mark}"


def test_pages_are_in_navigation(site, generated):
    front = (site / "index.html").read_text()
    committed = [page.relative_to(DOCS) for page in DOCS.rglob("*.md")]
    for page in [*committed, *(Path(uri) for uri in generated if uri.endswith(".md"))]:
        link = page.with_suffix(".html")
        assert f'href="{link}"' in front or page.name == "index.md", f"{page}: not in navigation"


@pytest.mark.slow
def test_search_works_in_browser_for_site_on_disk(site, tmp_path):
    browser = shutil.which("chromium")
    if not browser:
        pytest.skip("needs chromium: apt-get install chromium")
    done = subprocess.run(
        [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000",
         f"--user-data-dir={tmp_path}", "--dump-dom", f"file://{site}/search.html?q=rollback"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    matches = re.findall(r'<article><h3><a href="([^"]+)"', done.stdout)
    assert "./duts/index.html#how-v6t-restores-the-device" in matches
