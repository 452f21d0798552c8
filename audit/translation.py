"""The suite ``translation``: RFC 7915 both ways, RFC 6052's prefixes and RFC 7757's address tables."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network

from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw
from v6t.audit import rfc7915, rfc7915_icmp
from v6t.audit.clause import Clause, Requirement, Subject, Suite
from v6t.audit.customer_edge import make_port_rows
from v6t.audit.packets import DATA, PORT, SERVER_PORT, data, header, icmp6
from v6t.audit.rfc7915 import TranslatorHosts
from v6t.audit.row import Row, make_row_clauses
from v6t.plugins import audit_views as views
from v6t.plugins.audit_views import MAPPED_HOST, Address, CustomerEdge, Translator
from v6t.plugins.translation import WELL_KNOWN, embed_ipv4, may_embed

_MAPPED_TO = {
    views.OVERLAPPING_MAPPINGS: IPv6Address("2001:2:0:64::1"),
    views.UNEQUAL_MAPPINGS: IPv6Address("2001:2:0:64:4100::"),
}


class TranslationSuite(Suite):
    """Clauses for translators between IPv6 on one link and IPv4 on the other."""

    name = "translation"
    core = ("5.1-udp", "5.1-ttl", "5.1-df-46", "4.1-udp", "4.1-hop-limit", "4.5-udp-checksum-ffff")

    def list_clauses(self, subject: Subject, variant: str = "") -> Iterable[Clause]:
        view, wire = subject.find(Translator), subject.wire
        if view is None or (variant != views.WELL_KNOWN_PREFIX and self.find_requirement(subject)):
            return ()
        mtus = wire.mtu(view.ipv6_side), wire.mtu(view.ipv4_side)
        h = TranslatorHosts(view, *mtus, view.mapped_ipv4[0], view.port)
        edge, sources = subject.find(CustomerEdge), []
        if not variant:
            sources = [rfc7915.make_ipv6_rows, rfc7915.make_ipv4_rows]
            sources += [rfc7915_icmp.make_ipv4_rows, rfc7915_icmp.make_ipv6_rows]
            sources += [partial(make_port_rows, ports=edge.ports)] if edge else []
        elif variant == views.RAISED_MTU:
            h = replace(h, view=replace(view, lowest_ipv6_mtu=1400))
            sources = [partial(rfc7915.make_rows_without_df, suffix="-1400")]
        elif variant == views.WELL_KNOWN_PREFIX:
            local = next(a for a in subject.neighbors[view.ipv4_side] if isinstance(a, IPv4Address))
            sources = [partial(_make_well_known_rows, local=local)]
        elif variant == views.PREFIX_AND_MAPPINGS and view.table and view.table.prefix:
            sources = [partial(_make_hairpin_rows, prefix=view.table.prefix)]
        elif variant in _MAPPED_TO:
            mapped = replace(view, ipv6_host=_MAPPED_TO[variant], mapped_ipv4=(MAPPED_HOST,))
            h = replace(h, view=mapped, six4=MAPPED_HOST)
            sources = [partial(_make_table_rows, longest=variant == views.OVERLAPPING_MAPPINGS)]
        elif variant in views.PREFIX_VARIANTS:
            sources = [partial(_make_prefix_rows, length=views.PREFIX_VARIANTS[variant])]
        return make_row_clauses(h, wire, *sources)

    def find_requirement(self, subject: Subject) -> Requirement:
        v = subject.find(Translator)
        hosts = ((v.ipv6_host, v.mapped_ipv4[0]), (v.mapped_ipv6, v.ipv4_host)) if v else ()
        addresses = (four for six, four in hosts if six in WELL_KNOWN)
        return find_prefix_requirement(WELL_KNOWN, addresses)


# fmt: off
def _make_prefix_rows(h: TranslatorHosts, length: int) -> Iterator[Row]:
    v, row = h.view, partial(Row, "RFC 6052", "2.2", plain=True)
    yield row(f"up-{length}", f"the IPv4 address embedded behind a prefix of /{length} is extracted",
              h.plain(v.ipv6_side), h.at4() / UDP(), side=v.ipv6_side)
    yield row(f"down-{length}",
              f"an IPv4 address is embedded behind a prefix of /{length}, bits 64 to 71 zero",
              h.plain(v.ipv4_side), h.at6() / UDP(), side=v.ipv4_side)


def _make_well_known_rows(h: TranslatorHosts, local: IPv4Address) -> Iterator[Row]:
    v, row = h.view, partial(Row, "RFC 6052", "3.1")
    address = v.ipv4_host if v.ipv4_host.is_global else v.mapped_ipv4[0]
    yield row("global", f"{address}, which is global, may be embedded behind the prefix",
              h.plain(v.ipv6_side), h.at4() / UDP(), "MAY", side=v.ipv6_side, plain=True)
    end, words = ("src", "from") if v.prefix_side == "ipv6" else ("dst", "for")
    yield row("not-global", f"a packet {words} {local}, which is not global, behind the prefix is dropped",
              h.ip6(**{end: str(embed_ipv4(WELL_KNOWN, local))}) / h.udp6 / Raw(DATA), side=v.ipv6_side)
    if not v.stateful and end == "dst":
        yield row("not-represented", f"the well-known prefix does not represent {local}, which is not global",
                  h.ip4(src=str(local)) / h.udp4 / Raw(DATA), side=v.ipv4_side)


def _make_table_rows(h: TranslatorHosts, longest: bool) -> Iterator[Row]:
    v, row, name = h.view, partial(Row, "RFC 7757", plain=True), "longest" if longest else "padded"
    yield row("3.3.1", name, f"{MAPPED_HOST} becomes {v.ipv6_host}: "
              + ("the longest IPv4 prefix applies" if longest else "zeros follow the suffix"),
              h.plain(v.ipv4_side), h.at6() / UDP(), side=v.ipv4_side)
    source = v.ipv6_host if longest else v.ipv6_host + 7
    yield row("3.3.2", name, f"{source} becomes {MAPPED_HOST}: "
              + ("the longest IPv6 prefix applies" if longest else "bits behind the suffix are discarded"),
              h.ip6(src=str(source)) / h.udp6 / Raw(DATA), h.at4() / UDP(), side=v.ipv6_side)


def _make_hairpin_rows(h: TranslatorHosts, prefix: IPv6Network) -> Iterator[Row]:
    near = partial(Row, "RFC 7757", "4.2", level="SHOULD", side=h.view.ipv6_side, near=True)
    one, two = h.view.ipv6_host, h.view.ipv6_host + 1
    name1, name2 = (str(embed_ipv4(prefix, h.view.mapped_ipv4[0] + n)) for n in (0, 1))
    request, reply = UDP(sport=PORT, dport=SERVER_PORT), UDP(sport=SERVER_PORT, dport=PORT)
    yield near("hairpin",
               "a host with a mapping reaches another one through the prefix, and its source is also behind "
               "the prefix",
               header(one, name2) / request / DATA, IPv6(src=name1, dst=str(two)) / UDP())
    yield near("hairpin-answer", "the answer comes from the address that the request was sent to",
               header(two, name1) / reply / DATA, IPv6(src=name2, dst=str(one)) / UDP())
    about = header(name1, two) / request / Raw(data(40))
    yield near("hairpin-error", "an ICMPv6 error about the datagram quotes it as its sender sent it",
               header(two, name1) / icmp6(1, code=4) / about,
               IPv6(src=name2, dst=str(one)) / icmp6(1) / IPv6(src=str(one), dst=name2), rate_limited=True)
# fmt: on


def find_prefix_requirement(prefix: IPv6Network | None, hosts: Iterable[Address]) -> Requirement:
    """Return why clauses cannot be tested with the well-known prefix, or None."""
    fix = f"choose another prefix than {WELL_KNOWN}, or hosts with global addresses"
    reason = "correct devices drop its packets behind the well-known prefix (RFC 6052, section 3.1)"
    for address in hosts:
        if prefix and isinstance(address, IPv4Address) and not may_embed(prefix, address):
            return f"{address} is not a global address, and {reason}", fix
    return None
