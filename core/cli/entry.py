"""Entry point of the ``v6t`` command; it imports the rest where Ctrl-C is handled."""

import gc
import sys


def main() -> None:
    """Run the command line in ``sys.argv``."""
    # imported modules stay: garbage collection among them takes a twentieth of the start
    gc.set_threshold(250_000, 20, 20)
    try:
        from v6t.core.cli import main as command_line
    except KeyboardInterrupt:
        print("v6t: interrupted", file=sys.stderr)
        sys.exit(130)
    command_line.main()


if __name__ == "__main__":
    main()
