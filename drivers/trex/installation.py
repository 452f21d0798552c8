"""Where TRex is, and which Python can import its client."""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from v6t.profiles.errors import EnvironmentLacking, TesterError, UsageError

CLIENT = Path("automation/trex_control_plane/interactive")
OPT = Path("/opt/trex")


@dataclass(frozen=True)
class Installation:
    """An existing TRex.

    Attributes:
        path: directory with ``t-rex-64``.
    """

    path: Path

    @property
    def binary(self) -> Path:
        """The server itself, without the wrapper that binds NICs."""
        return self.path / "_t-rex-64"

    @property
    def version(self) -> str:
        """From the directory's name or its VERSION file; the server knows for certain."""
        match = re.search(r"v\d+\.\d+", self.path.resolve().name)
        if match:
            return match.group()
        try:
            return (self.path / "VERSION").read_text(encoding="utf-8").strip() or "unknown"
        except OSError:
            return "unknown"


def find(named: str = "") -> Installation | None:
    """The installation a user means: named, ``$TREX_DIR``, else the newest /opt/trex/v*.

    Raises:
        UsageError: a directory was named and is none.
    """
    location = named or os.environ.get("TREX_DIR", "")
    if location:
        path = Path(location).expanduser()
        if not (path / "t-rex-64").exists():
            source = "trex_dir" if named else "TREX_DIR"
            raise UsageError(
                f"{source} is {path}, but there is no t-rex-64", "name the directory that holds it"
            )
        if not (path / CLIENT / "trex" / "stl").is_dir():
            raise UsageError(f"{path} holds no TRex Python client below {CLIENT}")
        return Installation(path)
    installations = [p for p in OPT.glob("v*") if (p / "t-rex-64").exists()]
    newest = max(installations, key=_numbers, default=None)
    return None if newest is None else Installation(newest)


def require(named: str = "") -> Installation:
    """Like :func:`find`, but there must be one.

    Raises:
        EnvironmentLacking: there is none.
    """
    installation = find(named)
    if installation is None:
        raise EnvironmentLacking(
            "no TRex found: neither trex_dir, TREX_DIR nor /opt/trex/v* names an installation",
            "set TREX_DIR to the directory with t-rex-64, or use --tester embedded or sim",
        )
    return installation


def _numbers(path: Path) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", path.name))


def interpreters(named: str = "") -> list[str]:
    """Candidates that may import the client, best first; the first that works is used."""
    if named:
        return [named]
    minors = [f"python3.{minor}" for minor in (11, 10, 12, 9, 8, 13)]
    known = [sys.executable, *(shutil.which(n) or "" for n in ("python3", *minors))]
    return list(dict.fromkeys(p for p in known if p))


@cache
def find_interpreter(installation: Installation, named: str = "") -> tuple[str, dict[str, object]]:
    """First interpreter whose attempt to import the client succeeds, and what it said.

    Raises:
        EnvironmentLacking: none does; the message holds the last reason.
    """
    from v6t.drivers.trex.channel import ClientWorker

    reason = "no Python found"
    for python in interpreters(named):
        try:
            worker = ClientWorker(python)
        except OSError as exc:
            reason = f"{python}: {exc.strerror}"
            continue
        try:
            hello = worker.ask("hello", trex_dir=str(installation.path), deadline_s=60)
        except TesterError as exc:
            reason = f"{python}: {exc.message}"
        else:
            return python, hello
        finally:
            worker.close()
    raise EnvironmentLacking(
        f"no Python could import TRex's client from {installation.path}: {reason}",
        "name one of version 3.8 to 3.13 with the option python",
    )
