"""The suites ``relay`` and ``tunnel`` on correct devices, and on devices with one planted fault each."""

from __future__ import annotations

import pytest
from v6t.audit.clause import Suite, subject_of
from v6t.audit.customer_edge import CustomerEdgeSuite
from v6t.audit.map_relay import RelaySuite
from v6t.audit.packet_device.build import build_device
from v6t.audit.packet_device.maps import MapSharing
from v6t.audit.packet_device.relays import TunnelCustomerEdge
from v6t.audit.tunnel import TunnelSuite
from v6t.plugins.base import Technology
from v6t.plugins.dslite import DsLiteAftr
from v6t.plugins.lwaftr import LightweightAftr
from v6t.plugins.map_ce import LwB4, MapECe
from v6t.plugins.mape_br import MapEBorderRelay
from v6t.plugins.mapt_br import MapTBorderRelay
from v6t.plugins.siit import Siit
from v6t.tests.audit import relay_faults
from v6t.tests.audit.faulty import Fault, FaultyDevice
from v6t.tests.audit.in_process import configurations, outcomes, with_params

RELAY, TUNNEL, EDGE = RelaySuite(), TunnelSuite(), CustomerEdgeSuite()
PLANTED = [
    *((RELAY, MapEBorderRelay(), fault) for fault in relay_faults.relay()),
    *((TUNNEL, MapEBorderRelay(), fault) for fault in relay_faults.tunnel()),
    *((RELAY, MapTBorderRelay(), fault) for fault in relay_faults.mapt()),
]


@pytest.mark.parametrize(
    ("suite", "technology", "count"),
    [
        (RELAY, MapEBorderRelay(), 85),
        (RELAY, MapTBorderRelay(), 79),
        (RELAY, LightweightAftr(), 57),
        (TUNNEL, MapEBorderRelay(), 39),
        (TUNNEL, LightweightAftr(), 39),
        (TUNNEL, DsLiteAftr(), 39),
        (TUNNEL, MapECe(), 39),
        (TUNNEL, LwB4(), 39),
        (EDGE, MapECe(), 13),
        (EDGE, LwB4(), 16),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_correct_device_in_all_configurations_conforms(
    suite: Suite, technology: Technology, count: int
) -> None:
    tested = 0
    for variant, configured, subject in configurations(technology):
        clauses = list(suite.clauses(subject, variant))
        found = outcomes(build_device(configured), clauses)
        assert [o for o in found if o.judgement.verdict != "conforms"] == [], variant
        tested += len(found)
    assert tested == count


@pytest.mark.parametrize(("suite", "technology", "fault"), PLANTED, ids=lambda x: x.name)
def test_planted_fault_is_found(
    suite: Suite, technology: Technology, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    clauses = [c for c in suite.clauses(subject_of(technology)) if fault.clause in c.name]
    if fault.patch is not None:
        owner, name, make = fault.patch
        monkeypatch.setattr(owner, name, make(getattr(owner, name)))
    found = outcomes(FaultyDevice(build_device(technology), fault), clauses)
    assert {o.judgement.verdict for o in found} & {"deviates", "information"}


@pytest.mark.parametrize("wrong", relay_faults.RULES, ids=lambda row: row[0])
def test_relay_with_wrong_rules_is_found(
    wrong: tuple[str, str, str, dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, variant, clause, params = wrong
    technology = with_params(MapEBorderRelay(), **MapEBorderRelay().audit_variants()[variant])
    if not params:
        monkeypatch.setattr(MapSharing, "find", relay_faults.confuse_neighbors(MapSharing.find))
    device = build_device(relay_faults.with_wrong_rules(technology, params))
    found = outcomes(device, list(RELAY.clauses(subject_of(technology), variant)))
    assert [o.judgement.verdict for o in found if o.clause.label == clause] == ["deviates"]


@pytest.mark.parametrize(
    ("technology", "method", "clauses"),
    [
        (LwB4(), "is_own", {"foreign-address", "foreign-port-udp", "own-udp"}),
        (MapECe(), "is_own", {"foreign-address", "own-tcp"}),
        (MapECe(), "check_source", {"other-relay", "foreign-address"}),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_customer_edge_without_checks_is_found(
    technology: Technology, method: str, clauses: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TunnelCustomerEdge, method, lambda self, *args: True)
    found = outcomes(build_device(technology), list(EDGE.clauses(subject_of(technology))))
    assert clauses <= {o.clause.label for o in found if o.judgement.verdict == "deviates"}


def test_suites_without_relay_have_no_clauses() -> None:
    subject = subject_of(Siit())
    assert [list(suite.clauses(subject)) for suite in (RELAY, TUNNEL, EDGE)] == [[], [], []]
