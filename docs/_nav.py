"""Hooks of mkdocs: navigation, generated pages (`tests/docs/generated_pages.py`) and search."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from v6t.tests.docs.generated_pages import build_pages, fill_page

DOCS = Path(__file__).parent
SECTIONS = {
    "Start": {
        "index.md": "Quick start",
        "reading.md": "Reading results",
        "guides/examples.md": "Examples from practice",
        "troubleshooting.md": "Troubleshooting",
    },
    "Guides": {
        "guides/mape.md": "MAP-E border relay",
        "guides/cgn.md": "CGN",
        "guides/nat64.md": "NAT64 with a pool",
        "guides/two-devices.md": "IPv4aaS with two devices",
        "guides/dns64.md": "DNS64",
        "stateful.md": "Stateful devices",
        "trex.md": "Use an existing TRex",
        "guides/several-servers.md": "Several TRex servers",
        "guides/ssh.md": "A device over SSH",
        "duts/bottleneck.md": "What limits the device",
        "campaigns.md": "Campaigns",
        "guides/compare.md": "Comparison and trend",
        "audit.md": "Audits",
        "guides/ci.md": "CI",
        "python.md": "Results in Python and LaTeX",
        "guides/tuning.md": "Tuning for experts",
    },
    "Technologies": {"plugins/*.md": ""},
    "Devices": {"duts/index.md": "Overview", "duts/*.md": ""},
    "Extend": {
        "tutorials/plugin.md": "Technology",
        "tutorials/driver.md": "Device",
        "tutorials/benchmark.md": "Benchmark",
        "tutorials/tester.md": "Tester",
        "tutorials/audit.md": "Audit row",
        "architecture.md": "Architecture",
        "development.md": "Development",
    },
    "Reference": {
        "reference/commands.md": "Commands",
        "reference/run-file.md": "Run file",
        "reference/testbed-file.md": "Testbed file",
        "reference/campaign-file.md": "Campaign file",
        "reference/results.md": "Results",
        "reference/data-dictionary.md": "Data dictionary",
        "reference/errors.md": "Error codes",
        "operations.md": "Operations",
    },
    "Method": {
        "method.md": "Benchmarks",
        "accuracy.md": "Accuracy",
        "compliance.md": "Compliance",
        "comparison.md": "Other tools",
    },
    "Status": {
        "status.md": "What was tested",
        "matrix.md": "Devices and testers",
        "audit-results.md": "Audits of devices",
        "duts/faults.md": "Fault matrix",
        "results/index.md": "Results of one machine",
    },
}
"""Titles of the pages by section; a page without a title is called by its file name, `*` is all others."""


def on_config(config: Any) -> Any:
    """Set the navigation before mkdocs looks for pages."""
    named = {uri for pages in SECTIONS.values() for uri in pages}
    committed = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    others = sorted((committed | {*build_pages()}) - named)
    config.nav = [
        {section: [entry for uri in pages for entry in _entries(uri, pages[uri], others)]}
        for section, pages in SECTIONS.items()
    ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages, which are not in the repository."""
    for uri, text in build_pages().items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the placeholders of a page by generated sections."""
    return fill_page(markdown)


def on_post_build(config: Any) -> None:
    """Let the search work in a browser that reads the site from disk."""
    search = Path(config.site_dir, "search")
    index = (search / "search_index.json").read_text(encoding="utf-8")
    (search / "index.js").write_text(f"var searchIndex = {index};\n", encoding="utf-8")
    (search / "main.js").write_bytes((DOCS / "search.js").read_bytes())
    for name in ("search_index.json", "worker.js"):
        (search / name).unlink()


def _entries(uri: str, title: str, others: list[str]) -> Iterator[dict[str, str]]:
    """Yield the page, or the pages without an entry in the folder of a pattern."""
    if not uri.endswith("*.md"):
        yield {title: uri}
        return
    for page in others:
        if page.startswith(uri.removesuffix("*.md")) and page.endswith(".md"):
            yield {Path(page).stem: page}
