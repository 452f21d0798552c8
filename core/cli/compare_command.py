"""``v6t compare``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from v6t.profiles.errors import UsageError

if TYPE_CHECKING:
    from v6t.analysis.blocks import Document

AUDIT = "audit.json"


@click.command(short_help="compare runs with one another or with published results")
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--anyway", is_flag=True, help="Compare what was measured under other conditions "
              "too, and say which differ.")  # fmt: skip
@click.option("--published", is_flag=True, help="Set published results beside the runs, where "
              "their conditions are the same.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path),
              help="Write an .html, .md or .json file instead.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    directories: tuple[Path, ...],
    anyway: bool,
    published: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """Compare runs with the first of them: differences, their intervals, verdicts in words.

    The word `latest` is the latest run; one directory alone is compared with it.

    Directories of audits (`v6t audit`) are compared clause by clause.

    Only like is compared with like: technology, parameters, frame size, rate convention, loss
    tolerance, trial duration.
    """
    if all((path / AUDIT).is_file() for path in directories):
        _compare_audits(directories, anyway or published, output, as_json)
        return
    from v6t.core.runs.rundir import latest_run, reading

    directories = tuple(map(latest_run, directories))
    if len(directories) == 1 and not published:
        try:
            directories = (*directories, latest_run(None))
        except UsageError:
            directories *= 2
        if directories[0].resolve() == directories[1].resolve():
            raise UsageError("a comparison needs two runs: below ./runs is no later one",
                             "or --published for published results")  # fmt: skip
    with reading(directories[-1]):
        _compare(directories, anyway, published, output, as_json)


def _compare(
    directories: tuple[Path, ...], anyway: bool, published: bool, output: Path | None, as_json: bool
) -> None:
    from v6t.core.reporting.compare import comparison_document, comparison_of, published_document

    if published:
        if as_json or anyway:
            raise UsageError("--published goes with neither --json nor --anyway",
                             "`v6t report --format json` holds published results")  # fmt: skip
        document = published_document(directories)
    else:
        comparison = comparison_of(directories, anyway)
        if as_json:
            click.echo(json.dumps(comparison.to_json(), indent=1))
            return
        if output is not None and output.suffix == ".json":
            _write(output, json.dumps(comparison.to_json(), indent=1) + "\n")
            return
        document = comparison_document(comparison)
    _told(document, output)


def _told(document: Document, output: Path | None) -> None:
    """On the terminal, or in a file."""
    if output is None:
        from v6t.core.cli.document_view import print_document

        print_document(document)
        return
    from v6t.analysis.report.html import to_html
    from v6t.analysis.report.markdown import to_markdown

    render = {".html": to_html, ".md": to_markdown}.get(output.suffix)
    if render is None:
        raise UsageError(f"{output} is no file that can be written", "use .html, .md or .json")
    _write(output, render(document))


def _compare_audits(
    directories: tuple[Path, ...], of_runs: bool, output: Path | None, as_json: bool
) -> None:
    from v6t.analysis.compare.audits import document, to_json
    from v6t.analysis.records.audit import audit_from
    from v6t.profiles.files import read_json

    if of_runs:
        raise UsageError("--published and --anyway are for runs", "audits are compared as they are")
    if len(directories) < 2:
        raise UsageError("a comparison needs two audits", "v6t compare DIRECTORY DIRECTORY")
    audits = [audit_from(read_json(path / AUDIT), str(path / AUDIT)) for path in directories]
    if as_json:
        click.echo(json.dumps(to_json(audits), indent=1))
        return
    if output is not None and output.suffix == ".json":
        _write(output, json.dumps(to_json(audits), indent=1) + "\n")
        return
    _told(document(audits), output)


def _write(path: Path, text: str) -> None:
    from v6t.core.reporting.write import replace_text

    try:
        replace_text(path, text)
    except OSError as exc:
        raise UsageError(f"{path} cannot be written: {exc.strerror}") from exc
    print(path, file=sys.stderr)
