"""Settings of runs for tests."""

from typing import Any

from v6t.core.config.resolve import resolve_setup
from v6t.core.config.settings import Settings


def resolve(*files: Any, **options: Any) -> Settings:
    """Return the settings of a run without technology, driver and tester."""
    return resolve_setup(*files, **options).settings
