"""The ``v6t`` command. Each subcommand's module is imported when it is called, not before."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
from v6t.base.entry_points import attribute_errors
from v6t.base.errors import UsageError, V6tError
from v6t.base.text import escape_controls, escape_line, is_encodable
from v6t.core import log
from v6t.core.cli.groups import CommandGroup
from v6t.drivers.transport.redaction import redact_values

COMMANDS = {
    "run": "measure a technology on a device",
    "resume": "continue an interrupted run",
    "list": "list the runs of a directory",
    "show": "print the results of a run again",
    "report": "write the report of a run or campaign",
    "audit": "test a device clause by clause for conformance to RFCs",
    "dut": "configure, compare, verify and roll back a device",
    "compare": "compare runs with one another or with published results",
    "trend": "find changes among many runs of the same",
    "campaign": "carry out many runs described by one file",
    "compile": "write a technology's traffic as TRex profile or capture",
    "calc": "MAP, RFC 6052 and frame rate arithmetic",
    "plugins": "list technologies, or show one's parameters",
    "explain": "say what a setting, a benchmark or a term means",
    "selftest": "measure the tester's own capacity",
    "doctor": "say what this machine can do and what is missing",
    "init": "write example files, or convert another tester's",
    "completion": "print shell completion code",
    "help": "print the help of a command",
}


ONE_LINE = (1, 2, 3)
"""Exit statuses whose message is one line; the others may show frames or a tester's words."""

KEPT = "what was measured before is kept"
UNREAD = 141
"""Exit status where nobody reads what is printed any more, as a shell has it."""

WITH_PARAMETERS = ("run", "audit", "compile", "dut")
CLICK_CODES: dict[type[click.ClickException], str] = {
    click.NoSuchOption: "unknown-option",
    click.MissingParameter: "invalid-command-line",
    click.BadParameter: "invalid-argument",
    click.FileError: "file-unreadable",
    click.UsageError: "invalid-command-line",
}
"""The code of each of click's errors; derived classes come first."""
SET, SET_DUT = "--set", "--set-dut"
"""What takes parameters of the technology and of the device, and how."""


class Unread(BrokenPipeError):
    """Nobody reads what is printed any more; it has no number of an error, of which click makes status 1."""


@contextmanager
def _unread() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as exc:
        raise Unread from exc


class LazyGroup(CommandGroup):
    """Knows names and summaries of its commands without importing them."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """As click's; ``--help`` and ``--version`` print here."""
        with _unread():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """As click's."""
        with _unread():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of use."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"v6t.core.cli.{cmd_name}_command")
        return module.command  # type: ignore[no-any-return]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, from the names alone."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"v6t {version('v6t')}")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--version", is_flag=True, callback=_version, expose_value=False, is_eager=True,
              help="Show the version and exit.")  # fmt: skip
@click.option("--debug", is_flag=True, help="Show tracebacks of errors.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Benchmark IPv6 transition technologies with the procedures of RFC 8219."""
    log.configure(log.NORMAL)
    if debug:
        os.environ["V6T_DEBUG"] = "1"
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: list[str] | None = None) -> None:
    """Entry point: every error becomes one or two lines and an exit status."""
    # what is imported stays: to look for garbage in it 250 times is a tenth of a start
    gc.set_threshold(100_000, 20, 20)
    _open_standard_streams()
    sys.exit(_run(arguments))


def _open_standard_streams() -> None:
    """Open ``/dev/null`` in place of a closed standard stream.

    Else the next file that is opened, a journal perhaps, has its number, and what is printed goes there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)  # the same, as a rule; other programs may inherit it now
            os.set_inheritable(number, True)
            if null != number:
                os.close(null)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _run(arguments: list[str] | None) -> int:
    for word in sys.argv[1:] if arguments is None else arguments:
        if not is_encodable(word):  # it could be neither printed nor written into a record
            return _complain(
                f"{word!a} is not UTF-8 text", "write names and values in UTF-8", 2, "not-text"
            )
    try:
        with attribute_errors():
            status: Any = cli.main(arguments, prog_name="v6t", standalone_mode=False)
        if sys.stdout:
            sys.stdout.flush()  # here its failure can still be told
    except V6tError as exc:
        if isinstance(exc, UsageError):
            words = sys.argv[1:] if arguments is None else arguments
            exc.add_hint(_with_params(words, {SET: exc.params, SET_DUT: exc.dut_params}))
            if exc.technology:
                from v6t.core.cli.another_driver import another_driver

                exc.add_hint(another_driver(words, exc.technology))
        return _complain(exc.message, exc.hint, exc.exit_code, exc.code)
    except click.ClickException as exc:
        return _complain(_click_message(exc), _click_hint(exc), 2, _click_code(exc))
    except (click.Abort, KeyboardInterrupt):
        print("v6t: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except Exception as exc:  # noqa: BLE001  (the last line of defence: one line, no traceback)
        return _unforeseen(exc)
    return status if isinstance(status, int) else 0


def _with_params(arguments: Sequence[str], given: Mapping[str, Mapping[str, object]]) -> str:
    """Return the command with the parameters that it needs, by the flag that gives them."""
    if not any(given.values()) or arguments[0] not in WITH_PARAMETERS:
        return ""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        flag, joined, value = word.partition("=")
        whole = [word] if joined or flag not in given else [word, next(words, "")]
        name = (value if joined else whole[-1]).partition("=")[0]
        if not {name, name.partition(".")[0]} & given.get(flag, {}).keys():
            kept += whole
    more = [
        word
        for flag, params in given.items()
        for name, value in params.items()
        for word in (flag, f"{name}={_written(value)}")
    ]
    return f"try: {shlex.join(['v6t', *kept, *more])}"


def _written(value: object) -> str:
    """Write a value as a flag takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _unforeseen(exc: Exception) -> int:
    """Turn an unexpected exception into an error of the machine or of v6t."""
    if isinstance(exc, OSError):  # a full disk, a file that vanished
        what = f"{exc.filename}: " if exc.filename else ""
        full = exc.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = f"{KEPT}; free space on the disk" if full else KEPT
        code = "disk-full" if full else "system-error"
        return _complain(f"{what}{exc.strerror or exc}", hint, 3, code)
    if isinstance(exc, MemoryError):
        return _complain("not enough memory", KEPT, 3, "resource-missing")
    if os.environ.get("V6T_DEBUG"):
        raise exc
    return _complain(
        f"internal error: {type(exc).__name__}: {exc}",
        "this is a defect of v6t; `v6t --debug ...` shows the traceback",
        1,
        "internal-error",
    )


def _click_code(error: click.ClickException) -> str:
    """Return the code of an error that click found in the command line."""
    return next(
        (code for kind, code in CLICK_CODES.items() if isinstance(error, kind)), "internal-error"
    )


def _click_message(error: click.ClickException) -> str:
    """Return click's message in the form of v6t's: lower case, no full stop."""
    if isinstance(error, click.NoSuchOption):
        return f"unknown option '{error.option_name}'"
    text = error.format_message().strip().removesuffix(".")
    return text[:1].lower() + text[1:]


def _click_hint(error: click.ClickException) -> str:
    """Return the similar options, and the command that prints all of them."""
    context = getattr(error, "ctx", None)
    similar = getattr(error, "possibilities", None) or ()
    return "; ".join(
        filter(
            None,
            (
                f"did you mean {' or '.join(map(repr, similar))}?" if similar else "",
                f"see `{context.command_path} --help`" if context is not None else "",
            ),
        )
    )


def _fit(line: str) -> str:
    """Wrap a line for a terminal, unless it proposes a command, which must stay in one piece."""
    if not sys.stderr.isatty() or "try: v6t" in line:
        return line
    return textwrap.fill(
        line,
        shutil.get_terminal_size().columns,
        subsequent_indent="     ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _complain(message: str, hint: str, status: int, code: str) -> int:
    if os.environ.get("V6T_DEBUG") and sys.exc_info()[0]:
        import traceback

        traceback.print_exc()
    message = (escape_line if status in ONE_LINE else escape_controls)(redact_values(message))
    hint = escape_line(redact_values(hint))
    first, newline, rest = message.partition("\n")
    print(_fit(f"v6t: {first} [{code}]") + newline + rest, file=sys.stderr)
    if hint:
        print(_fit(f"     {hint}"), file=sys.stderr)
    return status


if __name__ == "__main__":
    main()
