"""RFC 6052: prefixes of each length (section 2.2) and the well-known prefix (section 3.1)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network

from scapy.layers.inet import UDP
from scapy.packet import Raw
from v6t.audit.row import Row
from v6t.audit.translator_hosts import DATA, TranslatorHosts
from v6t.plugins.address_mappings import WELL_KNOWN, embed

RFC = "RFC 6052"


# fmt: off
def prefix_rows(h: TranslatorHosts, length: int) -> Iterator[Row]:
    """Return the clauses about a prefix of some length."""
    yield Row("2.2", f"up-{length}", "MUST", f"an IPv4 address is found behind a prefix of /{length}",
              h.view.six_side, h.plain6(), h.at4() / UDP(), plain=True, rfc=RFC)
    yield Row("2.2", f"down-{length}", "MUST",
              f"an IPv4 address is embedded behind a prefix of /{length}, bits 64 to 71 zero",
              h.view.four_side, h.plain4(), h.at6() / UDP(), plain=True, rfc=RFC)


def well_known_rows(h: TranslatorHosts, local: IPv4Address) -> Iterator[Row]:
    """Return the clauses about the well-known prefix.

    Args:
        h: hosts, of which the one behind the prefix has a global address.
        local: an address on the IPv4 link, which is not global.
    """
    v = h.view
    up = partial(Row, side=v.six_side, section="3.1", rfc=RFC)
    address = v.four if v.four.is_global else v.six4[0]
    yield up(label="global", level="MAY", title=f"{address}, which is global, may stand behind the prefix",
             packet=h.plain6(), answer=h.at4() / UDP(), plain=True)
    behind = str(embed(WELL_KNOWN, local))
    source_side = v.prefix_side == "six"
    ends = {"src": behind} if source_side else {"dst": behind}
    yield up(label="not-global", level="MUST",
             title=f"a packet {'from' if source_side else 'for'} {local}, which "
             "is not global, behind the prefix is dropped", packet=h.ip6(**ends) / h.udp6 / Raw(DATA))
    if not v.stateful and not source_side:
        yield Row("3.1", "not-represented", "MUST",
                  f"the well-known prefix does not represent {local}, which is not global",
                  v.four_side, h.ip4(src=str(local)) / h.udp4 / Raw(DATA), rfc=RFC)
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
