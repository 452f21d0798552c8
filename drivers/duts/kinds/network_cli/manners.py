"""How a command line behaves: prompts, pages, refusals, questions."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, field_validator
from v6t.base.errors import InvalidValue
from v6t.base.strict_model import StrictModel
from v6t.drivers.duts.kinds.command import check_pattern
from v6t.drivers.transport.redaction import SHORTEST_SECRET, expects_secret, names_environment

PROMPT = (
    r"^[\w.@:/~*!+()\[\]{}>-]*[\w)\]}~][>#$%]\s*$"
    r"|^<[\w.@:/~*!+-]+>\s*$"
    r"|^\[[~*]?[\w.@:/-]+\]\s*$"
)
PAGER = r"(?i)(?:-{2,} ?\(?more\b[^\n]*|press any key to continue[^\n]*)$"
ERRORS = (
    r"^[^\S\n]*% ?(?:invalid|incomplete|ambiguous|unknown|unrecognized|bad|error|cannot|failed|access"
    r" denied|authorization failed)\b",
    r"^[^\S\n]*(?:syntax error|unknown command|invalid command|missing (?:mandatory )?argument)\b",
    r"^[^\S\n]*(?:error:|commit failed\b|command authorization failed\b)",
    r"^(?:minor|major|critical): ",
)
"""What common command lines print if they refuse a line; case does not matter."""
_MARKS = re.compile(r"[*~!\s]")
"""What some prompts show of unsaved changes."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def one_line(text: str) -> str:
    """Return a line that may be typed."""
    if _CONTROL.search(text):
        raise InvalidValue(f"{text!r} is not one line of plain text", code="wrong-form")
    return text


def split_lines(value: object) -> object:
    """Split a block of text into lines without empty ones; the model checks anything else."""
    whole = value.split("\n") if isinstance(value, str) else value
    if not isinstance(whole, (list, tuple)):
        return value
    return [v for v in (v.rstrip() if isinstance(v, str) else v for v in whole) if v != ""]


Line = Annotated[str, BeforeValidator(lambda v: one_line(v) if isinstance(v, str) else v)]
Lines = Annotated[tuple[Line, ...], BeforeValidator(split_lines)]
"""A list of lines, or a block of text."""
Pattern = Annotated[str, BeforeValidator(check_pattern)]


class Manners(StrictModel):
    """Behavior of the device's command line."""

    prompt: Pattern = ""
    """What a prompt looks like, as a regular expression on the last line; empty: like most."""
    pager: Pattern = ""
    """What it shows between two pages of an answer, where a space is typed; empty: like most."""
    errors: tuple[Pattern, ...] = ()
    """What it says of a line that it refuses, whatever its case; none: what most say."""
    answers: dict[Pattern, str] = Field(default_factory=dict)
    """Answers to questions of the device, by regular expressions: `{'\\[confirm\\]$': ''}`. Write a secret
    as `{env:NAME}`: the value of the environment variable NAME is typed and stored nowhere."""
    enable: str = ""
    """Typed after the login where the prompt ends with `>`. A password it asks for is taken from the
    environment variable `V6T_DUT_ENABLE_PASSWORD`."""
    open: Lines = ()
    """Typed after each login: `terminal length 0`, for example."""
    abort: Lines = ()
    """Typed after a line was refused, to come back to the first prompt: `end`, for example."""
    line_deadline_s: float = Field(default=60.0, gt=0, le=3600)
    """How long it may take from a line to the next prompt [s]."""
    idle_s: float = Field(default=60.0, ge=0, le=86400)
    """After how long without a line an empty one is typed at the first prompt, so that the device does
    not end the login [s]; 0: never, for a device that does something at an empty line."""

    @field_validator("answers")
    @classmethod
    def _check_answers(cls, answers: dict[str, str]) -> dict[str, str]:
        for pattern, answer in answers.items():
            one_line(answer)
            secret = expects_secret(pattern) and len(answer) >= SHORTEST_SECRET
            if secret and not names_environment(answer):
                raise InvalidValue(
                    f"the answer to '{pattern}' looks like a secret: write it as {{env:NAME}}",
                    code="secret-in-file",
                )
        return answers

    def is_prompt(self, last: str, stem: str) -> bool:
        """Return whether a line is a prompt.

        Args:
            last: the line without an end.
            stem: what every prompt of the device holds; empty before the first one.
        """
        return stem in last and re.search(self.prompt or PROMPT, last) is not None

    def is_pager(self, last: str) -> bool:
        """Return whether the device waits for a key before the next page."""
        return re.search(self.pager or PAGER, last) is not None

    def answer(self, last: str) -> str | None:
        """Return the answer to a question; None: it is unknown."""
        known = (a for pattern, a in self.answers.items() if re.search(pattern, last))
        return next(known, None)

    def refusal(self, reply: str) -> str:
        """Return the line that refuses what was typed; empty: no line does."""
        for pattern in self.errors or ERRORS:
            match = re.search(pattern, reply, re.MULTILINE | re.IGNORECASE)
            if match:
                begin = reply.rfind("\n", 0, match.end() - 1) + 1
                return reply[begin:].partition("\n")[0].strip()
        return ""


def same_mode(one: str, other: str) -> bool:
    """Return whether two prompts are equal but for marks of unsaved changes."""
    return _MARKS.sub("", one) == _MARKS.sub("", other)
