"""``v6t selftest``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from v6t.core.cli.options import resolve_flags, run_flags
from v6t.core.cli.settings_flags import Measuring
from v6t.profiles.errors import UsageError
from v6t.profiles.mixes import sizes_label

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun


@click.command(cls=Measuring, short_help="measure the tester's own capacity")
@run_flags
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--accuracy",
    is_flag=True,
    help="Certify the tester in the lab: known loss, duplicates, order, delays and capacities, "
    "and what it says of them.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Directory for the certificate."
)
def command(as_json: bool, accuracy: bool, output: Path | None, **given: Any) -> None:
    """Measure what the tester itself sends and receives without loss, without a device.

    With --accuracy: its own error, before devices whose behaviour is known; some minutes on a
    machine that does nothing else. Runs with this tester on this machine then quote it. The same
    command continues what was interrupted.
    """
    if output is not None and not accuracy:
        raise UsageError("-o is for the certificate", "say --accuracy as well")
    if accuracy:
        _certify(given, output, as_json)
        return
    bound = resolve_flags(given)
    from v6t.core.runs.selftest import measure_capacities

    bound.tester.prepare()
    rows = measure_capacities(bound, lambda text: print(text, file=sys.stderr))
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        click.echo(
            f"{sizes_label(row['frame_sizes'])} octets, {row['mode']}: "
            f"{row['capacity_fps']:,.0f} fps per direction without loss, "
            f"{row['usable_fps']:,.0f} usable ({row['trials']} trials)" + _bound(row, bound)
        )


def _certify(given: dict[str, Any], output: Path | None, as_json: bool) -> None:
    """The certificate, on the screen and in files."""
    from v6t.analysis.report.certificate import document
    from v6t.core.accuracy.certify import TECHNOLOGY, certify, check_certifiable
    from v6t.core.cli.document_view import print_document

    if given["run_file"] is None and given["plugin"] is None:
        given["plugin"] = TECHNOLOGY  # a tester is certified with the same traffic for all
    bound = resolve_flags(given)
    check_certifiable(bound)
    bound.tester.prepare()
    out = output or Path(f"accuracy-{bound.tester.name}")
    certificate, kept = certify(bound, out, lambda text: print(text, file=sys.stderr))
    if as_json:
        click.echo(json.dumps(certificate.to_json(), indent=1))
        return
    print_document(document(certificate))
    click.echo(f"Certificate: {out}")
    if kept is None:
        click.echo("it could not be kept for later runs: they will say that none was made")


def _bound(row: dict[str, Any], bound: BoundRun) -> str:
    """What was not tried is no limit of the tester."""
    if row["bounded_by"] != "line_rate":
        return ""
    return (
        f"; that is all a line_rate of {bound.settings.line_rate_bps / 1e9:g}G allows: "
        "the tester may do more"
    )
