"""Allowed header fields: one frame for each case, built by scapy."""

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from v6t.packets.header_policy import HeaderPolicy, describe_violation, merge_policies, tolerate

ETHER = Ether(src="02:00:00:00:00:02", dst="02:00:00:00:00:01")
TUNNEL = {"src": "2001:db8::1", "dst": "2001:db8:1::2"}
HOSTS = {"src": "192.0.2.1", "dst": "198.51.100.2"}
DATA = UDP(sport=1024, dport=53000) / Raw(b"0123456789")
ANY = HeaderPolicy()


def row(packet) -> np.ndarray:
    return np.frombuffer(bytes(ETHER / packet), np.uint8)[None, :]


def encapsulated(tc=0xB8, fl=0, hlim=64):
    return row(IPv6(tc=tc, fl=fl, hlim=hlim, **TUNNEL) / IP(tos=0xB8, ttl=63, **HOSTS) / DATA)


def translated(tos=0xB8, number=0, flags=0, ttl=63):
    return row(IP(tos=tos, id=number, flags=flags, ttl=ttl, **HOSTS) / DATA)


PLAIN = row(IP(tos=0xB8, ttl=64, **HOSTS) / DATA)
PLAIN6 = row(IPv6(tc=0xB8, hlim=64, **TUNNEL) / DATA)
ENCAPSULATED = (PLAIN, encapsulated())
TRANSLATED = (PLAIN6, translated())


@pytest.mark.parametrize(("policy", "pair", "received"), [
    (ANY, ENCAPSULATED, encapsulated(tc=0)),
    (ANY, ENCAPSULATED, encapsulated(fl=0x12345, hlim=1)),
    (HeaderPolicy(outer_dscp=10), ENCAPSULATED, encapsulated(tc=40)),
    (ANY, TRANSLATED, translated(tos=0, number=77)),
    (HeaderPolicy(dont_fragment="either"), TRANSLATED, translated(flags="DF")),
], ids=["DSCP 0", "flow label, hop limit", "DSCP 10", "TOS 0, identification", "DF"])  # fmt: skip
def test_tolerate_allowed_value_becomes_the_references(policy, pair, received):
    sent, expected = pair
    tolerated = tolerate(policy, sent, expected, received)
    assert tolerated.allowed.all()
    assert (tolerated.frames == expected).all()
    assert describe_violation(policy, sent, expected, received) == ""


@pytest.mark.parametrize(("policy", "pair", "received", "field"), [
    (ANY, ENCAPSULATED, encapsulated(tc=40), "outer DSCP"),
    (ANY, ENCAPSULATED, encapsulated(tc=0xBB), "outer ECN"),
    (ANY, ENCAPSULATED, encapsulated(hlim=0), "outer hop limit"),
    (HeaderPolicy(flow_label="zero"), ENCAPSULATED, encapsulated(fl=1), "outer flow label"),
    (HeaderPolicy(traffic_class="copied"), TRANSLATED, translated(tos=0), "TOS"),
    (HeaderPolicy(identification="zero"), TRANSLATED, translated(number=1), "identification"),
])  # fmt: skip
def test_tolerate_forbidden_value_is_not_allowed(policy, pair, received, field):
    sent, expected = pair
    assert not tolerate(policy, sent, expected, received).allowed.any()
    assert describe_violation(policy, sent, expected, received).partition(":")[0] == field


WRONG_CHECKSUM = translated(number=77) ^ (np.arange(len(TRANSLATED[1][0])) == 24)
NO_UDP_CHECKSUM = np.where(np.isin(np.arange(len(TRANSLATED[1][0])), (40, 41)), 0, TRANSLATED[1])


@pytest.mark.parametrize(("policy", "sent", "received", "same"), [
    (ANY, PLAIN6, translated(ttl=62), False),
    (ANY, PLAIN6, translated(flags="DF"), False),
    (ANY, PLAIN6, WRONG_CHECKSUM, False),
    (ANY, PLAIN6, NO_UDP_CHECKSUM, False),
    (HeaderPolicy(absent_checksum=True), PLAIN6, NO_UDP_CHECKSUM, True),
    # a cleared TOS of a forwarded packet needs two translations
    (ANY, PLAIN, translated(tos=0), False),
    (HeaderPolicy(retranslated=True), PLAIN, translated(tos=0), True),
], ids=["TTL", "DF", "checksum", "UDP", "UDP absent", "TOS", "TOS retranslated"])  # fmt: skip
def test_tolerate_exact_field_stays_different(policy, sent, received, same):
    expected, received = translated(), received.astype(np.uint8)
    assert bool((tolerate(policy, sent, expected, received).frames == expected).all()) is same
    if received is WRONG_CHECKSUM:
        assert "checksum" in describe_violation(policy, sent, expected, received)


@pytest.mark.parametrize(("direction", "df"), [("forward", "either"), ("reverse", "exact")])
def test_for_direction_applies_one_directions_df(direction, df):
    assert HeaderPolicy(dont_fragment="forward").for_direction(direction).dont_fragment == df


def test_merge_policies_device_overrides_what_it_sets():
    merged = merge_policies(
        HeaderPolicy(outer_dscp="copied", flow_label="zero"), HeaderPolicy(outer_dscp=3)
    )
    assert merged == HeaderPolicy(outer_dscp=3, flow_label="zero")
