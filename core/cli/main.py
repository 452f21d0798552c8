"""The ``v6t`` command; the module of a subcommand is imported when it is called."""

import errno
import importlib
import os
import shlex
import sys
from typing import Any

import click
from click.shell_completion import shell_complete
from v6t.base.errors import UsageError, V6tError
from v6t.base.text import escape_controls, escape_line, is_encodable
from v6t.core import log
from v6t.core.cli.options import CommandGroup
from v6t.drivers.transport.redaction import redact_values

COMMANDS = {  # module and summary of each command by its name
    "run": ("run_commands", "measure a technology on a device"),
    "resume": ("run_commands", "continue an interrupted run"),
    "list": ("results_commands", "list the runs of a directory"),
    "show": ("results_commands", "print the results of a run again"),
    "report": ("results_commands", "write the report of a run or campaign"),
    "audit": ("audit_command", "test a device clause by clause for conformance to RFCs"),
    "dut": ("dut_command", "configure, compare, verify and roll back a device"),
    "compare": ("results_commands", "compare runs with one another or with published results"),
    "trend": ("results_commands", "find changes in a series of equal runs"),
    "campaign": ("campaign_command", "carry out many runs described by one file"),
    "compile": ("compile_command", "write a technology's traffic as TRex profile or capture"),
    "calc": ("calc_command", "MAP, RFC 6052 and frame rate arithmetic"),
    "plugins": ("help_commands", "list technologies, or show one's parameters"),
    "explain": ("help_commands", "explain a setting, a benchmark or a term"),
    "selftest": ("setup_commands", "measure the tester's own capacity"),
    "doctor": ("setup_commands", "show what this machine can do and lacks"),
    "init": ("setup_commands", "write example files, or convert another tester's"),
    "completion": ("help_commands", "print shell completion code"),
    "help": ("help_commands", "print the help of a command"),
}

# Exit statuses of errors with one line of text; others may show frames or output of a tester.
ONE_LINE_STATUSES = (1, 2, 3)
BROKEN_PIPE_STATUS = 141  # exit status if the reader of the output is gone, as for SIGPIPE
# v6t's error codes by click exception class; derived classes come first.
CLICK_ERROR_CODES: dict[type[click.ClickException], str] = {
    click.NoSuchOption: "unknown-option",
    click.MissingParameter: "invalid-command-line",
    click.BadParameter: "invalid-argument",
    click.UsageError: "invalid-command-line",
}
COMPLETION_VARIABLE = "_V6T_COMPLETE"  # environment variable that a completing shell sets
MEASURING_COMMANDS = ("run", "resume", "campaign")
SET_COMMANDS = ("run", "audit", "compile", "dut")  # commands with ``--set`` and ``--set-dut``


class LazyGroup(CommandGroup):
    """Command group that lists names and summaries of commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, summary = COMMANDS[cmd_name]
        commands = importlib.import_module(f"v6t.core.cli.{module}")
        command: click.Command = getattr(commands, f"{cmd_name}_command")
        command.short_help = summary
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="v6t", prog_name="v6t", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show tracebacks of errors.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Benchmark IPv6 transition technologies with the procedures of RFC 8219."""
    log.configure_verbosity(log.NORMAL)
    if debug:
        os.environ["V6T_DEBUG"] = "1"
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: list[str] | None = None) -> None:
    """Run a command, print an error in one or two lines, and exit with its status."""
    _open_standard_streams()
    sys.exit(_run_command(sys.argv[1:] if arguments is None else arguments))


def _open_standard_streams() -> None:
    """Open ``/dev/null`` in place of a closed standard stream.

    Otherwise the next file that is opened, perhaps a journal, gets its number and the output.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)  # usually the same number; child processes inherit it now
            os.set_inheritable(number, True)
            if null != number:
                os.close(null)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _run_command(arguments: list[str]) -> int:
    """Run the command line, print its error and return the exit status."""
    for word in arguments:
        if not is_encodable(word):  # it can be neither printed nor written into a record
            message = f"{word!a} is not UTF-8 text"
            return _print_error(message, "write names and values in UTF-8", 2, "not-text")
    try:
        status = _invoke_command(arguments)
        sys.stdout.flush()  # while its failure can still be reported
    except (click.Abort, KeyboardInterrupt):
        log.print_to_stderr("v6t: interrupted")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE_STATUS
    except V6tError as exc:
        if isinstance(exc, UsageError):
            _add_option_hints(exc, _find_command(arguments))
        return _print_error(exc.message, exc.hint, exc.exit_code, exc.code)
    except click.ClickException as exc:
        return _print_error(*_describe_click_error(exc))
    except OSError as exc:  # a full disk, a file that is gone
        message = ": ".join(map(str, filter(None, (exc.filename, exc.strerror or exc))))
        hint, code = _make_trials_hint(arguments), "system-error"
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            hint, code = "; ".join(filter(None, (hint, "free space on the disk"))), "disk-full"
        return _print_error(message, hint, 3, code)
    except MemoryError:
        hint = _make_trials_hint(arguments)
        return _print_error("not enough memory", hint, 3, "resource-missing")
    except Exception as exc:
        if os.environ.get("V6T_DEBUG"):
            raise
        message = f"internal error: {type(exc).__name__}: {exc}"
        hint = "this is a defect of v6t; `v6t --debug ...` shows the traceback"
        return _print_error(message, hint, 1, "internal-error")
    return status if isinstance(status, int) else 0


def _add_option_hints(error: UsageError, command: str) -> None:
    """Add to the hint of an error the options and the drivers that avoid it."""
    from v6t.core.config.yaml_file import format_yaml

    words = []
    for option, params in (("--set", error.params), ("--set-dut", error.dut_params)):
        for name, value in params.items():
            text = value if isinstance(value, str) else format_yaml(value)
            words += [option, f"{name}={text}"]
    if words and command in SET_COMMANDS:
        error.add_hint(f"try: {shlex.join(words)}")
    if error.technology:
        from v6t.core.config.compatibility import list_compatible_drivers

        drivers = list_compatible_drivers(error.technology, exclude_reference=command == "dut")
        error.add_hint(f"drivers for {error.technology}: {', '.join(drivers) or 'none'}")


def _make_trials_hint(arguments: list[str]) -> str:
    """Return the hint that trials are saved; empty if the command does not measure."""
    return "finished trials are saved" if _find_command(arguments) in MEASURING_COMMANDS else ""


def _find_command(arguments: list[str]) -> str:
    """Return the name of the command, which options of the group may precede; empty if none."""
    return next((word for word in arguments if word in COMMANDS), "")


def _invoke_command(arguments: list[str]) -> Any:
    """Run the command line; name the distribution of an extension that causes an error."""
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        return shell_complete(cli, {}, "v6t", COMPLETION_VARIABLE, instruction)
    try:  # not cli.main(), which would hide a broken pipe
        with cli.make_context("v6t", [*arguments]) as context:
            return cli.invoke(context)
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except Exception:
        from v6t.base.entry_points import attribute_errors

        with attribute_errors():
            raise


def _describe_click_error(error: click.ClickException) -> tuple[str, str, int, str]:
    text = " ".join(error.format_message().split()).removesuffix(".")
    message = text[:1].lower() + text[1:]
    if isinstance(error, click.NoSuchOption):
        message = f"unknown option '{error.option_name}'"
    hints = []
    if similar := getattr(error, "possibilities", None):
        hints.append(f"did you mean {' or '.join(map(repr, similar))}?")
    if context := getattr(error, "ctx", None):
        hints.append(f"see `{context.command_path} --help`")
    codes = (code for kind, code in CLICK_ERROR_CODES.items() if isinstance(error, kind))
    return message, "; ".join(hints), 2, next(codes, "internal-error")


def _print_error(message: str, hint: str, status: int, code: str) -> int:
    """Print an error without secrets and return its exit status."""
    if os.environ.get("V6T_DEBUG") and sys.exc_info()[0]:
        import traceback

        log.print_to_stderr(redact_values(traceback.format_exc()).removesuffix("\n"))
    escape = escape_line if status in ONE_LINE_STATUSES else escape_controls
    first, newline, rest = escape(redact_values(message)).partition("\n")
    log.print_to_stderr(_wrap_message(f"v6t: {first} [{code}]") + newline + rest)
    if hint:
        log.print_to_stderr(_wrap_message(f"     {escape_line(redact_values(hint))}"))
    return status


def _wrap_message(line: str) -> str:
    """Return a line wrapped to the width of the terminal, if it is printed on one."""
    if not sys.stderr.isatty():
        return line
    from v6t.core.cli.terminal import wrap

    return wrap(line, indent=5)
