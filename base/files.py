"""Read regular files of bounded size; anything else raises UsageError.

Opening a pipe blocks until its other end is open, and reading a device may never end. The caller
catches OSError, because it can name the file; see :func:`explain_read_error`.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from v6t.base.errors import UsageError
from v6t.base.plain_text import is_text

SETTINGS_OCTETS = 256 << 10
"""A file of settings: what somebody wrote by hand."""
TABLE_OCTETS = 64 << 20
"""Tables that programs write: prefixes, softwires, results."""
JOURNAL_OCTETS = 512 << 20
"""Trials with their histograms."""

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_octets(path: Path, limit: int = TABLE_OCTETS) -> bytes:
    """Read a regular file.

    Args:
        path: the file.
        limit: the largest that is read [octets].

    Raises:
        OSError: it cannot be opened or read, or is a directory.
        UsageError: it is no regular file, or larger.
    """
    try:
        _refuse_odd(path, os.stat(path).st_mode)  # before: opening some devices does something
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as exc:  # an octet 0 in the name
        raise UsageError(f"{str(path)!r} is not a valid file name", code="not-a-file-name") from exc
    with os.fdopen(handle, "rb") as file:
        _refuse_odd(path, os.fstat(handle).st_mode)
        octets = file.read(limit + 1) if os.fstat(handle).st_size <= limit else None
    if octets is None or len(octets) > limit:
        raise UsageError(
            f"{path} is larger than the limit of {_size(limit)}",
            "check that this is the right file",
            code="file-too-large",
        )
    return octets


def read_text(path: Path, limit: int = TABLE_OCTETS) -> str:
    """Read a text file without its byte order mark; see :func:`read_octets`.

    Raises:
        UsageError: it is no UTF-8 as well.
    """
    try:
        return read_octets(path, limit).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as exc:
        raise UsageError(
            f"{path} is not UTF-8 text", "save the file as UTF-8", code="not-text"
        ) from exc


def read_json(path: Path, limit: int = TABLE_OCTETS) -> Any:
    """Read a JSON file; see :func:`read_octets`.

    Raises:
        UsageError: it is no JSON as well.
    """
    text = read_text(path, limit)
    try:
        return parsed_json(text)
    except ValueError as exc:
        raise UsageError(f"{path} is not valid JSON: {exc}", code="invalid-json") from exc


def explain_read_error(subject: Path | str, error: OSError) -> UsageError:
    """Make the error for a file that the operating system does not let v6t read.

    Args:
        subject: the path, or words that name the file, for the message.
        error: the reason.
    """
    if isinstance(error, FileNotFoundError):
        return UsageError(f"{subject} does not exist", "check the path", code="file-not-found")
    if isinstance(error, IsADirectoryError):
        return UsageError(
            f"{subject} is a directory", "name a file in it", code="not-a-regular-file"
        )
    hint = "check the permissions of the file" if isinstance(error, PermissionError) else ""
    return UsageError(f"cannot read {subject}: {error.strerror}", hint, code="file-unreadable")


def parsed_json(text: str | bytes) -> Any:
    """Values of a JSON text.

    Raises:
        ValueError: it is none; NaN and infinite numbers, which Python would take, are none either.
    """
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        # every line of a journal comes this way: only what holds an escape is looked at again
        escapes = "\\u" in text if isinstance(text, str) else b"\\u" in text
        if escapes and not is_text(json.dumps(value, ensure_ascii=False)):
            raise ValueError("it contains an unpaired surrogate")
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a valid number")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is too large")
    return value


def _refuse_odd(path: Path, mode: int) -> None:
    for is_one, what in _KINDS:
        if is_one(mode):
            raise UsageError(
                f"{path} is {what}, not a regular file",
                "save its content to a file and name that file",
                code="not-a-regular-file",
            )
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "Is a directory", str(path))


def _size(octets: int) -> str:
    return f"{octets >> 20} MiB" if octets >= 1 << 20 else f"{octets >> 10} KiB"
