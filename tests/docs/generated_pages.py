"""Generate pages and sections of the manual for `make docs`."""

import functools
import re
from collections.abc import Callable, Iterator

from v6t.core.config.explain import list_settings
from v6t.core.config.plugins import load_technology_type
from v6t.drivers.duts.options import DutOptions, LinuxOptions
from v6t.tests.bench import bench_search
from v6t.tools import accuracy_page, audits, device_pages, matrix_page, reference_pages

from . import clauses

PLACEHOLDER = re.compile(r"^> Built by `make docs`: (.+)\.$", re.MULTILINE)
DEVICE_PREFIX = "options, telemetry and plan of "
TECHNOLOGY_PREFIX = "parameters of "
SECTIONS: dict[str, Callable[[], str]] = {
    "options of every device": lambda: device_pages.render_options(DutOptions),
    "options of every Linux device": lambda: device_pages.render_options(LinuxOptions),
    "accuracy of the testers": accuracy_page.render_accuracy,
    "planted faults": accuracy_page.render_faults,
    "comparison with other testers": accuracy_page.render_peers,
    "audited devices": audits.render_tables,
    "cells of the matrix": matrix_page.render_tables,
    "comparison of searches": lambda: bench_search.RECORDED.read_text(encoding="utf-8"),
}


@functools.cache
def build_pages() -> dict[str, str]:
    """Return the text of each page that is not committed, by its path below docs."""
    reference = {f"reference/{name}": text for name, text in reference_pages.pages().items()}
    return {
        "compliance.md": clauses.render_page(),
        "duts/faults.md": device_pages.render_fault_matrix(),
        **reference,
    }


def fill_page(text: str) -> str:
    """Replace the placeholders of a committed page by the sections that they name."""
    return PLACEHOLDER.sub(lambda match: render_section(match[1]), text)


def render_section(name: str) -> str:
    """Return the Markdown of a section; an unknown name raises KeyError."""
    if name.startswith(DEVICE_PREFIX):
        return device_pages.render_device(name.removeprefix(DEVICE_PREFIX))
    if name.startswith(TECHNOLOGY_PREFIX):
        return "\n".join(render_parameters(name.removeprefix(TECHNOLOGY_PREFIX)))
    return SECTIONS[name]()


def render_parameters(name: str) -> Iterator[str]:
    """Yield a table of a technology's parameters, with the defaults of nested parameters."""
    yield "| parameter | default | meaning |"
    yield "|---|---|---|"
    rows = list_settings(load_technology_type(name).params_model)
    for row in rows:
        if "." not in row.name:
            nested = [r for r in rows if r.name.startswith(f"{row.name}.") and r.default]
            defaults = [f"{r.name.split('.')[1]} {r.default}" for r in nested]
            default = row.default or ", ".join(defaults)
            text = row.text.replace("|", "\\|")
            yield f"| `{row.name}` | {default} | {text} |"
