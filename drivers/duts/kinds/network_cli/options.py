"""Options of a device with a command line, and those of scrapli's platform definitions."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator
from ruamel.yaml import YAML, YAMLError
from v6t.base.errors import EnvironmentLacking, InvalidValue, UsageError
from v6t.base.strict_model import StrictModel
from v6t.drivers.duts.kinds.command import CheckOptions, HeaderProfileOptions, validate_pattern
from v6t.drivers.duts.options import DirectoryPath, DutOptions
from v6t.drivers.duts.readings import LossReason
from v6t.drivers.transport import redaction
from v6t.drivers.transport.ssh_options import SshOptions

PROMPT_PATTERN = (
    r"^[\w.@:/~*!+()\[\]{}>-]*[\w)\]}~][>#$%]\s*$"
    r"|^<[\w.@:/~*!+-]+>\s*$"
    r"|^\[[~*]?[\w.@:/-]+\]\s*$"
)
PAGER_PATTERN = r"(?i)(?:-{2,} ?\(?more\b[^\n]*|press any key to continue[^\n]*)$"
ERROR_PATTERNS = (  # case-insensitive patterns of the errors with which common CLIs reject a line
    r"^[^\S\n]*% ?(?:invalid|incomplete|ambiguous|unknown|unrecognized|bad|error|cannot|failed|access"
    r" denied|authorization failed)\b",
    r"^[^\S\n]*(?:syntax error|unknown command|invalid command|missing (?:mandatory )?argument)\b",
    r"^[^\S\n]*(?:error:|commit failed\b|command authorization failed\b)",
    r"^(?:minor|major|critical): ",
)
_UNSAVED_MARKS = re.compile(r"[*~!\s]")  # marks of unsaved changes in prompts
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def check_one_line(text: str) -> str:
    """Return the text, or raise InvalidValue if it is not one line of plain text."""
    if _CONTROL_CHARACTER.search(text):
        raise InvalidValue(f"{text!r} is not one line of plain text", code="wrong-form")
    return text


def split_lines(value: object) -> object:
    """Return the non-empty lines of text or of a list; return any other value unchanged."""
    lines = value.split("\n") if isinstance(value, str) else value
    if not isinstance(lines, (list, tuple)):
        return value
    return [v for v in (v.rstrip() if isinstance(v, str) else v for v in lines) if v != ""]


CliLine = Annotated[str, BeforeValidator(lambda v: check_one_line(v) if isinstance(v, str) else v)]
CliLines = Annotated[tuple[CliLine, ...], BeforeValidator(split_lines)]  # a list or a block
RegexText = Annotated[str, BeforeValidator(validate_pattern)]


class CliOptions(StrictModel):
    """Options of a command line: its prompts, errors and questions, and the lines to type."""

    prompt: RegexText = ""
    """Regular expression for the prompt in the last line; empty: the usual ones."""
    pager: RegexText = ""
    """Regular expression for the prompt between pages, which a space answers; empty: the usual ones."""
    errors: tuple[RegexText, ...] = ()
    """Case-insensitive regular expressions for errors of a rejected line; none: the usual ones."""
    answers: dict[RegexText, str] = Field(default_factory=dict)
    """Answers to questions of the device, by regular expressions: `{'\\[confirm\\]$': ''}`. Write a secret
    as `{env:NAME}`: the value of the environment variable NAME is typed and stored nowhere."""
    enable: str = ""
    """Line typed after the login at a prompt with `>`; `V6T_DUT_ENABLE_PASSWORD` contains the password."""
    open: CliLines = ()  #: Lines typed after each login, such as `terminal length 0`.
    abort: CliLines = ()
    """Lines typed after a rejected line to return to the first prompt, such as `end`."""
    line_deadline_s: float = Field(default=60.0, gt=0, le=3600)
    """Time limit from a line to the next prompt [s]."""
    idle_s: float = Field(default=60.0, ge=0, le=86400)
    """Idle time after which an empty line is typed to keep the login [s]; 0: never,
    for a device that acts on an empty line."""

    @field_validator("answers")
    @classmethod
    def _check_answers(cls, answers: dict[str, str]) -> dict[str, str]:
        for pattern, answer in answers.items():
            check_one_line(answer)
            secret = redaction.expects_secret(pattern) and len(answer) >= redaction.SHORTEST_SECRET
            if secret and not redaction.has_environment_reference(answer):
                problem = f"the answer to '{pattern}' looks like a secret: write it as {{env:NAME}}"
                raise InvalidValue(problem, code="secret-in-file")
        return answers

    def is_prompt(self, line: str, stem: str) -> bool:
        """Return whether a line is a prompt that contains the stem of the device's name."""
        return stem in line and re.search(self.prompt or PROMPT_PATTERN, line) is not None

    def is_pager(self, line: str) -> bool:
        return re.search(self.pager or PAGER_PATTERN, line) is not None

    def find_answer(self, question: str) -> str | None:
        known = (a for pattern, a in self.answers.items() if re.search(pattern, question))
        return next(known, None)

    def find_error(self, reply: str) -> str:
        """Return the error message in a reply; empty if the device accepted the typed line."""
        for pattern in self.errors or ERROR_PATTERNS:
            if match := re.search(pattern, reply, re.MULTILINE | re.IGNORECASE):
                begin = reply.rfind("\n", 0, match.end() - 1) + 1
                return reply[begin:].partition("\n")[0].strip()
        return ""


def is_same_prompt(first: str, second: str) -> bool:
    """Return whether two prompts are equal apart from marks of unsaved changes."""
    return _UNSAVED_MARKS.sub("", first) == _UNSAVED_MARKS.sub("", second)


DROPS_READING = "drops"  # name of the reading of packet drops
LOSS_REASONS = {"refused.*": LossReason.TABLE_FULL, ".*": LossReason.QUEUE}  # by a drop's name
_READING_BY_GROUP = {
    "core": "cpu", "busy": "cpu", "idle": "cpu", "used": "table", "limit": "table",
    "rx_left": "link left", "rx_right": "link right",
}  # fmt: skip
_DROP_GROUP = re.compile(r"(drops?|refused)(?:_(\w+))?")


def find_reading_name(pattern: str) -> str:
    """Return the name of the reading to which all named groups of a pattern belong."""
    groups = re.compile(pattern).groupindex
    unknown = [g for g in groups if g not in _READING_BY_GROUP and not _DROP_GROUP.fullmatch(g)]
    names = {_READING_BY_GROUP.get(group, DROPS_READING) for group in groups}
    if unknown or groups.keys() <= {"core"}:
        problem = f"no group is called {unknown[0]}" if unknown else "no group has a figure"
        known = f"{', '.join(_READING_BY_GROUP)}, drop_REASON or refused_REASON"
        raise InvalidValue(f"{problem}: give (?P<NAME>...) with {known}", code="wrong-form")
    if len(names) > 1:
        problem = f"{' and '.join(sorted(names))} are two readings: give each a separate pattern"
        raise InvalidValue(problem, code="wrong-form")
    return names.pop()


def parse_figures(patterns: Iterable[str], text: str, figure_name: str = "") -> Mapping[str, float]:
    """Return the figures that the groups of patterns match in an output, keyed by figure name.

    Packets and drops are added up; of anything else the last match counts. ``figure_name`` names
    the figure of the first group of the first match; else groups have names.
    """
    figures: dict[str, float] = {}
    for match in chain.from_iterable(re.finditer(p, text, re.MULTILINE) for p in patterns):
        if figure_name:
            number = _parse_number(match[1])
            return {} if number is None else {figure_name: number}
        values = {name: value for name, value in match.groupdict().items() if value is not None}
        core = values.pop("core", "").strip()
        core = f"cpu{core}" if core.isdigit() or not core else core
        for name, value in values.items():
            if (number := _parse_number(value)) is None:
                continue
            if name in ("busy", "idle"):
                figures[f"{core}.idle_percent"] = number if name == "idle" else 100.0 - number
            elif name in ("used", "limit"):
                figures[name] = number
            else:
                figure = "rx.packets" if name.startswith("rx_") else _name_drop(name)
                figures[figure] = figures.get(figure, 0.0) + number
    return figures


def _name_drop(group: str) -> str:
    """Return the figure of ``drop_REASON``, ``REASON``, or of ``refused_REASON``, ``refused REASON``."""
    kind, _, reason = group.partition("_")
    return f"{'refused ' * (kind == 'refused')}{reason or 'all'}"


def _parse_number(text: str) -> float | None:
    """Parse a number that may contain separators or a percent sign; return None for other text."""
    try:
        number = float(re.sub(r"[,_'\s%]", "", text))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


class CliCheckOptions(CheckOptions):
    """A read-back: a read-only line, and exactly one criterion for its output."""

    command: CliLine = Field(min_length=1)  #: Read-only line.


class FigureOptions(StrictModel):
    """A command, and a pattern that matches one figure in its output."""

    command: CliLine = Field(min_length=1)  #: Read-only line, cheap enough to run once a second.
    pattern: RegexText = Field(min_length=1)
    """Regular expression whose first group, or whole match, is the figure."""


class TelemetryOptions(FigureOptions):
    """A command, and a pattern whose named groups match figures in its output."""

    pattern: RegexText = Field(min_length=1)
    """Regular expression with named groups: `busy` or `idle` [%] of a processor, or of several with `core`;
    `used` and `limit` of the table; `rx_left`, `rx_right` received packets; `drop_REASON` lost frames,
    `refused_REASON` those lost for lack of room or of a port. All matches count."""

    @model_validator(mode="after")
    def _check_pattern(self) -> TelemetryOptions:
        find_reading_name(self.pattern)
        return self


class BusyOptions(StrictModel):
    """A command that shows whether another user is configuring the device."""

    command: CliLine = Field(min_length=1)  #: Read-only line that shows the users of the device.
    pattern: RegexText = Field(min_length=1)
    """Regular expression whose match means that the device is in use and must not be changed."""


class CompareOptions(StrictModel):
    """A command whose output must be the same after a rollback."""

    command: CliLine = Field(min_length=1)  #: Read-only line that prints the configuration.
    but: tuple[RegexText, ...] = ()
    """Regular expressions for lines that change by themselves, and are not compared."""


class ConfirmOptions(StrictModel):
    """The device's own timer, which rolls back a configuration that is not confirmed."""

    before: CliLines = ()
    """Lines that start the timer; none if the last of the `configure` lines starts it."""
    keep: CliLines = Field(min_length=1)
    """Lines that stop the timer, so that the configuration stays."""
    cancel: CliLines = ()
    """Lines that restore the configuration at once and stop the timer, if restoring does not stop it."""


class CliFlushOptions(StrictModel):
    """Lines that clear the device's sessions, and their read-back."""

    lines: CliLines = Field(min_length=1)  #: Lines that empty the state.
    check: CliCheckOptions  #: Read-back, which is repeated until it succeeds.


class NetworkCliOptions(DutOptions):
    """Options of the driver for any device with a command line."""

    state_dir: DirectoryPath = ""
    """Directory on this machine for lock and undo record; empty: one for each device in `/var/lib/v6t`, or
    without root in `~/.local/state/v6t`."""
    platform: str = Field(default="", pattern=r"^[A-Za-z0-9_./~-]*$")
    """Platform of scrapli, or path of a definition (`.yaml`); `cli` takes precedence."""
    cli: CliOptions = CliOptions()
    busy: BusyOptions | None = None
    prepare: CliLines = ()  #: Lines typed first, for example to save the present configuration.
    configure: CliLines = ()  #: Lines that configure the device.
    confirm: ConfirmOptions | None = None
    settle_s: float = Field(default=0.0, ge=0, le=600)
    """Time between the last line and the first read-back [s]."""
    verify: tuple[CliCheckOptions, ...] = ()
    restore: CliLines = ()
    """Lines that restore the former configuration; harmless if nothing was changed."""
    tidy: CliLines = ()  #: Lines typed last, for example to remove what `prepare` has saved.
    compare: CompareOptions | None = None
    flush: CliFlushOptions | None = None
    sessions: FigureOptions | None = None
    timeout_s: int = Field(default=0, ge=0, le=864_000)
    """UDP timeout that the lines configure [s]; 0: unknown."""
    telemetry: tuple[TelemetryOptions, ...] = ()
    version_command: CliLine = ""  #: Read-only line that prints the version.
    version_pattern: RegexText = r"\S.*"
    """Regular expression whose first group, or whole match, is the version."""
    profile: HeaderProfileOptions = HeaderProfileOptions()

    @field_validator("ssh")
    @classmethod
    def _check_ssh(cls, ssh: SshOptions | None) -> SshOptions | None:
        hints = {"become": "cli.enable is typed after the login",
                 "netns": "name it in the lines that are typed"}  # fmt: skip
        for name, hint in hints.items():
            if ssh is not None and getattr(ssh, name):
                raise InvalidValue(f"{name} is for a shell; {hint}", code="conflict")
        return ssh


def get_platform_options(platform: str) -> dict[str, Any]:
    """Return the settings of a scrapli platform for :class:`CliOptions`."""
    path = Path(platform).expanduser()
    if path.suffix not in (".yaml", ".yml"):
        folder = _find_definitions_directory()
        path = folder / f"{platform}.yaml"
        if "/" in platform or not path.is_file():
            known = ", ".join(sorted(p.stem for p in folder.glob("*.yaml")))
            problem = f"unknown scrapli platform '{platform}'"
            raise UsageError(problem, f"it has {known}", code="unknown-platform")
    try:
        definition = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, YAMLError) as exc:
        text = " ".join(str(exc).split())[:200]
        problem = f"the platform {platform} cannot be read: {text}"
        raise UsageError(problem, code="file-unreadable") from exc
    if not isinstance(definition, dict) or not isinstance(definition.get("prompt_pattern"), str):
        raise UsageError(f"the platform {platform} lacks a prompt_pattern", code="unknown-platform")
    # Python has possessive quantifiers from 3.11 on
    prompt = re.sub(r"([?*+])\+", r"\1", definition["prompt_pattern"])
    sent = [step.get("send_input") for step in definition.get("on_open_instructions") or ()]
    settings = {
        "errors": [re.escape(str(text)) for text in definition.get("failure_indicators") or ()],
        "open": [str(step["input"]) for step in sent if step],
        "enable": _read_enable_command(definition),
    }
    return {"prompt": prompt, **{name: value for name, value in settings.items() if value}}


def _read_enable_command(definition: dict[str, Any]) -> str:
    """Return the command that prompts for a password to enter the default mode, or ''."""
    modes = definition.get("modes") or ()
    paths = (path for mode in modes for path in mode.get("accessible_modes") or ())
    prompted = (
        step["send_prompted_input"]["input"]
        for path in paths
        if path.get("name") == definition.get("default_mode")
        for step in path.get("instructions") or ()
        if "send_prompted_input" in step
    )
    return str(next(prompted, ""))


def _find_definitions_directory() -> Path:
    spec = importlib.util.find_spec("scrapli")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if Path(folder, "definitions").is_dir():
            return Path(folder, "definitions")
    problem = "dut.options.platform names a platform of scrapli, which is not installed"
    hint = "pip install 'v6t[network-cli]', or describe the command line with dut.options.cli"
    raise EnvironmentLacking(problem, hint, code="unknown-platform")
