"""The suite ``translation``: RFC 7915 both ways, RFC 6052's prefixes and RFC 7757's address tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address, IPv6Address

from v6t.audit import rfc6052, rfc7915_icmp, rfc7915_ipv4, rfc7915_ipv6
from v6t.audit.clause import Clause, Subject, Suite
from v6t.audit.customer_edge import port_rows
from v6t.audit.hosts import TranslatorHosts
from v6t.audit.row import Row, row_clauses
from v6t.plugins.audit_views import (
    MAPPED_HOST,
    OVERLAPPING_MAPPINGS,
    PREFIX_BESIDE_MAPPINGS,
    RAISED_MTU,
    UNLIKE_MAPPINGS,
    WELL_KNOWN_PREFIX,
    CustomerEdge,
    Translator,
    is_prefix_variant,
)

_MAPPED_TO = {
    OVERLAPPING_MAPPINGS: IPv6Address("2001:2:0:64::1"),
    UNLIKE_MAPPINGS: IPv6Address("2001:2:0:64:4100::"),
}


class TranslationSuite(Suite):
    """For technologies that translate between IPv6 on one link and IPv4 on the other."""

    name = "translation"
    title = "RFC 7915 both ways, prefixes of RFC 6052, address tables of RFC 7757"
    core = ("5.1-udp", "5.1-ttl", "5.1-df-46", "4.1-udp", "4.1-hop-limit", "4.5-udp-checksum-ffff")

    def clauses(self, subject: Subject) -> Iterator[Clause]:
        h = _hosts(subject)
        if h is None or rfc6052.hidden_address(h):
            return
        sources: list[Callable[[TranslatorHosts], Iterable[Row]]] = [
            rfc7915_ipv6.rows,
            rfc7915_ipv4.rows,
            rfc7915_ipv4.size_rows,
            rfc7915_icmp.rows_from_ipv4,
            rfc7915_icmp.rows_from_ipv6,
        ]
        edge = subject.find(CustomerEdge)
        if edge is not None:
            sources.append(partial(port_rows, ports=edge.ports))
        for rows in sources:
            yield from row_clauses(rows, h, h.wire)

    def requirement(self, subject: Subject) -> tuple[str, str] | None:
        """Refuse hosts without global addresses behind the well-known prefix."""
        h = _hosts(subject)
        hidden = None if h is None else rfc6052.hidden_address(h)
        return None if hidden is None else rfc6052.prefix_requirement(hidden)

    def variant_clauses(self, subject: Subject, variant: str) -> Iterable[Clause]:
        """Return a packet each way for each prefix and table, and what the well-known prefix refuses."""
        h = _hosts(subject)
        if h is None or (variant != WELL_KNOWN_PREFIX and rfc6052.hidden_address(h)):
            return ()
        rows: Callable[[TranslatorHosts], Iterable[Row]]
        if variant == RAISED_MTU:
            h = replace(h, view=replace(h.view, lowest_ipv6_mtu=1400))
            rows = partial(rfc7915_ipv4.rows_without_df, suffix="-1400")
        elif variant == WELL_KNOWN_PREFIX:
            neighbors = subject.neighbors[h.view.four_side]
            local = next(a for a in neighbors if isinstance(a, IPv4Address))
            rows = partial(rfc6052.well_known_rows, local=local)
        elif variant == PREFIX_BESIDE_MAPPINGS and h.view.table and h.view.table.prefix:
            rows = partial(rfc6052.hairpin_rows, prefix=h.view.table.prefix)
        elif variant in _MAPPED_TO:
            view = replace(h.view, six=_MAPPED_TO[variant], six4=(MAPPED_HOST,))
            h = TranslatorHosts.from_view(view, h.wire)
            rows = partial(rfc6052.table_rows, longest=variant == OVERLAPPING_MAPPINGS)
        elif is_prefix_variant(variant):
            length = int(variant.rpartition("/")[2])
            rows = partial(rfc6052.prefix_rows, length=length)
        else:
            return ()
        return row_clauses(rows, h, h.wire)


def _hosts(subject: Subject) -> TranslatorHosts | None:
    view = subject.find(Translator)
    return None if view is None else TranslatorHosts.from_view(view, subject.wire)
