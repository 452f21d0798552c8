"""What this machine can do: for ``v6t doctor``."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from v6t.drivers.trex.options import TrexOptions

LITTLE_BYTES = 1 << 30
CPU = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Finding:
    """One line; ``missing`` keeps the lab or a testbed's TRex from working."""

    what: str
    state: Literal["ok", "note", "missing"]
    text: str


def examine(trex: Mapping[str, Any] | None = None) -> list[Finding]:
    """Everything, in the order a user would ask.

    Args:
        trex: options of a testbed file's TRex tester; None: TRex is nice to have.
    """
    return [
        _system(),
        _cores(),
        *_clock_policy(),
        _lab(),
        _results(),
        *_extensions(),
        *_trex(trex),
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
    """What makes rates wander: only said where it does."""
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


def _lab() -> Finding:
    from v6t.drivers.lab.privilege import available

    can, how = available()
    if can:
        return Finding("embedded lab", "ok", f"network namespaces as {how}")
    return Finding("embedded lab", "missing", how)


def _results() -> Finding:
    """Runs are written below the current directory unless -o says something else."""
    here = Path.cwd()
    if not os.access(here, os.W_OK):
        return Finding("results", "note", f"{here} cannot be written: give a directory with -o")
    free = shutil.disk_usage(here).free
    text = f"written below {here}, {free / LITTLE_BYTES:,.1f} GiB free"
    return Finding("results", "note" if free < LITTLE_BYTES else "ok", text)


def _extensions() -> Iterator[Finding]:
    from v6t.core.benchmarks.registry import BENCHMARKS
    from v6t.core.config.plugins import TECHNOLOGIES
    from v6t.drivers.duts.registry import DRIVERS

    kinds = (
        ("technologies", TECHNOLOGIES),
        ("benchmarks", BENCHMARKS),
        ("device drivers", DRIVERS),
    )
    for title, found in kinds:
        rows = found.listing()
        good = sum(not row.error for row in rows)
        yield Finding(title, "ok" if good else "missing", f"{good} {found.what}s")
        for row in rows:
            if row.error:
                yield Finding(f"{found.what} {row.name}", "note", row.error)


def _trex(options: Mapping[str, Any] | None) -> list[Finding]:
    from v6t.drivers.trex.doctor import examine as examine_trex
    from v6t.drivers.trex.options import TrexOptions
    from v6t.drivers.trex.remote_checks import examine_remote

    given = TrexOptions.from_mapping(options or {})
    looked = list(examine_remote(given) if given.ssh else examine_trex(given))
    if options is not None:
        looked = list(_ports(given, looked))
    found = []
    for what, state, text in looked:
        weight: Any = "note" if options is None and state == "missing" else state
        found.append(Finding(what, weight, text))
    return found


def _ports(
    given: TrexOptions, looked: Iterable[tuple[str, str, str]]
) -> Iterator[tuple[str, str, str]]:
    """Where a server must be started: whether that is possible."""
    from v6t.drivers.trex.remote_checks import examine_interfaces

    for what, state, text in looked:
        silent = what == "TRex server" and state == "note"
        if not silent or given.lab:
            yield what, state, text
        elif given.start == "never":
            yield what, "missing", text.replace("v6t starts one", "start one, or say start: auto")
        elif given.all_interfaces is None:
            yield (
                what,
                "missing",
                text.replace("v6t starts one", "name its interfaces (tester.options.interfaces)"),
            )
        else:
            yield what, state, text
            yield from examine_interfaces(given)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
