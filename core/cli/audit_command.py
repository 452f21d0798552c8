"""``v6t audit``."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from v6t.analysis.sheet import pluralize
from v6t.base.errors import UsageError, V6tError
from v6t.core.cli import options, terminal
from v6t.core.cli.dut_command import resolve_device_run
from v6t.core.cli.terminal import CommandResult, make_result, print_text
from v6t.core.log import print_notice

if TYPE_CHECKING:
    from v6t.audit.auditor import AuditProgress, Selection
    from v6t.audit.record import AuditFinding, AuditRecord
    from v6t.core.audit_device import RunDevice
    from v6t.core.config.run_setup import RunSetup

DEVIATION_STATUS = 6  # exit status: the device deviates from a MUST or SHOULD


def parse_interfaces(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[str, str] | None:
    """Parse the names of two interfaces, separated by a comma."""
    if value is None:
        return None
    left, comma, right = (part.strip() for part in value.partition(","))
    if not comma or not left or not right or "," in right:
        raise UsageError("--interfaces takes two names: LEFT,RIGHT", code="wrong-interface")
    if left == right:
        raise UsageError("--interfaces takes two different interfaces", code="duplicate")
    return left, right


@click.command(cls=options.Command)
@options.device_options
@options.names_option("--suite", "suites", text="Suites to test; default: all that apply.")
@options.names_option("--clause", "clauses", text="Only clauses named with one of these words.")
@options.flag("--no-variants", text="The given configuration only: no other prefixes or pools.")
@click.option("--interfaces", callback=parse_interfaces, metavar="LEFT,RIGHT",
              help="Interfaces of this machine that are cabled to a device elsewhere.")  # fmt: skip
@click.option("--wait", "wait_s", type=options.NumberRange(0.01, 60), default=0.4, show_default=True,
              help="Seconds to wait for the first frame of the device.")  # fmt: skip
@click.option("--timers", type=click.Choice(["short", "minutes", "hours"]), default="short",
              show_default=True, help="Timers to wait for: configured ones; minima of RFCs, up "
              "to 4 minutes; the timer of open TCP connections (2 hours), too.")  # fmt: skip
@options.output_directory_option
@options.all_option
@options.list_option
@options.json_option
def audit_command(
    suites: tuple[str, ...],
    clauses: tuple[str, ...],
    no_variants: bool,
    interfaces: tuple[str, str] | None,
    wait_s: float,
    timers: str,
    output: Path | None,
    show_all: bool,
    list_only: bool,
    **arguments: Any,
) -> CommandResult:
    """Test a device clause by clause for conformance to RFCs.

    Sends single frames and short exchanges, no load. The exit status is 6 if the device deviates from a
    MUST or SHOULD.

    The directory holds audit.json, .html, .md, .xml (JUnit) and frames.pcap. Without --all, clauses to
    which the device conforms are only counted.
    """
    setup = resolve_device_run(arguments, single_frames=True)
    if list_only:
        return _list_clauses(setup, suites, clauses, variants=not no_variants)
    from rich.console import Console
    from v6t.audit.auditor import LASTING_S, AuditProgress, AuditRequest, run_audit
    from v6t.core.audit_device import RunDevice
    from v6t.core.audit_output import make_record, reserve_directory, write_audit, write_record
    from v6t.core.cli.stopping import handle_device_signals
    from v6t.core.runs.events import open_log
    from v6t.core.runs.rundir import find_unused_path

    if interfaces is None:
        setup.tester.prepare()
    out = output or find_unused_path(Path(f"audit-{setup.settings.plugin}-{setup.driver.name}"))
    names = [setup.driver.name]  # followed by name and version once the device is open
    device = RunDevice(setup, interfaces, names.append)
    device, selection = _choose_clauses(device, suites)
    status_line = Console(stderr=True).status("")
    started = time.monotonic()

    def make_current_record(progress: AuditProgress) -> AuditRecord:
        duration_s = round(time.monotonic() - started, 1)
        chosen = [suite.name for suite in selection.suites]
        return make_record(device.setup, names[-1], chosen, duration_s, progress)

    def save_record(progress: AuditProgress) -> None:
        with contextlib.suppress(OSError):  # reported at the end, if it still fails
            write_record(make_current_record(progress), out)

    def show_clause(number: int, planned: int, name: str) -> None:
        status_line.update(f"clause {number} of {planned}: {name}")

    progress = AuditProgress(tested=show_clause, save=save_record)
    request = AuditRequest(clauses, not no_variants, LASTING_S[timers], wait_s)
    with reserve_directory(out), open_log(out):
        with handle_device_signals(setup), status_line:
            error = run_audit(device, selection, request, progress)
        record = make_current_record(progress)
        try:
            write_audit(record, progress.frames, out)
        except (OSError, V6tError) as exc:  # the findings are printed nevertheless
            error = exc

    def raise_error() -> None:
        if error is not None:
            raise error

    status = DEVIATION_STATUS if record.fails or (record.stopped and not record.findings) else 0
    show = partial(_print_record, record, out, show_all)
    return CommandResult(record.to_json, show, status, raise_error)


def _choose_clauses(device: RunDevice, suites: tuple[str, ...]) -> tuple[RunDevice, Selection]:
    """Return the device as the suites require it, and the clauses that apply to it.

    Raises:
        UsageError: no clause applies; the hint names technologies that have some.
    """
    from v6t.audit.auditor import choose_clauses, find_technologies, load_suites
    from v6t.core.config.plugins import list_rows

    try:
        return choose_clauses(device, suites, device.setup.settings.params)
    except UsageError as exc:
        if exc.code == "no-clauses" and not exc.hint:
            kinds = {row.name: row.kind for row in list_rows() if row.kind}
            known = ", ".join(find_technologies(kinds, load_suites(suites)))
            exc.add_hint(f"technologies with clauses: {known}")
        raise


def _list_clauses(
    setup: RunSetup, suites: tuple[str, ...], names: tuple[str, ...], *, variants: bool
) -> CommandResult:
    """Print notices about clauses that are left out, and return a table of the others."""
    from v6t.audit.auditor import AuditRequest, find_uncovered_rfcs, plan_audit
    from v6t.core.audit_device import RunDevice

    device, selection = _choose_clauses(RunDevice(setup), suites)
    for problem, fix in selection.unmet:
        print_notice(f"clauses are left out: {problem}; {fix}")
    request = AuditRequest(names, variants, lasting_s=float("inf"))
    rows = [
        (c.name, f"{c.rfc} {c.section}", c.level, c.title + (f" ({variant})" if variant else ""))
        for variant, clauses in plan_audit(device.technology, selection, request).items()
        for c in clauses
    ]
    if uncovered := find_uncovered_rfcs(device.technology, selection):
        print_notice(f"no clause covers {', '.join(uncovered)}")
    columns = ("clause", "section", "level", "title")
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = (" ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return make_result([dict(zip(columns, row, strict=True)) for row in rows], lines, indent=4)


def _print_record(record: AuditRecord, out: Path, show_all: bool) -> None:
    from v6t.audit.record import count_clauses, make_audit_document, summarize_audit

    if show_all:
        terminal.print_document(make_audit_document(record))
    else:
        suites = ", ".join(record.suites)
        print_text(f"{record.plugin} by {record.device}, suites {suites}, {record.seconds:.0f} s")
        terminal.print_table(count_clauses(record))
        _print_deviations(record)
    print_text(f"\n{summarize_audit(record)}", indent=0)
    print_text(f"Report: {out / 'audit.html'}")


def _print_deviations(record: AuditRecord) -> None:
    """Print a line for each deviation, grouped by the received frame, and the first in full."""
    for verdict in ("deviates", "not testable", "information"):
        groups: dict[str, list[AuditFinding]] = {}
        for finding in record.select(verdict):
            groups.setdefault(finding.got.partition(" (")[0], []).append(finding)
        for got, findings in groups.items():
            count = pluralize(len(findings), "clause")
            verb = "received " if got.startswith("nothing") else ""
            print_text(f"{verdict.capitalize()}, {count}: {verb}{got}", indent=4)
            for f in findings if verdict == "deviates" else ():
                level = f"  {f.rfc} {f.section:<6} {f.level:<6} "
                print_text(f"{level}{f.title}", indent=len(level) - 2)
    for f in record.select("deviates")[:1]:
        print_text(f"First deviation: {f.clause}")
        for name, text in (("sent", f.sent), ("expected", f.expected), ("received", f.got)):
            print_text(f"  {name:<9} {text}", indent=10)
