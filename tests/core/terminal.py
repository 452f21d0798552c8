"""A terminal that tests can read: a pseudo-terminal, and what would be seen on it."""

from __future__ import annotations

import os
import re
import time

import pexpect

_TOKEN = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b[^\[]|([\r\n\b\a])|([^\x1b\r\n\b\a]+)")
ROWS = 50


class Screen:
    """Text on the screen, with lines that have scrolled off; long lines are wrapped, as terminals do.

    Attributes:
        cursor: whether it is visible.
    """

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.cursor = True
        self._lines = [""]
        self._row = self._column = 0
        self._kept = ""

    @property
    def lines(self) -> list[str]:
        """Return the lines without trailing spaces."""
        return [line.rstrip() for line in self._lines]

    @property
    def text(self) -> str:
        """Return all lines."""
        return "\n".join(self.lines).rstrip() + "\n"

    def feed(self, octets: str) -> None:
        """Show what a program writes; an unfinished control sequence waits for its end."""
        octets = self._kept + octets
        cut = octets.rfind("\x1b")
        unfinished = cut >= 0 and not re.match(r"\x1b(\[[?\d;]*[A-Za-z]|[^\[])", octets[cut:])
        self._kept = octets[cut:] if unfinished else ""
        for token in _TOKEN.finditer(octets[:cut] if unfinished else octets):
            arguments, command, control, text = token.groups()
            if command:
                self._command(arguments, command)
            elif control == "\n":
                self._down()
            elif control == "\r":
                self._column = 0
            elif text:
                for letter in text:
                    self._write(letter)

    def _command(self, arguments: str, command: str) -> None:
        number = int(arguments) if arguments.isdigit() else 1
        if command == "A":
            self._row = max(0, self._row - number)
        elif command == "K":  # only ever the whole line
            self._lines[self._row] = ""
        elif command in "lh" and arguments == "?25":
            self.cursor = command == "h"

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._lines):
            self._lines.append("")

    def _write(self, letter: str) -> None:
        if self._column == self.columns:
            self._down()
            self._column = 0
        line = self._lines[self._row].ljust(self._column)
        self._lines[self._row] = line[: self._column] + letter + line[self._column + 1 :]
        self._column += 1


class Session:
    """A command on a new terminal, which receives Ctrl-C as from a person."""

    def __init__(self, command: list[str], columns: int) -> None:
        """Start the command."""
        self.screen = Screen(columns)
        fixed = {"COLUMNS", "LINES", "NO_COLOR"}
        kept = {name: value for name, value in os.environ.items() if name not in fixed}
        self._child = pexpect.spawn(
            *(command[0], command[1:]), dimensions=(ROWS, columns),
            env={**kept, "TERM": "xterm-256color"}, encoding="utf-8", codec_errors="replace",
        )  # fmt: skip

    def press(self, keys: str) -> None:
        """Type keys."""
        self._child.send(keys)

    def resize(self, columns: int) -> None:
        """Resize the window, and tell the program as the kernel would."""
        self.screen.columns = columns
        self._child.setwinsize(ROWS, columns)

    def read(self, seconds: float) -> bool:
        """Show the output of the next seconds; return False if the program has ended."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                self.screen.feed(self._child.read_nonblocking(65536, left))
            except pexpect.TIMEOUT:
                break
            except pexpect.EOF:
                return False
        return True

    def ended(self) -> int:
        """Return the exit status once all output is shown."""
        while self.read(1.0):
            pass
        status = self._child.wait()
        return -self._child.signalstatus if status is None else status
