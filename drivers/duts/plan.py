"""What is to be done to a device, as plain values: steps, checks and plans. Nothing runs here."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from v6t.intent.device import DeviceIntent

Checker = Callable[[str], "str | None"]
"""Reads a command's output; returns what is wrong with it, or None."""
Intent = DeviceIntent
"""What a device must be."""


class Was(Enum):
    """What it means if a step's ``before`` command printed something."""

    VALUE = "value"
    """A value the undo command writes back."""
    THERE = "there"
    """It is so already: the step is done again and never undone."""
    FOREIGN = "foreign"
    """Somebody else's: refuse."""


@dataclass(frozen=True)
class Check:
    """A read-back: exit statuses are not evidence.

    A checker identifies its object by the whole output (:func:`equals`), by whole lines
    (:func:`has_lines`), by whole words of one line (:func:`has_words`), or by parsing
    (:func:`checked`): text found anywhere in the output proves nothing.

    Attributes:
        command: a shell line that changes nothing.
        checker: what is wrong with its output, None if nothing.
        says: what is to be seen, for the printed plan.
    """

    command: str
    checker: Checker = field(compare=False)
    says: str


@dataclass(frozen=True)
class Step:
    """One change of the device.

    Attributes:
        command: a shell line for the device's own shell.
        why: one phrase.
        text: standard input of the command.
        undo: a shell line that takes it back, harmless if there is nothing to take back;
            ``{old}`` is what ``before`` printed, as one word, ``{words}`` as several.
        before: a shell line that prints what is to be restored; its output must be the same again
            after the undo.
        was: what output of ``before`` means.
        gone: a shell line that succeeds if what was changed no longer exists: an interface that
            was taken away took the change with it.
        check: the read-back.
        silent: any output of the command is an error (programs whose exit status says nothing).
        deadline_s: how long it may take [s], and how long taking it back.
        reboots: the device starts anew, and with it the connection; it is configured again.
        maps: its prefixes are those of a translator's mappings, where that of everything takes nobody's way;
            in any other step it counts as a route.
    """

    command: str
    why: str
    text: str = ""
    undo: str = ""
    undo_text: str = ""
    before: str = ""
    was: Was = Was.VALUE
    gone: str = ""
    check: Check | None = None
    silent: bool = False
    deadline_s: float = 60.0
    reboots: bool = False
    maps: bool = False


Action = Literal["add", "change", "remove"]
ACTIONS: tuple[Action, ...] = ("add", "change", "remove")
"""What is done to a configured device under traffic, in this order."""


@dataclass(frozen=True)
class Change:
    """Something beside the traffic that is added, changed and removed while traffic goes on.

    Attributes:
        what: it is, in words (``a route``, ``a MAP domain``).
        add, change, remove: shell lines; ``remove`` is harmless where there is nothing.
        look: a shell line that prints it; nothing where it is not there.
        added, changed: whole words of one line that ``look`` then prints.
        how: what changing it means where the device has no command for that.
        deadline_s: how long each may take [s], and the look as long again.
        alone: ``look`` must print nothing else.
    """

    what: str
    add: str
    change: str
    remove: str
    look: str
    added: str
    changed: str
    how: str = ""
    deadline_s: float = 60.0
    alone: bool = False

    def command(self, action: Action) -> str:
        """The shell line of an action."""
        return {"add": self.add, "change": self.change, "remove": self.remove}[action]

    def wrong(self, action: Action, output: str) -> str | None:
        """What ``look`` says against an action that was carried out; None: nothing."""
        if action == "remove":
            return f"it is still there: {shown(output)}" if output.strip() else None
        wanted = self.added if action == "add" else self.changed
        if self.alone and " ".join(output.split()) != wanted:
            return f"'{wanted}' expected and nothing else; it says {shown(output)}"
        if line_with(output, wanted) is None:
            return f"'{wanted}' is not there; it says {shown(output)}"
        return None

    @property
    def kept(self) -> Step:
        """The plan's step that has it removed when the device is restored, whatever happened."""
        return Step(
            "true",
            f"{self.what} beside the traffic is added, changed and removed under it",
            undo=self.remove,
            before=self.look,
            was=Was.FOREIGN,
        )


@dataclass(frozen=True)
class Plan:
    """Everything a device needs, in order.

    Attributes:
        driver: the driver's name.
        version: of the implementation the commands are for.
        steps: the changes.
        flush: what empties its state between trials; none: it has no state.
        checks: read-backs beyond those of the steps.
        notes: what a reader should know: defaults that matter, deviations.
        beside: what is changed under traffic; None: nothing is.
        updates: the route that updates move to and fro, by ``add`` and ``change``; None: none.
        asked: again and again under traffic; None: the read-back with the shortest answer.
    """

    driver: str
    version: str
    steps: tuple[Step, ...]
    flush: tuple[Step, ...] = ()
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    beside: Change | None = None
    updates: Change | None = None
    asked: Check | None = None

    @property
    def all_checks(self) -> tuple[Check, ...]:
        """Read-backs of the steps, then the others."""
        return (*(s.check for s in self.steps if s.check), *self.checks)


_EDGE = re.compile(r"[\w%/.:@-]")
"""A phrase that begins or ends with one of these must not be part of a longer name, number or address."""
_BEFORE = r"(?<![\w%/.:@-])"
_AFTER = r"(?![\w%/-]|[.:]+[\w%/-]|[.:]{2})"
"""A full stop or colon may follow at the end of a sentence, and ``@`` before the interface below."""


def line_with(output: str, *phrases: str) -> str | None:
    """Return the first line that holds every phrase as whole words, None if there is none.

    A phrase is one or more words; any white space separates them. ``id 1`` is not in ``id 10``,
    ``10.0.0.1`` not in ``10.0.0.1/24``, and ``UP`` is in ``<UP,LOWER_UP>``.
    """
    patterns = [_phrase_pattern(phrase) for phrase in phrases]
    return next(
        (line for line in output.splitlines() if all(p.search(line) for p in patterns)), None
    )


def _phrase_pattern(phrase: str) -> re.Pattern[str]:
    words = phrase.split()
    if not words:
        raise ValueError("a phrase without a word is in every line")
    before = _BEFORE if _EDGE.match(words[0][0]) else ""
    after = _AFTER if _EDGE.match(words[-1][-1]) else ""
    return re.compile(before + r"\s+".join(map(re.escape, words)) + after)


def has_words(command: str, *phrases: str) -> Check:
    """Require one line that holds every phrase as whole words, see :func:`line_with`."""

    def checker(output: str) -> str | None:
        if line_with(output, *phrases) is not None:
            return None
        wanted = " and ".join(f"'{p}'" for p in phrases)
        return f"no line has {wanted}; the output is {shown(output)}"

    return Check(command, checker, " and ".join(f"'{p}'" for p in phrases))


def has_lines(command: str, *lines: str) -> Check:
    """Require each of these as a whole line, whatever the spacing; other lines may be there."""
    wanted = [" ".join(line.split()) for line in lines]

    def checker(output: str) -> str | None:
        seen = {" ".join(line.split()) for line in output.splitlines()}
        missing = next((line for line in wanted if line not in seen), None)
        return missing and f"the line '{missing}' is not there; the output is {shown(output)}"

    return Check(command, checker, " and ".join(f"'{line}'" for line in wanted))


def lacks(command: str, part: str) -> Check:
    """The output must not hold a part, however it is spaced; of silence nothing is concluded."""
    wanted = " ".join(part.split())

    def checker(output: str) -> str | None:
        seen = " ".join(output.split())
        if not seen:
            return f"it says nothing, and so not whether '{part}' is there"
        return f"'{part}' is there; it says {shown(output)}" if wanted in seen else None

    return Check(command, checker, f"no '{part}'")


def equals(command: str, value: str) -> Check:
    """The output must be this text, but for space around it."""

    def checker(output: str) -> str | None:
        return None if output.strip() == value else f"'{value}' expected, {shown(output)} found"

    return Check(command, checker, value or "nothing")


def matches(command: str, pattern: str, says: str) -> Check:
    """The output must hold a match of the pattern."""

    def checker(output: str) -> str | None:
        match = re.search(pattern, output, re.MULTILINE)
        return None if match else f"not {says}; it says {shown(output)}"

    return Check(command, checker, says)


def checked(command: str, checker: Checker, says: str) -> Check:
    """The output is read by a parser."""
    return Check(command, checker, says)


def shown(output: str, limit: int = 200) -> str:
    """Output of a program, short enough for a sentence."""
    text = " ".join(output.split())
    return f"'{text[:limit]}{'...' if len(text) > limit else ''}'" if text else "nothing"
