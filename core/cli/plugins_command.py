"""``v6t plugins``."""

from __future__ import annotations

import json
from typing import Any

import click
from v6t.core.cli.options import plugin_names


@click.command(short_help="list technologies, or show one's parameters")
@click.argument("name", required=False, shell_complete=plugin_names)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(name: str | None, as_json: bool) -> None:
    """List technologies, or show the parameters of one."""
    rows = _one(name) if name else _all()
    if as_json:
        click.echo(json.dumps(rows, indent=1, default=str))
        return
    if isinstance(rows, dict):
        click.echo(f"{rows['name']}: {rows['title']}")
        click.echo(f"{', '.join(rows['rfcs'])}; IPv6 frames are {rows['overhead']} octets longer\n")
        for parameter in rows["parameters"]:
            click.echo(f"  {parameter['name']} = {parameter['default']}")
            click.echo(f"      {parameter['description']}")
        return
    for row in rows:
        text = row["title"] if not row["error"] else f"BROKEN: {row['error']}"
        click.echo(f"{row['name']:<16} {text} [{', '.join(row['rfcs'])}] ({row['distribution']})")


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
    from v6t.core.config.plugins import load_plugin

    plugin = load_plugin(name)
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
                "description": field.description or "",
            }
            for key, field in plugin.params_model.model_fields.items()
        ],
    }


def _default(field: Any) -> Any:
    value = field.get_default(call_default_factory=True)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return value if isinstance(value, (int, bool, type(None))) else str(value)
