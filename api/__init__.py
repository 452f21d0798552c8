"""Benchmark IPv6 transition technologies: :func:`run` measures, :func:`load` reads results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from v6t.core.api import Campaign, Run, load, run

__all__ = ["Campaign", "Run", "load", "run"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from v6t.core import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
