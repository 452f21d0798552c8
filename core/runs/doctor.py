"""What this machine can do: for ``v6t doctor``."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from v6t.base.entry_points import Extensions
from v6t.benchmarks import registry
from v6t.core.config.plugins import TECHNOLOGIES
from v6t.drivers.duts.registry import DRIVERS
from v6t.drivers.testers import DEFAULT, TESTERS

if TYPE_CHECKING:
    from v6t.drivers.tester_kind import TesterKind

LITTLE_BYTES = 1 << 30
CPU = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Finding:
    """One line; ``missing`` keeps the lab or a testbed's tester from working."""

    what: str
    state: Literal["ok", "note", "missing"]
    text: str


def examine(tester: TesterKind | None = None) -> list[Finding]:
    """Everything, in the order a user would ask.

    Args:
        tester: that a testbed file names.
    """
    return [
        _system(),
        _cores(),
        *_clock_policy(),
        _results(),
        *_extensions(),
        *_testers(tester),
    ]


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


def _clock_policy() -> Iterator[Finding]:
    """Report a clock policy that lets rates drift."""
    governor = _read(CPU / "cpu0/cpufreq/scaling_governor")
    if governor not in ("", "performance"):
        yield Finding(
            "frequency",
            "note",
            f"governor {governor}: rates will wander; cpupower frequency-set -g performance",
        )
    if _read(CPU / "smt/active") == "1":
        yield Finding(
            "hyper-threading",
            "note",
            "on: two cores may be one; echo off >/sys/devices/system/cpu/smt/control",
        )


def _results() -> Finding:
    """Check the directory of results, the current one unless -o is given."""
    here = Path.cwd()
    if not os.access(here, os.W_OK):
        return Finding("results", "note", f"{here} cannot be written: give a directory with -o")
    free = shutil.disk_usage(here).free
    text = f"written below {here}, {free / LITTLE_BYTES:,.1f} GiB free"
    return Finding("results", "note" if free < LITTLE_BYTES else "ok", text)


def _extensions() -> Iterator[Finding]:
    groups: tuple[tuple[str, Extensions[Any]], ...] = (
        ("technologies", TECHNOLOGIES),
        ("device drivers", DRIVERS),
        ("benchmarks", registry.BENCHMARKS),
        ("testers", TESTERS),
    )
    for title, group in groups:
        rows = registry.listing() if group is registry.BENCHMARKS else group.list_rows()
        good = sum(not row.error for row in rows)
        yield Finding(title, "ok" if good else "missing", f"{good} {group.noun}s")
        for row in rows:
            if row.error:
                yield Finding(f"{group.noun} {row.name}", "note", row.error)


def _testers(named: TesterKind | None) -> Iterator[Finding]:
    """Check the testers: those of the testbed and the default must work."""
    for row in TESTERS.list_rows():
        if row.kind is None:
            continue
        asked = named is not None and row.name == named.name
        kind = named if asked and named is not None else row.kind()
        needed = asked or row.name == DEFAULT
        for what, state, text in kind.examine(named=asked):
            yield Finding(what, "note" if state == "missing" and not needed else state, text)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
