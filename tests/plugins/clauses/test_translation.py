"""The suite ``translation`` before right translators, and before translators with one fault each."""

from __future__ import annotations

import pytest
from v6t.plugins.base import Technology
from v6t.plugins.clauses.translation import Translation
from v6t.plugins.customer_edge.params import MapTCeParams
from v6t.plugins.customer_edge.plugins import MapTCe
from v6t.plugins.nat.nat44 import Nat44
from v6t.plugins.siit.clat import Clat, ClatParams
from v6t.plugins.siit.siit import Siit, SiitParams
from v6t.plugins.siit.whole import WholeTranslator
from v6t.plugins.translation.whole import TranslatingDevice
from v6t.plugins.whole import Leaves, SideName
from v6t.tests.plugins.clauses.faulty import Fault, FaultyDevice, outcomes
from v6t.tests.plugins.clauses.translation_faults import faults

SUITE = Translation()
NAT46 = SiitParams(
    orientation="nat46",
    ipv6_hosts={"first": "198.19.0.2"},  # type: ignore[arg-type]
    ipv4_hosts={"first": "198.18.0.2"},  # type: ignore[arg-type]
)
RIGHT = {
    "siit": Siit(),
    "siit, IPv4 left": Siit(NAT46),
    "siit by prefix": Siit(SiitParams(eam=(), prefix="2001:db8:64::/96")),
    "clat": Clat(ClatParams(plat_prefix="2001:db8:64::/96")),
    "mapt-ce": MapTCe(MapTCeParams(ea_len=8, ce_psid=0)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_device_conforms(name: str) -> None:
    technology = RIGHT[name]
    found = outcomes(technology.whole_device(), list(SUITE.clauses(technology)))
    assert len(found) > 140
    assert [(o.clause.name, o.judgement) for o in found if o.judgement.verdict != "conforms"] == []
    assert len({o.clause.name for o in found}) == len(found)


@pytest.mark.parametrize("technology", [Siit(), Clat(), MapTCe()])
def test_it_conforms_behind_every_prefix(technology: Technology) -> None:
    words = []
    for variant, params in SUITE.variants(technology):
        kind = type(technology)
        varied = kind(kind.params_model(**{**SUITE.preferred(technology), **params}))
        found = outcomes(varied.whole_device(), list(SUITE.varied(varied, variant)))
        assert found
        assert {o.judgement.verdict for o in found} == {"conforms"}
        words.append(variant)
    assert len(words) == 8 + 3 * isinstance(technology, Siit) - isinstance(technology, MapTCe)


@pytest.mark.parametrize("fault", faults(), ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    technology = Siit()
    clauses = [c for c in SUITE.clauses(technology) if fault.clause in c.name]
    assert clauses
    if fault.patch is not None:
        where, name, made = fault.patch
        monkeypatch.setattr(where, name, made(getattr(where, name)))
    device = FaultyDevice(technology.whole_device(), fault)
    found = outcomes(device, clauses)
    assert [o.clause.name for o in found if o.judgement.verdict == "deviates"]


def test_prefix_faults_are_found() -> None:
    """A device whose prefix is another one, and one that does not know what the well-known prefix may not hold."""
    technology = Siit(SiitParams(eam=(), prefix="2001:db8:6438::/56"))
    device = Siit(SiitParams(eam=(), prefix="2001:db8:6438::/64"))
    found = outcomes(device.whole_device(), list(SUITE.varied(technology, "prefix of /56")))
    assert {o.judgement.verdict for o in found} == {"deviates"}


@pytest.mark.parametrize(
    ("words", "believed"),
    [
        ("overlapping mappings", "2001:2::/120"),
        ("mappings of unlike lengths", "2001:2:0:64::/120"),
    ],
)
def test_faults_of_address_tables_are_found(words: str, believed: str) -> None:
    """A device that does not know the longer prefix, and one that writes the suffix at the end."""
    params = dict(SUITE.variants(Siit()))[words]
    technology = Siit(SiitParams(**params))  # type: ignore[arg-type]
    servers = ("198.19.0.0/24", "2001:2:0:1::/120")
    table = [{"ipv4": a, "ipv6": b} for a, b in (("198.18.0.0/24", believed), servers)]
    device = Siit(SiitParams(**{**params, "eam": table}))  # type: ignore[arg-type]
    clauses = list(SUITE.varied(technology, words))
    right = outcomes(technology.whole_device(), clauses)
    assert [o.judgement.verdict for o in right] == ["conforms"] * 2
    found = outcomes(device.whole_device(), clauses)
    assert [o.judgement.verdict for o in found] == ["deviates"] * 2


def test_ce_that_ignores_port_set_is_found() -> None:
    technology = MapTCe(MapTCeParams(ea_len=13))
    device = technology.whole_device()
    device._ports = range(65536)
    found = outcomes(device, list(SUITE.clauses(technology)))
    wrong = {o.clause.name for o in found if o.judgement.verdict == "deviates"}
    assert wrong == {
        "rfc7599-8.1-own-port",
        "rfc7599-8.2-foreign-icmp",
        "rfc7599-8.2-foreign-tcp",
        "rfc7599-8.2-foreign-udp",
    }


def by_the_mapping(right: object) -> object:
    """Back through a translator that knows nothing of hairpins."""
    del right

    def beyond(self: WholeTranslator, side: SideName, came: bytes, packet: bytes) -> Leaves:
        del came
        return [(side, p) for p in self._translator.four_to_six(packet)]

    return beyond


@pytest.mark.parametrize("wrong", ["none", "by the mapping", "of errors only"])
def test_faults_of_hairpins_are_found(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packets that leave as IPv4, that come from another address than was asked, errors that are lost."""
    words = "a prefix beside mappings"
    technology = Siit(SiitParams(**dict(SUITE.variants(Siit()))[words]))  # type: ignore[arg-type]
    clauses = list(SUITE.varied(technology, words))
    right = WholeTranslator.beyond
    if wrong == "none":
        monkeypatch.setattr(WholeTranslator, "beyond", TranslatingDevice.beyond)
    elif wrong == "by the mapping":
        monkeypatch.setattr(WholeTranslator, "beyond", by_the_mapping(right))
    else:
        monkeypatch.setattr(
            WholeTranslator,
            "beyond",
            lambda self, side, came, packet: (
                [] if came[6] == 58 else right(self, side, came, packet)
            ),
        )
    found = outcomes(technology.whole_device(), clauses)
    lost = [
        o.clause.name[len("rfc7757-4.2-") :] for o in found if o.judgement.verdict == "deviates"
    ]
    everything = ["hairpin", "hairpin-answer", "hairpin-error"]
    assert lost == (everything[2:] if wrong == "of errors only" else everything)


def test_nothing_is_told_of_a_dead_device() -> None:
    """What must be dropped is dropped by what drops everything, too: that says nothing."""
    fault = Fault("dead", "", arriving=lambda _: None)
    technology = Siit()
    found = outcomes(
        FaultyDevice(technology.whole_device(), fault), list(SUITE.clauses(technology))
    )
    verdicts = {o.clause.name: o.judgement.verdict for o in found}
    assert verdicts["rfc7915-5.1-udp"] == "deviates"
    assert verdicts["rfc7915-4.1-udp"] == "deviates"
    assert verdicts["rfc7915-4.2-igmp"] == "cannot be told"
    assert verdicts["rfc7915-5.1-tos"] == "cannot be told"
    assert "conforms" not in {v for n, v in verdicts.items() if "no-checksum" not in n}


def test_it_does_not_apply_elsewhere() -> None:
    assert list(SUITE.clauses(Nat44())) == []
