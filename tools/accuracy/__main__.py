"""Measure the accuracy of a tester: ``python -m v6t.tools.accuracy --tester embedded``.

The known device stands in network namespaces, so this needs root and an otherwise idle machine, and takes a
few minutes. Repeat the command to continue an interrupted study.
"""

import sys
from pathlib import Path
from typing import Any

import click
from v6t.base.errors import V6tError
from v6t.core.cli.options import RunCommand, resolve_run, run_options
from v6t.core.cli.terminal import print_document
from v6t.tools.accuracy.report import make_document
from v6t.tools.accuracy.study import TECHNOLOGY, check_supported, run_study


@click.command(cls=RunCommand)
@run_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Directory of the results.")
def main(output: Path | None, **given: Any) -> None:
    """Measure the accuracy of the tester in front of a device of known behaviour."""
    if given["run_file"] is None and given["plugin"] is None:
        given["plugin"] = TECHNOLOGY
    try:
        setup = resolve_run(given)
        check_supported(setup)
        setup.tester.prepare()
        out = output or Path(f"accuracy-{setup.tester.name}")
        record = run_study(setup, out, lambda text: print(text, file=sys.stderr))
    except V6tError as exc:
        print(f"{exc.message}\n{exc.hint}", file=sys.stderr)
        sys.exit(exc.exit_code)
    print_document(make_document(record))
    click.echo(f"Results: {out}")


if __name__ == "__main__":
    main()
