"""Files that appear complete or not at all, v6t's cache directory, and locks of directories."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path
from v6t.base.errors import UsageError

LOCK = ".lock"
"""The lock file in a locked directory."""


def write_atomically(path: Path, text: str, *, private: bool = True, durable: bool = False) -> None:
    """Replace a file by a text; readers see the old or the new content, never a part.

    Args:
        path: the file.
        text: its new content, written as UTF-8.
        private: only the owner may read the file.
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
        _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cache_directory() -> Path:
    """Return the directory for measured facts about testers; it may not exist yet."""
    return user_cache_path("v6t")


def acquire_lock(directory: Path) -> FileLock:
    """Lock a directory for this process; the lock of a killed process is free.

    Raises:
        UsageError: another process holds the lock, or the directory is not writable.
    """
    if not directory.is_dir():  # FileLock would create it
        raise UsageError(f"{directory} is not a directory", code="not-a-directory")
    lock = FileLock(directory / LOCK, timeout=0, mode=0o600, thread_local=False)
    try:
        lock.acquire()
    except Timeout as exc:
        raise UsageError(f"another v6t process uses {directory}", code="directory-locked") from exc
    except OSError as exc:
        raise UsageError(
            f"cannot write {directory}: {exc.strerror}", code="file-unwritable"
        ) from exc
    return lock


@contextmanager
def hold_lock(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory; see :func:`acquire_lock`."""
    lock = acquire_lock(directory)
    try:
        yield
    finally:
        lock.release()
