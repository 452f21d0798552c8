"""Build the parts and pages of the manual that `make docs` generates."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from v6t.core.config.explain import list_settings
from v6t.core.config.plugins import load_technology_type
from v6t.drivers.duts.options import DutOptions, LinuxOptions
from v6t.tests.bench import bench_search
from v6t.tools import accuracy_page, audits, device_pages, matrix_page, reference_pages

from . import clauses

MARK = re.compile(r"^> Built by `make docs`: (.+)\.$", re.MULTILINE)
DEVICE = "options, telemetry and plan of "
TECHNOLOGY = "parameters of "
PARTS: dict[str, Callable[[], str]] = {
    "options of every device": lambda: device_pages.render_options(DutOptions),
    "options of every Linux device": lambda: device_pages.render_options(LinuxOptions),
    "accuracy of the testers": accuracy_page.render_accuracy,
    "planted faults": accuracy_page.render_faults,
    "comparison with other testers": accuracy_page.render_peers,
    "audited devices": audits.render_tables,
    "cells of the matrix": matrix_page.render_tables,
    "comparison of searches": lambda: bench_search.RECORDED.read_text(encoding="utf-8"),
}


def build_pages() -> dict[str, str]:
    """Return the text of each page that is not committed, by its path in the site's sources."""
    reference = {f"reference/{name}": text for name, text in reference_pages.pages().items()}
    return {
        "compliance.md": clauses.render_page(),
        "duts/faults.md": device_pages.render_fault_matrix(),
        **reference,
    }


def fill(text: str) -> str:
    """Return a committed page with its marks replaced by the parts that they name."""
    return MARK.sub(lambda mark: build_part(mark[1]), text)


def build_part(name: str) -> str:
    """Return the Markdown of one part.

    Raises:
        KeyError: no part has that name.
    """
    if name.startswith(DEVICE):
        return device_pages.render_device(name.removeprefix(DEVICE))
    if name.startswith(TECHNOLOGY):
        return "\n".join(render_parameters(name.removeprefix(TECHNOLOGY)))
    return PARTS[name]()


def render_parameters(name: str) -> Iterator[str]:
    """Yield the rows of a technology's parameters; for a nested one, its default."""
    yield "| parameter | default | meaning |"
    yield "|---|---|---|"
    rows = list_settings(load_technology_type(name).params_model)
    for row in rows:
        if "." not in row.name:
            parts = [r for r in rows if r.name.startswith(f"{row.name}.") and r.default]
            default = row.default or ", ".join(f"{r.name.split('.')[1]} {r.default}" for r in parts)
            text = row.text.replace("|", "\\|")
            yield f"| `{row.name}` | {default} | {text} |"
