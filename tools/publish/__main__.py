"""Publish a campaign: ``python -m v6t.tools.publish CAMPAIGN PLACE``.

Writes Markdown with figures, CSV, and the files that ``v6t compare`` and ``v6t trend`` read. The page says
what the machine is, not where it is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from v6t.base.errors import V6tError
from v6t.core.runs.rundir import resolve_run_path
from v6t.tools.publish.publish import publish


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page and print the paths of its files; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m v6t.tools.publish")
    parser.add_argument("campaign", type=Path, help="directory of a campaign")
    parser.add_argument("place", type=Path, help="directory of the page")
    given = parser.parse_args(arguments)
    try:
        paths = publish(resolve_run_path(given.campaign), given.place)
    except V6tError as exc:
        print(f"v6t: {exc.message} [{exc.code}]", file=sys.stderr)
        if exc.hint:
            print(f"     {exc.hint}", file=sys.stderr)
        return exc.exit_code
    print(*paths, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
