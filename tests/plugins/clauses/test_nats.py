"""The suite ``nat`` before a right NAT44, and before one with one fault at a time."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from v6t.plugins.clauses.base import Clause
from v6t.plugins.clauses.nat_ends import NatEnds, nat
from v6t.plugins.clauses.nat_limits import BLOCKS, FEW, ROOM, SMALL, TABLE
from v6t.plugins.clauses.nat_timers import SHORT, SHORT_S
from v6t.plugins.clauses.nats import Nat
from v6t.plugins.dslite.aftr import DsLiteAftr
from v6t.plugins.nat.nat44 import Nat44, Nat44Params
from v6t.plugins.nat.nat64 import Nat64, Nat64Params
from v6t.plugins.siit.siit import Siit
from v6t.tests.plugins.clauses.faulty import outcomes
from v6t.tests.plugins.clauses.nat_device import FAULTS, NatDevice

SUITE = Nat()
CONFIGURED: dict[str, dict[str, Any]] = {
    BLOCKS: {"block": ROOM},
    FEW: {"room": (1024, 1023 + ROOM)},
    SMALL: {"limit": TABLE},
    SHORT: {"udp_s": SHORT_S},
}
"""What the device is told in further configurations."""


def nat44(**params: object) -> Nat44:
    return Nat44(Nat44Params(**{**SUITE.preferred(Nat44()), **params}))  # type: ignore[arg-type]


def ends(technology: Nat44) -> NatEnds:
    found = nat(technology)
    assert found is not None
    return found


def configurations() -> list[tuple[str, Nat44, list[Clause]]]:
    """What is asked of a NAT44 in each configuration, and what it is in it."""
    plain = nat44()
    found = [("", plain, list(SUITE.clauses(plain)))]
    for words, params in SUITE.variants(plain):
        varied = nat44(**params)
        found.append((words, varied, list(SUITE.varied(varied, words))))
    return found


@cache
def judged(fault: str = "") -> dict[str, str]:
    """The verdict on every clause in every configuration; each before a device of its own."""
    found = {}
    for words, technology, clauses in configurations():
        for clause in clauses:
            device = NatDevice(ends(technology), fault, **CONFIGURED.get(words, {}))
            [outcome] = outcomes(device, [clause])
            found[clause.name] = outcome.judgement.verdict
    return found


def test_a_right_nat_conforms() -> None:
    found = judged()
    assert [name for name, verdict in found.items() if verdict != "conforms"] == []
    assert len(found) == 81


def test_it_conforms_to_one_clause_after_the_other() -> None:
    for words, technology, clauses in configurations():
        device = NatDevice(ends(technology), **CONFIGURED.get(words, {}))
        wrong = [o for o in outcomes(device, clauses) if o.judgement.verdict != "conforms"]
        assert [(o.clause.name, o.judgement) for o in wrong] == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    found = judged(fault)
    [meant] = [name for name in found if name.endswith(FAULTS[fault])]
    assert found[meant] == "deviates"


def test_nothing_is_told_of_a_dead_nat() -> None:
    class Dead(NatDevice):
        def receive(self, side: object, frame: bytes) -> list[object]:  # type: ignore[override]
            return []

    for words, technology, clauses in configurations():
        found = outcomes(Dead(ends(technology), **CONFIGURED.get(words, {})), clauses)  # type: ignore[arg-type]
        assert [o.clause.name for o in found if o.judgement.verdict == "conforms"] == []


@pytest.mark.parametrize(
    "technology", [Nat64(Nat64Params(**SUITE.preferred(Nat64()))), DsLiteAftr()]
)  # type: ignore[arg-type]
def test_it_applies_to_other_nats(technology: object) -> None:
    here = len(list(SUITE.clauses(nat44())))
    assert len(list(SUITE.clauses(technology))) == here  # type: ignore[arg-type]


def test_it_does_not_apply_elsewhere() -> None:
    assert list(SUITE.clauses(Siit())) == []
