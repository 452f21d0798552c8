"""Kinds of inputs, each with its share of a long attack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import commands, kept

SHARES: dict[str, tuple[Callable[[], Any], float]] = {
    "files": (commands.dry_runs, 0.16),
    "flags": (commands.bare, 0.15),
    "words": (commands.calculations, 0.22),
    "conversions": (commands.conversions, 0.18),
    "tables": (commands.tables, 0.10),
    "campaigns": (commands.planned_campaigns, 0.03),
    "runs": (lambda: kept.damaged("RUN"), 0.06),
    "runs of queries": (lambda: kept.damaged("ANSWERED"), 0.02),
    "modified runs": (lambda: kept.damaged("MODIFIED"), 0.02),
    "audits": (lambda: kept.damaged("AUDIT"), 0.04),
    "campaigns carried out": (lambda: kept.damaged("CAMPAIGN"), 0.01),
    "rehearsals": (kept.rehearsals, 0.01),
}
KINDS = {name: make for name, (make, _) in SHARES.items()}
