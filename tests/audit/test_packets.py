import pytest
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.packet import Raw
from v6t.audit.ip_packet import find_checksum_error, read_header
from v6t.audit.packets import allow, difference, dissect, trim


def build_and_dissect(packet):
    return dissect(bytes(packet))


IPV4 = IP(src="192.0.2.1", dst="192.0.2.2", ttl=60)
SENT = build_and_dissect(IPV4 / UDP(sport=53, dport=9) / b"data")
UNFRAGMENTED = build_and_dissect(IP(flags="DF") / UDP())
IPV6_PACKET = build_and_dissect(IPv6(src="::1.2.3.4", dst="2001:db8::1") / UDP())
QUOTING = build_and_dissect(IP() / ICMP(type=3) / IP(src="192.0.2.1") / UDP(chksum=1))
FRAGMENT = IPv6() / IPv6ExtHdrFragment(nh=17, m=1) / Raw(bytes(16))


@pytest.mark.parametrize(("template", "packet", "text"), [
    (IP(dst="192.0.2.2") / UDP(dport=9) / Raw(b"data"), SENT, ""),
    (IP(ttl=59), SENT, "IP.ttl is 60, not 59"), (IP() / ICMP(), SENT, "UDP instead of ICMP"),
    (IP(flags=0), UNFRAGMENTED, "IP.flags is DF, not none"), (allow(IP(), ttl=(59, 60)), SENT, ""),
    (allow(IP(), ttl=(58, 59)), SENT, "IP.ttl is 60, not 58 or 59"),
    (IPv6(src="::102:304", dst="2001:DB8:0::1"), IPV6_PACKET, ""),
])  # fmt: skip
def test_difference_names_the_field(template, packet, text):
    assert difference(template, packet) == text


@pytest.mark.parametrize(("packet", "quoted", "text"), [
    (SENT, False, ""), (IP(chksum=1) / UDP(), False, "header checksum"),
    (IPv6() / UDP(chksum=1), False, "transport checksum"), (IP() / UDP(chksum=0), False, ""),
    (IPv6() / UDP(chksum=0), False, "zero"), (FRAGMENT, False, ""), (QUOTING, False, ""),
    (QUOTING, True, "quoted"),
])  # fmt: skip
def test_checksum_error_names_the_checksum(packet, quoted, text):
    error = find_checksum_error(read_header(bytes(packet)), quoted=quoted)
    assert text in error
    assert bool(text) is bool(error)


def test_octets_with_wrong_lengths_are_not_parsed():
    assert trim(bytes(IP(len=900) / UDP())) == b""
    assert trim(bytes(IPv6(plen=900) / UDP())) == b""
