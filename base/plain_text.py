"""What may be written to a terminal: text that somebody else wrote moves no cursor and renames no window."""

from __future__ import annotations


def is_text(text: str) -> bool:
    """Whether it can be written: YAML's and JSON's escapes also spell halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def visible(text: str) -> str:
    """Text whose lines are only text: anything that is no character to print is written as its code."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _code(c) for c in text)


def in_one_line(text: str) -> str:
    """Clean a text and remove its line ends."""
    return "".join(c if c.isprintable() else _code(c) for c in text)


def _code(character: str) -> str:
    return " " if character == "\t" else character.encode("unicode_escape").decode()
