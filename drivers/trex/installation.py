"""The directory of TRex, and the Python that can import its client."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from v6t.base.errors import EnvironmentLacking, TesterError, UsageError
from v6t.drivers.trex.channel import ClientWorker

CLIENT_DIRECTORY = Path("automation/trex_control_plane/interactive")  # TRex's Python client
DEFAULT_LOCATION = Path("/opt/trex")  # Has a folder for each version


def read_version(installation: Path) -> str:
    """Read the version from the directory's name or the VERSION file.

    In a source tree TRex runs from ``scripts``, and VERSION is one folder up.
    """
    if match := re.search(r"v\d+\.\d+", installation.resolve().name):
        return match.group()
    for folder in (installation, installation.resolve().parent):
        with contextlib.suppress(OSError):
            if version := (folder / "VERSION").read_text(encoding="utf-8").strip():
                return version
    return "unknown"


def find_installation(trex_dir: str = "") -> Path | None:
    """Return the directory of ``t-rex-64``: ``trex_dir``, ``$TREX_DIR`` or the newest /opt/trex/v*.

    Raises:
        UsageError: ``trex_dir`` or ``$TREX_DIR`` does not contain TRex.
    """
    location = trex_dir or os.environ.get("TREX_DIR", "")
    if location:
        path = Path(location).expanduser()
        if not (path / "t-rex-64").exists():
            source = "trex_dir" if trex_dir else "TREX_DIR"
            raise UsageError(
                f"{path}, from {source}, does not contain t-rex-64",
                "name the directory that holds it",
                code="missing-installation",
            )
        if not (path / CLIENT_DIRECTORY / "trex" / "stl").is_dir():
            raise UsageError(
                f"{path} does not contain a TRex Python client below {CLIENT_DIRECTORY}",
                code="missing-installation",
            )
        return path
    installations = [p.parent for p in DEFAULT_LOCATION.glob("v*/t-rex-64")]
    return max(
        installations, key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)], default=None
    )


def require_installation(trex_dir: str = "") -> Path:
    """Find the installation, or raise EnvironmentLacking."""
    installation = find_installation(trex_dir)
    if installation is None:
        raise EnvironmentLacking(
            "no TRex found: neither trex_dir, TREX_DIR nor /opt/trex/v* names an installation",
            "set TREX_DIR to the directory with t-rex-64, or use --tester embedded or sim",
            code="missing-program",
        )
    return installation


def list_interpreters(python: str = "") -> list[str]:
    """List Python interpreters that may import TRex's client, in the order in which they are tried."""
    if python:
        return [python]
    minors = [f"python3.{minor}" for minor in (11, 10, 12, 9, 8, 13)]
    known = [sys.executable, *(shutil.which(n) or "" for n in ("python3", *minors))]
    return list(dict.fromkeys(p for p in known if p))


_imported: dict[tuple[Path, str], str] = {}  # Interpreters by installation and option


def start_client(
    installation: Path, python: str, start: Callable[[str], ClientWorker], deadline_s: float
) -> tuple[ClientWorker, dict[str, Any]]:
    """Start a worker in the first interpreter that can import TRex's client; return its facts, too.

    Raises:
        EnvironmentLacking: no interpreter can; the message holds the last reason.
    """
    known = _imported.get((installation, python))
    reason = "no Python found"
    directory = str(installation.resolve())
    for candidate in list_interpreters(python) if known is None else [known]:
        with contextlib.ExitStack() as stack:
            try:
                worker = stack.enter_context(contextlib.closing(start(candidate)))
                facts = worker.ask("import_client", trex_dir=directory, deadline_s=deadline_s)
            except TesterError as exc:
                reason = f"{candidate}: {exc.message}"
            else:
                stack.pop_all()
                _imported[installation, python] = candidate
                return worker, facts
    raise EnvironmentLacking(
        f"no Python could import TRex's client from {installation}: {reason}",
        "name one of version 3.8 to 3.13 with the option python",
        code="missing-program",
    )
