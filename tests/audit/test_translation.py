"""The suite ``translation`` on correct devices, and on devices with one planted fault each."""

from __future__ import annotations

from functools import cache

import pytest
from v6t.audit.clause import Clause, subject_of
from v6t.audit.packet_device.build import build_device
from v6t.audit.packet_device.relays import MapTCustomerEdge
from v6t.audit.packet_device.translator import StatelessTranslatingDevice, TranslatingDevice
from v6t.audit.translation import TranslationSuite
from v6t.plugins.audit_views import (
    OVERLAPPING_MAPPINGS,
    PREFIX_BESIDE_MAPPINGS,
    UNLIKE_MAPPINGS,
    prefix_variant,
)
from v6t.plugins.base import Technology
from v6t.plugins.map_ce import MapTCe
from v6t.plugins.mapt_br import MapTBorderRelay
from v6t.plugins.nat44 import Nat44
from v6t.plugins.nat64 import Nat64
from v6t.plugins.siit import Clat, Siit, SiitParams
from v6t.tests.audit.faulty import Fault, FaultyDevice
from v6t.tests.audit.in_process import configurations, outcomes, with_params
from v6t.tests.audit.translation_faults import faults

SUITE = TranslationSuite()
HAIRPINS = ["hairpin", "hairpin-answer", "hairpin-error"]


@cache
def siit_clauses() -> list[Clause]:
    return list(SUITE.clauses(subject_of(Siit())))


def deviations(device: object, clauses: list) -> list[str]:
    return [o.clause.label for o in outcomes(device, clauses) if o.judgement.verdict == "deviates"]


@pytest.mark.parametrize(
    ("technology", "count"),
    [(Siit(), 150), (Clat(), 150), (MapTCe(), 155), (MapTBorderRelay(), 80), (Nat64(), 75)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_correct_device_in_all_configurations_conforms(technology: Technology, count: int) -> None:
    tested = 0
    for variant, configured, subject in configurations(technology):
        clauses = list(SUITE.clauses(subject, variant))
        found = outcomes(build_device(configured), clauses)
        wrong = [o for o in found if o.judgement.verdict != "conforms"]
        assert wrong == [], variant
        tested += len(found)
    assert tested >= count


def test_translator_with_ipv4_on_the_left_conforms() -> None:
    technology = with_params(
        Siit(),
        orientation="nat46",
        ipv6_hosts={"first": "198.19.0.2"},
        ipv4_hosts={"first": "198.18.0.2"},
    )
    found = outcomes(build_device(technology), list(SUITE.clauses(subject_of(technology))))
    assert {o.judgement.verdict for o in found} == {"conforms"}


@pytest.mark.parametrize("fault", faults(), ids=lambda fault: fault.name)
def test_planted_fault_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    technology = Siit()
    clauses = [c for c in siit_clauses() if fault.clause in c.name]
    if fault.patch is not None:
        owner, name, make = fault.patch
        monkeypatch.setattr(owner, name, make(getattr(owner, name)))
    found = outcomes(FaultyDevice(build_device(technology), fault), clauses)
    assert {o.judgement.verdict for o in found} & {"deviates", "information"}


def test_wrong_prefix_length_is_found() -> None:
    subject = subject_of(Siit(SiitParams(eam=(), prefix="2001:db8:6438::/56")))
    device = build_device(Siit(SiitParams(eam=(), prefix="2001:db8:6438::/64")))
    clauses = list(SUITE.clauses(subject, prefix_variant(56)))
    assert deviations(device, clauses) == ["up-56", "down-56"]


@pytest.mark.parametrize(
    ("variant", "wrong"),
    [(OVERLAPPING_MAPPINGS, "2001:2::/120"), (UNLIKE_MAPPINGS, "2001:2:0:64::/120")],
)
def test_wrong_address_table_is_found(variant: str, wrong: str) -> None:
    params = Siit().audit_variants()[variant]
    servers = {"ipv4": "198.19.0.0/24", "ipv6": "2001:2:0:1::/120"}
    table = [{"ipv4": "198.18.0.0/24", "ipv6": wrong}, servers]
    device = build_device(with_params(Siit(), **{**params, "eam": table}))
    subject = subject_of(with_params(Siit(), **params))
    assert len(deviations(device, list(SUITE.clauses(subject, variant)))) == 2


def test_ce_that_ignores_its_port_set_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("v6t.audit.packet_device.relays.has_port", lambda ports, number: True)
    technology = with_params(MapTCe(), ea_len=13)
    device = build_device(technology)
    assert isinstance(device, MapTCustomerEdge)
    found = deviations(device, list(SUITE.clauses(subject_of(technology))))
    assert sorted(found) == ["foreign-icmp", "foreign-tcp", "foreign-udp", "own-port"]


@pytest.mark.parametrize("fault", ["none", "by the mapping", "errors"])
def test_wrong_hairpin_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    correct = StatelessTranslatingDevice.emit_ipv4

    def by_the_mapping(self, arrived, packet):
        return [(self.six_side, p) for p in self.to_ipv6(packet, self.table)]

    def without_errors(self, arrived, packet):
        return [] if arrived.proto == 58 else correct(self, arrived, packet)

    wrong = {
        "none": TranslatingDevice.emit_ipv4,
        "by the mapping": by_the_mapping,
        "errors": without_errors,
    }
    monkeypatch.setattr(StatelessTranslatingDevice, "emit_ipv4", wrong[fault])
    technology = with_params(Siit(), **Siit().audit_variants()[PREFIX_BESIDE_MAPPINGS])
    clauses = list(SUITE.clauses(subject_of(technology), PREFIX_BESIDE_MAPPINGS))
    expected = HAIRPINS[2:] if fault == "errors" else HAIRPINS
    assert deviations(build_device(technology), clauses) == expected


def test_dead_device_conforms_to_nothing() -> None:
    dead = Fault("dead", "", arriving=lambda _: None)
    clauses = list(SUITE.clauses(subject_of(Siit())))
    found = outcomes(FaultyDevice(build_device(Siit()), dead), clauses)
    verdicts = {o.clause.name: o.judgement.verdict for o in found}
    assert verdicts["rfc7915-5.1-udp"] == verdicts["rfc7915-4.1-udp"] == "deviates"
    assert verdicts["rfc7915-4.2-igmp"] == verdicts["rfc7915-5.1-tos"] == "not testable"
    assert "conforms" not in {v for n, v in verdicts.items() if "no-checksum" not in n}


def test_well_known_prefix_with_private_hosts_is_refused() -> None:
    subject = subject_of(with_params(Clat(), plat_prefix="64:ff9b::/96"))
    assert list(SUITE.clauses(subject)) == []
    assert SUITE.requirement(subject) is not None


def test_suite_without_translator_has_no_clauses() -> None:
    assert list(SUITE.clauses(subject_of(Nat44()))) == []
