"""Logging: one handler for the screen, and one for each log file in use.

Library code only calls ``logging.getLogger(__name__)``. Records of worker processes are not collected.
"""

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator

from v6t.base.log_levels import NOTICE
from v6t.base.text import escape_controls
from v6t.drivers.transport.redaction import redact_values

QUIET, NORMAL, VERBOSE, DEBUG = -1, 0, 1, 2
_LEVELS = {QUIET: logging.WARNING, NORMAL: NOTICE, VERBOSE: logging.INFO, DEBUG: logging.DEBUG}
_ROOT = logging.getLogger("v6t")  # parent of all loggers

LineWriter = Callable[[str], None]  # function that prints a line


class LineHandler(logging.Handler):
    """Handler that passes each record, without secrets and control characters, to a function."""

    def __init__(self, write: LineWriter, level: int) -> None:
        super().__init__(level)
        self.write = write

    def emit(self, record: logging.LogRecord) -> None:
        self.write(sanitize_text(record.getMessage()))


def sanitize_text(text: str) -> str:
    """Return text with secrets removed and control characters other than tabs made visible."""
    return "\t".join(escape_controls(part) for part in redact_values(text).split("\t"))


def print_to_stderr(text: str) -> None:
    """Print a line to standard error; ignore failures, because the terminal may be gone."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


_stderr_handler = LineHandler(print_to_stderr, NOTICE)


def configure_verbosity(verbosity: int) -> None:
    """Set the verbosity on standard error: ``QUIET``, ``NORMAL``, ``VERBOSE`` or ``DEBUG``."""
    _stderr_handler.setLevel(_LEVELS[max(QUIET, min(verbosity, DEBUG))])
    if _stderr_handler not in _ROOT.handlers:
        _ROOT.addHandler(_stderr_handler)
    _set_level()


def is_quiet() -> bool:
    """Return whether only results, paths and errors are printed."""
    return _stderr_handler.level > NOTICE


def is_verbose() -> bool:
    """Return whether details are printed."""
    return _stderr_handler.level < NOTICE


def list_verbosity_flags() -> list[str]:
    """Return the command line flags that give a child process the same verbosity."""
    level = _stderr_handler.level
    return {logging.WARNING: ["-q"], logging.INFO: ["-v"], logging.DEBUG: ["-vv"]}.get(level, [])


def print_notice(text: str) -> None:
    """Print a message to standard error, unless the command is quiet."""
    _ROOT.log(NOTICE, "%s", text)


@contextlib.contextmanager
def redirect_records(write: LineWriter) -> Iterator[None]:
    """Pass log records to ``write``, not to standard error, while the context is open."""
    previous, _stderr_handler.write = _stderr_handler.write, write
    try:
        yield
    finally:
        _stderr_handler.write = previous


@contextlib.contextmanager
def copy_records(write: LineWriter, on_notice: LineWriter | None = None) -> Iterator[None]:
    """Copy log records of level INFO and above, or all with ``-vv``, while the context is open.

    Args:
        write: receives the records, for example to append them to a log file.
        on_notice: receives notices instead of ``write`` and of standard error.
    """
    handlers = [LineHandler(write, min(logging.INFO, _stderr_handler.level))]
    if on_notice is not None:
        handlers.append(LineHandler(on_notice, NOTICE))
        handlers[0].addFilter(_is_below_notice)
        _stderr_handler.addFilter(_is_below_notice)
    for handler in handlers:
        _ROOT.addHandler(handler)
    _set_level()
    try:
        yield
    finally:
        for handler in handlers:
            _ROOT.removeHandler(handler)
        if on_notice is not None:
            _stderr_handler.removeFilter(_is_below_notice)
        _set_level()


def _is_below_notice(record: logging.LogRecord) -> bool:
    return record.levelno < NOTICE


def _set_level() -> None:
    _ROOT.setLevel(min((h.level for h in _ROOT.handlers), default=logging.WARNING))
