"""A batch of inputs of one kind: figures, and each thing that went wrong once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from . import commands, kept
from .bench import Place

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

BATCH = 250
SLOW_S, LARGE_MIB = 5.0, 300.0


def batch(job: tuple[str, int, int]) -> dict[str, Any]:
    """Run some inputs of one kind; return figures and each distinct problem once."""
    kind, number, count = job
    place = Place()
    figures: dict[str, Any] = {
        "kind": kind, "inputs": 0, "slowest": 0.0, "peak": 0.0, "statuses": Counter(), "troubles": [],
    }  # fmt: skip
    known = set()

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(KINDS[kind]())
    def attack(found: Any) -> None:
        done = place.outcome(found)
        figures["inputs"] += 1
        figures["statuses"][done.status] += 1
        figures["slowest"] = max(figures["slowest"], done.seconds)
        figures["peak"] = max(figures["peak"], done.peak_mib)
        trouble = done.trouble or ("slow" if done.seconds > SLOW_S else "")
        what = (trouble, done.said.strip().splitlines()[-2:][0][:60] if done.said.strip() else "")
        if trouble and what not in known:
            known.add(what)
            figures["troubles"].append(
                [trouble, done.said[-600:], round(done.seconds, 2), repr(found)[:3000]]
            )

    try:
        attack()
    finally:
        place.close()
    return figures
