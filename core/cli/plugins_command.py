"""``v6t plugins``."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import click
from v6t.base.errors import ExtensionError, UsageError
from v6t.core.cli.options import Command, complete_parameter, flag, json_option
from v6t.core.cli.terminal import print_json, print_text


@click.command(cls=Command)
@click.argument("plugin", required=False, metavar="[NAME]", shell_complete=complete_parameter)
@flag("--check", text="Run the conformance suite on the plugin NAME.")
@flag("--drivers", text="Show what device drivers can do, or the driver NAME.")
@json_option
def command(plugin: str | None, check: bool, drivers: bool, as_json: bool) -> None:
    """List technologies, show the parameters of one, or check one for conformance."""
    if check and drivers:
        message = "--check is for a plugin"
        raise UsageError(message, "leave --drivers out", code="conflicting-options")
    if check:
        _check_conformance(plugin, as_json)
    elif drivers:
        _show_drivers(plugin, as_json)
    elif plugin:
        _show_technology(plugin, as_json)
    else:
        _print_technologies(as_json)


def _print_technologies(as_json: bool) -> None:
    """Print all technologies with their RFCs."""
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
    if as_json:
        print_json(rows)
        return
    for row in rows:
        text = f"{row['title']} [{', '.join(row['rfcs'])}]"
        if row["error"]:
            text = f"BROKEN: {row['error']}"
        origin = "" if row["distribution"] == "v6t" else f" ({row['distribution']})"
        print_text(f"{row['name']:<16} {text}{origin}", indent=17)


def _show_technology(name: str, as_json: bool) -> None:
    """Print a technology with its parameters."""
    from v6t.base.strict_model import describe_fields
    from v6t.core.config.plugins import load_plugin
    from v6t.core.config.yaml_file import format_yaml

    plugin = load_plugin(name)
    texts = describe_fields(plugin.params_model)
    parameters = [
        {"name": key, "default": _format_default(field), "description": texts[key]}
        for key, field in plugin.params_model.model_fields.items()
    ]
    if as_json:
        print_json(
            {
                "name": name,
                "title": plugin.title,
                "rfcs": list(plugin.rfcs),
                "overhead": plugin.overhead,
                "stateful": plugin.stateful,
                "parameters": parameters,
            }
        )
        return
    longer = ""
    if plugin.overhead:
        version = 6 if plugin.overhead > 0 else 4
        longer = f"; IPv{version} frames are {abs(plugin.overhead)} octets longer"
    print_text(f"{name}: {plugin.title}\n{', '.join(plugin.rfcs)}{longer}\n")
    for parameter in parameters:
        print_text(f"  {parameter['name']}={format_yaml(parameter['default'])}")
        print_text(f"      {parameter['description']}")


def _format_default(field: Any) -> Any:
    """Return a default value in the form that --set takes."""
    value = field.get_default(call_default_factory=True)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, tuple):  # as --set takes it
        return f"[{', '.join(map(str, value))}]"
    return value if isinstance(value, (int, bool, type(None))) else str(value)


def _show_drivers(name: str | None, as_json: bool) -> None:
    """Print the capabilities of one driver, or of all that configure a single device."""
    from v6t.core.config.compatibility import list_capabilities
    from v6t.drivers.duts.registry import list_driver_names, load_driver_type

    kinds = {
        driver: load_driver_type(driver) for driver in ([name] if name else list_driver_names())
    }
    tables = {
        driver: {"title": kind.title, **dict(list_capabilities(driver))}
        for driver, kind in kinds.items()
        if name or (kind.configures_device and not kind.is_chain)
    }
    if as_json:
        print_json(tables)
        return
    for driver, table in tables.items():
        print_text(f"{driver}: {table.pop('title')}")
        for row, text in table.items():
            print_text(f"  {row:<12} {text}")


def _check_conformance(name: str | None, as_json: bool) -> None:
    """Print the findings of the conformance suite.

    Raises:
        UsageError: no name is given.
        EnvironmentLacking: hypothesis is not installed.
        ExtensionError: the plugin does not conform.
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
    if as_json:
        print_json(asdict(report))
    else:
        for finding in report.findings:
            print_text(f"{finding.where}\n    {finding.text}")
        for text in report.notes:
            print_text(f"note: {text}")
    if report.findings:
        raise ExtensionError(
            f"'{name}' does not conform: findings {len(report.findings)}, checks {report.checks}",
            "docs/tutorials/plugin.md describes each check",
            code="not-conformant",
        )
    if not as_json:
        print_text(f"{name} conforms: {report.checks} checks found nothing wrong")
