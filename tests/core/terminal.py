"""A pseudo-terminal with an emulated screen, for tests of interactive commands."""

import os
import re
import time

import pexpect

_TOKEN = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b[^\[]|([^\x1b])")
ROWS = 50


class Screen:
    """Emulated screen that wraps long lines and keeps lines that have scrolled off."""

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
        return "\n".join(self.lines).rstrip() + "\n"

    def feed(self, text: str) -> None:
        """Add a program's output; an incomplete control sequence is kept for the next call."""
        text, position = self._unfinished + text, 0
        while token := _TOKEN.match(text, position):
            position = token.end()
            arguments, command, letter = token.groups()
            if command:
                self._execute(arguments, command)
            elif letter == "\n":
                self._move_down()
            elif letter == "\r":
                self._column = 0
            elif letter and letter not in "\b\a":
                self._write(letter)
        self._unfinished = text[position:]

    def _execute(self, arguments: str, command: str) -> None:
        if command == "A":
            self._row = max(0, self._row - int(arguments or 1))
        elif command == "K":  # v6t erases whole lines only
            self._lines[self._row] = ""
        elif command in "lh" and arguments == "?25":
            self.cursor = command == "h"

    def _move_down(self) -> None:
        self._row += 1
        if self._row == len(self._lines):
            self._lines.append("")

    def _write(self, letter: str) -> None:
        if self._column == self.columns:
            self._move_down()
            self._column = 0
        line = self._lines[self._row].ljust(self._column)
        self._lines[self._row] = line[: self._column] + letter + line[self._column + 1 :]
        self._column += 1


class Session:
    """Command that runs on a new pseudo-terminal and receives key presses."""

    def __init__(self, command: list[str], columns: int) -> None:
        self.screen = Screen(columns)
        removed = {"COLUMNS", "LINES", "NO_COLOR"}
        environment = {name: value for name, value in os.environ.items() if name not in removed}
        self._child = pexpect.spawn(
            *(command[0], command[1:]), dimensions=(ROWS, columns),
            env={**environment, "TERM": "xterm-256color"}, encoding="utf-8", codec_errors="replace",
        )  # fmt: skip
        self.press = self._child.send

    def resize(self, columns: int) -> None:
        """Resize the terminal; the kernel notifies the program."""
        self.screen.columns = columns
        self._child.setwinsize(ROWS, columns)

    def read(self, seconds: float) -> bool:
        """Read output for this many seconds; return False if the program has ended."""
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
