"""The suite ``nat`` on a correct packet-level device, and on one with each planted fault."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from v6t.audit.clause import Clause
from v6t.audit.nat import NatSuite
from v6t.audit.packet_device.build import build_device
from v6t.plugins.base import Technology
from v6t.plugins.dslite import DsLiteAftr
from v6t.plugins.nat44 import Nat44
from v6t.plugins.nat64 import Nat64
from v6t.plugins.nat66 import Nat66
from v6t.plugins.siit import Siit
from v6t.tests.audit.in_process import configurations, outcomes
from v6t.tests.audit.nat_faults import FAULTS, with_fault

SUITE = NatSuite()


def clauses_of(technology: Technology) -> Iterator[tuple[Technology, list[Clause]]]:
    """Return the clauses in each configuration of a technology."""
    for variant, configured, subject in configurations(technology):
        yield configured, list(SUITE.clauses(subject, variant))


@pytest.mark.parametrize("technology", [Nat44(), Nat64(), DsLiteAftr()])
def test_nat_with_every_clause_conforms(technology: Technology) -> None:
    found = [o for t, clauses in clauses_of(technology) for o in outcomes(build_device(t), clauses)]
    assert [o for o in found if o.judgement.verdict != "conforms"] == []
    assert len(found) == 81


def test_nat66_with_every_clause_conforms_and_few_are_required() -> None:
    found = [o for t, clauses in clauses_of(Nat66()) for o in outcomes(build_device(t), clauses)]
    assert {o.judgement.verdict for o in found} == {"conforms"}
    required = [o.clause.label for o in found if o.clause.level != "MAY"]
    assert required == ["mapped", "query", "tcp-exchange"]


@pytest.mark.parametrize("fault", FAULTS)
def test_nat_with_planted_fault_deviates(fault: str) -> None:
    suffix, changes = FAULTS[fault]
    for technology, clauses in clauses_of(Nat44()):
        for clause in (c for c in clauses if c.name.endswith(suffix)):
            [outcome] = outcomes(with_fault(build_device(technology), changes), [clause])
            assert outcome.judgement.verdict in ("deviates", "information")
            return
    pytest.fail(f"no clause ends in {suffix}")


def test_nat_that_sends_nothing_conforms_to_nothing() -> None:
    for technology, clauses in clauses_of(Nat44()):
        dead = build_device(technology)
        dead.receive = lambda *_: []  # type: ignore[method-assign]
        assert [o for o in outcomes(dead, clauses) if o.judgement.verdict == "conforms"] == []


def test_suite_with_stateless_translator_has_no_clauses() -> None:
    [(_, clauses), *_] = clauses_of(Siit())
    assert clauses == []
