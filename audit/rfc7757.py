"""RFC 7757: explicit address mappings (section 3.3) and hosts that reach each other (section 4.2)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from ipaddress import IPv6Address

from scapy.layers.inet import UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, IPv6
from scapy.packet import Raw
from v6t.audit.row import Row
from v6t.audit.translator_hosts import DATA, TTL, TranslatorHosts, data
from v6t.plugins.audit_views import MAPPED_HOST

RFC = "RFC 7757"
_PORTS = {"sport": 40123, "dport": 443}


# fmt: off
def table_rows(h: TranslatorHosts, longest: bool) -> Iterator[Row]:
    """Return the clauses about one mapped address: of overlapping mappings, or of unlike lengths."""
    name = "longest" if longest else "padded"
    mapped = h.view.six
    yield Row("3.3.1", name, "MUST", f"{MAPPED_HOST} becomes {mapped}: "
              + ("the longest IPv4 prefix tells" if longest else "zeros follow the suffix"),
              h.view.four_side, h.plain4(), h.at6() / UDP(), plain=True, rfc=RFC)
    source = mapped if longest else mapped + 7
    yield Row("3.3.2", name, "MUST", f"{source} becomes {MAPPED_HOST}: "
              + ("the longest IPv6 prefix tells" if longest else "bits behind the suffix are discarded"),
              h.view.six_side, h.ip6(src=str(source)) / h.udp6 / Raw(DATA), h.at4() / UDP(), plain=True,
              rfc=RFC)


def hairpin_rows(h: TranslatorHosts, hosts: list[IPv6Address], names: list[IPv6Address]) -> Iterator[Row]:
    """Return the clauses about two hosts with mappings: ``names`` are their addresses behind the prefix."""
    near = partial(Row, side=h.view.six_side, section="4.2", level="SHOULD", near=True, rfc=RFC)
    one, two = map(str, hosts)
    name1, name2 = map(str, names)
    yield near(label="hairpin",
               title="a host with a mapping reaches another one by the prefix, and is named by the prefix "
                     "itself",
               packet=IPv6(src=one, dst=name2, hlim=TTL) / UDP(**_PORTS) / DATA,
               answer=IPv6(src=name1, dst=two) / UDP())
    yield near(label="hairpin-answer", title="the answer comes back from the address that was asked",
               packet=IPv6(src=two, dst=name1, hlim=TTL) / UDP(sport=443, dport=40123) / DATA,
               answer=IPv6(src=name2, dst=one) / UDP())
    about = IPv6(src=name1, dst=two, hlim=TTL) / UDP(**_PORTS) / Raw(data(40))
    yield near(label="hairpin-error",
               title="an ICMPv6 error about the datagram comes back about what its sender sent",
               packet=IPv6(src=two, dst=name1, hlim=TTL) / ICMPv6DestUnreach(code=4) / about,
               answer=IPv6(src=name2, dst=one) / ICMPv6DestUnreach() / IPv6(src=one, dst=name2),
               rate_limited=True)
# fmt: on
