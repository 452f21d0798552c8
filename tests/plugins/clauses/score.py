"""Every planted fault before all clauses of its suite: what each flags beside the clause meant to find it.

``python -m v6t.tests.plugins.clauses.score`` tries all of them and notes the result in ``score.json``: by fault the
clauses that deviate, and by clause where the device's packets differ from those of a right one. Of one cause are
clauses that differ in the same place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from v6t.plugins.clauses.base import Suite
from v6t.plugins.clauses.carry import Outcome
from v6t.plugins.clauses.relay_sources import Relay
from v6t.plugins.clauses.translation import Translation
from v6t.plugins.clauses.tunnels import Tunnel
from v6t.plugins.map.mape_br import MapEBorderRelay
from v6t.plugins.map.mapt_br import MapTBorderRelay
from v6t.plugins.siit.siit import Siit
from v6t.tests.plugins.clauses import relay_faults, translation_faults
from v6t.tests.plugins.clauses.faulty import ETHERNET, Fault, FaultyDevice, outcomes
from v6t.tests.plugins.clauses.nat_device import NatDevice
from v6t.tests.plugins.clauses.nat_faults import FAULTS
from v6t.tests.plugins.clauses.test_nats import CONFIGURED, configurations, ends

RECORD = Path(__file__).parent / "score.json"
Flagged = dict[str, list[str]]
"""Clauses that deviate, and where the device's packets differ from a right one's."""
PARTS = {
    4: ((1, "header length"), (2, "TOS"), (4, "length"), (6, "identification"), (8, "fragment word"),
        (9, "TTL"), (10, "protocol"), (12, "checksum"), (16, "source"), (20, "destination")),
    6: ((4, "class and label"), (6, "length"), (7, "next header"), (8, "hop limit"), (24, "source"),
        (40, "destination")),
}  # fmt: skip
"""Parts of headers, by where they end."""


@dataclass(frozen=True)
class Planted:
    """A fault of a device, and how it is tried.

    Attributes:
        name: with its suite's.
        meant: whether a clause, by its name, is meant to find it.
        flagged: tries all clauses; of those that deviate, where the device's packets differ.
    """

    name: str
    meant: Callable[[str], bool]
    flagged: Callable[[], Flagged]


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
            lambda n=name: _of_nat(n),  # type: ignore[misc]
        )


def _flagged(suite: Suite, technology: Any, fault: Fault) -> Flagged:
    clauses = list(suite.clauses(technology))
    right = outcomes(technology.whole_device(), clauses)
    with ExitStack() as stack:
        if fault.patch is not None:
            where, name, made = fault.patch
            stack.enter_context(patch.object(where, name, made(getattr(where, name))))
        wrong = outcomes(FaultyDevice(technology.whole_device(), fault), clauses)
    return _deviating(right, wrong)


def _of_nat(fault: str) -> Flagged:
    found: Flagged = {}
    for words, technology, clauses in configurations():
        for clause in clauses:
            # clauses hold what ports were used: each device is asked by clauses of its own
            told = CONFIGURED.get(words, {})
            right, wrong = (
                outcomes(NatDevice(ends(technology), name, **told), [clause])
                for name in ("", fault)
            )
            found.update(_deviating(right, wrong))
    return found


def _deviating(right: Sequence[Outcome], wrong: Sequence[Outcome]) -> Flagged:
    return {
        w.clause.name: sorted(_differences(r, w))
        for r, w in zip(right, wrong, strict=True)
        if w.judgement.verdict == "deviates"
    }


def _differences(right: Outcome, wrong: Outcome) -> set[str]:
    """Where what two devices sent differs, up to the first turn in which it does."""
    for r, w in zip(right.turns, wrong.turns, strict=False):
        found = set()
        if len(r.heard) != len(w.heard):
            found.add("lost" if len(w.heard) < len(r.heard) else "more")
        for a, b in zip(r.heard, w.heard, strict=False):
            one, two = a.octets[ETHERNET:], b.octets[ETHERNET:]
            if one[0] >> 4 != two[0] >> 4 or a.side != b.side:
                found.add("another packet")
                continue
            found.update(
                _place(one[0] >> 4, n) for n in range(len(one)) if one[n : n + 1] != two[n : n + 1]
            )
            found.update(["length"] if len(one) != len(two) else [])
        # a header's checksum differs wherever anything in it does
        if found:
            return (found - {"IPv4 checksum"}) or found
    return set()


def _place(version: int, octet: int) -> str:
    """Which part of a packet an octet is in."""
    parts = PARTS[version]
    return f"IPv{version} {next((name for end, name in parts if octet < end), 'data')}"


def recorded() -> dict[str, Flagged]:
    """What was noted, by fault."""
    found: dict[str, Flagged] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return found


def score() -> dict[str, int]:
    """Faults; those that the clause meant for them finds; those that flag nothing else, or by the same cause."""
    kept = recorded()
    found = [(p, kept[p.name]) for p in planted()]
    return {
        "faults": len(found),
        "found": sum(any(p.meant(name) for name in names) for p, names in found),
        "alone": sum(all(p.meant(name) for name in names) for p, names in found),
        "one cause": sum(not strangers(p, names) for p, names in found),
        "most": max(len(names) for _, names in found),
    }


def strangers(fault: Planted, flagged: Flagged) -> list[str]:
    """Clauses that a fault flags by another cause than those that are meant."""
    cause = {place for name, places in flagged.items() if fault.meant(name) for place in places}
    return [name for name, places in flagged.items() if cause.isdisjoint(places)]


if __name__ == "__main__":
    RECORD.write_text(
        json.dumps({p.name: p.flagged() for p in planted()}, indent=1, sort_keys=True) + "\n"
    )
    print(score())
