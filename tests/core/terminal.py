"""A terminal that tests can read: a pseudo-terminal, and what would be seen on it."""

from __future__ import annotations

import os
import re
import time

import pexpect

_TOKEN = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b[^\[]|([^\x1b])")
ROWS = 50


class Screen:
    """Text on the screen, with lines that have scrolled off; long lines are wrapped, as terminals do."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.cursor = True  # whether it is visible
        self._lines = [""]
        self._row = self._column = 0
        self._unfinished = ""

    @property
    def lines(self) -> list[str]:
        """Return the lines without trailing spaces."""
        return [line.rstrip() for line in self._lines]

    @property
    def text(self) -> str:
        """Return all lines."""
        return "\n".join(self.lines).rstrip() + "\n"

    def feed(self, text: str) -> None:
        """Show what a program writes; an unfinished control sequence waits for its end."""
        text, place = self._unfinished + text, 0
        while token := _TOKEN.match(text, place):
            place = token.end()
            arguments, command, letter = token.groups()
            if command:
                self._obey(arguments, command)
            elif letter == "\n":
                self._down()
            elif letter == "\r":
                self._column = 0
            elif letter and letter not in "\b\a":
                self._write(letter)
        self._unfinished = text[place:]

    def _obey(self, arguments: str, command: str) -> None:
        if command == "A":
            self._row = max(0, self._row - int(arguments or 1))
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
        environment = {name: value for name, value in os.environ.items() if name not in fixed}
        self._child = pexpect.spawn(
            *(command[0], command[1:]), dimensions=(ROWS, columns),
            env={**environment, "TERM": "xterm-256color"}, encoding="utf-8", codec_errors="replace",
        )  # fmt: skip
        self.press = self._child.send

    def resize(self, columns: int) -> None:
        """Resize the window, and tell the program as the kernel would."""
        self.screen.columns = columns
        self._child.setwinsize(ROWS, columns)

    def read(self, seconds: float) -> bool:
        """Show the output of the next seconds; return False if the program has ended."""
        end = time.monotonic() + seconds
        while (remaining_s := end - time.monotonic()) > 0:
            try:
                self.screen.feed(self._child.read_nonblocking(65536, remaining_s))
            except pexpect.TIMEOUT:
                break
            except pexpect.EOF:
                return False
        return True

    def wait(self) -> int:
        """Return the exit status once all output is shown."""
        while self.read(1.0):
            pass
        status = self._child.wait()
        return -self._child.signalstatus if status is None else status
