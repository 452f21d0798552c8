"""Text for people: safe to print on a terminal, and hints at names similar to a misspelt one."""

import difflib
import re
from collections.abc import Iterable


def is_encodable(text: str) -> bool:
    """Return whether text has no unpaired surrogates, which escapes of YAML and JSON can spell."""
    return text == text.encode(errors="ignore").decode()


def escape_controls(text: str, keep: str = "\n") -> str:
    """Replace unprintable characters by their escape sequences, and tabs by blanks.

    Foreign text must not move the cursor of a terminal or rename its window.
    """
    if text.isprintable():
        return text
    foreign = (c for c in set(text) if not c.isprintable() and c not in keep)
    escapes = {c: " " if c == "\t" else c.encode("unicode_escape").decode() for c in foreign}
    return text.translate(str.maketrans(escapes))


def escape_line(text: str) -> str:
    """Replace unprintable characters, line ends among them, by their escape sequences."""
    return escape_controls(text, keep="")


def suggest_names(name: str, known: Iterable[str], label: str = "known") -> str:
    """Return a hint that lists similar known names, or else all of them after a label."""
    known = list(known)
    return did_you_mean(name, known) or f"{label}: {', '.join(known) or 'none'}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint that names similar known names, or an empty string."""
    similar = find_similar_names(name, known)
    return f"did you mean {' or '.join(map(repr, similar))}?" if similar else ""


def find_similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that begin with a name, or else the most similar one."""
    known = list(known)
    longer = [k for k in known if name and k.startswith(name)]
    return longer or difflib.get_close_matches(name, known, 1)


def convert_docstring(text: str) -> str:
    """Convert the markup of a docstring to Markdown, on one line."""
    text = re.sub(r":\w+:`~?([^`]*)`", lambda m: f"`{m[1].rpartition('.')[2]}`", text)
    text = re.sub(r"\bNone\b", "none", text.replace("``", "`"))
    return " ".join(text.split())
