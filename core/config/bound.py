"""A run with the objects its settings name: made once, then handed to whoever needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from v6t.core.config.resolve import device_of, technology
from v6t.core.config.settings import ResolvedRun

if TYPE_CHECKING:
    from v6t.plugins.base import Technology


@dataclass(frozen=True)
class BoundRun:
    """A resolved run and what its names stand for.

    Attributes:
        settings: what stands in the run directory.
        technology: the plugin as the tester sees it.
        device: the plugin as the reference device sees it: the same, but for the device's own
            overrides.
    """

    settings: ResolvedRun
    technology: Technology
    device: Technology


def bind(settings: ResolvedRun) -> BoundRun:
    """Look every name of a run up, once.

    Raises:
        UsageError: a plugin is gone, or no longer takes these parameters.
    """
    return BoundRun(settings, technology(settings), device_of(settings))
