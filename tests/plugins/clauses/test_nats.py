"""The suite ``nat`` before a right NAT44, and before one with one fault at a time."""

from __future__ import annotations

import pytest
from v6t.plugins.clauses.nat_ends import NatEnds, nat
from v6t.plugins.clauses.nats import Nat
from v6t.plugins.dslite.aftr import DsLiteAftr
from v6t.plugins.nat.nat44 import Nat44, Nat44Params
from v6t.plugins.nat.nat64 import Nat64, Nat64Params
from v6t.plugins.siit.siit import Siit
from v6t.tests.plugins.clauses.faulty import outcomes
from v6t.tests.plugins.clauses.nat_device import FAULTS, NatDevice

SUITE = Nat()


def nat44(**params: object) -> Nat44:
    return Nat44(Nat44Params(**SUITE.preferred(Nat44()), **params))  # type: ignore[arg-type]


def ends(technology: Nat44) -> NatEnds:
    found = nat(technology)
    assert found is not None
    return found


def test_a_right_nat_conforms() -> None:
    technology = nat44()
    found = outcomes(NatDevice(ends(technology)), list(SUITE.clauses(technology)))  # type: ignore[arg-type]
    assert [(o.clause.name, o.judgement) for o in found if o.judgement.verdict != "conforms"] == []
    assert len(found) == 19
    [(words, params)] = SUITE.variants(technology)
    varied = nat44(**params)
    found = outcomes(NatDevice(ends(varied)), list(SUITE.varied(varied, words)))  # type: ignore[arg-type]
    assert [o.judgement.verdict for o in found] == ["conforms"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    [(words, params)] = SUITE.variants(nat44())
    technology = nat44(**(params if fault == "unpaired" else {}))
    clauses = [*SUITE.clauses(technology), *SUITE.varied(technology, words)]
    chosen = [c for c in clauses if c.name.endswith(FAULTS[fault])]
    assert len(chosen) == 1
    found = outcomes(NatDevice(ends(technology), fault), chosen)  # type: ignore[arg-type]
    assert [o.judgement.verdict for o in found] == ["deviates"]


def test_nothing_is_told_of_a_dead_nat() -> None:
    class Dead(NatDevice):
        def receive(self, side: object, frame: bytes) -> list[object]:  # type: ignore[override]
            return []

    technology = nat44()
    found = outcomes(Dead(ends(technology)), list(SUITE.clauses(technology)))  # type: ignore[arg-type]
    assert "conforms" not in {o.judgement.verdict for o in found}


@pytest.mark.parametrize(
    "technology", [Nat64(Nat64Params(**SUITE.preferred(Nat64()))), DsLiteAftr()]
)  # type: ignore[arg-type]
def test_it_applies_to_other_nats(technology: object) -> None:
    assert len(list(SUITE.clauses(technology))) == 19  # type: ignore[arg-type]


def test_it_does_not_apply_elsewhere() -> None:
    assert list(SUITE.clauses(Siit())) == []
