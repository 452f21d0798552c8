"""A command line spoken with: a line is typed, its answer is read up to the next prompt."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from v6t.base.errors import DutError
from v6t.drivers.duts.console.manners import (
    LONGEST,
    Manners,
    asks_password,
    one_line,
    same_mode,
    stem_of,
    without_echo,
)
from v6t.drivers.duts.console.screen import Screen
from v6t.drivers.duts.plan import shown
from v6t.drivers.transport.command_log import failure, log_command
from v6t.drivers.transport.contract import ConnectionLost, DeadlinePassed, as_text
from v6t.drivers.transport.process import MOST_OCTETS, Process, kill
from v6t.drivers.transport.redaction import (
    ENABLE_PASSWORD,
    HIDDEN,
    LOGIN_PASSWORD,
    add_secret,
    asks_secret,
    fill_in_environment,
)

SETTLE_S = 0.05
"""A prompt is one when nothing follows it for so long."""
FIRST_S = 5.0
"""Some devices wait for a key before they say anything."""
QUIET_S = 1.0
"""After such a key: its prompt may come behind one that was merely late."""
MOST_QUESTIONS = 50
_LOG = logging.getLogger(__name__)


class Refused(DutError):
    """The device did not take a line."""


@dataclass(frozen=True)
class Reply:
    """What became of some lines.

    Attributes:
        status: 0, 1: something was refused, 3: the connection is lost.
        out: all answers.
        err: what was wrong.
    """

    status: int
    out: str
    err: str


class Dialogue:
    """One login. It is at its first prompt whenever nobody types."""

    def __init__(self, name: str, process: Process, manners: Manners) -> None:
        """Remember; :meth:`begin` comes first.

        Args:
            name: of the device, for messages.
            process: whose pipes are the device's terminal.
            manners: how its command line behaves.
        """
        self._name = name
        self._process = process
        self._manners = manners
        self._screen = Screen()
        self._home = self._stem = ""
        self._octets = 0
        self._enable = os.environ.get(ENABLE_PASSWORD, "")
        self._secrets = [s for s in (self._enable, os.environ.get(LOGIN_PASSWORD)) if s]

    def begin(self) -> None:
        """Wait for the first prompt, and say what is always said first.

        Raises:
            DutError: it does not come, or a line is refused.
        """
        what = "after the login"
        try:
            self._await(what, min(FIRST_S, self._manners.line_deadline_s))
        except DeadlinePassed:
            self._send("\n")
            self._await(what, self._manners.line_deadline_s)
            while self._read(what, QUIET_S):
                pass
        self._settle()
        enable = self._manners.enable if self._home.endswith(">") else ""
        for line in (*([enable] if enable else []), *self._manners.open):
            self._say(line, opening=True)
        self._settle()

    @property
    def alive(self) -> bool:
        """Whether the connection stands as far as is known."""
        return self._process.poll() is None

    def reply(self, lines: Sequence[str]) -> Reply:
        """Type lines; the first that is refused is the last."""
        said: list[str] = []
        try:
            self.type(lines, said.append)
        except DutError as exc:
            return Reply(1 if self.alive else 3, _joined(said), exc.message)
        return Reply(0, _joined(said), "")

    def type(self, lines: Sequence[str], told: Callable[[str], object]) -> None:
        """Type lines, and be at the first prompt again.

        Args:
            lines: one after the other, each when the prompt is there.
            told: each answer.

        Raises:
            Refused: a line was not taken; those behind it were not typed.
            DutError: the prompt does not come, or the last line leaves another one.
            ConnectionLost: the effect of the last line is unknown.
        """
        try:
            for line in lines:
                told(self._say(line))
            if not same_mode(self._screen.last, self._home):
                raise DutError(
                    f"{self._name}: after the last line, '{lines[-1]}', the prompt is "
                    f"{shown(self._screen.last)} and not {shown(self._home)}: a line is missing that "
                    "leads back",
                    code="console-prompt",
                )
        except DeadlinePassed:
            self.close()  # nobody knows what it would take for an answer
            raise
        except ConnectionLost:
            raise
        except DutError:
            self._abort()
            raise

    def stay(self) -> None:
        """Type an empty line, if the first prompt alone stands there; hang up if it does not come again.

        Some devices end a login at which nothing is typed for long.
        """
        what = "after an empty line"
        try:
            self._octets = 0
            while self._read(what, SETTLE_S):
                pass
            if not same_mode(self._screen.last, self._home):
                return  # a question, perhaps: nobody knows what an empty line would answer
            self._screen.clear()
            self._send("\n")
            self._await(what, self._manners.line_deadline_s)
            if not same_mode(self._screen.last, self._home):
                self.close()
        except DutError:
            self.close()

    def close(self) -> None:
        """Hang up. May be called twice."""
        kill(self._process)

    def _say(self, line: str, *, opening: bool = False) -> str:
        """Type a line, log it, and return its answer."""
        began = time.monotonic()
        try:
            answer = self._type_line(line, opening=opening)
        except BaseException as exc:
            log_command(
                self._name, line, "", logging.INFO, failure(exc), time.monotonic() - began,
                "\n".join(self._screen.lines),
            )  # fmt: skip
            raise
        log_command(
            self._name, line, "", logging.INFO, "answered", time.monotonic() - began, answer
        )
        return answer

    def _type_line(self, line: str, *, opening: bool) -> str:
        try:
            typed = self._fill_in(line)
        except ValueError as exc:
            raise Refused(f"{self._name}: {exc}", code="connection-lost") from exc
        self._screen.clear()
        self._octets = 0
        self._send(typed + "\n")
        what = f"after '{line}'"
        self._await(what, self._manners.line_deadline_s, opening=opening)
        lines = self._screen.lines
        # a device that repeats nothing may refuse a line by words that end with it
        refusal = self._manners.refusal("\n".join(t for t in lines if t.strip() != typed.strip()))
        if refusal:
            raise Refused(
                f"{self._name}: the device rejected '{line}': {self._hidden(refusal)[:300]}",
                code="command-rejected",
            )
        return self._hidden("\n".join(without_echo(lines, typed)))

    def _await(self, what: str, deadline_s: float, *, opening: bool = False) -> None:
        """Read until a prompt stands there; turn pages and answer questions on the way."""
        end = time.monotonic() + deadline_s
        asked = passwords = 0
        while True:
            last = self._screen.last
            answer = self._next(last, what, opening=opening) if last else None
            left = end - time.monotonic()
            if self._read(what, left if answer is None else min(left, SETTLE_S)):
                continue
            if answer is None:
                raise DeadlinePassed(
                    f"{self._name}: no prompt within {deadline_s:g} s {what}; it said last: "
                    f"{self._tail()}",
                    "if that is a prompt, or a question, say so with dut.options.cli.prompt or .answers",
                    code="console-prompt",
                )
            if answer == "":
                return
            asked += answer != " "
            passwords += opening and asks_password(last)
            if passwords > 1:  # one more may lock the account
                raise DutError(
                    f"{self._name}: it does not take the password {what}", code="login-refused"
                )
            if asked > MOST_QUESTIONS:
                raise DeadlinePassed(
                    f"{self._name}: the device repeats its question {what}: {shown(last)}",
                    code="console-prompt",
                )
            _LOG.debug("%s: a question or page was answered: %s", self._name, shown(last))
            self._send(answer)
            if answer == " ":
                self._screen.forget_last()
            else:
                self._screen.end_last()

    def _next(self, last: str, what: str, *, opening: bool) -> str | None:
        """What is typed now: nothing at a prompt; None: it is not known what stands there."""
        if len(last) > LONGEST:
            return None
        if self._manners.is_pager(last):
            return " "
        answer = self._manners.answer(last)
        if answer is not None:
            typed = self._fill_in(answer)
            if asks_secret(last):
                add_secret(typed)
            return typed + "\n"
        if opening and asks_password(last):
            return self._enable_password(what) + "\n"
        return "" if self._manners.is_prompt(last, self._stem) else None

    def _enable_password(self, what: str) -> str:
        if not self._enable:
            raise DutError(
                f"{self._name}: the device prompts for a password {what}",
                f"set {ENABLE_PASSWORD}",
                code="console-prompt",
            )
        return self._enable

    def _read(self, what: str, limit_s: float) -> bool:
        """Take what comes within some time; whether anything did."""
        out = self._process.stdout
        if out is None or limit_s <= 0 or not select.select([out], [], [], limit_s)[0]:
            return False
        octets = os.read(out.fileno(), 65536)
        if not octets:
            raise self._lost(what)
        self._octets += len(octets)
        if self._octets > MOST_OCTETS:
            self.close()
            raise ConnectionLost(
                f"{self._name}: more than {MOST_OCTETS >> 20} MiB {what}", code="too-much-output"
            )
        self._screen.feed(octets)
        return True

    def _send(self, text: str) -> None:
        try:
            if self._process.stdin is not None:
                os.write(self._process.stdin.fileno(), text.encode())
                return
        except (OSError, ValueError):
            pass
        raise self._lost("before all was typed")

    def _lost(self, what: str) -> ConnectionLost:
        """Its end, with the reason that ssh gives."""
        words = ""
        if self._process.stderr is not None:
            with contextlib.suppress(OSError, ValueError):
                if select.select([self._process.stderr], [], [], SETTLE_S)[0]:
                    words = as_text(os.read(self._process.stderr.fileno(), 4096))[0]
        tail = self._tail()
        self.close()
        return ConnectionLost(
            f"{self._name}: the connection broke {what} ({' '.join(words.split())[:200] or 'no reason'}); "
            f"it said last: {tail}",
            "the effect of the last line is unknown",
            code="connection-lost",
        )

    def _tail(self) -> str:
        return shown(self._hidden("\n".join([*self._screen.lines[-3:], self._screen.last])))

    def _fill_in(self, text: str) -> str:
        """Fill in secrets from the environment, and hide them in what the device answers."""
        typed, secrets = fill_in_environment(text)
        self._secrets += secrets
        return one_line(typed)

    def _hidden(self, text: str) -> str:
        """Hide passwords that a device repeats."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text

    def _settle(self) -> None:
        """What stands there now is the prompt that everything ends with."""
        self._home = self._screen.last.strip()
        self._stem = stem_of(self._home)

    def _abort(self) -> None:
        """Back to the first prompt; hang up if that does not help."""
        for line in self._manners.abort:
            try:
                self._say(line)
            except Refused:
                continue
            except DutError:
                self.close()
                return
        if not same_mode(self._screen.last, self._home):
            self.close()


def _joined(answers: Sequence[str]) -> str:
    return "".join(f"{answer}\n" for answer in answers if answer)
