"""``v6t init``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="write commented example files")
@click.option("--dir", "directory", default=".", show_default=True,
              type=click.Path(path_type=Path), help="Where to write.")  # fmt: skip
def command(directory: Path) -> None:
    """Write run.yaml and testbed.yaml with every setting explained."""
    from v6t.core.examples import write_examples

    for path in write_examples(directory):
        click.echo(path)
    click.echo(f"next: v6t run {directory / 'run.yaml'} --testbed {directory / 'testbed.yaml'}")
