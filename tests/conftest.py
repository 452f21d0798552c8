"""What holds for all tests: no report unless a test asks for one; which modules take long."""

from __future__ import annotations

import os
from pathlib import PurePath

import pytest

os.environ.setdefault("V6T_REPORT", "0")

SLOW = {
    "bench/test_bench_search.py",
    *(f"core/test_{name}.py" for name in (
        "campaign", "compare", "earlier_versions", "errors", "input", "interrupt", "journal", "measures",
        "migrate", "operational", "report", "run", "stateful", "variants",
    )),
    "fuzz/test_fuzz.py",
    "fuzz/test_kills.py",
    *(f"docs/test_{name}.py" for name in ("examples", "operations", "tutorials")),
    *(f"drivers/test_{name}.py" for name in ("connections", "header_choices", "trex_worker")),
    *(f"plugins/test_{name}.py" for name in (
        "conformance", "million", "nat", "nat6", "roundtrip", "roundtrip_docs",
        "roundtrip_negative", "sixrd", "third_party", "tuples",
    )),
    *(f"procedures/test_{name}.py" for name in ("connection_procedures", "timing")),
    *(f"profiles/test_{name}.py" for name in ("compile", "portions", "rows")),
}  # fmt: skip
"""Modules whose tests take seconds each, or minutes together, as `--durations` told."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make check` leaves out; what shares a built wheel stays on one worker."""
    here = PurePath(__file__).parent
    for item in items:
        place = PurePath(item.path).relative_to(here).as_posix()
        if place in SLOW or place.startswith("packaging/test_w") or "extensions" in place:
            item.add_marker(pytest.mark.slow)
        if place.startswith("packaging/"):
            item.add_marker(pytest.mark.xdist_group("packaging"))
