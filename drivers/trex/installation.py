"""Where TRex is, and which Python can import its client."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from v6t.base.errors import EnvironmentLacking, TesterError, UsageError

if TYPE_CHECKING:
    from v6t.drivers.trex.channel import ClientWorker

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
        """From the directory's name or VERSION file; the server knows for certain.

        In a source tree TRex runs from ``scripts``, and VERSION is one folder up.
        """
        match = re.search(r"v\d+\.\d+", self.path.resolve().name)
        if match:
            return match.group()
        for folder in (self.path, self.path.resolve().parent):
            with contextlib.suppress(OSError):
                if version := (folder / "VERSION").read_text(encoding="utf-8").strip():
                    return version
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
                f"{path}, from {source}, does not contain t-rex-64",
                "name the directory that holds it",
                code="missing-installation",
            )
        if not (path / CLIENT / "trex" / "stl").is_dir():
            raise UsageError(
                f"{path} does not contain a TRex Python client below {CLIENT}",
                code="missing-installation",
            )
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
            code="missing-program",
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


_imported: dict[tuple[Installation, str], str] = {}
"""Interpreters that could import the client, by where it is and what was named."""


def start_client(
    installation: Installation, named: str, start: Callable[[str], ClientWorker], deadline_s: float
) -> tuple[ClientWorker, dict[str, object]]:
    """A worker in the first interpreter that can import the client, and what it said.

    Args:
        installation: whose client.
        named: interpreter that was asked for; empty: any.
        start: a worker in an interpreter.
        deadline_s: how long an import may take [s].

    Raises:
        EnvironmentLacking: none can; the message holds the last reason.
    """
    known = _imported.get((installation, named))
    reason = "no Python found"
    for python in interpreters(named) if known is None else [known]:
        try:
            worker = start(python)
        except (OSError, TesterError) as exc:
            reason = f"{python}: {exc}"
            continue
        try:
            hello = worker.ask(
                "hello", trex_dir=str(installation.path.resolve()), deadline_s=deadline_s
            )
        except BaseException as exc:
            worker.close()
            if not isinstance(exc, TesterError):
                raise
            reason = f"{python}: {exc.message}"
        else:
            _imported[installation, named] = python
            return worker, hello
    raise EnvironmentLacking(
        f"no Python could import TRex's client from {installation.path}: {reason}",
        "name one of version 3.8 to 3.13 with the option python",
        code="missing-program",
    )


def find_interpreter(installation: Installation, named: str = "") -> tuple[str, dict[str, object]]:
    """First interpreter whose attempt to import the client succeeds, and what it said.

    Raises:
        EnvironmentLacking: none does; the message holds the last reason.
    """
    from v6t.drivers.trex.channel import ClientWorker

    worker, hello = start_client(installation, named, ClientWorker, 60)
    worker.close()
    return _imported[installation, named], hello
