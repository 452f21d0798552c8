"""The suite ``translation``: RFC 7915 both ways, RFC 6052's prefixes and RFC 7757's address tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address, IPv6Address

from v6t.audit import rfc6052, rfc7599, rfc7757, rfc7915_icmp, rfc7915_ipv4, rfc7915_ipv6
from v6t.audit.clause import Clause, Send, Steps, Subject, Suite, not_testable
from v6t.audit.row import UDP_FLOW, Row, describe_answer, row_clause, row_steps
from v6t.audit.translator_hosts import TranslatorHosts
from v6t.audit.wire import ports_of, protocol_of
from v6t.plugins.address_mappings import embed
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

_RFC = "RFC 7915"
Rows = Callable[[TranslatorHosts], Iterable[Row]]
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
        sources: list[Rows] = [
            rfc7915_ipv6.rows,
            rfc7915_ipv4.rows,
            rfc7915_ipv4.size_rows,
            rfc7915_icmp.rows_from_ipv4,
            rfc7915_icmp.rows_from_ipv6,
        ]
        edge = subject.find(CustomerEdge)
        if edge is not None:
            sources.append(partial(rfc7599.rows, ports=edge.ports))
        for rows in sources:
            yield from _clauses(h, rows)

    def requirement(self, subject: Subject) -> tuple[str, str] | None:
        """Refuse hosts without global addresses behind the well-known prefix."""
        h = _hosts(subject)
        hidden = None if h is None else rfc6052.hidden_address(h)
        return None if hidden is None else rfc6052.prefix_requirement(hidden)

    def variant_clauses(self, subject: Subject, variant: str) -> Iterator[Clause]:
        """Return a packet each way for each prefix and table, and what the well-known prefix refuses."""
        h = _hosts(subject)
        if h is None or (variant != WELL_KNOWN_PREFIX and rfc6052.hidden_address(h)):
            return
        if variant == RAISED_MTU:
            raised = replace(h, view=replace(h.view, lowest_ipv6_mtu=1400))
            yield from _clauses(raised, partial(rfc7915_ipv4.rows_without_df, suffix="-1400"))
        elif variant == WELL_KNOWN_PREFIX:
            neighbors = subject.neighbors[h.view.four_side]
            local = next(a for a in neighbors if isinstance(a, IPv4Address))
            yield from _clauses(h, partial(rfc6052.well_known_rows, local=local))
        elif variant == PREFIX_BESIDE_MAPPINGS:
            yield from _hairpin_clauses(h)
        elif variant in _MAPPED_TO:
            view = replace(h.view, six=_MAPPED_TO[variant], six4=(MAPPED_HOST,))
            longest = variant == OVERLAPPING_MAPPINGS
            mapped = TranslatorHosts.from_view(view, h.wire)
            yield from _clauses(mapped, partial(rfc7757.table_rows, longest=longest))
        elif is_prefix_variant(variant):
            length = int(variant.rpartition("/")[2])
            yield from _clauses(h, partial(rfc6052.prefix_rows, length=length))


def _hosts(subject: Subject) -> TranslatorHosts | None:
    view = subject.find(Translator)
    return None if view is None else TranslatorHosts.from_view(view, subject.wire)


def _hairpin_clauses(h: TranslatorHosts) -> Iterator[Clause]:
    """Return the clauses about two neighbors that the prefix names, too."""
    table = h.view.table
    if table is None or table.prefix is None:
        return
    prefix = table.prefix
    hosts = [h.view.six, h.view.six + 1]
    names = [embed(prefix, h.view.six4[0]), embed(prefix, h.view.six4[0] + 1)]
    yield from _clauses(h, lambda h: rfc7757.hairpin_rows(h, hosts, names))


def _clauses(h: TranslatorHosts, rows: Rows) -> Iterator[Clause]:
    for row in rows(h):
        steps = partial(_session_steps, h, rows, row)
        yield row_clause(row, _RFC, steps)


def _session_steps(h: TranslatorHosts, rows: Rows, row: Row) -> Steps:
    """Open the session that a row needs in a stateful translator, then carry out the row."""
    six_sends = row.side == h.view.six_side
    if h.view.stateful and not (six_sends and "checksum" not in row.label):
        reached = yield from _open_session(h, row.flow)
        if reached is None:
            return not_testable(
                describe_answer(row), "no packet from inside passes, so no session is open"
            )
        bound = reached
        row = next(r for r in rows(bound) if (r.section, r.label) == (row.section, row.label))
        if row.flow != UDP_FLOW and not six_sends:
            bound = (yield from _open_session(h, UDP_FLOW)) or bound
        h = bound
    control = None if row.plain else (h.plain6() if six_sends else h.plain4())
    return (yield from row_steps(row, h.wire, control))


def _open_session(h: TranslatorHosts, flow: int):  # type: ignore[no-untyped-def]
    """Send a packet of the IPv6 host; return the hosts with the address and port it got, or None."""
    frames = yield Send([h.wire.frame(h.view.six_side, h.plain6(flow))])
    for packet in h.wire.packets(h.view.four_side, frames):
        if packet.version == 4 and protocol_of(packet) == flow:
            return replace(h, six4=IPv4Address(packet.src), port4=ports_of(packet)[0])
    return None
