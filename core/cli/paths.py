"""The type of options and arguments that name a file or directory."""

from pathlib import Path

import click

PATH = click.Path(path_type=Path, readable=False)
"""A path that click does not check: v6t's own errors name the reason and have a code."""
