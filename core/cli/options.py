"""Commands, the options that several of them share, and the run that these describe."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from v6t.base.errors import UsageError
from v6t.base.text import convert_docstring, did_you_mean, suggest_names
from v6t.core import log
from v6t.core.cli.shell_completion import complete_parameter

if TYPE_CHECKING:
    from v6t.core.cli.terminal import CommandResult
    from v6t.core.config.run_setup import RunSetup
    from v6t.core.config.yaml_file import YamlFile

F = TypeVar("F", bound=Callable[..., Any])
RFC_SIZES_KEYWORD = "rfc"  # value of --frame-size: the sizes that RFC 8219 lists
# Keys in ``Context.meta``: true if -v or -q is given; while benchmarks' options are left out.
_VERBOSITY_KEY, _WITHOUT_SETTINGS_KEY = "v6t.verbosity", "v6t.without_settings"
# A path that click does not check: v6t's own errors name the reason and have a code.
PATH_TYPE = click.Path(path_type=Path, readable=False)


class RunFileType(click.Path):
    """Path type that makes ``./siit`` and ``siit/`` absolute: only ``siit`` names a technology."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path: Any = super().convert(value, param, ctx)
        is_directory = os.sep in str(value) and os.sep not in str(path) and not path.is_file()
        return path.absolute() if is_directory else path


class NumberRange(click.FloatRange):
    """Option type for numbers in a range; ``nan`` is rejected."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a valid float.", param, ctx)
        return number


def parse_frame_size(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> int | str | None:
    """Return a frame size in octets, or a mix of sizes in its normal form."""
    from v6t.profiles.mixes import is_mix, normalize_mix

    if value is None:
        return None
    return normalize_mix(value) if is_mix(value) else click.INT(value, param, ctx)


def parse_frame_sizes(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[int | str | None, ...]:
    """Split values at commas into frame sizes; the commas inside a mix are kept."""
    from v6t.profiles.mixes import is_mix

    parts = [p.strip() for text in values for p in ([text] if is_mix(text) else text.split(","))]
    return tuple(p if p == RFC_SIZES_KEYWORD else parse_frame_size(ctx, param, p) for p in parts)


def parse_assignments(
    _ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Parse ``name=value`` texts into values by name."""
    assignments: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            message = f"{param.opts[0]} takes name=value, not '{text}'"
            raise UsageError(message, code="not-name-and-value")
        assignments[name.strip()] = value
    return assignments


def parse_names(
    _ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the names in repeated values, each with names separated by commas."""
    names = tuple(name.strip() for text in values for name in text.split(","))
    if not all(names):
        message = f"{param.opts[0]} takes names separated by commas"
        raise UsageError(message, code="not-name-and-value")
    return names


def flag(*names: str, text: str) -> Callable[[F], F]:
    """Return a decorator that adds an option without a value; ``text`` is its help."""
    return click.option(*names, is_flag=True, help=text)


def path_option(*names: str, text: str, **attrs: Any) -> Callable[[F], F]:
    """Return a decorator that adds an option for a file or directory."""
    return click.option(*names, type=PATH_TYPE, help=text, **attrs)


def names_option(*names: str, text: str, **attrs: Any) -> Callable[[F], F]:
    """Return a decorator that adds a repeatable option for names separated by commas."""
    attrs = {"metavar": "NAMES", "callback": parse_names, "multiple": True, **attrs}
    return click.option(*names, shell_complete=complete_parameter, help=text, **attrs)


def assignments_option(*names: str, text: str) -> Callable[[F], F]:
    """Return a decorator that adds a repeatable ``name=value`` option."""
    return names_option(*names, text=text, metavar="NAME=VALUE", callback=parse_assignments)


def name_option(*names: str, text: str) -> Callable[[F], F]:
    """Return a decorator that adds an option for the name of an extension."""
    return click.option(*names, shell_complete=complete_parameter, help=text)


def combine_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds several options; help texts list them in this order."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def json_option(command: Callable[..., CommandResult]) -> Callable[..., int]:
    """Add ``--json`` to a command, and print the result that it returns as JSON or as text."""

    @flag("--json", "as_json", text="Print JSON.")
    @wraps(command)
    def print_result(*, as_json: bool, **arguments: Any) -> int:
        return command(**arguments).print(as_json=as_json)

    return print_result


run_file_argument = click.argument(
    "run_file",
    required=False,
    type=RunFileType(path_type=Path, readable=False),
    metavar="[TECHNOLOGY|RUN_FILE|RUN]",
)
directory_argument = click.argument("directory", required=False, type=PATH_TYPE)
output_option = path_option("-o", "--output", text="File to write instead of printing.")
output_directory_option = path_option("-o", "--output", text="Directory to write to.")
dry_run_option = flag("--dry-run", text="Show what would be measured and how long; do nothing.")
list_option = flag("--list", "list_only", text="List the clauses or campaigns; do nothing else.")
all_option = flag("--all", "show_all", text="Print all clauses or settings.")
frame_size_option = click.option(
    "--frame-size", metavar="OCTETS|imix", callback=parse_frame_size, help="IPv6 frame with FCS."
)
report_option = click.option(
    "--report/--no-report", default=True, envvar="V6T_REPORT", help="Write the report (default)."
)
live_option = click.option(
    "--live",
    is_flag=False,
    flag_value="",
    metavar="[ADDRESS:PORT]",
    help="Serve the report so far, on this machine alone unless an address is given.",
)
plugin_option = name_option("--plugin", text="Technology.")
testbed_option = path_option("--testbed", text="Testbed file.")
driver_option = name_option("--dut", "--driver", "dut", text="Device driver.")
preset_option = click.option(
    "--preset", type=click.Choice(["quick", "rfc"]), help="quick is a demonstration."
)
seed_option = click.option("--seed", type=int, help="Seed of all pseudorandom numbers.")
procedure_option = assignments_option(
    "--set-procedure", "procedure", text="Any other setting, for example latency.duration_s=120."
)
parameters_option = assignments_option("--set", "params", text="Plugin parameter; repeatable.")
driver_parameters_option = assignments_option(
    "--set-dut", "dut_params", text="Option of the driver, or parameter of the reference device."
)

device_options = combine_options(  # options that name a device and its required configuration
    run_file_argument,
    plugin_option,
    testbed_option,
    driver_option,
    parameters_option,
    driver_parameters_option,
)


def tester_option(command: F) -> F:
    """Add the option for the name of a tester."""
    from v6t.drivers.testers import AUTOMATIC, TESTERS

    return name_option("--tester", text=f"{AUTOMATIC}, {', '.join(TESTERS.list_names())}.")(command)


def run_options(command: F) -> F:
    """Add the options that describe a run."""
    from v6t.benchmarks import registry
    from v6t.core.config.plugins import MODIFIERS

    modifiers = ", ".join(MODIFIERS.list_names())
    return combine_options(
        run_file_argument,
        plugin_option,
        click.option("--variant", help="Variant of a technology, as --set variant=NAME."),
        testbed_option,
        tester_option,
        click.option(
            "--initiator",
            metavar="PORT",
            help="left or right: port of the Initiator, or of the technology's left side.",
        ),
        preset_option,
        names_option(
            "--measure",
            "benchmarks",
            text=f"What to measure: {', '.join(registry.list_names())}; "
            f"{registry.ALL_BENCHMARKS}: everything that suits the technology.",
        ),
        names_option(
            "--frame-size",
            "frame_sizes",
            callback=parse_frame_sizes,
            metavar="SIZES",
            text="IPv6 frames with FCS; rfc: those of RFC 8219; a mix: imix:64x28,570x16,1518x4.",
        ),
        names_option("--mode", "modes", text="forward, reverse, bidirectional."),
        flag(
            "--adaptive", text="Repeat until the median is known to 1 % (throughput, frame loss)."
        ),
        parameters_option,
        driver_option,
        driver_parameters_option,
        assignments_option("--set-tester", "tester_options", text="Tester option."),
        flag("--force", text="Take TRex's ports from another user, and print the user's name."),
        click.option("--modifier", metavar="NAME", help=f"RFC 2544 section 11: {modifiers}."),
        seed_option,
        click.option("--label", help="Words for the directory name and the results."),
        procedure_option,
    )(command)


def _set_verbosity(ctx: click.Context, _param: click.Parameter, value: int) -> None:
    """Set the verbosity given by -v or -q; reject both together."""
    if not value or ctx.resilient_parsing:
        return
    if ctx.meta.get(_VERBOSITY_KEY):
        problem = "-v and -q exclude each other"
        raise UsageError(problem, "leave one of them out", code="conflicting-options")
    ctx.meta[_VERBOSITY_KEY] = True
    log.configure_verbosity(log.QUIET if value is True else value)


def _set_color(ctx: click.Context, _param: click.Parameter, value: str) -> None:
    ctx.color = {"always": True, "never": False}.get(value)


class Command(click.Command):
    """Command with ``-v``, ``-q`` and ``--color``, which take effect before it starts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        verbose = "Show the commands sent to devices and their answers; -vv shows more."
        quiet = "Print results, paths and errors only."
        color = "Whether to print colors; auto: on a terminal, unless NO_COLOR is set."
        option = partial(click.Option, expose_value=False, callback=_set_verbosity)
        when = click.Choice(["auto", "always", "never"])
        self.params += [
            option(["-v", "--verbose"], count=True, help=verbose),
            option(["-q", "--quiet"], is_flag=True, help=quiet),
            option(["--color"], type=when, default="auto", help=color, callback=_set_color),
        ]


class CommandGroup(click.Group):
    """Command group that suggests a known name for an unknown one."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command, or suggest a similar name.

        Raises:
            UsageError: no command has this name.
        """
        known, name = self.list_commands(ctx), args[0]
        if name not in known and not name.startswith("-"):
            hint = suggest_names(name, known)
            raise UsageError(f"unknown command '{name}'", hint, code="unknown-command")
        return super().resolve_command(ctx, args)


class RunCommand(Command):
    """Command with :data:`procedure_option` and an option for each setting that declares one.

    Their values are in the parameter ``settings``, by option name. Benchmarks declare these options, and
    importing all benchmarks takes half of the start: they are imported only if an option is unknown
    without them, and for help.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        if ctx.meta.get(_WITHOUT_SETTINGS_KEY):
            return params
        index = [param.name for param in params].index("procedure") + 1
        return [*params[:index], *self._setting_options, *params[index:]]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params["settings"] = {}
        ctx.meta[_WITHOUT_SETTINGS_KEY] = not ctx.resilient_parsing
        try:
            return super().parse_args(ctx, [*args])
        except click.NoSuchOption:
            ctx.meta[_WITHOUT_SETTINGS_KEY] = False
            return super().parse_args(ctx, args)

    def get_help(self, ctx: click.Context) -> str:
        ctx.meta[_WITHOUT_SETTINGS_KEY] = False
        return super().get_help(ctx)

    @cached_property
    def _setting_options(self) -> Sequence[click.Option]:
        from v6t.base.strict_model import describe_fields
        from v6t.benchmarks import registry
        from v6t.benchmarks.settings import list_flags
        from v6t.core.config.settings import ProcedureSettings

        models: dict[str, Any] = {"": ProcedureSettings, **registry.list_sections()}
        general = {name: [field] for name, field in list_flags(ProcedureSettings)}
        known = {name for param in self.params for name in (*param.opts, *param.secondary_opts)}
        options = []
        for name, fields in (general | registry.list_flags()).items():
            section, _, field = fields[0].rpartition(".")
            if name not in known:
                text = convert_docstring(describe_fields(models[section])[field])
                attrs = {"metavar": "VALUE", "expose_value": False, "callback": _add_setting}
                options.append(click.Option([name], help=text, **attrs))
        return options


def _add_setting(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.params["settings"][param.opts[0]] = value


def resolve_run(arguments: dict[str, Any]) -> RunSetup:
    """Return the setup described by the values of :func:`run_options`.

    A technology, or the directory of a run to repeat, can be named in place of a run file; an existing
    file, or directory of a run, takes precedence.

    Raises:
        UsageError: the options or the files are wrong.
    """
    run_file, testbed = read_run_files(arguments)
    del arguments["run_file"], arguments["testbed"]
    from v6t.core.config.resolve import resolve_setup

    params, variant = arguments["params"], arguments.pop("variant")
    if variant is not None and params.setdefault("variant", variant) != variant:
        problem = f"--variant {variant} and --set variant={params['variant']} contradict each other"
        raise UsageError(problem, "give one of them", code="conflicting-options")
    if arguments.pop("force"):
        arguments["tester_options"]["force"] = "true"
    if arguments.pop("adaptive"):
        arguments["procedure"] = {"adaptive": {}, **arguments["procedure"]}
    return resolve_setup(run_file, testbed, setting_flags=arguments.pop("settings"), **arguments)


def read_run_files(arguments: dict[str, Any]) -> tuple[YamlFile | None, YamlFile | None]:
    """Return run file and testbed file, read before slow imports to report errors early.

    The name of a technology in place of the run file becomes the option ``--plugin``.

    Raises:
        UsageError: a file is not readable or not valid.
    """
    from v6t.core.config.yaml_file import YamlFile

    path, testbed_path = arguments["run_file"], arguments["testbed"]
    testbed = None if testbed_path is None else YamlFile(testbed_path)
    if path is None:
        return None, testbed
    if (path / "config.json").is_file():
        from v6t.core.runs.rundir import read_run_files

        run_file, run_testbed = read_run_files(path)
        return run_file, testbed or run_testbed
    if path.is_dir() or not path.exists():
        from v6t.core.config.plugins import is_technology
        from v6t.core.runs.rundir import describe_content, make_no_run_error

        if not describe_content(path) and is_technology(str(path)):
            arguments["plugin"] = choose_technology(str(path), arguments["plugin"])
            arguments["run_file"] = None
            return None, testbed
        if path.is_dir():
            raise make_no_run_error(path)
    try:
        return YamlFile(path), testbed
    except UsageError as error:
        if error.code == "file-not-found":
            from v6t.core.config.plugins import ALIASES, list_names

            problem = f"{path} is neither a file nor a technology"
            hint = "check the path; between values of an option, write commas without spaces"
            hint = did_you_mean(str(path), [*list_names(), *ALIASES]) or hint
            raise UsageError(problem, hint, code=error.code) from None
        raise


def choose_technology(name: str | None, plugin: str | None) -> str | None:
    """Return the technology that an argument or ``--plugin`` names; reject different ones."""
    from v6t.core.config.plugins import resolve_alias

    if name is not None and plugin not in (None, name, resolve_alias(name)):
        problem = f"{name} and --plugin {plugin} name different technologies"
        raise UsageError(problem, "leave out one of them", code="conflicting-options")
    return plugin or name
