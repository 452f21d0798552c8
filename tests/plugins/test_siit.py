"""Address tables and header translation over their whole range, against scalar arithmetic."""

from __future__ import annotations

import random
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw
from v6t.audit.packet_device.maps import PrefixMap, TableMap
from v6t.plugins import address_mappings
from v6t.plugins.address_mappings import Mapping, Mappings, Rfc6052
from v6t.plugins.audit_views import AddressTable
from v6t.plugins.prefixes import LongestMatch
from v6t.plugins.siit import Siit
from v6t.plugins.translation import (
    MappingsArray,
    Rfc6052Array,
    four_to_six,
    is_plain_ipv4,
    is_plain_ipv6,
    six_to_four,
)

FAST = settings(max_examples=80, deadline=None)
IPV4 = st.integers(0, 2**32 - 1).map(IPv4Address)
IPV6 = st.integers(0, 2**128 - 1).map(IPv6Address)


def octets(addresses):
    packed = b"".join(a.packed for a in addresses)
    return np.frombuffer(packed, np.uint8).reshape(len(addresses), -1)


@st.composite
def prefixes6052(draw):
    length = draw(st.sampled_from(address_mappings.PREFIX_LENGTHS))
    value = draw(st.integers(0, 2**128 - 1)) >> 128 - length << 128 - length
    return IPv6Network((value & ~(0xFF << 56), length))


@st.composite
def eams(draw):
    r = draw(st.integers(0, 32))
    n = draw(st.integers(0, 96 + r))
    four = draw(st.integers(0, 2**r - 1)) << 32 - r
    six = draw(st.integers(0, 2**n - 1)) << 128 - n
    return Mapping(IPv4Network((four, r)), IPv6Network((six, n)))


@FAST
@given(prefixes6052(), st.lists(IPV4, min_size=1, max_size=20))
def test_rfc6052_there_and_back(prefix, addresses):
    array = Rfc6052Array(prefix)
    ipv6, ok = array.to_ipv6(octets(addresses))
    assert ok.all()
    assert ipv6.tobytes() == b"".join(address_mappings.embed(prefix, a).packed for a in addresses)
    shown = [IPv6Address(row.tobytes()) for row in ipv6]
    assert shown == [PrefixMap(prefix).to_ipv6(a) for a in addresses]
    back, ok = array.to_ipv4(ipv6)
    assert ok.all()
    assert back.tobytes() == octets(addresses).tobytes()
    noisy = ipv6.copy()
    if prefix.prefixlen < 96:
        noisy[:, 15] ^= 0x5A
    assert array.to_ipv4(noisy)[0].tobytes() == back.tobytes()
    assert [PrefixMap(prefix).to_ipv4(s) for s in shown] == addresses


@FAST
@given(eams(), st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=20))
def test_eam_there_and_back(eam, numbers):
    """Encode then decode is the identity for every legal pair of lengths."""
    base, mask = int(eam.ipv4.network_address), int(eam.ipv4.hostmask)
    addresses = [IPv4Address(base | n & mask) for n in numbers]
    ipv6 = [eam.to_ipv6(a) for a in addresses]
    assert all(a in eam.ipv6 for a in ipv6)
    assert [eam.to_ipv4(a) for a in ipv6] == addresses
    array = MappingsArray(Mappings((eam,)))
    six, ok = array.to_ipv6(octets(addresses))
    assert ok.all()
    assert six.tobytes() == octets(ipv6).tobytes()
    four, ok = array.to_ipv4(six)
    assert ok.all()
    assert four.tobytes() == octets(addresses).tobytes()


@FAST
@given(st.lists(eams(), min_size=1, max_size=12), st.none() | prefixes6052(), st.data())
def test_tables_choose_the_longest_prefix(entries, prefix, data):
    entries = list({e.ipv4: e for e in {e.ipv6: e for e in entries}.values()}.values())
    mappings = Mappings(tuple(entries), prefix and Rfc6052(prefix))
    by_hand = TableMap(AddressTable(tuple((e.ipv4, e.ipv6) for e in entries), prefix))
    near4 = [e.ipv4.network_address for e in entries]
    near6 = [e.ipv6.network_address for e in entries]
    four = data.draw(st.lists(IPV4 | st.sampled_from(near4), min_size=1, max_size=9))
    six = data.draw(st.lists(IPV6 | st.sampled_from(near6), min_size=1, max_size=9))
    array = MappingsArray(mappings)
    for way, addresses in (("to_ipv6", four), ("to_ipv4", six)):
        out, ok = getattr(array, way)(octets(addresses))
        for row, address in enumerate(addresses):
            wanted = getattr(by_hand, way)(address)
            scalar = getattr(mappings, way)(address)
            assert scalar == wanted
            assert bool(ok[row]) == (wanted is not None)
            if wanted is not None:
                assert out[row].tobytes() == scalar.packed


def test_a_large_table_is_searched_whole():
    chance = random.Random(7757)
    numbers = chance.sample(range(2**32), 20_000)
    table = tuple(
        Mapping(IPv4Network(n), IPv6Network((0x20010DB8 << 96 | chance.getrandbits(90), 128)))
        for n in numbers
    )
    array = MappingsArray(Mappings(table))
    ipv4 = octets([e.ipv4.network_address for e in table])
    ipv6 = octets([e.ipv6.network_address for e in table])
    out, ok = array.to_ipv6(ipv4)
    assert ok.all()
    assert (out == ipv6).all()
    out, ok = array.to_ipv4(ipv6)
    assert ok.all()
    assert (out == ipv4).all()
    known = set(numbers)
    absent = octets([IPv4Address(n ^ 1) for n in numbers if n ^ 1 not in known])
    assert not array.to_ipv6(absent)[1].any()


def test_addresses_that_end_with_zeros_match():
    found = LongestMatch([IPv6Network("2001:db8::/128"), IPv6Network("::/128")])
    wanted = [IPv6Address("::"), IPv6Address("2001:db8::"), IPv6Address("2001:db8::1")]
    assert found.find(octets(wanted)).tolist() == [1, 0, -1]


@st.composite
def packets(draw):
    """IPv4 UDP packets of one length with whatever in their fields."""
    size = draw(st.integers(0, 60))
    count = draw(st.integers(1, 5))
    made = []
    for _ in range(count):
        header = IP(
            src=str(draw(IPV4)), dst=str(draw(IPV4)), tos=draw(st.integers(0, 255)),
            ttl=draw(st.integers(2, 255)), id=draw(st.integers(0, 65535)), flags="DF",
        )  # fmt: skip
        udp = UDP(sport=draw(st.integers(0, 65535)), dport=draw(st.integers(0, 65535)))
        made.append(bytes(header / udp / Raw(draw(st.binary(min_size=size, max_size=size)))))
    return np.frombuffer(b"".join(made), np.uint8).reshape(count, -1)


@FAST
@given(packets(), prefixes6052())
def test_translation_there_and_back_is_exact(ipv4, prefix):
    array = Rfc6052Array(prefix)
    assert is_plain_ipv4(ipv4).all()
    out = four_to_six(ipv4, array.to_ipv6(ipv4[:, 12:16])[0], array.to_ipv6(ipv4[:, 16:20])[0])
    assert is_plain_ipv6(out).all()
    for row in range(len(ipv4)):
        again = IPv6(out[row].tobytes())
        del again[UDP].chksum
        assert bytes(again) == out[row].tobytes()
    out = out[out[:, 7] > 1]
    if not len(out):
        return
    back = six_to_four(out, array.to_ipv4(out[:, 8:24])[0], array.to_ipv4(out[:, 24:40])[0])
    for row in range(len(out)):
        again = IP(back[row].tobytes())
        del again.chksum
        del again[UDP].chksum
        assert bytes(again) == back[row].tobytes()
    kept = [*range(4), 9, *range(12, back.shape[1])]
    assert (back[:, kept] == ipv4[ipv4[:, 8] > 2][:, kept]).all()


@FAST
@given(packets(), st.integers(1, 65535))
def test_a_wrong_checksum_stays_wrong(ipv4, error):
    """RFC 7915: checksums are updated, so a damaged packet does not become a good one."""
    ipv4 = ipv4.copy()
    array = Rfc6052Array(IPv6Network("2001:db8::/96"))
    wrong = (ipv4[:, 26].astype(int) << 8 | ipv4[:, 27]) ^ error
    ipv4[:, 26], ipv4[:, 27] = wrong >> 8, wrong & 255
    bad = is_plain_ipv4(ipv4)
    out = four_to_six(ipv4, array.to_ipv6(ipv4[:, 12:16])[0], array.to_ipv6(ipv4[:, 16:20])[0])
    for row in np.flatnonzero(bad & (wrong % 0xFFFF != (wrong ^ error) % 0xFFFF)):
        again = IPv6(out[row].tobytes())
        told = again[UDP].chksum
        del again[UDP].chksum
        assert IPv6(bytes(again))[UDP].chksum != told


def frame(plugin, direction, packet):
    link = plugin.links.left if direction == "forward" else plugin.links.right
    head = bytes.fromhex((link.dut_mac + link.tester_mac).replace(":", ""))
    kind = b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd"
    return np.frombuffer(head + kind + packet, np.uint8)[None, :]


def test_reference_drops_what_it_cannot_translate():
    plugin = Siit()
    four = "198.19.0.2", "198.18.0.2"
    other = bytes(IP(src=four[0], dst=four[1], proto=253) / Raw(b"payload"))
    late = bytes(IP(src=four[0], dst=four[1], ttl=1) / UDP() / Raw(b"x" * 20))
    big = bytes(IP(src=four[0], dst=four[1], flags="DF") / UDP() / Raw(b"x" * 1460))
    cut = bytes(IP(src=four[0], dst=four[1]) / UDP() / Raw(b"x" * 1300))
    odd = bytes(IP(src="192.0.2.1", dst=four[1], proto=253) / Raw(b"payload"))
    empty = bytes(IP(src=four[0], dst=four[1]) / UDP(chksum=0) / Raw(b"x" * 20))
    for packet, why in (
        (late, "TTL or hop limit exhausted"),
        (big, "too big, and not to be fragmented"),
        (cut, "leaves as fragments"),
        (odd, "no mapping for an address"),
        (empty, "not a whole UDP datagram with a checksum"),
        (other, "not a whole UDP datagram with a checksum"),
    ):
        answer = plugin.expect("reverse", frame(plugin, "reverse", packet))
        assert plugin.drops.describe(answer.reason[0]) == why
        assert answer.length[0] == 0
