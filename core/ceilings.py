"""The tester's own ceiling where the ports cannot be joined during a run (SELF-01 to SELF-03).

The lab and the simulation measure it in every run. TRex on real ports cannot: there the device
stands between them. `v6t selftest --testbed FILE` measures it once, with a cable from port to port,
and remembers it for this testbed, traffic, frame size and mode.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from v6t.core.manifest import now
from v6t.core.settings import ResolvedRun
from v6t.procedures.selftest import Ceiling
from v6t.procedures.trial import Mode
from v6t.profiles.model import Direction, FramePair
from v6t.profiles.streams import StreamSet

UNKNOWN = (
    "not measured: join the ports by a cable and run `v6t selftest` with this testbed; until then "
    "only the faults of each trial tell the tester's limit"
)
_NO_MATTER = ("force", "restart", "sample", "python")
"""Options of a tester that change nothing about its speed."""


def remember(
    run: ResolvedRun,
    sizes: FramePair,
    mode: Mode,
    streams: Mapping[Direction, StreamSet],
    ceiling: Ceiling,
) -> None:
    """Keep what a self-test found; a file that cannot be written is no error."""
    path = _path()
    known = _read(path)
    known[_key(run, sizes, mode, streams)] = {"fps": ceiling.rate_fps, "when": now()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(known, indent=1), encoding="utf-8")
        fresh.replace(path)
    except OSError:
        return


def recall(
    run: ResolvedRun,
    sizes: FramePair,
    mode: Mode,
    streams: Mapping[Direction, StreamSet],
    media_fps: float,
) -> tuple[Ceiling, str]:
    """The remembered ceiling and where it is from; the medium's rate if there is none."""
    found = _read(_path()).get(_key(run, sizes, mode, streams))
    if found is None:
        return Ceiling(mode, media_fps, (), ()), UNKNOWN
    return Ceiling(mode, found["fps"], (), ()), f"self-test of {found['when']}"


def _key(
    run: ResolvedRun, sizes: FramePair, mode: Mode, streams: Mapping[Direction, StreamSet]
) -> str:
    options = {k: v for k, v in run.tester.options.items() if k not in _NO_MATTER}
    what = [
        run.tester.kind,
        options,
        run.line_rate_bps,
        sizes.ipv6,
        sizes.ipv4,
        mode,
        {d: [dict(s.trex) for s in one.streams] for d, one in sorted(streams.items())},
    ]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def _path() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "v6t" / "ceilings.json"


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
