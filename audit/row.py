"""Rows: a sentence of an RFC with the packet to send and the packet expected."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias

from scapy.packet import Packet
from v6t.audit import packets
from v6t.audit.clause import Clause, Judgement, Level, Send, Steps, Talk, Verdict, flip_side
from v6t.audit.ip_packet import IPPacket, find_checksum_error, find_inner_packet, read_header
from v6t.audit.packets import NOTHING, Wire, summary
from v6t.plugins.audit_views import SideName

Check: TypeAlias = Callable[[list[IPPacket]], str]  # describes the first fault, if any
Opening: TypeAlias = Talk["LinkHosts | None"]  # None: no session opens
Source: TypeAlias = Callable[[Any], Iterable["Row"]]


@dataclass(frozen=True)
class Row:
    """A clause that sends packets and expects an answer; see :class:`Clause`."""

    rfc: str
    section: str
    label: str
    title: str
    packet: Packet | Sequence[Packet]
    answer: Packet | Sequence[Packet] | Check | None = None  # in any order; None: nothing passes
    level: Level = "MUST"
    side: SideName = "left"  # link on which the packets are sent
    near: bool = False  # the answer leaves on the link of the packet (hairpinning)
    error: bool = False  # the answer is an ICMP error to the sender, and nothing passes
    silent: bool = False  # nothing may pass, and no ICMP error may come back
    only_reply: bool = False  # whether the packet may pass is another clause
    quoted: bool = False  # checksums of a quoted packet must be correct, too
    plain: bool = False  # no other packet proves that the device works
    flow: str = "udp"  # protocol of the session that a stateful device needs
    rate_limited: bool = False  # devices may limit the answer, as they limit ICMP errors

    @property
    def templates(self) -> list[Packet]:
        if self.answer is None or callable(self.answer):
            return []
        return [self.answer] if isinstance(self.answer, Packet) else list(self.answer)

    def describe_answer(self) -> str:
        if self.answer is None:
            return "nothing" if self.silent else "the packet is dropped"
        words = map(packets.describe_template, self.templates)
        return "; ".join(dict.fromkeys(words)) or self.title


class LinkHosts:
    """The hosts on both links of a device, each with a plain packet to send."""

    def __init__(self, **plain_packets: Packet) -> None:
        self.plain_packets = plain_packets

    def plain(self, side: SideName) -> Packet:
        return self.plain_packets[side]

    def open_session(self, row: Row, wire: Wire) -> Opening | None:
        """Return steps that open the session of a row and return the hosts as translated by the device."""
        return None


def find_public_end(wire: Wire, side: SideName, packet: Packet, protocol: str) -> Talk[Any]:
    """Send a packet through a NAT; return its public IPv4 address and port, or None."""
    frames = yield Send([wire.frame(side, packet)])
    far = wire.packets(flip_side(side), frames)
    sources = [p.read_endpoint() for p in far if p.protocol == protocol]
    return next((end for end in sources if end.address.version == 4 and end.port), None)


def make_row_clauses(hosts: LinkHosts, wire: Wire, *sources: Source) -> Iterator[Clause]:
    """Yield the clauses of all rows; row sources are called again if a session changes the hosts."""
    for source in sources:
        list_rows = lru_cache(maxsize=2)(lambda hosts, source=source: tuple(source(hosts)))
        for row in list_rows(hosts):
            steps = partial(_exchange, list_rows, hosts, wire, row)
            texts = row.rfc, row.section, row.label, row.level, row.title
            yield Clause(*texts, steps, row.error or row.rate_limited, plain=row.plain)


def _exchange(source: Source, hosts: LinkHosts, wire: Wire, row: Row) -> Steps:
    """Send a row's packets and judge the answer; if nothing arrives, verify the path with a plain packet."""
    expected, opening = row.describe_answer(), hosts.open_session(row, wire)
    opened = hosts if opening is None else (yield from opening)
    if opened is None:
        problem = "no packet from inside passes, so no session is open"
        return Judgement("not testable", expected, problem)
    if opened is not hosts:
        row = next(r for r in source(opened) if (r.section, r.label) == (row.section, row.label))
        expected = row.describe_answer()
    sent = [row.packet] if isinstance(row.packet, Packet) else row.packet
    frames = yield Send([wire.frame(row.side, packet) for packet in sent])
    back, malformed = wire.octets(row.side, frames), wire.describe_bad_lengths(frames)
    far = back if row.near else wire.octets(flip_side(row.side), frames)
    wrong, seen = _find_problem(row, far, back), wire.describe(frames)
    if malformed and row.answer is None:
        wrong = f"the packet passed: {malformed}"
    verdict: Verdict = "conforms"
    if wrong:
        verdict = "not testable" if far and row.only_reply else "deviates"
        seen = wrong if wrong == seen else f"{wrong} ({seen})"
    if row.plain or far or malformed or bool(wrong) == (row.answer is None):
        return Judgement(verdict, expected, seen)
    after = yield Send([wire.frame(row.side, opened.plain(row.side))])
    if wire.octets(flip_side(row.side), after):
        return Judgement(verdict, expected, seen)
    return Judgement("not testable", expected, f"{seen}, but a plain packet does not pass")


def _find_problem(row: Row, far: list[bytes], back: list[bytes]) -> str:
    """Describe the first fault of the answer: packets on the ``far`` link, or an ICMP error sent ``back``."""
    if callable(row.answer):
        return row.answer(list(map(read_header, far)))
    templates = row.templates
    if far and (row.error or row.answer is None):
        return f"the packet passed: {summary(read_header(far[0]))}"
    if row.answer is None:
        return f"an answer: {summary(read_header(back[0]))}" if row.silent and back else ""
    if row.error:
        read = [(octets, read_header(octets)) for octets in back]
        far = [o for o, p in read if p.version == templates[0].version and p.is_error][:1]
        if not far:
            return "no ICMP error"
    if not far and templates:
        return f"nothing but {summary(read_header(back[0]))}" if back and not row.near else NOTHING
    if len(far) != len(templates):
        return f"{len(far)} packets instead of {len(templates)}"
    for octets in far:
        problems = [packets.difference(template, packets.dissect(octets)) for template in templates]
        if "" not in problems:
            return problems[0]
        template = templates.pop(problems.index(""))
        if "dst" in template.fields and not row.error:
            packet = read_header(octets)
            inner = find_inner_packet(packet)
            wrong = find_checksum_error(packet, quoted=row.quoted)
            if wrong := wrong or (find_checksum_error(inner) if inner else ""):
                return wrong
    return ""
