"""``v6t compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from v6t.base.errors import UsageError
from v6t.core.cli.paths import PATH
from v6t.core.cli.verbosity import verbosity_flags

if TYPE_CHECKING:
    from v6t.analysis.compare.comparison import Comparison


WORSE = 7
"""Exit status if a result is worse, as of `v6t trend`."""


@click.command(short_help="compare runs with one another or with published results")
@click.argument("directories", nargs=-1, type=PATH)
@click.option("--anyway", is_flag=True, help="Compare what was measured under other conditions "
              "too, and say which differ.")  # fmt: skip
@click.option("--published", is_flag=True, help="Set published results beside the runs, where "
              "their conditions are the same.")  # fmt: skip
@click.option("-o", "--output", type=PATH,
              help="Write an .html, .md or .json file instead.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@verbosity_flags
def command(
    directories: tuple[Path, ...],
    anyway: bool,
    published: bool,
    output: Path | None,
    as_json: bool,
) -> int:
    """Compare runs with the first of them: differences, their intervals, verdicts in words.

    The word `latest` is the latest run here or below ./runs; one directory alone is compared with it,
    and without any the latest two are.

    Directories of audits (`v6t audit`) are compared clause by clause, those of one technology; campaigns,
    as made or as published, run by run.

    Only like is compared with like: technology, parameters, frame size, rate convention, loss
    tolerance, trial duration.

    Exit status 7: a result is worse than that of the first run.
    """
    from v6t.core.campaigns.together import are_campaigns, compared
    from v6t.core.runs.rundir import AUDIT, latest_run, latest_runs, reading, refuse_absent

    refuse_absent(directories)
    directories = directories or tuple(latest_runs(1 if published else 2))
    if all((path / AUDIT).is_file() for path in directories):
        _compare_audits(directories, anyway, published, output, as_json)
        return 0
    if are_campaigns(directories) and not published:
        return _give(compared(directories, anyway), output, as_json)
    directories = tuple(map(latest_run, directories))
    if len(directories) == 1 and not published:
        try:
            directories = (*directories, latest_run(None))
        except UsageError:
            directories *= 2
        if directories[0].resolve() == directories[1].resolve():
            raise UsageError("a comparison needs two runs, but no later run exists here or below ./runs",
                             "or --published for published results", code="no-such-run")  # fmt: skip
    with reading(directories[-1]):
        return _compare(directories, anyway, published, output, as_json)


def _compare(
    directories: tuple[Path, ...], anyway: bool, published: bool, output: Path | None, as_json: bool
) -> int:
    from v6t.core.cli.document_view import deliver
    from v6t.core.reporting.compare import compare_runs, make_published_document

    if published:
        if as_json or anyway:
            raise UsageError("--published excludes --json and --anyway",
                             "`v6t report --format json` holds published results",
                             code="conflicting-options")  # fmt: skip
        deliver(make_published_document(directories), output)
        return 0
    return _give(compare_runs(directories, anyway), output, as_json)


def _give(found: Comparison, output: Path | None, as_json: bool) -> int:
    """Print or write a comparison and return the exit status."""
    from v6t.core.cli.document_view import give
    from v6t.core.reporting.compare import make_comparison_document

    give(found.to_json, lambda: make_comparison_document(found), output, as_json)
    return WORSE if any(line.improved is False for line in found.lines) else 0


def _compare_audits(
    directories: tuple[Path, ...], anyway: bool, published: bool, output: Path | None, as_json: bool
) -> None:
    from v6t.audit.record import AuditComparison, audit_from
    from v6t.base.files import read_json
    from v6t.core.cli.document_view import give
    from v6t.core.runs.rundir import AUDIT

    if published:
        raise UsageError(
            "--published is for runs", "audits are compared with one another", code="no-such-run"
        )
    if len(directories) < 2:
        raise UsageError(
            "a comparison needs two audits", "v6t compare DIRECTORY DIRECTORY", code="no-such-run"
        )
    audits = [audit_from(read_json(path / AUDIT), str(path / AUDIT)) for path in directories]
    for path, other in zip(directories[1:], audits[1:], strict=True):
        if other.plugin != audits[0].plugin and not anyway:
            raise UsageError(
                f"{directories[0]} and {path} differ: technology {audits[0].plugin}, "
                f"{other.plugin}",
                "--anyway compares them all the same",
                code="not-comparable",
            )
    comparison = AuditComparison(audits)
    give(comparison.to_json, comparison.document, output, as_json)
