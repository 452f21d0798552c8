"""The parts of the drivers' pages that are the code's own words.

``python -m v6t.tests.drivers.duts.pages`` writes them anew into ``docs/duts``; the rest of each
page is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from v6t.core.config.compatibility import (
    accepts_any,
    list_capabilities,
    part_families,
    technologies_for,
)
from v6t.core.config.explain import as_yaml, settings_of
from v6t.core.runs.dut import format_plan
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.options import DutOptions, LinuxOptions
from v6t.drivers.duts.registry import driver_type, make_driver, names

from . import faults
from .cases import CASES

DOCS = Path(__file__).parents[3] / "docs" / "duts"
BEGIN, END = "<!-- begin: written from the code -->", "<!-- end -->"
SHOWN = {
    "linux-router": "linux-router-ipv4",
    "jool": "jool-nat64-4.1.9",
    "vpp": "vpp-mape-26.06",
    "openbsd-pf": "openbsd-pf-nat64-purge",
}
"""The case whose plan is on the page, where the driver has several."""
LONG = 25
"""Texts of more lines are shortened."""
SHARED = {
    "DutOptions": set(DutOptions.model_fields),
    "LinuxOptions": set(LinuxOptions.model_fields),
}


def generated(name: str) -> str:
    """Versions, what was executed, own options, and the plan of one case."""
    made = driver_type(name)
    linux = issubclass(made, LinuxDriver)
    known = ", ".join(f"`{t}`" for t in technologies_for(name)) or "any"
    if parts := part_families(name):
        known += "; in a chain: " + ", ".join(f"`{family}`" for family in parts)
    lines = [BEGIN, "", f"- Technologies: {known}"]
    if made.configures and not made.of_parts:
        lines += [
            f"- {row.capitalize()}: {text}"
            for row, text in list_capabilities(name)
            if row not in ("technologies", "options")
        ]
    lines += [f"- Executed: {made.executed}", "", "## Options of its own", ""]
    shared = SHARED[
        "LinuxOptions" if issubclass(made.options_model, LinuxOptions) else "DutOptions"
    ]
    own = [
        row
        for row in settings_of(made.options_model)
        if row.name.partition(".")[0].partition("[")[0] not in shared
        or row.name in made.options_model.__annotations__
    ]
    if own:
        lines += ["| option | default | what it is |", "|---|---|---|"]
        lines += [f"| `{row.name}` | {_code(row.default)} | {_cell(row.text)} |" for row in own]
    else:
        lines.append("None.")
    base = "Linux devices" if linux else "devices"
    page = "index.md#options-of-every-" + base.lower().replace(" ", "-").removesuffix("s")
    lines += ["", f"Besides: [those of all {base}]({page}).", *_suited(name)]
    lines += ["", *_telemetry(name), "", "## The plan", ""]
    lines += [_words(name, linux=linux), "", "```text", *_plan(name), "```", "", END]
    return "\n".join(lines)


def _suited(name: str) -> list[str]:
    kind = driver_type(name)
    rows = [
        f"| `{technology}` | `{parameter}` | {_code(as_yaml(own.value))} | {_cell(own.why)} |"
        for technology in technologies_for(name)
        for parameter, own in kind({}).parameter_overrides(technology).items()
    ]
    head = ["", "## Parameters that it sets where none are given", ""]
    table = ["| technology | parameter | value | why |", "|---|---|---|---|"]
    return [*head, *table, *rows] if rows else []


def _telemetry(name: str) -> list[str]:
    """What it is asked for under load, each with where it comes from."""
    case = case_of(name)
    known = make_driver(name, case.options).telemetry(case.intent)
    head = [
        "## Telemetry",
        "",
        "Every second under load; [what becomes of it](index.md#telemetry).",
    ]
    rows = [
        f"| `{reading}` | {_cell(found.means or 'numbers that the command prints')} | "
        f"`{_cell(_brief(found.command))}` |"
        for reading, found in known.items()
    ]
    if not rows:
        parts = "That of its parts' drivers, watched one after the other; [what becomes of it](index.md#telemetry)."
        return ["## Telemetry", "", parts if name == "chain" else "None."]
    return [*head, "", "| reading | figures | command |", "|---|---|---|", *rows]


def _brief(command: str) -> str:
    """A command, of a whole script its beginning."""
    words = " ".join(command.split())
    return words if len(words) <= 90 else f"{words[:86]} ..."


def shared(model: type[DutOptions]) -> str:
    """The table of options that all devices, or all Linux devices, have."""
    above = SHARED["DutOptions"] if model is LinuxOptions else set()
    lines = ["| option | default | what it is |", "|---|---|---|"]
    for row in settings_of(model):
        if row.name.partition(".")[0] not in above:
            lines.append(f"| `{row.name}` | {_code(row.default)} | {_cell(row.text)} |")
    return "\n".join(lines)


def page_of(name: str, text: str) -> str:
    """A page with its generated part renewed."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return pattern.sub(lambda _: generated(name), text, count=1)


def index_of(text: str) -> str:
    """The first page with both tables of options renewed."""
    for model in (DutOptions, LinuxOptions):
        mark = f"<!-- begin: {model.__name__} -->"
        pattern = re.compile(f"{re.escape(mark)}.*?{re.escape(END)}", re.DOTALL)
        body = f"{mark}\n\n{shared(model)}\n\n{END}"
        text = pattern.sub(lambda _, body=body: body, text, count=1)
    return text


def case_of(name: str):
    """The case whose plan is shown."""
    wanted = SHOWN.get(name)
    return next(c for c in CASES if c.driver == name and wanted in (None, c.name))


def _words(name: str, *, linux: bool) -> str:
    case = case_of(name)
    given = {} if accepts_any(name) else case.options  # else they are on the page
    options = f" with {given}" if given else ""
    text = f"For `{case.intent.technology}`{options}, as `v6t dut plan` prints it"
    if linux and name != "linux-router":
        text += "; [what every Linux device needs first](linux-router.md#the-plan) is left out"
    return text + "."


def _plan(name: str) -> list[str]:
    case = case_of(name)
    driver = make_driver(name, case.options)
    facts = driver.example(case.intent)
    plan = driver.plan(case.intent, facts)
    if isinstance(driver, LinuxDriver) and name != "linux-router":
        before = {s.set for s in driver.base(case.intent, facts)}
        plan = replace(plan, steps=tuple(s for s in plan.steps if s.set not in before))
    return list(_shortened(format_plan(driver, plan).splitlines()))


def _shortened(lines: list[str]) -> Iterator[str]:
    """Without the middle of long texts."""
    held: list[str] | None = None
    for line in lines:
        if held is None:
            yield line
            held = [] if line.endswith("<<'END'") and not line.startswith("#") else None
            continue
        if line != "END":
            held.append(line)
            continue
        yield from held if len(held) <= LONG else [*held[:5], f"... ({len(held) - 5} lines more)"]
        yield line
        held = None


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def main() -> None:
    """Write what the code says into the pages that are there."""
    (DOCS / "faults.md").write_text(faults.table(), encoding="utf-8")
    index = DOCS / "index.md"
    index.write_text(index_of(index.read_text(encoding="utf-8")), encoding="utf-8")
    for name in names():
        path = DOCS / f"{name}.md"
        if path.exists():
            path.write_text(page_of(name, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
