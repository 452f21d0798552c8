"""Commands that explain v6t: ``v6t plugins``, ``explain``, ``completion`` and ``help``."""

from dataclasses import asdict, replace
from typing import Any

import click
from click.shell_completion import get_completion_class
from v6t.base.errors import ExtensionError, UsageError
from v6t.core.cli import options
from v6t.core.cli.shell_completion import complete_parameter
from v6t.core.cli.terminal import CommandResult, make_result
from v6t.core.config.plugins import list_rows, load_technology_type


@click.command(cls=options.Command)
@click.argument("plugin", required=False, metavar="[NAME]", shell_complete=complete_parameter)
@options.flag("--check", text="Run the conformance suite on the plugin NAME.")
@options.flag("--drivers", text="Show what device drivers can do, or the driver NAME.")
@options.json_option
def plugins_command(plugin: str | None, check: bool, drivers: bool) -> CommandResult:
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
    rows, lines = [], []
    for row in list_rows():
        title, rfcs = (row.kind.title, row.kind.rfcs) if row.kind else ("", ())
        names = {"name": row.name, "distribution": row.distribution}
        rows.append({**names, "title": title, "rfcs": rfcs, "error": row.error})
        text = f"BROKEN: {row.error}" if row.error else f"{title} [{', '.join(rfcs)}]"
        origin = "" if row.distribution == "v6t" else f" ({row.distribution})"
        lines.append(f"{row.name:<16} {text}{origin}")
    return make_result(rows, lines, indent=17)


def _describe_parameters(name: str) -> CommandResult:
    from v6t.base.strict_model import describe_fields
    from v6t.core.config.yaml_file import format_yaml

    plugin = load_technology_type(name)
    texts = describe_fields(plugin.params_model)
    parameters = [
        {"name": key, "default": _format_default(field), "description": texts[key]}
        for key, field in plugin.params_model.model_fields.items()
    ]
    value: dict[str, Any] = {"name": name, "title": plugin.title, "rfcs": list(plugin.rfcs)}
    value |= {"overhead": plugin.overhead, "stateful": plugin.stateful, "parameters": parameters}
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
    if isinstance(value, tuple):
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
    """Return the findings of the conformance suite; the command fails if there are any.

    Raises:
        UsageError: no name is given.
        EnvironmentLacking: hypothesis is not installed.
    """
    from v6t.audit.self_check import check_audit
    from v6t.plugins.conformance import ConformanceFinding, check_plugin

    if name is None:
        message = "the plugin to check is missing"
        raise UsageError(message, "v6t plugins --check NAME", code="missing-setting")
    kind = load_technology_type(name)
    report = check_plugin(kind, entry_point=name)
    problems, note = check_audit(kind) if not report.findings else ([], "")
    more = (ConformanceFinding(f"audit, {where}", "audit", text) for where, text in problems)
    findings, notes = (*report.findings, *more), (*report.notes, *filter(None, [note]))
    report = replace(report, checks=report.checks + 1, findings=findings, notes=notes)
    lines = [f"{finding.where}\n    {finding.text}" for finding in report.findings]
    lines += [f"note: {text}" for text in report.notes]
    if not report.findings:
        lines.append(f"{name} conforms: {report.checks} checks passed")

    def reject_findings() -> None:
        if report.findings:
            counts = f"findings {len(report.findings)}, checks {report.checks}"
            hint = "docs/tutorials/plugin.md describes each check"
            raise ExtensionError(
                f"'{name}' does not conform: {counts}", hint, code="not-conformant"
            )

    return replace(make_result(asdict(report), lines), finish=reject_findings)


@click.command(cls=options.Command)
@click.argument("setting", nargs=-1, metavar="[NAME]...", shell_complete=complete_parameter)
@options.plugin_option
@options.all_option
@options.json_option
def explain_command(setting: tuple[str, ...], plugin: str | None, show_all: bool) -> CommandResult:
    """Explain settings of the run and testbed files, benchmarks, technologies, terms and error codes.

    NAME is a setting, or the start or end of its name (`tester.options`, `tags`); a benchmark
    (`pdv`); a technology, device driver or tester (`mape-br`); a term or title of the tables
    (`P99`, `Frame loss rate`); an error code; or a column or field of a run's files
    (`loss_percent`). Without NAME, all names are listed. With --plugin, the
    technology's parameters are included.
    """
    from v6t.core.config.explain import list_all_settings, list_names, look_up

    if not setting and not show_all:
        groups = list_names(plugin)
        lines = (
            f"{kind}:\n  {', '.join(name for name in names if name.count('.') < 2)}"
            for kind, names in groups.items()
        )
        return make_result(groups, lines, indent=0)
    rows = list(list_all_settings(plugin)) if show_all else look_up(" ".join(setting), plugin)
    lines = []
    for row in rows:
        default = f"; default: {row.default}" if row.default else ""
        lines += [f"{row.name}: {row.kind}{default}", *(f"    {x}" for x in row.text.splitlines())]
    return make_result([*map(asdict, rows)], lines, indent=0)


@click.command(cls=options.Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print shell completion code; for example: eval "$(v6t completion bash)".

    Use zsh the same way; in fish: v6t completion fish | source.
    """
    if completion := get_completion_class(shell):
        click.echo(completion(ctx.find_root().command, {}, "v6t", "_V6T_COMPLETE").source())


@click.command(cls=options.Command)
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_command(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Print the help of COMMAND, for example `v6t help dut plan`, or the list of commands."""
    context, remaining = ctx.find_root(), [*names]
    while remaining and isinstance(context.command, click.Group):
        name, command, remaining = context.command.resolve_command(context, remaining)
        context = click.Context(command or context.command, context, name)
    if remaining:
        hint = f"try: v6t help {' '.join(names[: -len(remaining)])}"
        raise UsageError(f"unknown command '{' '.join(names)}'", hint, code="unknown-command")
    click.echo(context.get_help())
