"""Files: read bounded regular files, replace files atomically, and lock directories.

Opening a pipe blocks until its other end is open, and reading a device may never end.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.base.errors import EnvironmentLacking, UsageError
from v6t.base.text import is_encodable

if TYPE_CHECKING:
    from filelock import FileLock

SETTINGS_OCTETS = 256 << 10  # limit for files of settings, which people write
TABLE_OCTETS = 64 << 20  # limit for tables that programs write: prefixes, softwires, results
JOURNAL_OCTETS = 512 << 20  # limit for trials with their histograms
LOCK_NAME = ".lock"  # the lock file in a locked directory


def read_octets(path: Path, limit: int = TABLE_OCTETS, *, subject: str = "") -> bytes:
    """Read a regular file of at most ``limit`` octets.

    Raises:
        UsageError: it cannot be read; the error describes it as ``subject``, by default its path.
    """
    try:
        mode = os.stat(path).st_mode  # opening some devices has effects
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            problem = f"{path} is a pipe, socket or device, not a regular file"
            hint = "save its content to a file and name that file"
            raise UsageError(problem, hint, code="not-a-regular-file")
        with path.open("rb") as file:
            octets = file.read(limit + 1)
    except OSError as exc:
        raise explain_read_error(subject or path, exc) from exc
    except ValueError as exc:  # an octet 0 in the name
        raise UsageError(f"{str(path)!r} is not a valid file name", code="not-a-file-name") from exc
    if len(octets) > limit:
        size = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit >> 10} KiB"
        problem = f"{path} is larger than the limit of {size}"
        raise UsageError(problem, "check that this is the right file", code="file-too-large")
    return octets


def read_text(path: Path, limit: int = TABLE_OCTETS, *, subject: str = "") -> str:
    """Read a UTF-8 file without its byte order mark; see :func:`read_octets`."""
    octets = read_octets(path, limit, subject=subject)
    try:
        return octets.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as exc:
        problem = f"{path} is not UTF-8 text"
        raise UsageError(problem, "save the file as UTF-8", code="not-text") from exc


def read_json(path: Path) -> Any:
    """Read a JSON file; see :func:`read_octets`."""
    text = read_text(path)
    try:
        return parse_json(text)
    except ValueError as exc:
        raise UsageError(f"{path} is not valid JSON: {exc}", code="invalid-json") from exc


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; raise ValueError also for NaN, infinite numbers and unpaired surrogates."""
    try:
        value = json.loads(text, parse_constant=_parse_float, parse_float=_parse_float)
        # journals have many lines, so only those with an escape are encoded again
        escapes = "\\u" in text if isinstance(text, str) else b"\\u" in text
        if escapes and not is_encodable(json.dumps(value, ensure_ascii=False)):
            raise ValueError("it contains an unpaired surrogate")
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc
    return value


def _parse_float(number: str) -> float:
    """Parse a number; refuse NaN and infinity."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number[:40]} is not a finite number")
    return value


def explain_read_error(subject: Path | str, error: OSError) -> UsageError:
    """Make the error for a file, given by its path or description, that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return UsageError(f"{subject} does not exist", "check the path", code="file-not-found")
    if isinstance(error, IsADirectoryError):
        problem = f"{subject} is a directory"
        return UsageError(problem, "name a file in it", code="not-a-regular-file")
    if isinstance(error, NotADirectoryError):
        problem = f"{os.path.dirname(error.filename)} is not a directory"
        return UsageError(problem, code="not-a-directory")
    hint = "check the permissions of the file" if isinstance(error, PermissionError) else ""
    return UsageError(f"cannot read {subject}: {error.strerror}", hint, code="file-unreadable")


@contextlib.contextmanager
def report_write_errors(path: Path) -> Iterator[None]:
    """Turn operating system errors into the error for a path that cannot be written."""
    try:
        yield
    except OSError as exc:
        problem = f"cannot write {path}: {exc.strerror or exc}"
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "free space on the disk, or choose another directory"
            raise EnvironmentLacking(problem, hint, code="disk-full") from exc
        raise UsageError(problem, code="file-unwritable") from exc


def write_atomically(
    path: Path, text: str, *, private: bool = False, durable: bool = False
) -> None:
    """Replace a file by UTF-8 text; readers see the old or the new content, never a part.

    Args:
        text: its new content.
        private: only the owner may read the file; otherwise its mode follows the umask.
        durable: return after file and directory are on the disk.

    Raises:
        OSError: the file cannot be written; the old content remains.
    """
    partial = path.with_name(f".{path.name}.part")
    try:
        with partial.open("w", encoding="utf-8") as out:
            if private:
                os.fchmod(out.fileno(), 0o600)
            out.write(text)
            if durable:
                out.flush()
                os.fsync(out.fileno())
        os.replace(partial, path)
    except OSError as exc:
        exc.filename = exc.filename or str(path)  # an error of write() lacks it
        raise
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
    if durable:
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def locate_cache() -> Path:
    """Return the directory for measured facts about testers; it may not exist yet."""
    from platformdirs import user_cache_path

    return user_cache_path("v6t")


def acquire_lock(directory: Path) -> FileLock:
    """Lock a directory for this process; the lock of a killed process is free.

    Raises:
        UsageError: another process holds the lock, or the directory is not writable.
    """
    from filelock import FileLock, Timeout

    if not directory.is_dir():  # FileLock would create it
        raise UsageError(f"{directory} is not a directory", code="not-a-directory")
    lock = FileLock(directory / LOCK_NAME, timeout=0, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout as exc:
        raise UsageError(f"another v6t process uses {directory}", code="directory-locked") from exc
    except OSError as exc:
        problem = f"cannot write {directory}: {exc.strerror}"
        raise UsageError(problem, code="file-unwritable") from exc
    return lock


@contextmanager
def hold_lock(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory; see :func:`acquire_lock`."""
    lock = acquire_lock(directory)
    try:
        yield
    finally:
        lock.release()
