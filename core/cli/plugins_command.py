"""``v6t plugins``."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import click
from v6t.base.errors import ExtensionError, UsageError
from v6t.core.cli.options import plugin_names
from v6t.core.cli.verbosity import verbosity_flags


@click.command(short_help="list technologies, or show one's parameters")
@click.argument("name", required=False, shell_complete=plugin_names)
@click.option("--check", is_flag=True, help="Run the conformance suite on the plugin NAME.")
@click.option(
    "--drivers", is_flag=True, help="Show what device drivers can do, or the driver NAME."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@verbosity_flags
def command(name: str | None, check: bool, drivers: bool, as_json: bool) -> None:
    """List technologies, show the parameters of one, or check that one conforms."""
    if check and drivers:
        raise UsageError(
            "--check is for a plugin", "leave --drivers out", code="conflicting-options"
        )
    if check:
        _check(name, as_json)
        return
    if drivers:
        _show_drivers(name, as_json)
        return
    rows = _one(name) if name else _all()
    if as_json:
        click.echo(json.dumps(rows, indent=1, default=str))
        return
    if isinstance(rows, dict):
        click.echo(f"{rows['name']}: {rows['title']}")
        click.echo(f"{', '.join(rows['rfcs'])}{_longer(rows['overhead'])}\n")
        for parameter in rows["parameters"]:
            click.echo(f"  {parameter['name']} = {parameter['default']}")
            click.echo(f"      {parameter['description']}")
        return
    for row in rows:
        text = f"{row['title']} [{', '.join(row['rfcs'])}]"
        if row["error"]:
            text = f"BROKEN: {row['error']}"
        click.echo(f"{row['name']:<16} {text} ({row['distribution']})")


def _show_drivers(name: str | None, as_json: bool) -> None:
    """Print the capabilities of one driver, or of all that configure a single device."""
    from v6t.core.config.compatibility import list_capabilities
    from v6t.drivers.duts.registry import driver_type, names

    kinds = {driver: driver_type(driver) for driver in ([name] if name else names())}
    tables = {
        driver: {"title": kind.title, **dict(list_capabilities(driver))}
        for driver, kind in kinds.items()
        if name or (kind.configures and not kind.of_parts)
    }
    if as_json:
        click.echo(json.dumps(tables, indent=1))
        return
    for driver, table in tables.items():
        click.echo(f"{driver}: {table.pop('title')}")
        for row, text in table.items():
            click.echo(f"  {row:<12} {text}")


def _longer(overhead: int) -> str:
    """How the sizes on both links differ."""
    if not overhead:
        return ""
    return f"; IPv{6 if overhead > 0 else 4} frames are {abs(overhead)} octets longer"


def _check(name: str | None, as_json: bool) -> None:
    """Print what the conformance suite finds.

    Raises:
        UsageError: no name.
        EnvironmentLacking: hypothesis is not installed.
        ExtensionError: the plugin does not conform.
    """
    from v6t.audit.self_check import check_audit
    from v6t.core.config.plugins import load_plugin
    from v6t.plugins.conformance import Finding, check

    if name is None:
        raise UsageError(
            "which plugin shall be checked?", "v6t plugins --check NAME", code="missing-setting"
        )
    kind = load_plugin(name)
    report = check(kind, entry=name)
    accusations, note = check_audit(kind) if not report.findings else ([], "")
    report = replace(
        report,
        checks=report.checks + 1,
        findings=(
            *report.findings,
            *(Finding(f"audit, {where}", "audit", text) for where, text in accusations),
        ),
        notes=(*report.notes, *filter(None, [note])),
    )
    if as_json:
        click.echo(json.dumps(asdict(report), indent=1))
    else:
        for finding in report.findings:
            click.echo(f"{finding.where}\n    {finding.said}")
        for note in report.notes:
            click.echo(f"note: {note}")
    if report.findings:
        raise ExtensionError(
            f"'{name}' does not conform: findings {len(report.findings)}, checks {report.checks}",
            "docs/tutorials/plugin.md describes each check",
            code="not-conformant",
        )
    if not as_json:
        click.echo(f"{name} conforms: {report.checks} checks found nothing wrong")


def _all() -> list[dict[str, Any]]:
    from v6t.core.config.plugins import listing

    return [
        {
            "name": row.name,
            "distribution": row.distribution,
            "title": row.kind.title if row.kind else "",
            "rfcs": row.kind.rfcs if row.kind else (),
            "error": row.error,
        }
        for row in listing()
    ]


def _one(name: str) -> dict[str, Any]:
    from v6t.base.strict_model import describe_fields
    from v6t.core.config.plugins import load_plugin

    plugin = load_plugin(name)
    words = describe_fields(plugin.params_model)
    return {
        "name": name,
        "title": plugin.title,
        "rfcs": list(plugin.rfcs),
        "overhead": plugin.overhead,
        "stateful": plugin.stateful,
        "parameters": [
            {
                "name": key,
                "default": _default(field),
                "description": words[key],
            }
            for key, field in plugin.params_model.model_fields.items()
        ],
    }


def _default(field: Any) -> Any:
    value = field.get_default(call_default_factory=True)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, tuple):  # as --set takes it
        return f"[{', '.join(map(str, value))}]"
    return value if isinstance(value, (int, bool, type(None))) else str(value)
