"""Publish a campaign: ``python -m v6t.tools.publish CAMPAIGN PAGE``.

Writes Markdown with figures, CSV, and the files that ``v6t compare`` and ``v6t trend`` read. Host names,
addresses of devices and paths are removed.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from v6t.base.errors import V6tError
from v6t.core.runs.rundir import resolve_run_path
from v6t.tools.publish.page import publish_campaign


def main(arguments: Sequence[str] | None = None) -> int:
    """Publish the campaign, print the paths of the written files and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m v6t.tools.publish")
    parser.add_argument("campaign", type=Path, help="directory of a campaign")
    parser.add_argument("page", type=Path, help="directory of the page")
    options = parser.parse_args(arguments)
    try:
        paths = publish_campaign(resolve_run_path(options.campaign), options.page)
    except V6tError as exc:
        print(f"v6t: {exc.message} [{exc.code}]", file=sys.stderr)
        if exc.hint:
            print(f"     {exc.hint}", file=sys.stderr)
        return exc.exit_code
    print(*paths, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
