"""What this machine can do: for ``v6t doctor``."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One line; ``missing`` keeps the embedded lab from working, ``note`` is good to know."""

    what: str
    state: Literal["ok", "note", "missing"]
    text: str


def examine() -> list[Finding]:
    """Everything, in the order a user would ask."""
    return [_system(), _cores(), _lab(), _trex(), *_impostors()]


def find_trex() -> Path | None:
    """TRex installation: ``$TREX_DIR``, else the newest ``/opt/trex/v*``."""
    named = os.environ.get("TREX_DIR")
    if named:
        return Path(named)
    found = [p for p in Path("/opt/trex").glob("v*") if (p / "t-rex-64").exists()]
    return max(found, key=_version, default=None)


def _version(path: Path) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", path.name))


def _system() -> Finding:
    text = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    if platform.system() != "Linux":
        return Finding("system", "missing", f"{text}; the lab needs Linux, --tester sim does not")
    return Finding("system", "ok", text)


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0))
    if cores == 1:
        return Finding("cores", "note", "1; tester and device will disturb each other much")
    return Finding("cores", "ok", str(cores))


def _lab() -> Finding:
    from v6t.drivers.embedded.privilege import available

    can, how = available()
    if can:
        return Finding("embedded lab", "ok", f"network namespaces as {how}")
    return Finding("embedded lab", "missing", how)


def _trex() -> Finding:
    path = find_trex()
    if path is None:
        return Finding("TRex", "note", "none found (TREX_DIR, /opt/trex/v*); the lab needs none")
    if not (path / "automation/trex_control_plane/interactive/trex").is_dir():
        return Finding("TRex", "note", f"{path} holds no TRex with a Python client")
    return Finding("TRex", "note", f"{path}; this version of v6t writes profiles for it only")


def _impostors() -> list[Finding]:
    """PyPI packages that look like TRex's client and are not."""
    known = {
        "trex": "is a template tool from PyPI that hides TRex's own client: uninstall it",
        "trex-stl-lib": "is an outdated copy from PyPI, unusable with TRex v3: uninstall it",
    }
    findings = []
    for name, text in known.items():
        try:
            distribution(name)
        except PackageNotFoundError:
            continue
        findings.append(Finding(f"package {name}", "note", text))
    return findings
