"""Suites of rows on correct devices, and on devices with one planted fault each."""

from dataclasses import replace
from functools import cache, partial

import pytest
from v6t.audit.auditor import load_suites
from v6t.audit.clause import make_subject
from v6t.audit.customer_edge import CustomerEdgeSuite
from v6t.audit.ip_packet import Drop, IPPacket, fragment, make_too_big_error
from v6t.audit.map_relay import RelaySuite
from v6t.audit.nat import NatSuite
from v6t.audit.packet_device.build import build_device
from v6t.audit.packet_device.device import PacketDevice
from v6t.audit.packet_device.relays import MapTCustomerEdge, TunnelCustomerEdge, TunnelingDevice
from v6t.audit.packet_device.translator import StatelessTranslatingDevice, TranslatingDevice
from v6t.audit.self_check import set_mtus
from v6t.audit.translation import TranslationSuite
from v6t.audit.tunnel import TunnelSuite
from v6t.plugins.audit_views import OVERLAPPING_MAPPINGS, PREFIX_AND_MAPPINGS, UNEQUAL_MAPPINGS
from v6t.plugins.dslite import DsLiteAftr
from v6t.plugins.lwaftr import LightweightAftr
from v6t.plugins.map_ce import LwB4, MapECe, MapTCe
from v6t.plugins.mape_br import MapEBorderRelay
from v6t.plugins.mapt_br import MapTBorderRelay
from v6t.plugins.nat44 import Nat44, Nat66
from v6t.plugins.nat64 import Nat64
from v6t.plugins.nptv6 import Nptv6
from v6t.plugins.router import Ipv4Router, Ipv6Router
from v6t.plugins.siit import Clat, Siit, SiitParams
from v6t.tests.audit import faults, nat_faults
from v6t.tests.audit.in_process import execute_clauses, list_configurations, with_params

TRANSLATION, RELAY, TUNNEL = TranslationSuite(), RelaySuite(), TunnelSuite()
EDGE, NAT = CustomerEdgeSuite(), NatSuite()
HAIRPINS = ["hairpin", "hairpin-answer", "hairpin-error"]
PLANTED = [
    *((TRANSLATION, Siit, fault) for fault in faults.TRANSLATION),
    *((RELAY, MapEBorderRelay, fault) for fault in faults.RELAY),
    *((RELAY, LightweightAftr, f) for f in faults.RELAY if f.clause == "beside-down"),
    *((TUNNEL, MapEBorderRelay, fault) for fault in faults.TUNNEL),
    *((RELAY, MapTBorderRelay, fault) for fault in faults.MAPT),
]


def list_deviations(device, clauses):
    result = execute_clauses(device, list(clauses))
    return [o.clause.label for o in result if o.judgement.verdict == "deviates"]


COUNTS = {
    TRANSLATION: {Siit: 174, Clat: 166, MapTCe: 164, MapTBorderRelay: 104, Nat64: 116},
    RELAY: {MapEBorderRelay: 85, MapTBorderRelay: 79, LightweightAftr: 74},
    TUNNEL: {MapEBorderRelay: 39, LightweightAftr: 40, DsLiteAftr: 39, MapECe: 39, LwB4: 40},
    EDGE: {MapECe: 13, LwB4: 16},
    NAT: {Nat44: 81, Nat64: 81, DsLiteAftr: 81, Nat66: 66},
}
"""Number of clauses in all configurations."""


@pytest.mark.parametrize(("suite", "kind"), [(s, k) for s, kinds in COUNTS.items() for k in kinds])
def test_correct_device_in_all_configurations_conforms(suite, kind):
    tested = 0
    for variant, configured, subject in list_configurations(kind()):
        clauses = list(suite.list_clauses(subject, variant))
        result = execute_clauses(build_device(configured), clauses)
        assert [o for o in result if o.judgement.verdict != "conforms"] == [], variant
        tested += len(result)
    assert tested == COUNTS[suite][kind]


@cache
def list_suite_clauses(suite, kind):
    return list(suite.list_clauses(make_subject(kind())))


@pytest.mark.parametrize(("suite", "kind", "fault"), PLANTED, ids=lambda x: x.name)
def test_planted_fault_is_found(suite, kind, fault):
    clauses = [c for c in list_suite_clauses(suite, kind) if fault.clause in c.name]
    result = execute_clauses(fault.change(build_device(kind())), clauses)
    assert {o.judgement.verdict for o in result} & {"deviates", "information"}


@cache
def list_nat_clauses():
    return [(t, list(NAT.list_clauses(s, v))) for v, t, s in list_configurations(Nat44())]


@pytest.mark.parametrize("fault", nat_faults.FAULTS)
def test_planted_fault_of_nat_is_found(fault):
    suffix, changes = nat_faults.FAULTS[fault]
    pairs = ((technology, c) for technology, clauses in list_nat_clauses() for c in clauses)
    technology, clause = next((t, c) for t, c in pairs if c.name.endswith(suffix))
    [outcome] = execute_clauses(nat_faults.apply_fault(build_device(technology), changes), [clause])
    assert outcome.judgement.verdict in ("deviates", "information")


def test_nat66_has_three_required_clauses():
    clauses = [c for v, _, s in list_configurations(Nat66()) for c in NAT.list_clauses(s, v)]
    assert [c.label for c in clauses if c.level != "MAY"] == ["mapped", "query", "tcp-exchange"]


def test_wrong_prefix_length_is_found():
    subject = make_subject(Siit(SiitParams(eam=(), prefix="2001:db8:6438::/56")))
    device = build_device(Siit(SiitParams(eam=(), prefix="2001:db8:6438::/64")))
    clauses = list(TRANSLATION.list_clauses(subject, "prefix of /56"))
    assert list_deviations(device, clauses) == ["up-56", "down-56"]


@pytest.mark.parametrize(("variant", "wrong"), [
    (OVERLAPPING_MAPPINGS, "2001:2::/120"), (UNEQUAL_MAPPINGS, "2001:2:0:64::/120"),
])  # fmt: skip
def test_wrong_address_table_is_found(variant, wrong):
    params = Siit().list_audit_variants()[variant]
    servers = {"ipv4": "198.19.0.0/24", "ipv6": "2001:2:0:1::/120"}
    table = [{"ipv4": "198.18.0.0/24", "ipv6": wrong}, servers]
    device = build_device(with_params(Siit(), **{**params, "eam": table}))
    subject = make_subject(with_params(Siit(), **params))
    assert len(list_deviations(device, TRANSLATION.list_clauses(subject, variant))) == 2


def test_ce_that_ignores_its_port_set_is_found(monkeypatch):
    monkeypatch.setattr("v6t.audit.packet_device.relays.has_port", lambda ports, number: True)
    technology = with_params(MapTCe(), ea_len=13)
    device = build_device(technology)
    assert isinstance(device, MapTCustomerEdge)
    result = list_deviations(device, TRANSLATION.list_clauses(make_subject(technology)))
    assert sorted(result) == ["foreign-icmp", "foreign-tcp", "foreign-udp", "own-port"]


@pytest.mark.parametrize("fault", ["none", "by the mapping", "errors"])
def test_wrong_hairpin_is_found(fault, monkeypatch):
    correct = StatelessTranslatingDevice.emit_ipv4

    def use_mapping(self, arrived, packet):
        return [(self.ipv6_side, p) for p in self.to_ipv6(packet, self.table)]

    def drop_errors(self, arrived, packet):
        return [] if arrived.proto == 58 else correct(self, arrived, packet)

    wrong = {
        "none": TranslatingDevice.emit_ipv4, "by the mapping": use_mapping, "errors": drop_errors,
    }  # fmt: skip
    monkeypatch.setattr(StatelessTranslatingDevice, "emit_ipv4", wrong[fault])
    technology = with_params(Siit(), **Siit().list_audit_variants()[PREFIX_AND_MAPPINGS])
    clauses = list(TRANSLATION.list_clauses(make_subject(technology), PREFIX_AND_MAPPINGS))
    expected = HAIRPINS[2:] if fault == "errors" else HAIRPINS
    assert list_deviations(build_device(technology), clauses) == expected


def deviate_with_tunnel(technology, encapsulate, monkeypatch):
    correct = TunnelingDevice.encapsulate
    monkeypatch.setattr(TunnelingDevice, "encapsulate", lambda *args: encapsulate(correct, *args))
    clauses = TUNNEL.list_clauses(make_subject(technology))
    result = execute_clauses(build_device(technology), clauses)
    return {o.clause.label: o.clause.level for o in result if o.judgement.verdict != "conforms"}


def clear_outer_tos(mask, correct, device, packet, src, dst):
    return [(side, replace(p, tos=p.tos & mask)) for side, p in correct(device, packet, src, dst)]


@pytest.mark.parametrize(
    ("kind", "level"), [(MapEBorderRelay, "MAY"), (MapECe, "MAY"), (LwB4, "MUST")]
)
def test_tunnel_without_dscp_deviates_from_rfc6333_only(kind, level, monkeypatch):
    result = deviate_with_tunnel(kind(), partial(clear_outer_tos, 3), monkeypatch)
    assert result == {"dscp-into": level}


def test_tunnel_in_ecn_compatibility_mode_conforms(monkeypatch):
    clear = partial(clear_outer_tos, 0xFC)
    assert deviate_with_tunnel(MapEBorderRelay(), clear, monkeypatch) == {}


def test_tunnel_with_encapsulation_limit_conforms(monkeypatch):
    def encapsulate(_, device, packet, src, dst):
        limit, mtu = bytes.fromhex("0400040104010100"), device.mtu("left")
        if packet.df and len(packet) > mtu - 48:
            raise Drop(make_too_big_error(4, mtu - 48))
        outer = IPPacket(src, dst, 60, limit + bytes(packet), packet.tos)
        return [("left", piece) for piece in fragment(outer, mtu)]

    assert deviate_with_tunnel(MapEBorderRelay(), encapsulate, monkeypatch) == {}


def test_lwaftr_that_keeps_inner_dscp_deviates():
    device = build_device(LightweightAftr())
    device.copies_dscp = False
    assert list_deviations(device, list_suite_clauses(TUNNEL, LightweightAftr)) == ["dscp-out"]


def list_all_clauses(kind, *mtus):
    technology = kind(None, set_mtus(kind().links, *mtus))
    subject = make_subject(technology)
    return technology, [c for suite in load_suites() for c in suite.list_clauses(subject)]


@pytest.mark.parametrize("mtus", [(1280, 1280), (1280, 1500), (1500, 1280), (9000, 1500)])
@pytest.mark.parametrize("kind", [Siit, MapTCe, MapEBorderRelay, Nptv6, Ipv4Router, Ipv6Router])
def test_correct_device_on_links_of_other_mtus_conforms(kind, mtus):
    technology, clauses = list_all_clauses(kind, *mtus)
    assert list_deviations(build_device(technology), clauses) == []


@pytest.mark.parametrize(("kind", "clause"), [
    (Nptv6, "too-big-out"), (Ipv6Router, "too-big-left"), (Ipv4Router, "fragmentation-needed-left"),
])  # fmt: skip
def test_packet_larger_than_next_link_is_found(kind, clause, monkeypatch):
    technology, clauses = list_all_clauses(kind, 1500, 1280)
    monkeypatch.setattr(PacketDevice, "fit", lambda self, side, packet: [(side, packet)])
    assert list_deviations(build_device(technology), clauses) == [clause]


def test_dead_device_conforms_to_no_clause():
    def kill(device):
        device.receive = lambda *_: []
        return device

    for technology, clauses in list_nat_clauses():
        result = execute_clauses(kill(build_device(technology)), clauses)
        assert "conforms" not in {o.judgement.verdict for o in result}
    result = execute_clauses(kill(build_device(Siit())), list_suite_clauses(TRANSLATION, Siit))
    verdicts = {o.clause.name: o.judgement.verdict for o in result}
    assert verdicts["rfc7915-5.1-udp"] == verdicts["rfc7915-4.1-udp"] == "deviates"
    assert verdicts["rfc7915-4.2-igmp"] == verdicts["rfc7915-5.1-tos"] == "not testable"
    assert "conforms" not in {v for n, v in verdicts.items() if "no-checksum" not in n}


def test_well_known_prefix_with_private_hosts_is_refused():
    subject = make_subject(with_params(Clat(), plat_prefix="64:ff9b::/96"))
    assert list(TRANSLATION.list_clauses(subject)) == []
    assert TRANSLATION.find_requirement(subject) is not None


@pytest.mark.parametrize("wrong", faults.RULES, ids=lambda row: row[0])
def test_relay_with_wrong_rules_is_found(wrong):
    _, variant, clause, params = wrong
    technology = with_params(MapEBorderRelay(), **MapEBorderRelay().list_audit_variants()[variant])
    device = build_device(faults.replace_rules(technology, params))
    if not params:
        faults.replace_method("sharing.find", faults.confuse_neighbors)(device)
    result = execute_clauses(device, list(RELAY.list_clauses(make_subject(technology), variant)))
    assert [o.judgement.verdict for o in result if o.clause.label == clause] == ["deviates"]


@pytest.mark.parametrize(("technology", "method", "clauses"), [
    (LwB4(), "is_own", {"foreign-address", "foreign-port-udp", "own-udp"}),
    (MapECe(), "is_own", {"foreign-address", "own-tcp"}),
    (MapECe(), "check_source", {"other-relay", "foreign-address"}),
], ids=lambda value: getattr(value, "name", None))  # fmt: skip
def test_customer_edge_without_checks_is_found(technology, method, clauses, monkeypatch):
    monkeypatch.setattr(TunnelCustomerEdge, method, lambda self, *args: True)
    result = execute_clauses(build_device(technology), EDGE.list_clauses(make_subject(technology)))
    assert clauses <= {o.clause.label for o in result if o.judgement.verdict == "deviates"}


@pytest.mark.parametrize("technology", [Siit(), Nat44()], ids=lambda value: value.name)
def test_suites_without_view_have_no_clauses(technology):
    other = (TUNNEL, NAT) if technology.name == "siit" else (TRANSLATION,)
    suites = (RELAY, EDGE, *other)
    assert [c for suite in suites for c in suite.list_clauses(make_subject(technology))] == []
