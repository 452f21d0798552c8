"""What is said of a driven device: in the manifest, and by ``v6t dut status``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from v6t.drivers.duts.commands import Commands
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.plan import Intent, Plan
from v6t.drivers.duts.undo_record import Record, summary


def described(
    driver: Commands,
    intent: Intent,
    facts: Facts | None,
    plan: Plan | None,
    read: Mapping[str, str],
) -> dict[str, Any]:
    """Facts for the manifest (GEN-28).

    Args:
        driver, intent: what it is and what it shall be.
        facts: before the first change.
        plan: what was done to it.
        read: its sections as they were while it was measured.
    """
    description: dict[str, Any] = {"kind": driver.name}
    if facts is not None:
        before = facts.sections
        description |= {"system": facts.system, "version": facts.version, "facts": dict(before)}
        description["while_measured"] = {
            n: text for n, text in read.items() if text != before.get(n)
        }
    if plan is not None:
        description["commands"] = [
            s.set + (f" <<< {s.text!r}" if s.text else "") for s in plan.steps
        ]
        description["notes"] = list(plan.notes)
    description["profile"] = asdict(driver.profile(intent))
    return description


def standing(record: Record | None) -> dict[str, Any]:
    """Who configured it, from its undo record."""
    if record is None:
        return {"configured": None, "driver": None, "technology": None, "undo": ""}
    return {
        "configured": dict(summary(record)),
        "driver": record.driver,
        "technology": record.technology,
        "undo": record.by_hand,
    }
