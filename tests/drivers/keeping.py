"""Files of what tests have seen. They are added to where V6T_RECORD is set, by one process at a time."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def kept(path: Path) -> dict[str, Any]:
    """What a file holds; without one, nothing."""
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8") or "{}")
    return found


@contextmanager
def kept_anew(path: Path) -> Iterator[dict[str, Any]]:
    """What a file holds, to be changed; it is written at the end, where this is asked for.

    Tests run beside each other: without taking turns one would write back what another has just changed.
    """
    if not os.environ.get("V6T_RECORD"):
        yield {}
        return
    with path.open("a", encoding="utf-8") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        found = kept(path)
        yield found
        path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
