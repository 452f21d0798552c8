"""Log records of commands: the command, its exit status, duration and answer.

A record has one line that names the device, then the command behind ``$``, ready to be copied, and its
answer, each line behind ``|`` (standard output) or ``!`` (standard error). Secrets are hidden;
answers are cut.
"""

import logging
import time
from collections.abc import Callable

from v6t.base.errors import V6tError
from v6t.base.text import escape_controls, escape_line
from v6t.drivers.transport.contract import Output
from v6t.drivers.transport.redaction import redact

ANSWER_LIMIT = 2000  # Logged characters of standard output and of standard error
COMMAND_LIMIT = 16_000  # Logged characters of a command and of its standard input
_END = "V6T_END"  # Marks the end of a command's standard input

_LOG = logging.getLogger(__name__)


def run_logged(device: str, command: str, text: str, run: Callable[[], Output]) -> Output:
    """Run a command and log it, whether it ends or fails."""
    _LOG.debug("%s: running a command", device)
    began = time.monotonic()
    try:
        output = run()
    except BaseException as exc:
        log_command(device, command, text, describe_failure(exc), time.monotonic() - began)
        raise
    result, duration_s = f"exit status {output.status}", time.monotonic() - began
    log_command(device, command, text, result, duration_s, output.out, output.err)
    return output


def log_command(
    device: str,
    command: str,
    text: str,
    result: str,
    duration_s: float,
    out: str = "",
    err: str = "",
) -> None:
    """Log a command that has ended."""
    if not _LOG.isEnabledFor(logging.INFO):
        return
    lines = [
        f"{device}: {escape_line(redact(result))} after {duration_s:.3f} s",
        f"$ {_format_command(command, text)}",
    ]
    lines += _prefix_lines("|", out) + _prefix_lines("!", err)
    _LOG.info("%s", "\n".join(lines))


def log_start(device: str, command: str) -> None:
    """Log a command that goes on in the background."""
    if _LOG.isEnabledFor(logging.INFO):
        _LOG.info("%s: started\n$ %s", device, _format_command(command, ""))


def describe_failure(exc: BaseException) -> str:
    """Describe the error that ended a command."""
    return f"failed ({exc.message if isinstance(exc, V6tError) else type(exc).__name__})"


def _format_command(command: str, text: str) -> str:
    command = _shorten(command, COMMAND_LIMIT)
    if text:
        body = _shorten(text, COMMAND_LIMIT)
        command = f"({command}\n) <<'{_END}'\n{body.removesuffix(chr(10))}\n{_END}"
    return "\n".join(_escape_line(line) for line in command.split("\n"))


def _prefix_lines(prefix: str, output: str) -> list[str]:
    """Return the lines of a command's output, each after ``prefix``."""
    cut = _shorten(output.replace("\r\n", "\n").removesuffix("\n"), ANSWER_LIMIT)
    return [f"{prefix} {_escape_line(line)}".rstrip() for line in cut.split("\n")] if cut else []


def _shorten(text: str, limit: int) -> str:
    """Hide secrets and cut a text, in this order, so that no half of a secret is left."""
    hidden = redact(text[: 8 * limit])
    if len(hidden) <= limit and len(text) <= 8 * limit:
        return hidden
    return f"{hidden[:limit]}\n[cut: {len(text)} characters]"


def _escape_line(line: str) -> str:
    """Escape control characters except tabs."""
    return "\t".join(escape_controls(part) for part in line.split("\t"))
