"""``v6t audit``."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from v6t.base.errors import UsageError
from v6t.core.cli.dut_command import device_flags
from v6t.core.cli.options import NumberRange, names
from v6t.core.cli.paths import PATH
from v6t.core.cli.shell_completion import suites as suites_offered
from v6t.core.cli.verbosity import verbosity_flags
from v6t.core.log import notice

if TYPE_CHECKING:
    from v6t.analysis.records.audit import Audit

DEVIATES = 6
"""Exit status: the device answers, but not as a MUST or SHOULD has it."""


def interface_pair(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[str, str] | None:
    """Two names with a comma between them."""
    del ctx, param
    if value is None:
        return None
    left, comma, right = (part.strip() for part in value.partition(","))
    if not comma or not left or not right or "," in right:
        raise UsageError("--interfaces takes two names: LEFT,RIGHT", code="wrong-interface")
    if left == right:
        raise UsageError("--interfaces takes two interfaces, not one twice", code="duplicate")
    return left, right


@click.command(short_help="ask a device clause by clause whether it behaves as RFCs say")
@device_flags
@click.option(
    "--suite",
    "suites",
    multiple=True,
    callback=names,
    shell_complete=suites_offered,
    metavar="NAMES",
    help="Suites to ask, separated by commas; default: all that apply.",
)
@click.option(
    "--clause",
    "clauses",
    multiple=True,
    callback=names,
    metavar="NAMES",
    help="Only clauses whose name holds one of these words.",
)
@click.option(
    "--no-variants",
    is_flag=True,
    help="The given configuration only: no other prefixes, rules or pools.",
)
@click.option(
    "--interfaces",
    callback=interface_pair,
    metavar="LEFT,RIGHT",
    help="Interfaces of this machine that are cabled to a device elsewhere.",
)
@click.option(
    "--wait",
    type=NumberRange(0.01, 60),
    default=0.4,
    show_default=True,
    help="Seconds to listen where nothing comes.",
)
@click.option(
    "--timers",
    type=click.Choice(["short", "minutes", "hours"]),
    default="short",
    show_default=True,
    help="Timers to wait for: those the device is told as seconds; RFCs' minima up to 4 minutes; "
    "that of open TCP connections (2 hours), too.",
)
@click.option(
    "-o",
    "--output",
    type=PATH,
    help="Directory for audit.json, .html, .md, .xml (JUnit) and frames.pcap.",
)
@click.option("--all", "every", is_flag=True, help="Print the clauses that are followed, too.")
@click.option("--list", "listed", is_flag=True, help="Print the clauses; ask nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@verbosity_flags
def command(
    suites: tuple[str, ...],
    clauses: tuple[str, ...],
    no_variants: bool,
    interfaces: tuple[str, str] | None,
    wait: float,
    timers: str,
    output: Path | None,
    every: bool,
    listed: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Ask a device clause by clause whether it behaves as RFCs say.

    Single frames and short exchanges, no load. Each clause is followed, deviated from, or cannot be
    told. Exit status 6 where a MUST or SHOULD is deviated from.
    """
    from v6t.core.cli.dut_command import resolve_device

    bound = resolve_device(given)
    if listed:
        _list(bound, suites, as_json)
        return 0
    from v6t.core.audit.auditing import LASTING_S, Wanted, audit, reserved, write, write_record
    from v6t.core.audit.device import Listening
    from v6t.core.cli.stopping import of_device, signals
    from v6t.core.runs.log import log_to
    from v6t.core.runs.rundir import unused

    if interfaces is None:
        bound.tester.prepare()
    lasting_s = LASTING_S[timers]
    wanted = Wanted(suites, clauses, not no_variants, interfaces, Listening(wait), lasting_s)
    out = output or unused(Path(f"audit-{bound.settings.plugin}-{bound.driver.name}"))

    def note(record: Audit) -> None:
        with contextlib.suppress(OSError):  # said at the end, if it is so then
            write_record(record, out)

    with reserved(out), log_to(out):
        with signals(lambda: of_device(bound.settings, bound.again)):
            done = audit(bound, wanted, None, note)
        try:
            write(done.record, done.frames, out)
        finally:  # a full disk costs the files, not what minutes of asking have found
            _show(done.record, out, every, as_json)
    if done.trouble is not None:
        raise done.trouble
    return DEVIATES if done.record.fails else 0


def _list(bound: Any, wanted: tuple[str, ...], as_json: bool) -> None:
    """Every clause with its place and level."""
    from v6t.core.audit.auditing import asked_of

    bound, asked = asked_of(bound, wanted)
    for problem, fix in asked.unmet:
        notice(f"clauses are left out: {problem}; {fix}")
    rows = [(c.name, f"{c.rfc} {c.section}", c.level, c.title) for c in asked.clauses]
    for suite, words, _ in asked.variants(bound.technology):
        rows += [
            (c.name, f"{c.rfc} {c.section}", c.level, f"{c.title} ({words})")
            for c in suite.varied(bound.technology, words)
        ]
    if as_json:
        keys = ("clause", "section", "level", "title")
        click.echo(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=1))
        return
    for name, section, level, title in rows:
        click.echo(f"{name:<34} {section:<14} {level:<6} {title}")


def _show(record: Audit, out: Path, every: bool, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(record.to_json(), indent=1))
        return
    from v6t.analysis.report.audit import document
    from v6t.core.cli.document_view import print_document

    print_document(document(record, every=every))
    click.echo(f"Audit: {out}")
