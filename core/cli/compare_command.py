"""``v6t compare``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from v6t.base.errors import UsageError
from v6t.core.cli.options import PATH_TYPE, Command, flag, json_option, output_option
from v6t.core.cli.terminal import CommandResult, make_document_result
from v6t.core.log import is_verbose

if TYPE_CHECKING:
    from v6t.analysis.blocks import ReportDocument
    from v6t.analysis.compare.comparison import RunComparison
    from v6t.analysis.rundata import RunData
    from v6t.audit.record import AuditComparison

WORSE_STATUS = 7  # exit status: a result is worse
TOO_FEW_RUNS_MESSAGE = "a comparison needs two runs, but no later run exists here or below ./runs"


@click.command(cls=Command)
@click.argument("directories", nargs=-1, type=PATH_TYPE)
@flag("--anyway", text="Compare runs under different conditions, too, and print the differences.")
@flag("--published", text="Print published results under the same conditions next to the runs.")
@output_option
@json_option
def command(
    directories: tuple[Path, ...], anyway: bool, published: bool, output: Path | None
) -> CommandResult:
    """Compare each run with the first one: print differences, confidence intervals and verdicts.

    The word `latest` is the latest run here or below ./runs; one directory alone is compared with it,
    and without any the latest two are.

    Directories of audits (`v6t audit`) are compared clause by clause, those of one technology; campaigns,
    as made or as published, run by run.

    Only like is compared with like: technology, parameters, frame size, rate convention, loss
    tolerance, trial duration.

    The file of -o is .html, .md or .json.

    Exit status 7: a result is worse than that of the first run. With -v: the intervals, too.
    """
    from v6t.core.campaigns.results import are_campaigns, compare_campaigns
    from v6t.core.reporting.compare import compare_runs, make_published_document
    from v6t.core.runs.rundir import (
        AUDIT,
        check_paths_exist,
        find_latest_runs,
        report_damage,
        resolve_run_path,
    )

    check_paths_exist(directories)
    directories = directories or tuple(find_latest_runs(1 if published else 2))
    are_audits = all((path / AUDIT).is_file() for path in directories)
    if published and (anyway or are_audits):
        raise UsageError(
            "--published is for runs, and excludes --anyway",
            code="conflicting-options",
        )
    if are_audits:
        audits = _compare_audits(directories, anyway)
        return make_document_result(audits.document, output, audits.to_json)
    if published:
        directories = tuple(map(resolve_run_path, directories))

        def make_document() -> ReportDocument:
            """Return the published results next to those of the runs."""
            with report_damage(directories[-1]):
                return make_published_document(directories)

        return make_document_result(make_document, output)
    if are_campaigns(directories):
        return make_comparison_result(compare_campaigns(directories, anyway), output)
    directories = tuple(map(resolve_run_path, directories))
    if len(directories) == 1:
        try:
            directories = (*directories, resolve_run_path(None))
        except UsageError:
            directories *= 2
        if directories[0].resolve() == directories[1].resolve():
            raise UsageError(
                TOO_FEW_RUNS_MESSAGE, "or --published for published results", code="no-such-run"
            )
    with report_damage(directories[-1]):
        from v6t.core.runs.results import load_run

        runs = [*map(load_run, directories)]
        return make_comparison_result(compare_runs(runs, anyway), output, directories, runs)


def make_comparison_result(
    comparison: RunComparison,
    output: Path | None = None,
    directories: Sequence[Path] = (),
    runs: Sequence[RunData] = (),
) -> CommandResult:
    """Return a comparison as result; write it to a file, if one is given."""
    from v6t.core.reporting.compare import make_brief_document, make_comparison_document

    make_document = partial(make_brief_document, comparison, directories)
    if output or is_verbose():
        make_document = partial(make_comparison_document, comparison, runs)
    status = WORSE_STATUS if any(line.improved is False for line in comparison.lines) else 0
    return make_document_result(make_document, output, comparison.to_json, status)


def _compare_audits(directories: tuple[Path, ...], anyway: bool) -> AuditComparison:
    """Compare audits of one technology clause by clause."""
    from v6t.audit.record import AuditComparison, audit_from
    from v6t.base.files import read_json
    from v6t.core.runs.rundir import AUDIT

    if len(directories) < 2:
        message = "a comparison needs two audits"
        raise UsageError(message, "v6t compare DIRECTORY DIRECTORY", code="no-such-run")
    audits = [audit_from(read_json(path / AUDIT), str(path / AUDIT)) for path in directories]
    for path, audit in zip(directories[1:], audits[1:], strict=True):
        if audit.plugin != audits[0].plugin and not anyway:
            raise UsageError(
                f"{directories[0]} and {path} differ: technology {audits[0].plugin}, "
                f"{audit.plugin}",
                "--anyway compares them all the same",
                code="not-comparable",
            )
    return AuditComparison(audits)
