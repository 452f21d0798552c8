"""Any other device, configured by the user's shell lines with the guarantees of every driver."""

from __future__ import annotations

import contextlib
import math
import re
import shlex
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal

from pydantic import Field, model_validator
from v6t.base.errors import DutError, InvalidValue
from v6t.base.strict_model import StrictModel
from v6t.drivers.duts import plan
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.header_profile import HeaderProfile
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.management_path import make_client_path
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.readings import LossReason, Reading
from v6t.intent.families import DeviceConfig

CHECK_CRITERIA = ("contains", "equals", "matches", "absent")  # exactly one is required


def validate_pattern(pattern: object) -> object:
    """Return the pattern; raise InvalidValue if it is not a regular expression."""
    try:
        re.compile(pattern if isinstance(pattern, str) else "")
    except re.error as exc:
        problem = f"'{pattern}' is not a regular expression: {exc}"
        raise InvalidValue(problem, code="wrong-form") from exc
    return pattern


class CheckOptions(StrictModel):
    """A command that reads the device's state, and the one criterion that its output must meet."""

    command: str = Field(min_length=1)  #: Read-only line.
    contains: str | None = None
    """One line of the output must contain this text as whole words, with any spacing."""
    equals: str | None = None  #: The output must be this text.
    matches: str | None = None  #: The output must contain a match of this regular expression.
    absent: str | None = None  #: The output must not contain this text, with any spacing.

    @model_validator(mode="after")
    def _check_criteria(self) -> CheckOptions:
        if sum(getattr(self, name) is not None for name in CHECK_CRITERIA) != 1:
            problem = "give one of contains, equals, matches and absent"
            raise InvalidValue(problem, code="missing-setting")
        for name in ("contains", "matches", "absent"):
            if getattr(self, name) is not None and not getattr(self, name).strip():
                problem = f"{name} must not be empty: every output contains an empty text"
                raise InvalidValue(problem, code="wrong-length")
        if self.matches is not None:
            validate_pattern(self.matches)
        return self

    def make_check(self, command: str) -> plan.Check:
        if self.contains is not None:
            expected = plan.expect_words(self.contains)
        elif self.equals is not None:
            expected = plan.expect_text(self.equals)
        elif self.matches is not None:
            search = re.compile(self.matches, re.MULTILINE).search
            expected = plan.expect_output(search, f"a match of {self.matches}")
        else:
            expected = plan.expect_output(self._lacks_unwanted_text, f"no '{self.absent}'")
        return plan.Check(command, expected)

    def _lacks_unwanted_text(self, output: str) -> bool:
        text = " ".join(output.split())  # empty output proves nothing
        return bool(text) and " ".join(str(self.absent).split()) not in text


class StepOptions(StrictModel):
    """A shell line that changes the device, and the line that undoes the change, which may be empty."""

    command: str = Field(min_length=1)  #: Shell line that makes the change.
    why: str = Field(min_length=1)  #: Purpose, in one phrase.
    undo: str  #: Shell line that undoes the change; `{old}` is the output of `before`.
    before: str = ""  #: Shell line that prints the state to restore.
    was: Literal["value", "there", "foreign"] = "value"
    """What `before` prints: a value to restore, the change already made, or an object of another owner."""
    check: CheckOptions | None = None  #: Read-back of the change.
    deadline_s: float = Field(default=60.0, gt=0, le=3600)  #: Time limit [s].


class FlushOptions(StrictModel):
    """A shell line that clears the device's state before a trial, and the check of its effect."""

    command: str = Field(min_length=1)  #: Shell line that empties the state.
    check: CheckOptions | None = None  #: Read-back, which is repeated until it succeeds.
    reboots: bool = False
    """The line reboots the device; v6t then logs in again and configures it again."""
    deadline_s: float = Field(default=60.0, gt=0, le=3600)
    """Time limit [s]; with `reboots`, until the next login."""

    @model_validator(mode="after")
    def _require_check(self) -> FlushOptions:
        if (self.check is None) != self.reboots:
            raise InvalidValue("give a check, or set reboots: true", code="missing-setting")
        return self


HeaderFieldValue = Literal["allowed", "copied", "zero"]  # "allowed": any value that RFCs permit


class HeaderProfileOptions(StrictModel):
    """Options that declare a :class:`~v6t.drivers.duts.header_profile.HeaderProfile` of the device."""

    further_hops: int = Field(default=0, ge=0, le=16)
    """Hops inside the device beyond the reference's single one."""
    df: Literal["reference", "set", "clear"] = "reference"
    """Don't Fragment of IPv4 packets translated from IPv6."""
    outer_dscp: HeaderFieldValue | Annotated[int, Field(ge=0, le=63)] = "allowed"
    """DSCP of outer headers: any value that RFCs allow, the packet's, 0, or a value."""
    outer_ecn: Literal["allowed", "copied", "zero", "reset"] = "allowed"
    """ECN of outer headers; `reset`: the packet's, but CE becomes ECT(0)."""
    inner_dscp: Literal["allowed", "kept", "copied"] = "allowed"
    """DSCP of decapsulated packets: their own or the outer header's."""
    inner_ecn: Literal["rfc6040", "rfc3168", "kept"] = "rfc6040"
    """How ECN of decapsulated packets and of the outer header are combined."""
    traffic_class: HeaderFieldValue | Annotated[int, Field(ge=0, le=255)] = "allowed"
    """Traffic class or TOS of translated packets: the other header's octet, 0, or a value."""
    flow_label: Literal["allowed", "zero"] = "allowed"
    """Flow label of new IPv6 headers; RFCs allow any."""
    identification: Literal["allowed", "zero"] = "allowed"
    """Identification of new IPv4 headers; RFCs allow any."""
    tunnel_hop_limit: int = Field(default=0, ge=0, le=255)
    """Hop limit of outer headers when they leave the device; 0: any."""
    absent_checksum: bool = False  #: The UDP checksum may be 0, which means that none was computed.
    zero_checksum: Literal["never", "ipv6", "always"] = "never"
    """A UDP checksum computed as 0 may be written as 0 instead of 0xFFFF: towards IPv6, or always."""
    least_octets: int = Field(default=0, ge=0, le=60)
    """Frames are padded to this length without FCS."""

    def make_profile(self) -> HeaderProfile:
        return HeaderProfile(**self.model_dump(), why="declared in the testbed file")


class CommandOptions(LinuxOptions):
    """Options of a device that is configured by the user's shell lines."""

    base: bool = True
    """Configure addresses, neighbors, routes and forwarding as for every Linux device."""
    steps: tuple[StepOptions, ...] = ()
    flush: tuple[FlushOptions, ...] = ()
    sessions_command: str = ""  #: Shell line that prints the number of sessions.
    watch: dict[str, str] = Field(default_factory=dict)
    """Telemetry commands by name, run once a second; each prints a number, or ``name=number`` words. Names
    that begin with ``drop`` count lost frames, with ``refused`` those lost for lack of room or of a
    port."""
    version_command: str = "uname -sr"  #: Shell line that prints the version for the manifest.
    profile: HeaderProfileOptions = HeaderProfileOptions()


# loss reasons by pattern of the telemetry names, which the user chooses
LOSS_REASONS = {"drop.*": LossReason.QUEUE, "refused.*": LossReason.TABLE_FULL}


class CommandDriver(LinuxDriver):
    """Driver for any device; the user's shell lines can use ``$LEFT``, ``$RIGHT`` and ``$STATE``."""

    name = "command"
    title = "any device: your own shell lines for commit, rollback, check, flush and telemetry"
    supported_configurations = (DeviceConfig,)
    test_status = "with shell lines that make a Linux router; test your own lines yourself"
    options_model = CommandOptions

    def get_survey_commands(self) -> Mapping[str, str]:
        commands = {**super().get_survey_commands(), "version": self.options.version_command}
        names = ("boot", "user", "version", "client")
        return commands if self.options.base else {k: commands[k] for k in names}

    def parse_facts(self, sections: Mapping[str, str]) -> Facts:
        if self.options.base:
            return super().parse_facts(sections)
        if not sections.get("version"):
            problem = f"the device does not answer '{self.options.version_command}'"
            raise DutError(problem, code="unexpected-answer")
        return Facts(
            system=sections["version"],
            version=sections["version"],
            boot_id=sections.get("boot", "").strip(),
            is_root=sections.get("user", "").strip() == "0",
            management_path=make_client_path(sections.get("client", "")),
            sections=dict(sections),
        )

    def check_device(self, intent: plan.Intent, facts: Facts) -> None:
        if self.options.base:
            super().check_device(intent, facts)

    def plan_configuration(self, intent: plan.Intent, facts: Facts) -> plan.Plan:
        user_steps = [self._make_step(intent, step) for step in self.options.steps]
        flush = []
        for text in self.options.flush:
            line = self._add_variables(intent, text.command)
            proof = self._make_check(intent, text.check)
            fields = {"deadline_s": text.deadline_s, "reboots": text.reboots}
            flush.append(plan.Step(line, "empty the device's state", proof=proof, **fields))
        return self.assemble_plan(intent, facts, user_steps, flush)

    def make_base_steps(self, intent: plan.Intent, facts: Facts) -> list[plan.Step]:
        return super().make_base_steps(intent, facts) if self.options.base else []

    def get_header_profile(self, intent: plan.Intent) -> HeaderProfile:
        return self.options.profile.make_profile()  # type: ignore[no-any-return]

    def get_session_reading(self, intent: plan.Intent) -> Reading | None:
        text, parse = self.options.sessions_command, partial(parse_numbers, "sessions")
        return Reading(self._add_variables(intent, text), parse) if text else None

    def get_telemetry_readings(self, intent: plan.Intent) -> Mapping[str, Reading]:
        readings = dict(super().get_telemetry_readings(intent)) if self.options.base else {}
        for name, text in self.options.watch.items():
            command, parse = self._add_variables(intent, text), partial(parse_numbers, name)
            readings[name] = Reading(command, parse, loss_reasons=LOSS_REASONS)
        return readings

    def _make_step(self, intent: plan.Intent, step: StepOptions) -> plan.Step:
        return plan.Step(
            self._add_variables(intent, step.command),
            step.why,
            read=self._add_variables(intent, step.before) if step.before else "",
            undo=self._add_variables(intent, step.undo) if step.undo else "",
            existing=plan.IfExists(step.was),
            proof=self._make_check(intent, step.check),
            deadline_s=step.deadline_s,
        )

    def _make_check(self, intent: plan.Intent, check: CheckOptions | None) -> plan.Check | None:
        if check is None:
            return None
        return check.make_check(self._add_variables(intent, check.command))

    def _add_variables(self, intent: plan.Intent, command: str) -> str:
        left, right = self.get_ports(intent).values()
        places = {"LEFT": left, "RIGHT": right, "STATE": self.options.state_dir}
        return " ".join(f"{k}={shlex.quote(v)};" for k, v in places.items()) + f" {command}"


def parse_numbers(default_name: str, text: str) -> Mapping[str, float]:
    """Parse ``NAME=number`` words; a number without a name gets the default name."""
    values: dict[str, float] = {}
    for word in text.split():
        key, equal, value = word.partition("=")
        with contextlib.suppress(ValueError):
            number = float(value if equal else word)
            if math.isfinite(number):
                values[key if equal else default_name] = number
    return values
