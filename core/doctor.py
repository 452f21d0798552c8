"""What this machine can do: for ``v6t doctor``."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


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
    return [_system(), _cores(), _lab(), *_trex(trex)]


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


def _trex(options: Mapping[str, Any] | None) -> list[Finding]:
    from v6t.drivers.trex.doctor import examine as examine_trex
    from v6t.drivers.trex.options import TrexOptions

    found = []
    for what, state, text in examine_trex(TrexOptions.from_mapping(options or {})):
        weight: Any = "note" if options is None and state == "missing" else state
        found.append(Finding(what, weight, text))
    return found
