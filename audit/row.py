"""Rows: a sentence of an RFC with the packet to send and the packet expected."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

from scapy.packet import Packet
from v6t.audit.clause import (
    Clause,
    Frame,
    Judgement,
    Level,
    Send,
    Steps,
    conforms,
    deviates,
    not_testable,
)
from v6t.audit.match import checksum_error, describe_template, difference
from v6t.audit.wire import NOTHING, Wire, inner_packet, is_icmp_error, opposite, summary
from v6t.plugins.audit_views import SideName

Check: TypeAlias = Callable[[list[Packet]], str]
"""Describes the first fault of the packets that arrived; empty if there is none."""
Answer: TypeAlias = Packet | Sequence[Packet] | Check | None
H = TypeVar("H", bound="Hosts")
Opening: TypeAlias = Generator[Send, Sequence[Frame], H | None]


@dataclass(frozen=True)
class Row:
    """Send packets, expect an answer.

    Attributes:
        rfc, section, label, level, title: see :class:`v6t.audit.clause.Clause`.
        packet: one packet, or several.
        answer: template of the packet expected, templates of several in any order, a check of all packets
            that arrive, or None if nothing may pass.
        side: link on which the packets are sent.
        expected: describes the answer; by default the template's fields.
        near: the answer leaves on the link of the packet (hairpinning).
        error: the answer is an ICMP error to the sender, and nothing passes.
        silent: nothing may pass, and no ICMP error may come back.
        only_reply: judge only what comes back; whether the packet may pass is another clause.
        quoted: checksums of a quoted packet must be correct, too.
        plain: the packet is as simple as possible; no other packet proves that the device works.
        flow: protocol of the session that a stateful device needs.
        rate_limited: devices may limit the answer; None: if it is an ICMP error.
    """

    rfc: str
    section: str
    label: str
    level: Level
    title: str
    packet: Packet | Sequence[Packet]
    answer: Answer = None
    side: SideName = "left"
    expected: str = ""
    near: bool = False
    error: bool = False
    silent: bool = False
    only_reply: bool = False
    quoted: bool = False
    plain: bool = False
    flow: str = "udp"
    rate_limited: bool | None = None

    @property
    def templates(self) -> list[Packet]:
        """Templates of the packets expected."""
        if self.answer is None or callable(self.answer):
            return []
        return [self.answer] if isinstance(self.answer, Packet) else list(self.answer)

    def describe_answer(self) -> str:
        """Describe the answer that is expected."""
        if self.expected:
            return self.expected
        if self.answer is None:
            return "nothing" if self.silent else "the packet is dropped"
        return "; ".join(dict.fromkeys(map(describe_template, self.templates))) or self.title


class Hosts:
    """The hosts at both links of a device, whose packets are the rows of a suite."""

    def plain(self, side: SideName) -> Packet:
        """Return the simplest packet of the host on a link."""
        raise NotImplementedError

    def open_session(self: H, row: Row, wire: Wire) -> Opening[H]:
        """Open the session that a row needs in a stateful device.

        Returns:
            the hosts as the device then shows them; None if no session could be opened.
        """
        del row, wire
        return self
        yield Send(())  # this makes the method a generator


def row_clauses(
    rows: Callable[[H], Iterable[Row]], hosts: H, wire: Wire
) -> Generator[Clause, None, None]:
    """Return the clauses of rows.

    Args:
        rows: returns the rows for hosts; called again once a session shows them otherwise.
        hosts: before any session is open.
        wire: links of the device.
    """
    for row in rows(hosts):
        limited = row.error if row.rate_limited is None else row.rate_limited
        steps = partial(_open_and_judge, rows, hosts, wire, row)
        texts = row.rfc, row.section, row.label, row.level, row.title
        yield Clause(*texts, steps, limited, plain=row.plain)


def _open_and_judge(rows: Callable[[H], Iterable[Row]], hosts: H, wire: Wire, row: Row) -> Steps:
    opened = yield from hosts.open_session(row, wire)
    if opened is None:
        problem = "no packet from inside passes, so no session is open"
        return not_testable(row.describe_answer(), problem)
    if opened is not hosts:
        row = next(r for r in rows(opened) if (r.section, r.label) == (row.section, row.label))
    return (yield from row_steps(row, wire, None if row.plain else opened.plain(row.side)))


def row_steps(row: Row, wire: Wire, control: Packet | None) -> Steps:
    """Send a row's packets and judge the answer.

    Args:
        row: of an audit.
        wire: links of the device.
        control: a plain packet; if it does not pass either, a missing answer proves nothing.
    """
    packets = [row.packet] if isinstance(row.packet, Packet) else row.packet
    frames = yield Send([wire.frame(row.side, packet) for packet in packets])
    judgement = judge_row(row, wire, frames)
    target = row.side if row.near else opposite(row.side)
    if row.answer is None:
        needs_control = judgement.verdict == "conforms"
    else:
        arrived = wire.packets(target, frames) or wire.describe_bad_lengths(frames)
        needs_control = judgement.verdict != "conforms" and not arrived
    if control is None or not needs_control:
        return judgement
    after = yield Send([wire.frame(row.side, control)])
    if wire.packets(opposite(row.side), after):
        return judgement
    return not_testable(judgement.expected, f"{judgement.got}, but a plain packet does not pass")


def judge_row(row: Row, wire: Wire, frames: Sequence[Frame]) -> Judgement:
    """Judge what a device sent for a row's packets."""
    back = wire.packets(row.side, frames)
    far = back if row.near else wire.packets(opposite(row.side), frames)
    seen, expected = wire.describe(frames), row.describe_answer()
    if row.answer is not None:
        wrong = _find_problem(row, far, back)
        if wrong and wrong != seen:
            wrong = f"{wrong} ({seen})"
        return deviates(expected, wrong) if wrong else conforms(expected, seen)
    passed = [p for p in far if not (row.near and is_icmp_error(p))]
    malformed = wire.describe_bad_lengths(frames)
    if passed or malformed:
        words = f"the packet passed: {summary(passed[0]) if passed else malformed}"
        return (not_testable if passed and row.only_reply else deviates)(expected, words)
    if row.silent and back:
        return deviates(expected, f"an answer: {summary(back[0])}")
    return conforms(expected, seen)


def _find_problem(row: Row, far: list[Packet], back: list[Packet]) -> str:
    """Describe the first fault of the answer, which is in ``far`` unless it is an ICMP error."""
    if callable(row.answer):
        return row.answer(far)
    templates = row.templates
    if row.error:
        if far:
            return f"the packet passed: {summary(far[0])}"
        far = [p for p in back if isinstance(p, type(templates[0])) and is_icmp_error(p)][:1]
        if not far:
            return "no ICMP error"
    if not far and templates:
        return f"nothing but {summary(back[0])}" if back and not row.near else NOTHING
    if len(far) != len(templates):
        return f"{len(far)} packets instead of {len(templates)}"
    for packet in far:
        problems = [difference(template, packet) for template in templates]
        if "" not in problems:
            return problems[0]
        template = templates.pop(problems.index(""))
        if "dst" in template.fields and not row.error:
            inner = inner_packet(packet)
            wrong = checksum_error(packet, quoted=row.quoted) or (inner and checksum_error(inner))
            if wrong:
                return wrong
    return ""
