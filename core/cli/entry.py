"""Entry point of the ``v6t`` command; it imports the rest where Ctrl-C is handled."""

import atexit
import gc
import os
import sys


def main() -> None:
    """Run the command line in ``sys.argv``."""
    # modules stay in memory: collecting garbage among them takes a fifth of a short command's time
    gc.set_threshold(250_000, 20, 20)
    atexit.register(gc.freeze)
    # the kernel refuses a user namespace to a process with threads, which NumPy's OpenBLAS starts
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from v6t.core.cli import main as command_line
    except KeyboardInterrupt:
        print("v6t: interrupted", file=sys.stderr)
        sys.exit(130)
    command_line.main()


if __name__ == "__main__":
    main()
