"""JSON records of test results, updated by one process at a time if V6T_RECORD is set."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def load_record(path: Path) -> dict[str, Any]:
    """Load a JSON file; return an empty dictionary if it does not exist."""
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8") or "{}")
    return found


@contextmanager
def update_record(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the content of a locked file; write it back if ``V6T_RECORD`` is set."""
    if not os.environ.get("V6T_RECORD"):
        yield {}
        return
    with path.open("a", encoding="utf-8") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        found = load_record(path)
        yield found
        path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
