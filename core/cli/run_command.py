"""``v6t run``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from v6t.base.errors import TranslationError, UsageError
from v6t.core.cli.options import live_flag, report_flag, resolve_flags, run_flags
from v6t.core.cli.paths import PATH
from v6t.core.cli.settings_flags import Measuring
from v6t.core.cli.verbosity import verbosity_flags
from v6t.core.log import is_verbose, notice

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun


BELOW = 7
"""Exit status if a throughput is below ``--fail-below``."""


def parse_rate(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Parse a frame rate with an optional ``k``, ``M`` or ``G``.

    Raises:
        UsageError: the value is not a positive rate.
    """
    del ctx
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMG]?)", value)
    if found is None or not float(found[1]):
        raise UsageError(
            f"{param.opts[0]} takes a rate in frames/s, not '{value}'",
            "for example 500000, 500k or 1.2M",
            code="wrong-form",
        )
    return float(found[1]) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[found[2]]


@click.command(cls=Measuring, short_help="measure a technology on a device")
@run_flags
@click.option("-o", "--output", type=PATH, help="Directory for the results.")
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table.")
@report_flag
@live_flag
@click.option(
    "--bottleneck",
    is_flag=True,
    help="Afterwards, watch the device at the found throughput and say what limits it.",
)
@click.option(
    "--audit",
    type=click.Choice(["warn", "refuse"]),
    help="First ask the core of `v6t audit`, in seconds: say what deviates, or refuse to measure.",
)
@click.option(
    "--fail-below",
    metavar="RATE",
    callback=parse_rate,
    help="End with status 7 if a throughput is below RATE frames/s per direction, for example 500k.",
)
@click.option("--dry-run", is_flag=True, help="Show trials, time and device settings; do nothing.")
@verbosity_flags
def command(
    output: Path | None,
    as_json: bool,
    report: bool,
    live: str | None,
    bottleneck: bool,
    audit: str | None,
    fail_below: float | None,
    dry_run: bool,
    **given: Any,
) -> int:
    """Measure a technology on a device.

    Without further arguments: the quick preset, a demonstration of about a minute on the
    embedded tester with a reference device. RUN_FILE and --testbed take files that `v6t init`
    writes; flags win over files.
    """
    bound = resolve_flags(given)
    from v6t.core.cli.run_console import carry_out

    if bottleneck:
        from v6t.core.runs.bottleneck import check_watchable

        check_watchable(bound)
    first = "" if audit is None else _asked_first(bound, audit)
    if dry_run:
        from v6t.core.cli.plan_view import show_plan
        from v6t.core.config.checks import check_capabilities
        from v6t.core.runs.bench import make_tester

        check_capabilities(bound, make_tester(bound))  # a plan that cannot be carried out is none
        show_plan(bound, as_json, is_verbose())
        if first:
            click.echo(first, err=as_json)
        return 0
    bound.tester.prepare()
    if audit is not None:
        _check_behaviour(bound, refuse=audit == "refuse")
    path = carry_out(bound, output, as_json, report, bottleneck, live)
    return 0 if fail_below is None else _check_rates(path, fail_below)


def _check_rates(path: Path, least_fps: float) -> int:
    """Name each throughput below a rate; return the exit status."""
    from v6t.core.runs.run_data import load_run

    records = [r for r in load_run(path).records if r.throughput_fps is not None]
    low = [r for r in records if (r.throughput_fps or 0.0) < least_fps]
    lines = [
        f"{record.point}: {record.throughput_fps:,.0f} fps is below {least_fps:,.0f} fps"
        for record in low
    ]
    if not records:
        lines = ["no throughput was measured: --fail-below cannot be checked"]
    for line in lines:
        click.echo(line, err=True)
    return BELOW if low or not records else 0


def _asked_first(bound: BoundRun, audit: str) -> str:
    """Describe what will be asked before the first trial.

    Raises:
        UsageError: nothing can be.
    """
    from v6t.audit.auditor import core_clauses

    if bound.tester.simulates:
        raise UsageError(
            f"the device of the {bound.tester.name} tester is simulated and cannot be audited",
            "leave out --audit, or take --tester embedded",
            code="unsupported-by-tester",
        )
    if bound.driver.absent:
        raise UsageError(
            "an audit needs a device",
            "leave out --audit",
            code="missing-device",
        )
    number = len(core_clauses(bound.technology))
    clauses = f"{number} clause{'s' if number > 1 else ''}"
    then = "ends the run" if audit == "refuse" else "is said"
    return (
        f"audit: the core of `v6t audit`, {clauses}, is asked before the first trial; "
        f"what deviates from a MUST or SHOULD {then}"
    )


def _check_behaviour(bound: BoundRun, *, refuse: bool) -> None:
    """Check the device's behaviour by the core of an audit.

    Raises:
        TranslationError: a MUST or SHOULD is deviated from, and such a device is not to be measured.
    """
    from v6t.audit.auditor import check_core, core_clauses
    from v6t.core.audit_device import BoundDevice
    from v6t.core.cli.stopping import of_device, signals

    with signals(lambda: of_device(bound.settings, "")):
        clauses = core_clauses(bound.technology)
        found = check_core(BoundDevice(bound), clauses)
    grave = [f for f in found if f.fails]
    if grave and refuse:
        words = "; ".join(f"{f.rfc} {f.section}: {f.title}: {f.got}" for f in grave)
        raise TranslationError(
            f"the device deviates: {words}",
            "`v6t audit` shows the frames; --audit warn measures it",
            code="device-deviates",
        )
    if not found:
        notice("audit: the core of what RFCs ask is followed")
