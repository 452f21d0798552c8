"""What a testbed file says about a device that is configured by lines typed at its command line."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator
from v6t.base.errors import InvalidValue
from v6t.base.strict_model import StrictModel
from v6t.drivers.duts.kinds.command import CheckText, ProfileText
from v6t.drivers.duts.kinds.network_cli.manners import Line, Lines, Manners, Pattern
from v6t.drivers.duts.kinds.network_cli.readings import reading_of
from v6t.drivers.duts.options import DutOptions
from v6t.drivers.transport.ssh_options import SshOptions


class LineCheck(CheckText):
    """A read-back: a line that changes nothing, and exactly one of the four."""

    command: Line = Field(min_length=1)
    """The line."""


class PatternText(StrictModel):
    """A figure in an answer."""

    command: Line = Field(min_length=1)
    """A line that changes nothing, cheap enough for once a second."""
    pattern: Pattern = Field(min_length=1)
    """A regular expression; its first group, or all of its match, is the figure."""


class WatchText(PatternText):
    """Figures that are read once a second under load."""

    pattern: Pattern = Field(min_length=1)
    """A regular expression with named groups: `busy` or `idle` [%] of a processor, with `core`
    those of several; `used` and `limit` of the table; `rx_left`, `rx_right` packets that came in;
    `drop_REASON` frames lost since some start, `refused_REASON` those for whose connection there was no room
    or no port. Each match counts."""

    @model_validator(mode="after")
    def _check_pattern(self) -> WatchText:
        reading_of(self.pattern)
        return self


class BusyText(StrictModel):
    """A line that prints whether somebody else is at work on the device."""

    command: Line = Field(min_length=1)
    """A line that says so."""
    pattern: Pattern = Field(min_length=1)
    """A match of it means that nothing is begun."""


class CompareText(StrictModel):
    """The configuration that must be the same after a rollback."""

    command: Line = Field(min_length=1)
    """The line that prints the configuration."""
    but: tuple[Pattern, ...] = ()
    """Lines with a match are left out: they change by themselves."""


class ConfirmText(StrictModel):
    """The device's own timer, which takes a configuration back that nobody confirms."""

    before: Lines = ()
    """Start it; where the last of the `configure` lines does, there are none."""
    keep: Lines = Field(min_length=1)
    """Stop it: the configuration stays."""
    cancel: Lines = ()
    """Take the configuration back at once and stop the timer, where restoring does not stop it."""


class FlushLines(StrictModel):
    """Lines that empty the device's state, with their read-back."""

    lines: Lines = Field(min_length=1)
    """The lines."""
    check: LineCheck
    """The read-back, which must agree in the end."""


class NetworkCliOptions(DutOptions):
    """Options of a device with a command line."""

    state_dir: str = ""
    """Directory on this machine for lock and undo record; empty: one for each device in
    `/var/lib/v6t`, or in `~/.local/state/v6t` of who is not root."""
    platform: str = Field(default="", pattern=r"^[A-Za-z0-9_./~-]*$")
    """A platform of scrapli, or a file like its definitions (`.yaml`): where `cli` says nothing else, its
    prompts, refusals and first lines hold."""
    cli: Manners = Manners()
    busy: BusyText | None = None
    prepare: Lines = ()
    """Typed first: what saves the configuration as it is, for example."""
    configure: Lines = ()
    """Make the device what it shall be."""
    confirm: ConfirmText | None = None
    settle_s: float = Field(default=0.0, ge=0, le=600)
    """Time between the last line and the first read-back [s]."""
    verify: tuple[LineCheck, ...] = ()
    restore: Lines = ()
    """Put everything back; harmless if everything is as it was."""
    tidy: Lines = ()
    """Typed at the very end: what removes what `prepare` has saved, for example."""
    compare: CompareText | None = None
    flush: FlushLines | None = None
    sessions: PatternText | None = None
    timeout_s: int = Field(default=0, ge=0, le=864_000)
    """Timeout of UDP connections that the lines set [s]; 0: unknown."""
    telemetry: tuple[WatchText, ...] = ()
    version_command: Line = ""
    """A line that prints the version."""
    version_pattern: Pattern = r"\S.*"
    """What of it is the version: its first group, or all of its match."""
    profile: ProfileText = ProfileText()

    @field_validator("ssh")
    @classmethod
    def _check_login(cls, ssh: SshOptions | None) -> SshOptions | None:
        if ssh is not None and ssh.become:
            raise InvalidValue(
                "become is for a shell; cli.enable is typed after the login", code="conflict"
            )
        if ssh is not None and ssh.netns:
            raise InvalidValue(
                "netns is for a shell; name it in the lines that are typed", code="conflict"
            )
        return ssh
