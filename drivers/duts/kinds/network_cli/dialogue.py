"""The transport to a command line: a line is typed, and its answer read up to the next prompt."""

import contextlib
import logging
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from typing import NoReturn

import pexpect
from pexpect.fdpexpect import fdspawn
from v6t.base.errors import DutError
from v6t.drivers.duts.kinds.network_cli.options import CliOptions, check_one_line, is_same_prompt
from v6t.drivers.duts.plan import shorten_output
from v6t.drivers.transport import contract, redaction
from v6t.drivers.transport.command_log import describe_failure, log_command
from v6t.drivers.transport.openssh import SshTransport
from v6t.drivers.transport.process import Process, build_clean_environment, kill

PROMPT_SILENCE_S = 0.05  # silence after which a line that looks like a prompt is taken as one
FIRST_PROMPT_S, SECOND_PROMPT_S = 5.0, 1.0  # wait for a prompt; the second follows a pressed key
MAX_QUESTIONS = 50  # limit after one line; with more, the device repeats its question
# environment variables that contain passwords
PASSWORD_VARIABLES = redaction.ENABLE_PASSWORD, redaction.LOGIN_PASSWORD
MAX_PROMPT_LENGTH = 512  # longest prompt or question: patterns are slow on longer lines
PROMPT_STEM_LENGTH = 12  # leading characters of the device's name that each prompt contains
EFFECT_UNKNOWN_HINT = "the effect of the last line is unknown"
_PASSWORD_PROMPT = re.compile(r"(?i)password[^\n:]*:\s*$")
_TERMINAL_TOKEN = re.compile(
    r"\x1b\[(?P<arguments>[0-?]*)[ -/]*(?P<order>[@-~])"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
    r"|\x1b[ -/]*[0-~]"
    r"|(?P<text>[^\x00-\x08\x0a-\x1f\x7f-\x9f]+)"
    r"|(?P<control>[\x00-\x1f\x7f-\x9f])"
)
_LOG = logging.getLogger(__name__)


class LineRejectedError(DutError):
    """The device rejected a line."""


class CliTransport:
    """Transport to a device's command line over one login; each command ends at the same prompt."""

    where = contract.ON_DEVICE

    def __init__(self, login: SshTransport, options: CliOptions) -> None:
        self.name = login.name
        self.condition = ""
        self._login = login
        self._options = options
        self._process: Process | None = None
        self._turn = threading.RLock()
        self._closed = threading.Event()
        self._text = self._home = self._stem = ""
        self._typed_s = time.monotonic()
        self._secrets = [v for n in PASSWORD_VARIABLES if (v := os.environ.get(n))]

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def open(self) -> None:
        self.close()
        self._closed = threading.Event()
        try:
            self._login.open()
            # no terminal, because ssh would pass its modes on to the device
            self._socket, theirs = socket.socketpair()
            with theirs:
                end = theirs.fileno()
                self._process = subprocess.Popen(
                    self._login.terminal_command, stdin=end, stdout=end, stderr=end,
                    start_new_session=True, env=build_clean_environment(),
                )  # fmt: skip
            self._child = fdspawn(self._socket, encoding="utf-8", codec_errors="backslashreplace")
            self._log_in()
        except BaseException:
            self.close()
            raise
        if self._options.idle_s:
            threading.Thread(
                target=self._keep_alive, args=[self._closed], name="v6t-cli", daemon=True
            ).start()

    def hold(self, command: str) -> contract.HeldCommand:
        """Raise DutError: a command line cannot keep a command running in the background."""
        problem = f"{self.name}: a command line cannot run commands in the background: {command}"
        raise DutError(problem, code="unsupported-operation")

    def run(
        self,
        command: str,
        text: str = "",
        deadline_s: float | None = None,
        *,
        before_line: Callable[[], object] = lambda: None,
    ) -> contract.Output:
        """Type the lines of a command; the status is 1 if a line is rejected or the prompt has changed.

        ``before_line`` is called before each line; its DeviceTakenOver ends the command.
        """
        if not self.is_alive:
            raise contract.ConnectionLost(f"{self.name}: not connected", code="connection-lost")
        answers: list[str] = []
        error: DutError | None = None
        with self._turn:
            try:
                for line in command.splitlines():
                    before_line()
                    answers.append(self._send_line(line))
                if answers and not self._is_at_home_prompt:
                    last, home = map(shorten_output, (self._last_line, self._home))
                    problem = f"{self.name}: the prompt after '{line}' is {last}, not {home}"
                    raise DutError(problem, "add a line that leads back", code="console-prompt")
            except contract.DeviceTakenOver:
                self._return_to_home_prompt()
                raise
            except DutError as exc:
                error = exc
                if isinstance(exc, contract.DeadlinePassed):
                    self.close()  # the device may take the next line as an answer
                elif self.is_alive:
                    self._return_to_home_prompt()
            except BaseException:
                self.close()  # the rest of this answer must not be read as the next one
                raise
            self._typed_s = time.monotonic()
        if error and not self.is_alive:
            hint = EFFECT_UNKNOWN_HINT
            raise contract.ConnectionLost(error.message, hint, code="connection-lost") from error
        out = "".join(f"{answer}\n" for answer in answers if answer)
        return contract.Output(1, out, error.message) if error else contract.Output(0, out, "")

    def close(self) -> None:
        """Hang up; a second call does nothing."""
        process, self._process = self._process, None
        self._closed.set()
        if process is not None:
            kill(process)
            self._socket.close()
        self._login.close()

    def _log_in(self) -> None:
        """Wait for the first prompt and type the lines for a new login."""
        context = "after the login"
        try:
            self._await_prompt(context, min(FIRST_PROMPT_S, self._options.line_deadline_s))
        except contract.DeadlinePassed:
            self._send("\n")
            self._await_prompt(context)
            while self._read(context, SECOND_PROMPT_S):
                pass
        self._store_home_prompt()
        enable = [self._options.enable] if self._options.enable and self._home[-1:] == ">" else []
        for line in (*enable, *self._options.open):
            self._send_line(line, at_login=True)
        self._store_home_prompt()

    def _store_home_prompt(self) -> None:
        self._home = self._last_line.strip()
        name = re.search(r"\w(?:[\w.@/:-]*\w)?", self._home)
        self._stem = name[0][:PROMPT_STEM_LENGTH] if name else ""

    def _keep_alive(self, closed: threading.Event) -> None:
        """Type an empty line after each idle period, because some devices close idle logins."""
        idle_s = self._options.idle_s
        while not closed.wait(max(0.0, self._typed_s + idle_s - time.monotonic())):
            with self._turn, contextlib.suppress(DutError):
                if time.monotonic() >= self._typed_s + idle_s and not closed.is_set():
                    self._press_enter()
                    self._typed_s = time.monotonic()

    def _press_enter(self) -> None:
        """Type an empty line at the home prompt, and hang up if the prompt does not return."""
        context = "after an empty line"
        while self._read(context, PROMPT_SILENCE_S):
            pass
        if not self._is_at_home_prompt:
            return  # an empty line may answer a question
        self._text = ""
        with contextlib.suppress(contract.DeadlinePassed):
            self._send("\n")
            self._await_prompt(context)
        if not self._is_at_home_prompt:
            self.close()

    def _send_line(self, line: str, *, at_login: bool = False) -> str:
        began = time.monotonic()
        result, answer = "answered", ""
        try:
            answer = self._exchange(line, at_login=at_login)
        except BaseException as exc:
            result, answer = describe_failure(exc), "\n".join(self._complete_lines)
            raise
        finally:
            log_command(self.name, line, "", result, time.monotonic() - began, answer)
        return answer

    def _exchange(self, line: str, *, at_login: bool) -> str:
        """Type a line and return the answer without echo and secrets; raise an error if it is rejected."""
        typed = self._insert_secrets(line)
        self._text = ""
        self._send(typed + "\n")
        self._await_prompt(f"after '{line}'", at_login=at_login)
        lines = self._complete_lines
        # without echo, an error message may end with the typed line
        reply = "\n".join(text for text in lines if text.strip() != typed.strip())
        if refusal := self._hide_secrets(self._options.find_error(reply)):
            problem = f"{self.name}: the device rejected '{line}': {refusal[:300]}"
            raise LineRejectedError(problem, code="command-rejected")
        return self._hide_secrets("\n".join(remove_echo(lines, typed)))

    def _await_prompt(self, context: str, deadline_s: float = 0, *, at_login: bool = False) -> None:
        """Read up to the next prompt, and respond to pagers and questions before it."""
        deadline_s = deadline_s or self._options.line_deadline_s
        end = time.monotonic() + deadline_s
        questions = passwords = 0
        while True:
            last = self._last_line
            answer = self._find_answer(last, context, at_login=at_login) if last else None
            limit_s = end - time.monotonic()
            if self._read(context, limit_s if answer is None else min(limit_s, PROMPT_SILENCE_S)):
                continue
            if answer == "":
                return
            questions += answer != " "
            passwords += at_login and _PASSWORD_PROMPT.search(last) is not None
            if passwords > 1:  # one more may lock the account
                problem = f"it rejects the password {context}"
                raise DutError(f"{self.name}: {problem}", code="login-refused")
            if answer is None or questions > MAX_QUESTIONS:
                problem = f"the device repeats its question {context}: {shorten_output(last)}"
                if answer is None:
                    problem = f"no prompt within {deadline_s:g} s {context}"
                    problem += f"; last output: {self._recent_output}"
                hint = "describe a prompt in dut.options.cli.prompt, a question in dut.options.cli.answers"
                problem = f"{self.name}: {problem}"
                raise contract.DeadlinePassed(problem, hint, code="console-prompt")
            _LOG.debug("%s: a question or page was answered: %s", self.name, shorten_output(last))
            self._send(answer)
            if answer == " ":  # the pager's line is not a part of the answer
                self._text = self._text[: self._text.rfind("\n") + 1]
            else:
                self._text += "\n"

    def _find_answer(self, last_line: str, context: str, *, at_login: bool) -> str | None:
        """Return what to type next: '' at a prompt, None if more output must be read first."""
        if len(last_line) > MAX_PROMPT_LENGTH:
            return None
        if self._options.is_pager(last_line):
            return " "
        if (answer := self._options.find_answer(last_line)) is not None:
            typed = self._insert_secrets(answer)
            if redaction.asks_secret(last_line):
                redaction.register_secret(typed)
            return typed + "\n"
        if at_login and _PASSWORD_PROMPT.search(last_line):
            if not (password := os.environ.get(redaction.ENABLE_PASSWORD)):
                problem = f"{self.name}: the device prompts for a password {context}"
                raise DutError(problem, f"set {redaction.ENABLE_PASSWORD}", code="console-prompt")
            return password + "\n"
        return "" if self._options.is_prompt(last_line, self._stem) else None

    def _read(self, context: str, limit_s: float) -> bool:
        """Read the output that arrives within a time limit; return whether any did."""
        try:
            self._text += self._child.read_nonblocking(65536, max(0.0, limit_s))
        except pexpect.TIMEOUT:
            return False
        except (pexpect.EOF, OSError, ValueError):
            self._hang_up(f"the connection broke {context}")
        if len(self._text) > contract.MAX_OUTPUT_OCTETS:
            problem = f"more than {contract.MAX_OUTPUT_OCTETS >> 20} MiB {context}"
            self._hang_up(problem, "too-much-output")
        return True

    def _send(self, text: str) -> None:
        try:
            self._child.send(text)
        except (OSError, ValueError):
            self._hang_up("the connection broke before all was typed")

    def _hang_up(self, problem: str, code: str = "connection-lost") -> NoReturn:
        self.close()
        text = f"{self.name}: {problem}; last output: {self._recent_output}"
        raise contract.ConnectionLost(text, EFFECT_UNKNOWN_HINT, code=code) from None

    @property
    def _last_line(self) -> str:
        return render_line(self._text[self._text.rfind("\n") + 1 :])

    @property
    def _is_at_home_prompt(self) -> bool:
        return is_same_prompt(self._last_line, self._home)

    @property
    def _complete_lines(self) -> list[str]:
        return [render_line(line).rstrip() for line in self._text.split("\n")[:-1]]

    @property
    def _recent_output(self) -> str:
        text = self._text[-65536:].split("\n")[-4:]
        return shorten_output(self._hide_secrets("\n".join(map(render_line, text))))

    def _insert_secrets(self, text: str) -> str:
        """Return a line with secrets in place of placeholders; later answers hide these secrets."""
        typed, secrets = redaction.fill_in_environment(text)
        self._secrets += secrets
        try:
            return check_one_line(typed)
        except ValueError as exc:
            problem = f"{self.name}: {self._hide_secrets(str(exc))}"
            raise LineRejectedError(problem, code="command-rejected") from None

    def _hide_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, redaction.HIDDEN)
        return text

    def _return_to_home_prompt(self) -> None:
        """Type the lines of the option ``abort``; hang up if the home prompt does not return."""
        with contextlib.suppress(DutError):
            for line in self._options.abort:
                with contextlib.suppress(LineRejectedError):
                    self._send_line(line)
        if not self._is_at_home_prompt:
            self.close()


def remove_echo(lines: list[str], typed: str) -> list[str]:
    """Return the lines of an answer without the echo of the typed line."""
    wanted, first = typed.strip(), lines[0].strip() if lines else ""
    # a line that is wider than the terminal is scrolled: its end is visible
    repeats = first == wanted or first.lstrip("$").endswith(wanted[-20:])
    return lines[1:] if wanted and repeats else lines


def render_line(text: str) -> str:
    """Return a line as a terminal shows it; of escape sequences, only erasures are interpreted."""
    line: list[str] = []
    column = 0
    for token in _TERMINAL_TOKEN.finditer(text):
        if token["text"]:
            line += " " * (column - len(line))
            line[column : column + len(token["text"])] = token["text"]
            column += len(token["text"])
        elif token["control"] == "\r":
            column = 0
        elif token["control"] == "\b":
            column = max(0, column - 1)
        elif token["order"] == "K" and token["arguments"] in ("", "0", "2"):
            del line[0 if token["arguments"] == "2" else column :]
    return "".join(line)
