"""Every planted fault before all clauses of its suite: what each flags beside the clause meant to find it.

``python -m v6t.tests.plugins.clauses.score`` tries all of them and notes the result in ``score.json``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from v6t.plugins.clauses.base import Suite
from v6t.plugins.clauses.relay_sources import Relay
from v6t.plugins.clauses.translation import Translation
from v6t.plugins.clauses.tunnels import Tunnel
from v6t.plugins.map.mape_br import MapEBorderRelay
from v6t.plugins.map.mapt_br import MapTBorderRelay
from v6t.plugins.siit.siit import Siit
from v6t.tests.plugins.clauses import relay_faults, translation_faults
from v6t.tests.plugins.clauses.faulty import Fault, FaultyDevice, outcomes
from v6t.tests.plugins.clauses.nat_faults import FAULTS
from v6t.tests.plugins.clauses.test_nats import judged

RECORD = Path(__file__).parent / "score.json"


@dataclass(frozen=True)
class Planted:
    """A fault of a device, and how it is tried.

    Attributes:
        name: with its suite's.
        meant: whether a clause, by its name, is meant to find it.
        flagged: tries all clauses; names of those that deviate.
    """

    name: str
    meant: Callable[[str], bool]
    flagged: Callable[[], list[str]]


def planted() -> Iterator[Planted]:
    """All faults of one device before one suite."""
    families: tuple[tuple[Suite, Any, Any], ...] = (
        (Translation(), Siit(), translation_faults.faults()),
        (Relay(), MapEBorderRelay(), relay_faults.relay()),
        (Tunnel(), MapEBorderRelay(), relay_faults.tunnel()),
        (Relay(), MapTBorderRelay(), relay_faults.mapt()),
    )
    for suite, technology, faults in families:
        for fault in faults:
            yield Planted(
                f"{technology.name} {suite.name}: {fault.name}",
                lambda name, f=fault: f.clause in name,  # type: ignore[misc]
                lambda s=suite, t=technology, f=fault: _flagged(s, t, f),  # type: ignore[misc]
            )
    for name, end in FAULTS.items():
        yield Planted(
            f"nat44 nat: {name}",
            lambda clause, e=end: clause.endswith(e),  # type: ignore[misc]
            lambda n=name: sorted(c for c, v in judged(n).items() if v == "deviates"),  # type: ignore[misc]
        )


def _flagged(suite: Suite, technology: Any, fault: Fault) -> list[str]:
    with ExitStack() as stack:
        if fault.patch is not None:
            where, name, made = fault.patch
            stack.enter_context(patch.object(where, name, made(getattr(where, name))))
        device = FaultyDevice(technology.whole_device(), fault)
        found = outcomes(device, list(suite.clauses(technology)))
    return sorted(o.clause.name for o in found if o.judgement.verdict == "deviates")


def recorded() -> dict[str, list[str]]:
    """Names of the clauses that deviate, by fault."""
    found: dict[str, list[str]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return found


def score() -> dict[str, int]:
    """Faults; those that the clause meant for them finds; those that flag nothing else."""
    kept = recorded()
    found = [(p, kept[p.name]) for p in planted()]
    return {
        "faults": len(found),
        "found": sum(any(p.meant(name) for name in names) for p, names in found),
        "alone": sum(all(p.meant(name) for name in names) for p, names in found),
        "most": max(len(names) for _, names in found),
    }


if __name__ == "__main__":
    RECORD.write_text(
        json.dumps({p.name: p.flagged() for p in planted()}, indent=1, sort_keys=True) + "\n"
    )
    print(score())
