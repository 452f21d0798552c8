"""The suites ``relay`` and ``tunnel`` before right relays, and before relays with one fault each."""

from __future__ import annotations

import pytest
from v6t.plugins.base import Technology
from v6t.plugins.clauses.base import Suite
from v6t.plugins.clauses.relay_rules import OVERLAP, PREFIX
from v6t.plugins.clauses.relay_sources import Relay
from v6t.plugins.clauses.translation import Translation
from v6t.plugins.clauses.tunnels import Tunnel
from v6t.plugins.lw4o6.lwaftr import LightweightAftr
from v6t.plugins.map.mape_br import MapEBorderRelay
from v6t.plugins.map.mapt_br import MapTBorderRelay
from v6t.plugins.map.whole import WholeMapE
from v6t.plugins.siit.siit import Siit
from v6t.tests.plugins.clauses import relay_faults
from v6t.tests.plugins.clauses.faulty import Fault, FaultyDevice, outcomes

SUITES = (Relay(), Tunnel(), Translation())
RELAYS = (MapEBorderRelay(), MapTBorderRelay(), LightweightAftr())
PLANTED = [
    *((Relay(), MapEBorderRelay(), f) for f in relay_faults.relay()),
    *((Tunnel(), MapEBorderRelay(), f) for f in relay_faults.tunnel()),
    *((Relay(), MapTBorderRelay(), f) for f in relay_faults.mapt()),
]


@pytest.mark.parametrize("technology", RELAYS, ids=lambda t: t.name)
@pytest.mark.parametrize("suite", SUITES, ids=lambda s: s.name)
def test_a_right_relay_conforms(technology: Technology, suite: Suite) -> None:
    clauses = list(suite.clauses(technology))
    found = outcomes(technology.whole_device(), clauses)
    wrong = [(o.clause.name, o.judgement) for o in found if o.judgement.verdict != "conforms"]
    assert wrong == []
    applies = {
        "relay": True,
        "tunnel": technology.name != "mapt-br",
        "translation": technology.name == "mapt-br",
    }
    assert bool(clauses) == applies[suite.name]


@pytest.mark.parametrize("technology", RELAYS[:2], ids=lambda t: t.name)
def test_port_sets_of_every_offset_have_their_edges(technology: Technology) -> None:
    kind, suite = type(technology), Relay()
    variants = list(suite.variants(technology))
    assert [words for words, _ in variants[:16]] == [f"PSID offset {a}" for a in range(16)]
    for words, params in variants[:16]:
        varied = kind(kind.params_model(**params))
        found = outcomes(varied.whole_device(), list(suite.varied(varied, words)))
        assert {o.judgement.verdict for o in found} == {"conforms"}, words
        assert len(found) == 3


@pytest.mark.parametrize("technology", RELAYS[:2], ids=lambda t: t.name)
def test_rules_that_overlap_and_customers_with_a_prefix(technology: Technology) -> None:
    for words in (OVERLAP, PREFIX):
        varied = in_variant(technology, words)
        found = outcomes(varied.whole_device(), list(Relay().varied(varied, words)))
        assert {o.judgement.verdict for o in found} == {"conforms"}, words
        assert len(found) == (4 if words == OVERLAP else 3) + (technology.name == "mape-br")


@pytest.mark.parametrize("wrong", relay_faults.RULES, ids=lambda row: row[0])
def test_a_relay_that_believes_in_other_rules_is_found(
    wrong: tuple[str, str, str, dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, words, clause, believed = wrong
    if not believed:
        made = relay_faults.taken_for_the_one_before(WholeMapE.owner)
        monkeypatch.setattr(WholeMapE, "owner", made)
    technology = in_variant(RELAYS[0], words)
    device = relay_faults.believing(technology, believed).whole_device()
    found = outcomes(device, list(Relay().varied(technology, words)))
    assert [o.judgement.verdict for o in found if o.clause.name.endswith(clause)] == ["deviates"]


def in_variant(technology: Technology, words: str) -> Technology:
    """A technology in one of the suite's further configurations."""
    params = dict(Relay().variants(technology))[words]
    return type(technology)(technology.params_model(**params))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("suite", "technology", "fault"), PLANTED, ids=lambda x: x.name)
def test_a_planted_fault_is_found(
    suite: Suite, technology: Technology, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    clauses = [c for c in suite.clauses(technology) if fault.clause in c.name]
    assert clauses
    if fault.patch is not None:
        where, name, made = fault.patch
        monkeypatch.setattr(where, name, made(getattr(where, name)))
    found = outcomes(FaultyDevice(technology.whole_device(), fault), clauses)
    assert [o.clause.name for o in found if o.judgement.verdict == "deviates"]


def test_they_do_not_apply_elsewhere() -> None:
    assert [list(suite.clauses(Siit())) for suite in SUITES[:2]] == [[], []]
