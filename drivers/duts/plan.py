"""Steps, checks and plans as plain values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal

from v6t.intent.device import DeviceIntent

Checker = Callable[[str], "str | None"]
"""Reads a command's output; returns what is wrong with it, or None."""
Comparer = Callable[[str], tuple[str, str]]
"""Reads a command's output that is not as wanted; returns what differs, as found and as wanted."""
Intent = DeviceIntent
"""What a device must be."""


class Existing(Enum):
    """Treatment of an object that exists before its step."""

    RESTORE = "value"
    """Change it; the undo command writes the present value back."""
    KEEP = "there"
    """It is as wanted: do the step again and never undo it."""
    REFUSE = "foreign"
    """It is somebody else's: refuse the plan."""
    NONE = "none"
    """It cannot exist: it is a part of what an earlier step of the plan creates."""


@dataclass(frozen=True)
class Want:
    """The output that a read must have; see :func:`equals`, :func:`has_lines` and the others.

    Text found anywhere in the output proves nothing: a want identifies its object.

    Attributes:
        says: the wanted state, for the printed plan.
        comparer: of an output with several values, only some of which may differ; None: of one value.
    """

    says: str
    checker: Checker = field(compare=False)
    comparer: Comparer | None = field(default=None, compare=False)

    def difference(self, output: str) -> tuple[str, str] | None:
        if self.checker(output) is None:
            return None
        if self.comparer is not None:
            return self.comparer(output)
        return shorten(output), " ".join(self.says.split())


@dataclass(frozen=True)
class Check:
    """A read-back: what a shell line that changes nothing must print. Exit statuses are not evidence."""

    command: str
    want: Want

    @property
    def says(self) -> str:
        return self.want.says

    def checker(self, output: str) -> str | None:
        """Return the problem of the command's output; None if it is as wanted."""
        return self.want.checker(output)


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
        maps: its prefixes are those of a translator's mappings, where a default route is allowed;
            in any other step it counts as a route.
    """

    set: str
    why: str
    text: str = ""
    read: str = ""
    want: Want | None = None
    undo: str = ""
    undo_text: str = ""
    existing: Existing = Existing.RESTORE
    is_gone: str = ""
    wait: str = ""
    proof: Check | None = None
    silent: bool = False
    deadline_s: float = 60.0
    reboots: bool = False
    maps: bool = False

    @property
    def before(self) -> str:
        """The read whose output is recorded before the change; empty: there is nothing to restore."""
        if self.existing is Existing.NONE or not (self.undo or self.existing is Existing.REFUSE):
            return ""
        return self.read

    @property
    def check(self) -> Check | None:
        if self.want is None:
            return self.proof
        return Check(f"{self.wait}; {self.read}" if self.wait else self.read, self.want)


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
        return str(getattr(self, action))

    def find_problem(self, action: Action, output: str) -> str | None:
        if action == "remove":
            return f"it is still there: {shorten(output)}" if output.strip() else None
        wanted = self.added if action == "add" else self.changed
        if self.alone and " ".join(output.split()) != wanted:
            return f"'{wanted}' expected and nothing else; the output is {shorten(output)}"
        if find_line(output, wanted) is None:
            return f"'{wanted}' is missing; the output is {shorten(output)}"
        return None

    @property
    def removal_step(self) -> Step:
        """The step that removes the object at every rollback."""
        why = f"{self.what} beside the traffic is added, changed and removed under it"
        return Step("true", why, read=self.look, undo=self.remove, existing=Existing.REFUSE)


@dataclass(frozen=True)
class Plan:
    """All steps that configure a device, in order.

    Attributes:
        flush: actions that empty the device's state between trials; none: it has no state.
        checks: read-backs beyond those of the steps.
        notes: what a reader should know: defaults that matter, deviations.
        live_change: what is changed under traffic; None: nothing is.
        route_update: the route that updates move back and forth, by ``add`` and ``change``; None: none.
        asked: the query repeated under traffic; None: the read-back with the shortest answer.
    """

    driver: str
    version: str
    steps: tuple[Step, ...]
    flush: tuple[Step, ...] = ()
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    live_change: Change | None = None
    route_update: Change | None = None
    asked: Check | None = None

    def extend(self, steps: Iterable[Step], **more: Any) -> Plan:
        """Return the plan with further steps and other fields."""
        return replace(self, steps=(*self.steps, *steps), **more)

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
        before = _BEFORE if _EDGE.match(words[0][0]) else ""
        after = _AFTER if _EDGE.match(words[-1][-1]) else ""
        patterns.append(before + r"\s+".join(map(re.escape, words)) + after)
    lines = output.splitlines()
    return next((line for line in lines if all(re.search(p, line) for p in patterns)), None)


def equals(value: object) -> Want:
    """Require this text, apart from white space around it."""
    text = str(value)
    says = " ".join(text.split()) or "nothing"
    return passes(lambda output: output.strip() == text, says, f"'{text}' expected")


def has_lines(*lines: str) -> Want:
    """Require each of these as a whole line, however it is spaced; other lines are allowed."""
    wanted = [" ".join(line.split()) for line in lines]

    def checker(output: str) -> str | None:
        present = {" ".join(line.split()) for line in output.splitlines()}
        missing = next((line for line in wanted if line not in present), None)
        return missing and f"the line '{missing}' is missing; the output is {shorten(output)}"

    return Want(" and ".join(f"'{line}'" for line in wanted), checker)


def has_words(*phrases: str) -> Want:
    """Require one line that holds every phrase as whole words, see :func:`find_line`."""
    wanted = " and ".join(f"'{phrase}'" for phrase in phrases)
    return passes(lambda output: find_line(output, *phrases), wanted, f"no line has {wanted}")


def has_line_like(pattern: str, says: str) -> Want:
    """Require a whole line of this form, apart from white space around it."""
    match = re.compile(pattern).fullmatch
    return passes(lambda output: any(match(line.strip()) for line in output.splitlines()), says)


def passes(test: Callable[[str], object], says: str, problem: str = "") -> Want:
    """Require an output that passes a test; ``problem`` describes another one."""

    def checker(output: str) -> str | None:
        reason = problem or f"not {says}"
        return None if test(output) else f"{reason}; the output is {shorten(output)}"

    return Want(says, checker)


def has_members(values: Iterable[object], says: str = "") -> Want:
    """Require these words, in any order and however often."""
    wanted = set(map(str, values))
    return passes(lambda output: set(output.split()) == wanted, says or " ".join(sorted(wanted)))


def shorten(output: str, limit: int = 200) -> str:
    """Return the output of a program, short enough for a sentence."""
    text = " ".join(output.split())
    return f"'{text[:limit]}{'...' if len(text) > limit else ''}'" if text else "nothing"
