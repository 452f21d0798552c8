"""Hooks of mkdocs: the navigation, and what `tests/docs/built.py` builds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from v6t.tests.docs.built import build_pages, fill

DOCS = Path(__file__).parent
TITLES = {
    **{"index": "Overview", "faults": "Fault matrix", "bottleneck": "What limits the device"},
    **{"plugin": "Write a plugin", "driver": "Write a device driver", "commands": "Commands"},
    **{"benchmark": "Write a benchmark", "tester": "Write a tester"},
    **{"run-file": "Run file", "testbed-file": "Testbed file", "campaign-file": "Campaign file"},
    **{"data-dictionary": "Data dictionary", "results": "Results"},
    **{"stateful": "Stateful devices", "errors": "Error codes"},
    **{"ci": "CI", "tuning": "Tuning for experts", "mape": "MAP-E border relay", "cgn": "CGN"},
    **{"guides/nat64": "NAT64 with a pool", "two-devices": "IPv4aaS with two devices"},
    **{"guides/dns64": "DNS64", "ssh": "A device over SSH", "compare": "Comparison and trend"},
}
FIXED = {
    "index",
    "trex",
    "reading",
    "python",
    "campaigns",
    "method",
    "comparison",
    "architecture",
    "compliance",
    "audit",
    "audit-results",
    "matrix",
    "status",
    "accuracy",
    "troubleshooting",
    "operations",
    "development",
    "stateful",
}


def on_config(config: Any) -> Any:
    """Set the navigation before mkdocs looks for pages."""
    config.nav = [
        {"Quick start": "index.md"},
        {"Use an existing TRex": "trex.md"},
        {"Reading results": "reading.md"},
        {"Stateful devices": "stateful.md"},
        {"Results in Python and in papers": "python.md"},
        {"Campaigns": "campaigns.md"},
        {"Guides": _pages("guides")},
        {"How v6t compares": "comparison.md"},
        {"Architecture": "architecture.md"},
        {"Method": "method.md"},
        {"Compliance": "compliance.md"},
        {"Audits: does the device conform?": "audit.md"},
        {"Audits of devices": "audit-results.md"},
        {"Status: what was tested": "status.md"},
        {"Measured with what": "matrix.md"},
        *(
            [{"Results of one machine": "results/index.md"}]
            if (DOCS / "results/index.md").exists()
            else []
        ),
        {"How accurate": "accuracy.md"},
        {"Troubleshooting": "troubleshooting.md"},
        {"Operations": "operations.md"},
        {"Technologies": _pages("plugins")},
        {"Devices under test": _pages("duts")},
        {"Tutorials": _pages("tutorials")},
        {"Reference": _list_reference()},
        {"Development": "development.md"},
        *_others(),
    ]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages, which are not in the repository."""
    for uri, text in build_pages().items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marks of a page by what they name."""
    return fill(markdown)


def _list_reference() -> list[dict[str, str]]:
    pages = sorted(uri for uri in build_pages() if uri.startswith("reference/"))
    return [{TITLES[Path(uri).stem]: uri} for uri in pages if uri.endswith(".md")]


def _pages(folder: str) -> list[dict[str, str]]:
    found = {*(DOCS / folder).glob("*.md")}
    found |= {DOCS / uri for uri in build_pages() if uri.startswith(f"{folder}/")}
    found = sorted(found, key=lambda p: (p.stem != "index", p.stem))
    return [
        {TITLES.get(f"{folder}/{p.stem}", TITLES.get(p.stem, p.stem)): f"{folder}/{p.name}"}
        for p in found
    ]


def _others() -> list[dict[str, str]]:
    """Pages somebody added: at the end, under the names of their files."""
    found = [p for p in sorted(DOCS.glob("*.md")) if p.stem not in FIXED]
    return [{TITLES.get(p.stem, p.stem): p.name} for p in found]
