"""RFC 6052: prefixes of each length and the well-known prefix; RFC 7757: explicit address mappings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network

from scapy.layers.inet import UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, IPv6
from scapy.packet import Raw
from v6t.audit.clause import MAY, MUST, SHOULD
from v6t.audit.hosts import DATA, PORT, SERVER_PORT, TranslatorHosts, data, header
from v6t.audit.row import Row
from v6t.plugins.address_mappings import WELL_KNOWN, embed
from v6t.plugins.audit_views import MAPPED_HOST


# fmt: off
def prefix_rows(h: TranslatorHosts, length: int) -> Iterator[Row]:
    """Return the clauses about a prefix of some length."""
    v, row = h.view, partial(Row, "RFC 6052", "2.2", level=MUST, plain=True)
    yield row(f"up-{length}", title=f"an IPv4 address is found behind a prefix of /{length}",
              packet=h.plain(v.six_side), answer=h.at4() / UDP(), side=v.six_side)
    yield row(f"down-{length}",
              title=f"an IPv4 address is embedded behind a prefix of /{length}, bits 64 to 71 zero",
              packet=h.plain(v.four_side), answer=h.at6() / UDP(), side=v.four_side)


def well_known_rows(h: TranslatorHosts, local: IPv4Address) -> Iterator[Row]:
    """Return the clauses about the well-known prefix.

    Args:
        h: hosts, of which the one behind the prefix has a global address.
        local: an address on the IPv4 link, which is not global.
    """
    v, row = h.view, partial(Row, "RFC 6052", "3.1")
    address = v.four if v.four.is_global else v.six4[0]
    yield row("global", MAY, f"{address}, which is global, may stand behind the prefix",
              h.plain(v.six_side), h.at4() / UDP(), side=v.six_side, plain=True)
    end, words = ("src", "from") if v.prefix_side == "six" else ("dst", "for")
    yield row("not-global", MUST,
              f"a packet {words} {local}, which is not global, behind the prefix is dropped",
              h.ip6(**{end: str(embed(WELL_KNOWN, local))}) / h.udp6 / Raw(DATA), side=v.six_side)
    if not v.stateful and end == "dst":
        yield row("not-represented", MUST,
                  f"the well-known prefix does not represent {local}, which is not global",
                  h.ip4(src=str(local)) / h.udp4 / Raw(DATA), side=v.four_side)


def table_rows(h: TranslatorHosts, longest: bool) -> Iterator[Row]:
    """Return the clauses about one mapped address: of overlapping mappings, or of unlike lengths."""
    v, row, name = h.view, partial(Row, "RFC 7757", level=MUST), "longest" if longest else "padded"
    yield row("3.3.1", name, title=f"{MAPPED_HOST} becomes {v.six}: "
              + ("the longest IPv4 prefix tells" if longest else "zeros follow the suffix"),
              packet=h.plain(v.four_side), answer=h.at6() / UDP(), side=v.four_side, plain=True)
    source = v.six if longest else v.six + 7
    yield row("3.3.2", name, title=f"{source} becomes {MAPPED_HOST}: "
              + ("the longest IPv6 prefix tells" if longest else "bits behind the suffix are discarded"),
              packet=h.ip6(src=str(source)) / h.udp6 / Raw(DATA), answer=h.at4() / UDP(), side=v.six_side,
              plain=True)


def hairpin_rows(h: TranslatorHosts, prefix: IPv6Network) -> Iterator[Row]:
    """Return the clauses about two neighbors with mappings, which the prefix names, too."""
    near = partial(Row, "RFC 7757", "4.2", level=SHOULD, side=h.view.six_side, near=True)
    one, two = h.view.six, h.view.six + 1
    name1, name2 = (str(embed(prefix, h.view.six4[0] + n)) for n in (0, 1))
    request, reply = UDP(sport=PORT, dport=SERVER_PORT), UDP(sport=SERVER_PORT, dport=PORT)
    yield near("hairpin",
               title="a host with a mapping reaches another one by the prefix, and is named by the "
               "prefix itself",
               packet=header(one, name2) / request / DATA, answer=IPv6(src=name1, dst=str(two)) / UDP())
    yield near("hairpin-answer", title="the answer comes back from the address that was asked",
               packet=header(two, name1) / reply / DATA, answer=IPv6(src=name2, dst=str(one)) / UDP())
    about = header(name1, two) / request / Raw(data(40))
    yield near("hairpin-error",
               title="an ICMPv6 error about the datagram comes back about what its sender sent",
               packet=header(two, name1) / ICMPv6DestUnreach(code=4) / about,
               answer=IPv6(src=name2, dst=str(one)) / ICMPv6DestUnreach() / IPv6(src=str(one), dst=name2),
               rate_limited=True)
# fmt: on


def hidden_address(h: TranslatorHosts) -> IPv4Address | None:
    """Return a host's address that the well-known prefix must not represent, or None."""
    v = h.view
    hosts: tuple[tuple[IPv6Address, IPv4Address], ...] = ((v.six, v.six4[0]), (v.four6, v.four))
    return next((four for six, four in hosts if six in WELL_KNOWN and not four.is_global), None)


def prefix_requirement(address: IPv4Address, prefix: IPv6Network = WELL_KNOWN) -> tuple[str, str]:
    """Return why clauses cannot be tested behind the well-known prefix, and what to set."""
    return (
        f"{address} is not a global address, and correct devices drop what the well-known prefix makes "
        "of it (RFC 6052, section 3.1)",
        f"choose another prefix than {prefix}, or hosts with global addresses",
    )
