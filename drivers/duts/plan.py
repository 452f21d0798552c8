"""Steps, checks and plans as plain values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal

from v6t.drivers.transport.redaction import redact
from v6t.intent.device import DeviceIntent

Intent = DeviceIntent  # short alias for the intended configuration of a device


class IfExists(Enum):
    """What to do with an object that exists before the step that creates or changes it."""

    RESTORE = "value"  # change it; the rollback restores the present value
    KEEP = "there"  # it is as expected: repeat the step, but do not undo it
    REFUSE = "foreign"  # it belongs to another program or user: refuse the plan
    NONE = "none"  # do nothing: an earlier step of the plan creates the object


@dataclass(frozen=True)
class Expectation:
    """The output that a command must print; made by :func:`expect_text`, :func:`expect_lines` and others.

    It must identify the object: text found anywhere in the output proves nothing.
    """

    description: str  # the expected state, for the printed plan
    # returns what is wrong with an output; None if it is as expected
    find_problem: Callable[[str], str | None] = field(compare=False)
    # returns the parts of a wrong output that differ, as found and as expected; None: all of it differs
    find_difference: Callable[[str], tuple[str, str]] | None = field(default=None, compare=False)

    def describe_difference(self, output: str) -> tuple[str, str] | None:
        """Return the output and the expectation where they differ; None if they do not."""
        if self.find_problem(output) is None:
            return None
        if self.find_difference is not None:
            return self.find_difference(output)
        return shorten_output(output), " ".join(self.description.split())


@dataclass(frozen=True)
class Check:
    """A read-back: a read-only shell line and its expected output; the exit status is ignored."""

    command: str  # read-only shell line
    expected: Expectation  # expected output of the command

    def find_problem(self, output: str) -> str | None:
        """Return what is wrong with an output, which is quoted; None if it is as expected."""
        problem = self.expected.find_problem(output)
        return problem and f"{problem}; the output is {shorten_output(output)}"


@dataclass(frozen=True)
class Step:
    """One change to the device, with its read-back and its undo.

    ``read`` identifies the object of the step. Before the change it prints the state to restore, or
    nothing if the object does not exist; afterwards it must print what is expected.
    The functions of :mod:`v6t.drivers.duts.steps` make the usual kinds of steps. In ``undo`` and
    ``undo_text``, ``{old}`` is the output of ``read`` before the step as one word, ``{words}`` as several.
    """

    command: str  # shell line that makes the change
    why: str  # reason for the change, in one phrase
    text: str = ""  # standard input of the command
    read: str = ""  # read-only shell line that prints the state
    expected: Expectation | None = None  # output of ``read`` after the change; None: no read-back
    undo: str = ""  # shell line that undoes the change; harmless if there is nothing to undo
    undo_text: str = ""  # standard input of ``undo``
    existing: IfExists = IfExists.RESTORE  # treatment of an existing object
    gone_test: str = ""  # succeeds if the changed object, e.g. an interface, no longer exists
    wait: str = ""  # shell lines that wait for the effect of the change, before ``read``
    proof: Check | None = None  # read-back by another command than ``read``
    silent: bool = False  # any output is an error, as the exit status is meaningless
    deadline_s: float = 60.0  # time limit of the change and of its undo
    reboots: bool = False  # the change reboots the device, which is then configured again
    has_mapping_prefixes: bool = False  # prefixes in it are a translator's mappings, not routes

    @property
    def record_command(self) -> str:
        """Command whose output is recorded before the change; empty: nothing to restore."""
        if self.existing is IfExists.NONE or not (self.undo or self.existing is IfExists.REFUSE):
            return ""
        return self.read

    @property
    def check(self) -> Check | None:
        """The read-back of the step; None: it has none."""
        if self.expected is None:
            return self.proof
        return Check(f"{self.wait}; {self.read}" if self.wait else self.read, self.expected)


Action = Literal["add", "change", "remove"]  # what a change under traffic does to its object
# Actions on an object of a configured device under traffic, in their order.
ACTIONS: tuple[Action, ...] = ("add", "change", "remove")


@dataclass(frozen=True)
class DeviceChange:
    """Commands that add, change and remove, under traffic, an object that no test packet uses."""

    description: str  # phrase for the object
    add_command: str  # shell line that adds the object
    change_command: str  # shell line that changes it
    remove_command: str  # shell line that removes it; harmless if the object does not exist
    show_command: str  # shell line that prints the object, and nothing if it does not exist
    added_words: str  # expected words in one line of ``show_command`` after the addition
    changed_words: str  # expected words in one line of the same output after the change
    note: str = ""  # how the object is changed on a device that has no command for it
    deadline_s: float = 60.0  # time limit of each shell line
    exclusive: bool = False  # the output must contain only the expected words

    def get_command(self, action: Action) -> str:
        return str(getattr(self, f"{action}_command"))

    def find_problem(self, action: Action, output: str) -> str | None:
        """Return what is wrong with the output after an action; None if it is as expected."""
        if action == "remove":
            return f"it still exists: {shorten_output(output)}" if output.strip() else None
        expected = self.added_words if action == "add" else self.changed_words
        if self.exclusive and " ".join(output.split()) != expected:
            return f"'{expected}' expected and nothing else; the output is {shorten_output(output)}"
        if find_line(output, expected) is None:
            return f"'{expected}' is missing; the output is {shorten_output(output)}"
        return None

    @property
    def removal_step(self) -> Step:
        """The step that removes the object at every rollback."""
        why = f"{self.description} is added, changed and removed under traffic"
        undo, policy = self.remove_command, IfExists.REFUSE
        return Step("true", why, read=self.show_command, undo=undo, existing=policy)


@dataclass(frozen=True)
class Plan:
    """All steps that configure a device, in order."""

    driver: str  # name of the driver
    version: str  # version of the implementation
    steps: tuple[Step, ...]
    flush: tuple[Step, ...] = ()  # steps that clear state between trials; empty: no state
    checks: tuple[Check, ...] = ()  # read-backs beyond those of the steps
    notes: tuple[str, ...] = ()  # defaults and deviations that a reader should know
    live_change: DeviceChange | None = None  # change to make under traffic
    route_update: DeviceChange | None = None  # route that is added and changed in turn
    management_query: Check | None = None  # repeated under traffic; None: the shortest read-back

    def extend(self, steps: Iterable[Step], **fields: Any) -> Plan:
        """Return the plan with these steps added and these fields replaced."""
        return replace(self, steps=(*self.steps, *steps), **fields)

    @property
    def all_checks(self) -> tuple[Check, ...]:
        """Read-backs of all steps, then ``checks``."""
        return (*(s.check for s in self.steps if s.check), *self.checks)


_NAME_CHARACTER = re.compile(r"[\w%/.:@-]")  # a character of names, numbers and addresses
_PHRASE_START = r"(?<![\w%/.:@-])"  # not in the middle of a name, number or address
# a full stop or colon may end a sentence, and ``@`` may precede a lower interface
_PHRASE_END = r"(?![\w%/-]|[.:]+[\w%/-]|[.:]{2})"


def find_line(output: str, *phrases: str) -> str | None:
    """Return the first line that contains every phrase as whole words, or None.

    A phrase is one or more words; any white space separates them. ``id 1`` is not in ``id 10``,
    ``10.0.0.1`` not in ``10.0.0.1/24``, and ``UP`` is in ``<UP,LOWER_UP>``.
    """
    patterns = []
    for words in map(str.split, phrases):
        if not words:
            raise ValueError("a phrase without a word is in every line")
        prefix = _PHRASE_START if _NAME_CHARACTER.match(words[0][0]) else ""
        suffix = _PHRASE_END if _NAME_CHARACTER.match(words[-1][-1]) else ""
        patterns.append(prefix + r"\s+".join(map(re.escape, words)) + suffix)
    lines = output.splitlines()
    return next((line for line in lines if all(re.search(p, line) for p in patterns)), None)


def expect_text(value: object) -> Expectation:
    """Expect this text, apart from white space around it."""
    text = str(value)
    description = " ".join(text.split()) or "nothing"
    return expect_output(lambda output: output.strip() == text, description, f"'{text}' expected")


def expect_lines(*lines: str) -> Expectation:
    """Expect each of these lines, with any spacing; other lines are allowed."""
    expected_lines = [" ".join(line.split()) for line in lines]

    def find_problem(output: str) -> str | None:
        present = {" ".join(line.split()) for line in output.splitlines()}
        if not (missing := [line for line in expected_lines if line not in present]):
            return None
        similar = difflib.get_close_matches(missing[0], present, n=1)
        hint = f"; the most similar line is '{similar[0]}'" if similar else ""
        return f"the line '{missing[0]}' is missing{hint}"

    return Expectation(" and ".join(f"'{line}'" for line in expected_lines), find_problem)


def expect_words(*phrases: str) -> Expectation:
    """Expect one line with every phrase as whole words, see :func:`find_line`."""
    description = " and ".join(f"'{phrase}'" for phrase in phrases)
    problem = f"no line has {description}"
    return expect_output(lambda output: find_line(output, *phrases), description, problem)


def expect_matching_line(pattern: str, description: str) -> Expectation:
    """Expect a line that matches the pattern, apart from white space around it."""
    match = re.compile(pattern).fullmatch
    return expect_output(
        lambda output: any(match(line.strip()) for line in output.splitlines()), description
    )


def expect_output(test: Callable[[str], Any], description: str, problem: str = "") -> Expectation:
    """Expect an output that passes a test; ``problem`` describes any other output."""
    reason = problem or f"not {description}"
    return Expectation(description, lambda output: None if test(output) else reason)


def expect_max_sessions(
    parse: Callable[[str], Mapping[str, float]], noun: str, description: str = "", limit: int = 0
) -> Expectation:
    """Expect at most ``limit`` sessions in the output; messages call a session ``noun``."""

    def find_problem(output: str) -> str | None:
        if (count := parse(output).get("sessions")) is None:
            return f"it does not show the number of {noun}s"
        return f"{count:.0f} {noun}s are left" if count > limit else None

    return Expectation(description or f"no {noun}", find_problem)


def expect_only_words(words: Iterable[object], description: str = "") -> Expectation:
    """Expect these words and no others, in any order, repeated or not."""
    expected = set(map(str, words))
    description = description or " ".join(sorted(expected))
    return expect_output(lambda output: set(output.split()) == expected, description)


def shorten_output(output: str, limit: int = 200) -> str:
    """Return an output without secrets in quotes, cut to a maximum length; ``nothing`` if empty."""
    text = " ".join(redact(output).split())
    return f"'{text[:limit]}{'...' if len(text) > limit else ''}'" if text else "nothing"
