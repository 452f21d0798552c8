"""What a terminal shows in the end of all that a device sends; nothing of it steers ours."""

from __future__ import annotations

import codecs
import re

_TOKENS = re.compile(
    r"\x1b\[(?P<arguments>[0-?]*)[ -/]*(?P<order>[@-~])"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
    r"|\x1b[ -/]*[0-~]"
    r"|(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|(?P<control>[\x00-\x1f\x7f-\x9f])"
)
_PARTIAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?$")
_LONGEST = 4096
"""Characters of an escape sequence that are waited for."""


class Screen:
    """Lines as they stand after backspaces, returns and erasures; other escape sequences do nothing."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._lines: list[str] = []
        self._line: list[str] = []
        self._at = 0
        self._held = ""

    @property
    def last(self) -> str:
        """The line that has no end yet."""
        return "".join(self._line)

    @property
    def lines(self) -> list[str]:
        """Those that have ended."""
        return [line.rstrip() for line in self._lines]

    def feed(self, octets: bytes) -> None:
        """Show more."""
        text = self._held + self._decoder.decode(octets)
        partial = _PARTIAL.search(text)
        self._held = ""
        if partial and len(text) - partial.start() < _LONGEST:
            text, self._held = text[: partial.start()], text[partial.start() :]
        for token in _TOKENS.finditer(text):
            if token["text"]:
                self._put(token["text"])
            elif token["control"]:
                self._control(token["control"])
            elif token["order"] == "K":
                self._erase(token["arguments"])

    def clear(self) -> None:
        """Begin anew."""
        self._lines.clear()
        self.forget_last()

    def forget_last(self) -> None:
        """Take the line away that has no end yet."""
        self._line.clear()
        self._at = 0

    def end_last(self) -> None:
        """End that line where it is."""
        self._lines.append(self.last)
        self.forget_last()

    def _put(self, text: str) -> None:
        if self._at > len(self._line):
            self._line += " " * (self._at - len(self._line))
        self._line[self._at : self._at + len(text)] = text
        self._at += len(text)

    def _control(self, character: str) -> None:
        if character == "\n":
            self.end_last()
        elif character == "\r":
            self._at = 0
        elif character == "\b":
            self._at = max(0, self._at - 1)
        elif character == "\t":
            self._put("\t")

    def _erase(self, arguments: str) -> None:
        if arguments in ("", "0"):
            del self._line[self._at :]
        elif arguments == "2":
            self._line.clear()
