"""Kinds of inputs, each with its share of a long attack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import inputs

SHARES: dict[str, tuple[Callable[[dict[str, bytes]], Any], float]] = {
    "files": (lambda _: inputs.dry_runs(), 0.30),
    "flags": (lambda _: inputs.bare(), 0.10),
    "words": (lambda _: inputs.calculations(), 0.29),
    "conversions": (lambda _: inputs.conversions(), 0.15),
    "campaigns": (lambda _: inputs.planned_campaigns(), 0.01),
    "runs": (inputs.damaged_runs, 0.15),
}
KINDS = {name: make for name, (make, _) in SHARES.items()}
