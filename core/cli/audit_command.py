"""``v6t audit``."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
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
    from v6t.audit.auditor import AuditProgress, Selection
    from v6t.audit.record import AuditRecord
    from v6t.core.audit_device import BoundDevice
    from v6t.core.config.bound import BoundRun

DEVIATES = 6
"""Exit status: the device deviates from a MUST or SHOULD."""


def interface_pair(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[str, str] | None:
    """Parse two names separated by a comma."""
    del ctx, param
    if value is None:
        return None
    left, comma, right = (part.strip() for part in value.partition(","))
    if not comma or not left or not right or "," in right:
        raise UsageError("--interfaces takes two names: LEFT,RIGHT", code="wrong-interface")
    if left == right:
        raise UsageError("--interfaces takes two interfaces, not one twice", code="duplicate")
    return left, right


@click.command(short_help="test a device clause by clause for conformance to RFCs")
@device_flags
@click.option(
    "--suite",
    "suites",
    multiple=True,
    callback=names,
    shell_complete=suites_offered,
    metavar="NAMES",
    help="Suites to test, separated by commas; default: all that apply.",
)
@click.option(
    "--clause",
    "clauses",
    multiple=True,
    callback=names,
    metavar="NAMES",
    help="Only clauses whose name contains one of these words.",
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
    help="Seconds to wait for the first frame of the device.",
)
@click.option(
    "--timers",
    type=click.Choice(["short", "minutes", "hours"]),
    default="short",
    show_default=True,
    help="Timers to wait for: configured seconds; minima of RFCs up to 4 minutes; the timer of open TCP "
    "connections (2 hours), too.",
)
@click.option(
    "-o",
    "--output",
    type=PATH,
    help="Directory for audit.json, .html, .md, .xml (JUnit) and frames.pcap.",
)
@click.option(
    "--all", "every", is_flag=True, help="Print the clauses to which the device conforms, too."
)
@click.option(
    "--list",
    "listed",
    is_flag=True,
    help="Print the clauses and what they do not cover; send nothing.",
)
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
    """Test a device clause by clause for conformance to RFCs.

    Sends single frames and short exchanges, no load. The exit status is 6 if the device deviates from a
    MUST or SHOULD.
    """
    from v6t.core.cli.dut_command import resolve_device

    bound = resolve_device(given)
    if listed:
        _list(bound, suites, no_variants, as_json)
        return 0
    from v6t.audit.auditor import (
        LASTING_S,
        AuditProgress,
        AuditRequest,
        run_audit,
    )
    from v6t.core.audit_device import BoundDevice
    from v6t.core.audit_output import reserve_directory, write_audit, write_record
    from v6t.core.cli.stopping import of_device, signals
    from v6t.core.runs.log import log_to
    from v6t.core.runs.rundir import find_unused_path

    if interfaces is None:
        bound.tester.prepare()
    out = output or find_unused_path(Path(f"audit-{bound.settings.plugin}-{bound.driver.name}"))
    request = AuditRequest(clauses, not no_variants, LASTING_S[timers], wait)
    names: list[str] = []
    device = BoundDevice(bound, interfaces, names.append)
    device, selection = _choose_clauses(device, suites)
    started = time.monotonic()

    def record(progress: AuditProgress) -> AuditRecord:
        about = names[-1] if names else bound.driver.name
        seconds = round(time.monotonic() - started, 1)
        return make_record(
            device.bound, about, [s.name for s in selection.suites], seconds, progress
        )

    def save(progress: AuditProgress) -> None:
        with contextlib.suppress(OSError):  # reported at the end, if it still fails
            write_record(record(progress), out)

    with reserve_directory(out), log_to(out):
        with (
            signals(lambda: of_device(bound.settings, bound.rollback_command)),
            _live_line() as show,
        ):
            progress = AuditProgress(tested=show, save=save)
            error = run_audit(device, selection, request, progress)
        made = record(progress)
        try:
            write_audit(made, progress.frames, out)
        finally:  # if the disk is full, the findings are printed all the same
            _show(made, out, every, as_json)
    if error is not None:
        raise error
    return DEVIATES if made.fails or (made.stopped and not made.findings) else 0


@contextlib.contextmanager
def _live_line() -> Iterator[Any]:
    """Show the number and name of the clause on a terminal."""
    from v6t.core.cli.stopping import CLEAR_LINE

    terminal = sys.stderr.isatty()

    def write(text: str) -> None:
        if terminal:
            with contextlib.suppress(OSError):
                print(f"{CLEAR_LINE}{text}", end="\r", file=sys.stderr, flush=True)

    try:
        yield lambda number, planned, name: write(f"clause {number} of {planned}: {name}")
    finally:
        write("")


def make_record(
    bound: BoundRun, about: str, suites: Sequence[str], seconds: float, progress: AuditProgress
) -> AuditRecord:
    """Return the record of what was tested so far."""
    from v6t.audit.record import SCHEMA, AuditRecord
    from v6t.core.runs.manifest import commit, utc_now

    return AuditRecord(
        schema=SCHEMA,
        version=version("v6t"),
        source_commit=commit(),
        made=utc_now(),
        plugin=bound.settings.plugin,
        params=json.loads(bound.technology.params.model_dump_json()),
        driver=bound.driver.name,
        device=about,
        suites=list(suites),
        seconds=seconds,
        planned=progress.planned,
        stopped=progress.stopped,
        findings=progress.findings,
    )


def _choose_clauses(device: BoundDevice, wanted: tuple[str, ...]) -> tuple[BoundDevice, Selection]:
    """Choose the clauses for a device.

    Raises:
        UsageError: none applies; the hint names technologies that have some.
    """
    from v6t.audit.auditor import choose_clauses, find_technologies, load_suites
    from v6t.core.config.plugins import listing

    try:
        return choose_clauses(device, wanted, device.bound.settings.params)
    except UsageError as exc:
        if exc.code != "no-clauses" or exc.hint:
            raise
        kinds = {row.name: row.kind for row in listing() if row.kind}
        hint = (
            f"technologies with clauses: {', '.join(find_technologies(kinds, load_suites(wanted)))}"
        )
        raise UsageError(exc.message, hint, code=exc.code) from None


def _list(bound: BoundRun, wanted: tuple[str, ...], no_variants: bool, as_json: bool) -> None:
    """Print every clause with its section and level, and the RFCs without clauses."""
    from v6t.audit.auditor import AuditRequest, find_uncovered_rfcs, plan_audit
    from v6t.core.audit_device import BoundDevice

    device, selection = _choose_clauses(BoundDevice(bound), wanted)
    for problem, fix in selection.unmet:
        notice(f"clauses are left out: {problem}; {fix}")
    request = AuditRequest(variants=not no_variants, lasting_s=float("inf"))
    rows = [
        (c.name, f"{c.rfc} {c.section}", c.level, c.title + (f" ({variant})" if variant else ""))
        for variant, clauses in plan_audit(device.technology, selection, request).items()
        for c in clauses
    ]
    uncovered = find_uncovered_rfcs(device.technology, selection)
    if uncovered:
        notice(f"no clauses exist for {', '.join(uncovered)}")
    if as_json:
        keys = ("clause", "section", "level", "title")
        click.echo(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=1))
        return
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:3]]
    for *cells, title in rows:
        aligned = (f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
        click.echo(" ".join([*aligned, title]))


def _show(record: AuditRecord, out: Path, every: bool, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(record.to_json(), indent=1))
        return
    from v6t.audit.record import audit_document
    from v6t.core.cli.document_view import print_document

    print_document(audit_document(record, every=every))
    click.echo(f"Audit: {out}")
