"""Measure a tester's own error: ``python -m v6t.tools.accuracy --tester embedded``.

The known devices stand in network namespaces, so this needs root and an otherwise idle machine, and takes a
few minutes. An interrupted study continues where it stopped.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from v6t.base.errors import V6tError
from v6t.core.cli.options import RunCommand, resolve_run, run_options
from v6t.core.cli.terminal import print_document
from v6t.tools.accuracy.certify import TECHNOLOGY, certify, check_certifiable
from v6t.tools.accuracy.report import document


@click.command(cls=RunCommand)
@run_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Directory of the results.")
def main(output: Path | None, **given: Any) -> None:
    """Measure the tester's own error in front of devices of known behaviour."""
    if given["run_file"] is None and given["plugin"] is None:
        given["plugin"] = TECHNOLOGY
    try:
        setup = resolve_run(given)
        check_certifiable(setup)
        setup.tester.prepare()
        out = output or Path(f"accuracy-{setup.tester.name}")
        certificate = certify(setup, out, lambda text: print(text, file=sys.stderr))
    except V6tError as exc:
        print(f"{exc.message}\n{exc.hint}", file=sys.stderr)
        sys.exit(exc.exit_code)
    print_document(document(certificate))
    click.echo(f"Results: {out}")


if __name__ == "__main__":
    main()
