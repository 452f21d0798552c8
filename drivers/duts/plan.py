"""Steps, checks and plans as plain values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal

from v6t.intent.device import DeviceIntent

ProblemFinder = Callable[[str], "str | None"]
"""Returns the problem of a command's output; None: the output is as wanted."""
DifferenceFinder = Callable[[str], tuple[str, str]]
"""Returns the parts of a wrong output that differ, as found and as wanted."""
Intent = DeviceIntent
"""What a device must be."""


class Existing(Enum):
    """Treatment of an object that exists before its step."""

    RESTORE = "value"
    """Change it; the undo command writes the present value back."""
    KEEP = "there"
    """It is as wanted: do the step again and never undo it."""
    REFUSE = "foreign"
    """It belongs to another program or user: refuse the plan."""
    NONE = "none"
    """It cannot exist: it is a part of what an earlier step of the plan creates."""


@dataclass(frozen=True)
class Expectation:
    """The output that a read must have; see :func:`expect_text`, :func:`expect_lines` and the others.

    Text found anywhere in the output proves nothing: a want identifies its object.

    Attributes:
        description: the wanted state, for the printed plan.
        comparer: of an output with several values, only some of which may differ; None: of one value.
    """

    description: str
    find_problem: ProblemFinder = field(compare=False)
    find_difference: DifferenceFinder | None = field(default=None, compare=False)

    def describe_difference(self, output: str) -> tuple[str, str] | None:
        if self.find_problem(output) is None:
            return None
        if self.find_difference is not None:
            return self.find_difference(output)
        return shorten_output(output), " ".join(self.description.split())


@dataclass(frozen=True)
class Check:
    """A read-back: what a shell line that changes nothing must print. Exit statuses are not evidence."""

    command: str
    expected: Expectation

    @property
    def description(self) -> str:
        return self.expected.description

    def find_problem(self, output: str) -> str | None:
        """Return the problem of the command's output; None if it is as wanted."""
        return self.expected.find_problem(output)


@dataclass(frozen=True)
class Step:
    """One change of the device, with its read-back and its undo.

    ``read`` identifies the object of the step. Before the change it prints the state to restore, or
    nothing if the object does not exist; afterwards it must print what is wanted.
    The functions of :mod:`v6t.drivers.duts.steps` make the usual kinds of steps.

    Attributes:
        set: a shell line for the device's own shell.
        why: one phrase.
        text: standard input of ``set``.
        read: a shell line that prints the state and changes nothing.
        want: what ``read`` must print after the change; None: no read-back.
        undo: a shell line that takes the change back, harmless if there is nothing to take back;
            ``{old}`` is what ``read`` printed before the step, as one word, ``{words}`` as several.
        undo_text: standard input of ``undo``.
        existing: what to do if ``read`` prints something before the change.
        is_gone: a shell line that succeeds if what was changed no longer exists: an interface that
            was removed took the change with it.
        wait: shell lines that wait until the change has taken effect, before ``read``.
        proof: a read-back by another command, where ``read`` shows only what is in the way.
        silent: any output of ``set`` is an error (programs whose exit status says nothing).
        deadline_s: how long the change may take [s], and how long its undo.
        reboots: the device reboots, which ends the connection; it is configured again.
        is_mapping: its prefixes are those of a translator's mappings, where a default route is allowed;
            in any other step it counts as a route.
    """

    command: str
    why: str
    text: str = ""
    read: str = ""
    expected: Expectation | None = None
    undo: str = ""
    undo_text: str = ""
    existing: Existing = Existing.RESTORE
    gone_test: str = ""
    wait: str = ""
    proof: Check | None = None
    silent: bool = False
    deadline_s: float = 60.0
    reboots: bool = False
    is_mapping: bool = False

    @property
    def before(self) -> str:
        """The read whose output is recorded before the change; empty: there is nothing to restore."""
        if self.existing is Existing.NONE or not (self.undo or self.existing is Existing.REFUSE):
            return ""
        return self.read

    @property
    def check(self) -> Check | None:
        if self.expected is None:
            return self.proof
        return Check(f"{self.wait}; {self.read}" if self.wait else self.read, self.expected)


Action = Literal["add", "change", "remove"]
ACTIONS: tuple[Action, ...] = ("add", "change", "remove")
"""What is done to a configured device under traffic, in this order."""


@dataclass(frozen=True)
class Change:
    """An object apart from the test traffic that is added, changed and removed while traffic flows.

    Attributes:
        add, change, remove: shell lines; ``remove`` is harmless if the object does not exist.
        look: a shell line that prints the object; nothing if it does not exist.
        added, changed: whole words of one line that ``look`` then prints.
        how: what a change means if the device has no command for it.
        deadline_s: how long each may take [s], and the look as long again.
        exclusive: ``look`` must print nothing beyond ``added`` or ``changed``.
    """

    description: str
    add: str
    change: str
    remove: str
    show_command: str
    added_words: str
    changed_words: str
    note: str = ""
    deadline_s: float = 60.0
    exclusive: bool = False

    def command(self, action: Action) -> str:
        return str(getattr(self, action))

    def find_problem(self, action: Action, output: str) -> str | None:
        if action == "remove":
            return f"it is still there: {shorten_output(output)}" if output.strip() else None
        expected = self.added_words if action == "add" else self.changed_words
        if self.exclusive and " ".join(output.split()) != expected:
            return f"'{expected}' expected and nothing else; the output is {shorten_output(output)}"
        if find_line(output, expected) is None:
            return f"'{expected}' is missing; the output is {shorten_output(output)}"
        return None

    @property
    def removal_step(self) -> Step:
        """The step that removes the object at every rollback."""
        why = f"{self.description} beside the traffic is added, changed and removed under it"
        return Step("true", why, read=self.show_command, undo=self.remove, existing=Existing.REFUSE)


@dataclass(frozen=True)
class Plan:
    """All steps that configure a device, in order.

    Attributes:
        flush: actions that empty the device's state between trials; none: it has no state.
        checks: read-backs beyond those of the steps.
        notes: what a reader should know: defaults that matter, deviations.
        live_change: what is changed under traffic; None: nothing is.
        route_update: the route that updates move back and forth, by ``add`` and ``change``; None: none.
        management_query: the query repeated under traffic; None: the read-back with the shortest answer.
    """

    driver: str
    version: str
    steps: tuple[Step, ...]
    flush: tuple[Step, ...] = ()
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    live_change: Change | None = None
    route_update: Change | None = None
    management_query: Check | None = None

    def extend(self, steps: Iterable[Step], **fields: Any) -> Plan:
        """Return the plan with further steps and other fields."""
        return replace(self, steps=(*self.steps, *steps), **fields)

    @property
    def all_checks(self) -> tuple[Check, ...]:
        return (*(s.check for s in self.steps if s.check), *self.checks)


_EDGE = re.compile(r"[\w%/.:@-]")
"""A phrase that begins or ends with one of these must not be part of a longer name, number or address."""
_BEFORE = r"(?<![\w%/.:@-])"
_AFTER = r"(?![\w%/-]|[.:]+[\w%/-]|[.:]{2})"
"""A full stop or colon may follow at the end of a sentence, and ``@`` before the interface below."""


def find_line(output: str, *phrases: str) -> str | None:
    """Return the first line that contains every phrase as whole words, or None.

    A phrase is one or more words; any white space separates them. ``id 1`` is not in ``id 10``,
    ``10.0.0.1`` not in ``10.0.0.1/24``, and ``UP`` is in ``<UP,LOWER_UP>``.
    """
    patterns = []
    for words in map(str.split, phrases):
        if not words:
            raise ValueError("a phrase without a word is in every line")
        prefix = _BEFORE if _EDGE.match(words[0][0]) else ""
        suffix = _AFTER if _EDGE.match(words[-1][-1]) else ""
        patterns.append(prefix + r"\s+".join(map(re.escape, words)) + suffix)
    lines = output.splitlines()
    return next((line for line in lines if all(re.search(p, line) for p in patterns)), None)


def expect_text(value: object) -> Expectation:
    """Require this text, apart from white space around it."""
    text = str(value)
    description = " ".join(text.split()) or "nothing"
    return expect_output(lambda output: output.strip() == text, description, f"'{text}' expected")


def expect_lines(*lines: str) -> Expectation:
    """Require each of these lines, with any spacing; other lines are allowed."""
    expected_lines = [" ".join(line.split()) for line in lines]

    def find_problem(output: str) -> str | None:
        present = {" ".join(line.split()) for line in output.splitlines()}
        missing_line = next((line for line in expected_lines if line not in present), None)
        return (
            missing_line
            and f"the line '{missing_line}' is missing; the output is {shorten_output(output)}"
        )

    return Expectation(" and ".join(f"'{line}'" for line in expected_lines), find_problem)


def expect_words(*phrases: str) -> Expectation:
    """Require one line that holds every phrase as whole words, see :func:`find_line`."""
    description = " and ".join(f"'{phrase}'" for phrase in phrases)
    return expect_output(
        lambda output: find_line(output, *phrases), description, f"no line has {description}"
    )


def expect_matching_line(pattern: str, description: str) -> Expectation:
    """Require a whole line of this form, apart from white space around it."""
    match = re.compile(pattern).fullmatch
    return expect_output(
        lambda output: any(match(line.strip()) for line in output.splitlines()), description
    )


def expect_output(
    test: Callable[[str], object], description: str, problem: str = ""
) -> Expectation:
    """Require an output that passes a test; ``problem`` describes another one."""

    def find_problem(output: str) -> str | None:
        reason = problem or f"not {description}"
        return None if test(output) else f"{reason}; the output is {shorten_output(output)}"

    return Expectation(description, find_problem)


def expect_only_words(words: Iterable[object], description: str = "") -> Expectation:
    """Require exactly these words, in any order and number."""
    expected = set(map(str, words))
    return expect_output(
        lambda output: set(output.split()) == expected, description or " ".join(sorted(expected))
    )


def shorten_output(output: str, limit: int = 200) -> str:
    """Return the output of a program, short enough for a sentence."""
    text = " ".join(output.split())
    return f"'{text[:limit]}{'...' if len(text) > limit else ''}'" if text else "nothing"
