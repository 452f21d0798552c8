"""``v6t plugins``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import click
from v6t.base.errors import ExtensionError, UsageError
from v6t.core.cli.options import Command, complete_parameter, flag, json_option
from v6t.core.cli.terminal import CommandResult, make_result


@click.command(cls=Command)
@click.argument("plugin", required=False, metavar="[NAME]", shell_complete=complete_parameter)
@flag("--check", text="Run the conformance suite on the plugin NAME.")
@flag("--drivers", text="Show what device drivers can do, or the driver NAME.")
@json_option
def command(plugin: str | None, check: bool, drivers: bool) -> CommandResult:
    """List technologies, show the parameters of one, or check one for conformance."""
    if check and drivers:
        message = "--check is for a plugin"
        raise UsageError(message, "leave --drivers out", code="conflicting-options")
    if check:
        return _check_conformance(plugin)
    if drivers:
        return _describe_drivers(plugin)
    return _describe_parameters(plugin) if plugin else _list_technologies()


def _list_technologies() -> CommandResult:
    """Return all technologies with their RFCs."""
    from v6t.core.config.plugins import list_rows

    rows = [
        {
            "name": row.name,
            "distribution": row.distribution,
            "title": row.kind.title if row.kind else "",
            "rfcs": row.kind.rfcs if row.kind else (),
            "error": row.error,
        }
        for row in list_rows()
    ]
    return make_result(rows, map(_describe_technology, rows), indent=17)


def _describe_technology(row: Mapping[str, Any]) -> str:
    """Return a line about a technology, or about the error that keeps it from being used."""
    text = f"{row['title']} [{', '.join(row['rfcs'])}]"
    if row["error"]:
        text = f"BROKEN: {row['error']}"
    origin = "" if row["distribution"] == "v6t" else f" ({row['distribution']})"
    return f"{row['name']:<16} {text}{origin}"


def _describe_parameters(name: str) -> CommandResult:
    """Return a technology with its parameters."""
    from v6t.base.strict_model import describe_fields
    from v6t.core.config.plugins import load_plugin
    from v6t.core.config.yaml_file import format_yaml

    plugin = load_plugin(name)
    texts = describe_fields(plugin.params_model)
    parameters = [
        {"name": key, "default": _format_default(field), "description": texts[key]}
        for key, field in plugin.params_model.model_fields.items()
    ]
    value = {
        "name": name,
        "title": plugin.title,
        "rfcs": list(plugin.rfcs),
        "overhead": plugin.overhead,
        "stateful": plugin.stateful,
        "parameters": parameters,
    }
    longer = ""
    if plugin.overhead:
        version = 6 if plugin.overhead > 0 else 4
        longer = f"; IPv{version} frames are {abs(plugin.overhead)} octets longer"
    lines = [f"{name}: {plugin.title}", f"{', '.join(plugin.rfcs)}{longer}", ""]
    for parameter in parameters:
        lines.append(f"  {parameter['name']}={format_yaml(parameter['default'])}")
        lines.append(f"      {parameter['description']}")
    return make_result(value, lines)


def _format_default(field: Any) -> Any:
    """Return a default value in the form that --set takes."""
    value = field.get_default(call_default_factory=True)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, tuple):  # as --set takes it
        return f"[{', '.join(map(str, value))}]"
    return value if isinstance(value, (int, bool, type(None))) else str(value)


def _describe_drivers(name: str | None) -> CommandResult:
    """Return the capabilities of one driver, or of all that configure a single device."""
    from v6t.core.config.compatibility import list_capabilities
    from v6t.drivers.duts.registry import list_driver_names, load_driver_type

    tables = {}
    for driver in [name] if name else list_driver_names():
        kind = load_driver_type(driver)
        if name or (kind.configures_device and not kind.is_chain):
            tables[driver] = {"title": kind.title, **dict(list_capabilities(driver))}
    lines = (
        f"{driver}: {text}" if row == "title" else f"  {row:<12} {text}"
        for driver, table in tables.items()
        for row, text in table.items()
    )
    return make_result(tables, lines)


def _check_conformance(name: str | None) -> CommandResult:
    """Return the findings of the conformance suite; they end with an error if there are some.

    Raises:
        UsageError: no name is given.
        EnvironmentLacking: hypothesis is not installed.
    """
    from v6t.audit.self_check import check_audit
    from v6t.core.config.plugins import load_plugin
    from v6t.plugins.conformance import Finding, check_plugin

    if name is None:
        message = "which plugin shall be checked?"
        raise UsageError(message, "v6t plugins --check NAME", code="missing-setting")
    kind = load_plugin(name)
    report = check_plugin(kind, entry_point=name)
    problems, note = check_audit(kind) if not report.findings else ([], "")
    findings = (Finding(f"audit, {where}", "audit", text) for where, text in problems)
    report = replace(
        report,
        checks=report.checks + 1,
        findings=(*report.findings, *findings),
        notes=(*report.notes, *filter(None, [note])),
    )
    lines = [f"{finding.where}\n    {finding.text}" for finding in report.findings]
    lines += [f"note: {text}" for text in report.notes]
    if not report.findings:
        lines.append(f"{name} conforms: {report.checks} checks found nothing wrong")

    def raise_findings() -> None:
        """Raise an error if the plugin does not conform."""
        if report.findings:
            raise ExtensionError(
                f"'{name}' does not conform: findings {len(report.findings)}, checks {report.checks}",
                "docs/tutorials/plugin.md describes each check",
                code="not-conformant",
            )

    return replace(make_result(asdict(report), lines), finish=raise_findings)
