"""SIIT and CLAT: address tables and header translation compared with scalar code, and ranges of hosts."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw
from v6t.audit.packet_device.maps import TableMap
from v6t.core.cli.calc_command import calc_eam
from v6t.plugins import translation
from v6t.plugins.audit_views import AddressTable
from v6t.plugins.siit import SiitParams
from v6t.plugins.translation import (
    Mapping,
    Mappings,
    MappingsArray,
    Rfc6052Array,
    Rfc6052Mapping,
    build_ipv4,
    build_ipv6,
    read_eam_file,
    select_plain_udp,
)
from v6t.tests.expect import expect_error
from v6t.tests.packets.oracle import verify

from .support import first_frames, make, read_addresses

FAST = settings(max_examples=80)
IPV4 = st.integers(0, 2**32 - 1).map(IPv4Address)
IPV6 = st.integers(0, 2**128 - 1).map(IPv6Address)


@st.composite
def rfc6052_prefixes(draw):
    length = draw(st.sampled_from(translation.PREFIX_LENGTHS))
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
@given(st.lists(eams(), max_size=12), st.none() | rfc6052_prefixes(), st.data())
def test_address_table_uses_the_longest_prefix(entries, prefix, data):
    assume(entries or prefix)
    entries = list({e.ipv4: e for e in {e.ipv6: e for e in entries}.values()}.values())
    table = Mappings(tuple(entries), prefix and Rfc6052Mapping(prefix))
    scalar_table = TableMap(AddressTable(tuple((e.ipv4, e.ipv6) for e in entries), prefix))
    near4 = [IPv4Address(0), *(e.ipv4[n] for e in entries for n in (0, -1))]
    near6 = [IPv6Address(0), *(e.ipv6[n] for e in entries for n in (0, -1))]
    four = data.draw(st.lists(IPV4 | st.sampled_from(near4), min_size=1, max_size=9))
    six = data.draw(st.lists(IPV6 | st.sampled_from(near6), min_size=1, max_size=9))
    mapped = [address for address in map(scalar_table.to_ipv6, four) if address]
    six += [*mapped, *(IPv6Address(int(address) ^ 0x5A) for address in mapped)]
    array = MappingsArray(table)
    for name, chosen in (("to_ipv6", four), ("to_ipv4", six)):
        packed = np.frombuffer(b"".join(address.packed for address in chosen), np.uint8)
        out, ok = getattr(array, name)(packed.reshape(len(chosen), -1))
        for row, address in enumerate(chosen):
            expected = getattr(scalar_table, name)(address)
            scalar = getattr(table, name)(address)
            assert scalar == expected
            assert bool(ok[row]) == (expected is not None)
            if expected is not None:
                assert out[row].tobytes() == scalar.packed


@st.composite
def packets(draw):
    size = draw(st.integers(0, 60))
    count = draw(st.integers(1, 5))
    items = []
    for _ in range(count):
        header = IP(
            src=str(draw(IPV4)), dst=str(draw(IPV4)), tos=draw(st.integers(0, 255)),
            ttl=draw(st.integers(2, 255)), id=draw(st.integers(0, 65535)), flags="DF",
        )  # fmt: skip
        udp = UDP(sport=draw(st.integers(0, 65535)), dport=draw(st.integers(0, 65535)))
        items.append(bytes(header / udp / Raw(draw(st.binary(min_size=size, max_size=size)))))
    return np.frombuffer(b"".join(items), np.uint8).reshape(count, -1)


@FAST
@given(packets(), rfc6052_prefixes())
def test_packet_translated_back_is_unchanged(ipv4, prefix):
    array = Rfc6052Array(prefix)
    assert select_plain_udp(ipv4, 4).all()
    out = build_ipv6(ipv4, array.to_ipv6(ipv4[:, 12:16])[0], array.to_ipv6(ipv4[:, 16:20])[0])
    assert select_plain_udp(out, 6).all()
    for row in range(len(ipv4)):
        rebuilt = IPv6(out[row].tobytes())
        del rebuilt[UDP].chksum
        assert bytes(rebuilt) == out[row].tobytes()
    out = out[out[:, 7] > 1]
    if not len(out):
        return
    back = build_ipv4(out, array.to_ipv4(out[:, 8:24])[0], array.to_ipv4(out[:, 24:40])[0])
    for row in range(len(out)):
        rebuilt = IP(back[row].tobytes())
        del rebuilt.chksum
        del rebuilt[UDP].chksum
        assert bytes(rebuilt) == back[row].tobytes()
    unchanged = [*range(4), 9, *range(12, back.shape[1])]
    assert (back[:, unchanged] == ipv4[ipv4[:, 8] > 2][:, unchanged]).all()


@FAST
@given(packets(), st.integers(1, 65535))
def test_invalid_checksum_stays_invalid(ipv4, error):
    """Checksums are updated, not recomputed (RFC 7915), so damaged packets remain invalid."""
    ipv4 = ipv4.copy()
    array = Rfc6052Array(IPv6Network("2001:db8::/96"))
    wrong = (ipv4[:, 26].astype(int) << 8 | ipv4[:, 27]) ^ error
    ipv4[:, 26], ipv4[:, 27] = wrong >> 8, wrong & 255
    translated = select_plain_udp(ipv4, 4)
    out = build_ipv6(ipv4, array.to_ipv6(ipv4[:, 12:16])[0], array.to_ipv6(ipv4[:, 16:20])[0])
    for row in np.flatnonzero(translated & (wrong % 0xFFFF != (wrong ^ error) % 0xFFFF)):
        packet = IPv6(out[row].tobytes())
        checksum = packet[UDP].chksum
        del packet[UDP].chksum
        assert IPv6(bytes(packet))[UDP].chksum != checksum


FOUR = {"src": "198.19.0.2", "dst": "198.18.0.2"}


@pytest.mark.parametrize(("packet", "reason"), [
    (IP(**FOUR, ttl=1) / UDP() / Raw(b"x" * 20), "TTL or hop limit exhausted"),
    (IP(**FOUR, flags="DF") / UDP() / Raw(b"x" * 1460), "too big, and not to be fragmented"),
    (IP(**FOUR) / UDP() / Raw(b"x" * 1300), "leaves as fragments"),
    (IP(src="192.0.2.1", dst=FOUR["dst"], proto=253) / Raw(b"payload"),
     "no mapping for an address"),
    (IP(**FOUR) / UDP(chksum=0) / Raw(b"x" * 20),
     "not a whole UDP datagram with a checksum"),
    (IP(**FOUR, proto=253) / Raw(b"payload"), "not a whole UDP datagram with a checksum"),
])  # fmt: skip
def test_packet_that_is_not_translated_is_dropped_for_its_reason(packet, reason):
    plugin = make("siit")
    head = plugin.links.right.dut_mac + plugin.links.right.tester_mac + "0800"
    frame = np.frombuffer(bytes.fromhex(head.replace(":", "")) + bytes(packet), np.uint8)[None, :]
    answer = plugin.expect("reverse", frame)
    assert plugin.drops.describe(answer.reason[0]) == reason
    assert answer.length[0] == 0


def read_hosts(plugin, direction, at, octets):
    """Return the distinct addresses at an offset of 5000 frames."""
    frames = first_frames(plugin, direction, 5000)
    assert verify(frames).all()
    return read_addresses(frames, at, octets)


def test_every_host_of_range_is_used():
    ipv6_hosts = {"first": "198.18.0.2", "last": "198.18.0.101"}
    ipv4_hosts = {"first": "198.19.0.250", "last": "198.19.0.255", "policy": "inc"}
    plugin = make("siit", ipv6_hosts=ipv6_hosts, ipv4_hosts=ipv4_hosts)
    right = range(250, 256)
    assert read_hosts(plugin, "forward", 22, 16) == {f"2001:2::{n:x}" for n in range(2, 102)}
    assert read_hosts(plugin, "forward", 38, 16) == {f"2001:2:0:1000::{n:x}" for n in right}
    assert read_hosts(plugin, "reverse", 26, 4) == {f"198.19.0.{n}" for n in right}
    intent = plugin.make_dut_intent()
    assert "2001:2::/121" in map(str, intent.left.routes)
    assert set(map(str, intent.right.routes)) >= {"198.19.0.250/31", "198.19.0.252/30"}


@pytest.mark.parametrize("length", translation.PREFIX_LENGTHS)
def test_every_host_behind_prefix_is_used(length):
    prefix = IPv6Network((0x20010DB8 << 96, length))
    plugin = make(
        "siit", eam=(), prefix=str(prefix), bg_ipv4_side="2001:2:0:8000::2",
        ipv6_hosts={"first": "10.0.255.200", "last": "10.1.0.43"},
    )  # fmt: skip
    first = IPv4Address("10.0.255.200")
    expected = {str(TableMap(AddressTable(prefix=prefix)).to_ipv6(first + n)) for n in range(100)}
    assert read_hosts(plugin, "forward", 22, 16) == expected


SHADOWED = [
    {"ipv4": "10.0.0.0/29", "ipv6": "2001:db8::/125"},
    {"ipv4": "192.0.2.9/32", "ipv6": "2001:db8::2/128"},
    {"ipv4": "198.19.0.0/24", "ipv6": "2001:2:0:1000::/120"},
]
"""The IPv6 address of 10.0.0.2 is 2001:db8::2, which a longer mapping assigns to another host."""


def test_host_that_is_not_mapped_back_is_omitted_with_only_mapped():
    chosen = {"first": "10.0.0.0", "last": "10.0.0.3"}
    with expect_error("not-enough-addresses", mentions="10.0.0.2"):
        make("siit", eam=SHADOWED, ipv6_hosts=chosen)
    plugin = make("siit", eam=SHADOWED, ipv6_hosts={**chosen, "only_mapped": True})
    assert read_hosts(plugin, "reverse", 30, 4) == {"10.0.0.0", "10.0.0.1", "10.0.0.3"}
    plugin = make("siit", eam=SHADOWED, ipv6_hosts={"first": "10.0.0.4", "last": "10.0.0.7"})
    assert len(read_hosts(plugin, "forward", 22, 16)) == 4


@pytest.mark.parametrize(("last", "mapping"), [("192.0.2.9", 0), ("192.0.2.130", None)])
def test_range_has_a_common_mapping_unless_a_longer_one_overlaps(last, mapping):
    pairs = ("192.0.2.0/24", "2001:db8::/120"), ("192.0.2.128/25", "2001:db8:1::/121")
    table = translation.parse_mappings(pairs, None)
    result = table.find_common_mapping(IPv4Address("192.0.2.1"), IPv4Address(last))
    assert result == (None if mapping is None else table.eams[mapping])


@pytest.mark.parametrize("policy", ["random", "inc", "dec"])
def test_range_over_many_mappings_omits_unmapped_hosts(tmp_path, policy):
    table = tmp_path / "eam.txt"
    lines = [f"10.0.{n}.0/28 2001:db8:{n:x}::/124" for n in range(40)]
    table.write_text("\n".join(["# forty", *lines, "2001:2:0:1000::/120, 198.19.0.0/24\n"]))
    assert len(read_eam_file(table)) == 41
    chosen = {"first": "10.0.3.8", "last": "10.0.8.255", "policy": policy, "only_mapped": True}
    plugin = make("siit", eam=(), eam_file=str(table), ipv6_hosts=chosen)
    expected = {IPv6Address(f"2001:db8:3::{n:x}") for n in range(8, 16)}
    expected |= {IPv6Address(f"2001:db8:{net:x}::{n:x}") for net in range(4, 9) for n in range(16)}
    assert read_hosts(plugin, "forward", 22, 16) == set(map(str, expected))


@pytest.mark.parametrize("line", [
    "10.0.0.0/24 = 2001:db8::/120", "\ufeff10.0.0.0/24=2001:db8::/120", "2001:db8::/120,10.0.0.0/24",
])  # fmt: skip
def test_mapping_in_a_file_is_read_in_any_form(tmp_path, line):
    path = tmp_path / "eam.txt"
    path.write_text(f"{line}\n", encoding="utf-8")
    assert read_eam_file(path) == [("10.0.0.0/24", "2001:db8::/120")]
    path.write_text("10.0.0.0/24 2001:db8::/120\n10.0.1.0/24\n")
    with expect_error("invalid-table-row", mentions="eam.txt"):
        read_eam_file(path)


def test_mapping_as_printed_is_accepted_as_a_parameter():
    default = SiitParams()
    assert SiitParams.model_validate({"eam": list(map(str, default.eam))}) == default


TABLE = [["0.0.0.0/0", "2001:db8:ff00::/40"], ["198.51.100.64/32", "2001:db8::abcd/128"]]


@pytest.mark.parametrize(("arguments", "address", "answer"), [
    ((TABLE,), {"ipv4": "198.51.100.64"},
     ("198.51.100.64", "2001:db8::abcd", "198.51.100.64/32 = 2001:db8::abcd/128")),
    ((TABLE,), {"ipv6": "2001:db8:ffc6:3364:4000::"},
     ("198.51.100.64", "2001:db8:ffc6:3364:4000::", "0.0.0.0/0 = 2001:db8:ff00::/40")),
    ((TABLE,), {"ipv6": "2001:db9::1"}, (None, "2001:db9::1", None)),
    ((TABLE[1:],), {"ipv4": "192.0.2.1"}, ("192.0.2.1", None, None)),
])  # fmt: skip
def test_calculation_of_an_eam_shows_the_mapping(arguments, address, answer):
    result = calc_eam(*arguments, **address)
    assert (result["ipv4"], result["ipv6"], result["mapping"]) == answer


@pytest.mark.parametrize("address", [{}, {"ipv4": "192.0.2.1", "ipv6": "::1"}])
def test_calculation_of_an_eam_without_one_address_is_refused(address):
    with expect_error("missing-setting"):
        calc_eam(TABLE, **address)
