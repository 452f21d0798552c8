from __future__ import annotations

from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.packet import Packet, Raw
from v6t.audit.ip_packet import checksum_error, read_header
from v6t.audit.packets import allow, difference, dissect, trim


def built(packet: Packet) -> Packet:
    return dissect(bytes(packet))


def error(packet: Packet, *, quoted: bool = False) -> str:
    return checksum_error(read_header(bytes(packet)), quoted=quoted)


SENT = built(IP(src="192.0.2.1", dst="192.0.2.2", ttl=60) / UDP(sport=53, dport=9) / b"data")


def test_template_with_equal_fields_matches() -> None:
    assert difference(IP(dst="192.0.2.2") / UDP(dport=9) / Raw(b"data"), SENT) == ""


def test_template_with_other_field_names_the_field() -> None:
    assert difference(IP(ttl=59), SENT) == "IP.ttl is 60, not 59"


def test_template_of_other_layer_names_both() -> None:
    assert difference(IP() / ICMP(), SENT) == "UDP instead of ICMP"


def test_template_without_flags_rejects_df() -> None:
    packet = built(IP(flags="DF") / UDP())
    assert difference(IP(flags=0), packet) == "IP.flags is DF, not "


def test_template_with_alternatives_matches_each() -> None:
    assert difference(allow(IP(), ttl=(59, 60)), SENT) == ""
    assert "not 58 or 59" in difference(allow(IP(), ttl=(58, 59)), SENT)


def test_addresses_are_compared_as_numbers() -> None:
    packet = built(IPv6(src="::1.2.3.4", dst="2001:db8::1") / UDP())
    assert difference(IPv6(src="::102:304", dst="2001:DB8:0::1"), packet) == ""


def test_checksums_of_correct_packet_are_valid() -> None:
    assert error(SENT) == ""


def test_wrong_ipv4_header_checksum_is_found() -> None:
    assert "header checksum" in error(IP(chksum=1) / UDP())


def test_wrong_transport_checksum_is_found() -> None:
    assert "transport checksum" in error(IPv6() / UDP(chksum=1))


def test_udp_without_checksum_is_valid_in_ipv4_only() -> None:
    assert error(IP() / UDP(chksum=0)) == ""
    assert "zero" in error(IPv6() / UDP(chksum=0))


def test_checksum_of_fragment_is_not_checked() -> None:
    packet = IPv6() / IPv6ExtHdrFragment(nh=17, m=1) / Raw(bytes(16))
    assert error(packet) == ""


def test_quoted_packet_with_wrong_checksum_is_found() -> None:
    packet = built(IP() / ICMP(type=3) / IP(src="192.0.2.1") / UDP(chksum=1))
    assert error(packet) == ""
    assert "quoted" in error(packet, quoted=True)


def test_octets_with_wrong_lengths_are_not_parsed() -> None:
    assert trim(bytes(IP(len=900) / UDP())) == b""
    assert trim(bytes(IPv6(plen=900) / UDP())) == b""
