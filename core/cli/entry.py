"""Entry point of the ``v6t`` command; it imports the rest where Ctrl-C is handled."""

import sys


def main() -> None:
    """Run the command line in ``sys.argv``."""
    try:
        from v6t.core.cli import main as command_line
    except KeyboardInterrupt:
        print("v6t: interrupted", file=sys.stderr)
        sys.exit(130)
    command_line.main()
