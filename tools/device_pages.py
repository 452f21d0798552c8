"""Generated parts of the drivers' pages, and the page of the fault matrix."""

import re

from pydantic import BaseModel
from v6t.core.config.compatibility import (
    accepts_any_technology,
    list_capabilities,
    list_technologies,
)
from v6t.core.config.explain import list_settings
from v6t.core.config.yaml_file import format_yaml
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.options import DutOptions, LinuxOptions
from v6t.drivers.duts.registry import load_driver_type, make_driver
from v6t.drivers.duts.session.plan_steps import format_plan
from v6t.tests.drivers.duts import faults
from v6t.tests.drivers.duts.cases import CASES, Case, plan_case, without_base_steps
from v6t.tools.matrix_page import list_part_families

# Case whose plan is shown on the page of a driver with several cases.
SHOWN_CASE = {
    "linux-router": "linux-router-ipv4",
    "jool": "jool-nat64-4.1.9",
    "vpp": "vpp-mape-26.06",
    "openbsd-pf": "openbsd-pf-nat64-purge",
}
FAULT_OUTCOMES = {
    faults.UNTOUCHED: "nothing was changed",
    faults.RESTORED: "v6t undid all changes, over a new connection if necessary",
    faults.REPORTED: "the device is still configured; the message names the command that undoes it, and "
    "that command works",
    faults.IGNORED: "v6t continues, because the output does not matter here",
}
# Maximum number of lines of a text that is not shortened.
MAX_LINES = 25


def render_device(name: str) -> str:
    """Return capabilities, options, telemetry, and the plan of one case."""
    driver_type = load_driver_type(name)
    is_linux = issubclass(driver_type, LinuxDriver)
    known = ", ".join(f"`{t}`" for t in list_technologies(name)) or "any"
    if parts := list_part_families(name):
        known += "; in a chain: " + ", ".join(f"`{family}`" for family in parts)
    lines = [f"- Technologies: {known}"]
    if driver_type.configures_device and not driver_type.is_chain:
        lines += [
            f"- {row.capitalize()}: {text}"
            for row, text in list_capabilities(name)
            if row not in ("technologies", "options")
        ]
    lines += ["- Tested versions: [status](../status.md#devices)", "", "## Options", ""]
    shared = LinuxOptions if issubclass(driver_type.options_model, LinuxOptions) else DutOptions
    lines += _render_options(driver_type.options_model, shared) or ["None."]
    base = "Linux devices" if is_linux else "devices"
    page = "index.md#options-of-every-" + base.lower().replace(" ", "-").removesuffix("s")
    lines += ["", f"Also: [the options of all {base}]({page}).", *_list_technologies(name)]
    lines += ["", *_render_telemetry(name), "", "## The plan", ""]
    lines += [_introduce_plan(name, is_linux=is_linux), "", "```text", *_render_plan(name), "```"]
    return "\n".join(lines)


def _list_technologies(name: str) -> list[str]:
    driver_type = load_driver_type(name)
    rows = [
        f"| `{technology}` | `{parameter}` | {_format_code(format_yaml(own.value))} "
        f"| {_format_cell(own.reason)} |"
        for technology in list_technologies(name)
        for parameter, own in driver_type({}).get_parameter_overrides(technology).items()
    ]
    head = ["", "## Default parameters", ""]
    table = ["| technology | parameter | value | why |", "|---|---|---|---|"]
    return [*head, *table, *rows] if rows else []


def _render_telemetry(name: str) -> list[str]:
    """List the readings of a device under load, each with its source."""
    case = find_case(name)
    readings = make_driver(name, case.options).get_telemetry_readings(case.intent)
    rows = [
        f"| `{name}` | {_format_cell(reading.description or 'numbers that the command prints')} | "
        f"`{_format_cell(_shorten_command(reading.command))}` |"
        for name, reading in readings.items()
    ]
    figures = "([figures](bottleneck.md#figures))."
    if rows:
        head = ["| reading | figures | command |", "|---|---|---|"]
        text = [f"Read once a second under load {figures}", "", *head, *rows]
    elif name == "chain":
        text = [f"That of the parts' drivers, one after the other {figures}"]
    else:
        text = ["None."]
    return ["## Telemetry", "", *text]


def _shorten_command(command: str) -> str:
    """Shorten a command to its first 86 characters."""
    words = " ".join(command.split())
    return words if len(words) <= 90 else f"{words[:86]} ..."


def render_options(model: type[BaseModel]) -> str:
    """Return the options that all devices, or all Linux devices, have."""
    return "\n".join(_render_options(model, DutOptions if model is LinuxOptions else None))


def _render_options(model: type[BaseModel], shared: type[BaseModel] | None) -> list[str]:
    """Return a table of the options that a model has beyond those of a shared model."""
    known = set(shared.model_fields) - set(model.__annotations__) if shared else set()
    rows = [
        f"| `{row.name}` | {_format_code(row.default)} | {_format_cell(row.text)} |"
        for row in list_settings(model)
        if re.split(r"[.\[]", row.name)[0] not in known
    ]
    return ["| option | default | what it is |", "|---|---|---|", *rows] if rows else []


def find_case(name: str) -> Case:
    """Return the case whose plan is shown for a driver."""
    shown = SHOWN_CASE.get(name)
    return next(c for c in CASES if c.driver == name and shown in (None, c.name))


def _introduce_plan(name: str, *, is_linux: bool) -> str:
    case = find_case(name)
    given = {} if accepts_any_technology(name) else case.options  # otherwise the page shows them
    options = f" with {given}" if given else ""
    text = f"For `{case.intent.technology}`{options}, as `v6t dut plan` prints it"
    if is_linux and name != "linux-router":
        text += "; [what every Linux device needs first](linux-router.md#the-plan) is left out"
    return text + "."


def _render_plan(name: str) -> list[str]:
    case = find_case(name)
    driver, _, plan = plan_case(case.name)
    if not driver.is_chain:
        plan = without_base_steps(driver, case.intent, plan)
    return _shorten_texts(format_plan(driver, plan)).splitlines()


def _shorten_texts(text: str) -> str:
    """Remove the middle of long texts."""

    def shorten(match: re.Match[str]) -> str:
        lines = match[2].splitlines(keepends=True)
        if len(lines) <= MAX_LINES:
            return match[0]
        return f"{match[1]}{''.join(lines[:5])}... ({len(lines) - 5} lines more)\n{match[3]}"

    return re.sub(r"^([^#\n].*<<'END'\n)((?:.*\n)*?)(END)$", shorten, text, flags=re.MULTILINE)


def _format_code(text: str) -> str:
    return f"`{text}`" if text else ""


def _format_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def render_fault_matrix() -> str:
    """Render the matrix as a Markdown page for the documentation."""
    lines = [
        "# Fault matrix",
        "",
        "The state of the device after a fault, by the phase of the fault. Tests against a real sshd",
        "(`tests/drivers/duts/test_faults.py`, `test_logins.py`) try all cells of *connect* and *commit*,",
        "and half of the others. This page is generated from the expected outcomes.",
        "",
        "| fault | " + " | ".join(faults.PHASES) + " |",
        "|---|" + "---|" * len(faults.PHASES),
    ]
    for fault, outcomes in faults.OUTCOMES.items():
        lines.append(f"| {fault} | " + " | ".join(outcomes[p] for p in faults.PHASES) + " |")
    lines += ["", *(f"- **{word}**: {text}" for word, text in FAULT_OUTCOMES.items()), ""]
    lines += [
        "In later phases, *refused*, *authentication failure* and *changed host key* mean that the",
        "connection breaks there and the next one fails in this way.",
        "",
    ]
    return "\n".join(lines)
