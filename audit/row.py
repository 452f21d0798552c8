"""Rows: one packet (or a few) and the packet expected, which need no state in the device."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from scapy.packet import Packet
from v6t.audit.clause import (
    Clause,
    Judgement,
    Level,
    Send,
    Steps,
    conforms,
    deviates,
    not_testable,
)
from v6t.audit.match import checksum_error, difference
from v6t.audit.probe import Frame
from v6t.audit.wire import NOTHING, Wire, is_icmp_error, opposite, summary
from v6t.plugins.audit_views import SideName

Check: TypeAlias = Callable[[list[Packet]], str]
"""Describes the first fault of the packets that arrived; empty if there is none."""
Answer: TypeAlias = Packet | Check | None
UDP_FLOW, TCP_FLOW, ICMP_FLOW = 17, 6, 1


@dataclass(frozen=True)
class Row:
    """Send packets, expect an answer.

    Attributes:
        section, label, level, title: see :class:`v6t.audit.clause.Clause`.
        side: link on which the packets are sent.
        packet: one packet, or several.
        answer: template of the one packet expected, a check of all packets, or None if nothing may pass.
        expected: describes the answer; by default the template's summary.
        near: the answer leaves on the link of the packet (hairpinning).
        error: the answer is an ICMP error to the sender, and nothing passes.
        silent: nothing may pass, and no ICMP error may come back.
        only_reply: judge only what comes back; whether the packet may pass is another clause.
        quoted: checksums of a quoted packet must be correct, too.
        check: further check of the one packet expected.
        plain: the packet is as simple as possible; no other packet proves that the device works.
        flow: protocol of the session that a stateful device needs.
        rfc: if it is not the suite's.
        rate_limited: devices may limit the answer; None: if it is an ICMP error.
    """

    section: str
    label: str
    level: Level
    title: str
    side: SideName
    packet: Packet | Sequence[Packet]
    answer: Answer = None
    expected: str = ""
    near: bool = False
    error: bool = False
    silent: bool = False
    only_reply: bool = False
    quoted: bool = False
    check: Callable[[Packet], str] | None = None
    plain: bool = False
    flow: int = UDP_FLOW
    rfc: str = ""
    rate_limited: bool | None = None

    @property
    def packets(self) -> list[Packet]:
        """The packets to send."""
        return [self.packet] if isinstance(self.packet, Packet) else list(self.packet)


def row_clause(row: Row, rfc: str, steps: Callable[[], Steps]) -> Clause:
    """Return the clause of a row.

    Args:
        row: of a suite.
        rfc: of rows that name none.
        steps: carry out the row.
    """
    limited = row.error if row.rate_limited is None else row.rate_limited
    return Clause(
        row.rfc or rfc,
        row.section,
        row.label,
        row.level,
        row.title,
        steps,
        limited,
        plain=row.plain,
    )


def row_steps(row: Row, wire: Wire, control: Packet | None) -> Steps:
    """Send a row's packets and judge the answer.

    Args:
        row: of an audit.
        wire: links of the device.
        control: a plain packet; if it does not pass either, a missing answer proves nothing.
    """
    frames = yield from send_packets(wire, row.side, row.packets)
    judgement = judge_row(row, wire, frames)
    target = row.side if row.near else opposite(row.side)
    arrived = wire.packets(target, frames) or wire.describe_bad_lengths(frames)
    if row.answer is None:
        if judgement.verdict != "conforms" or control is None:
            return judgement
    elif judgement.verdict == "conforms" or control is None or arrived:
        return judgement
    after = yield from send_packets(wire, row.side, [control])
    if wire.packets(opposite(row.side), after):
        return judgement
    return not_testable(judgement.expected, f"{judgement.got}, but a plain packet does not pass")


def judge_row(row: Row, wire: Wire, frames: Sequence[Frame]) -> Judgement:
    """Judge what a device sent for a row's packets."""
    back = wire.packets(row.side, frames)
    far = back if row.near else wire.packets(opposite(row.side), frames)
    seen = wire.describe(frames)
    expected = describe_answer(row)
    if row.answer is None:
        passed = [p for p in far if not (row.near and is_icmp_error(p))]
        if passed and row.only_reply:
            return not_testable(expected, f"the packet passed: {summary(passed[0])}")
        if passed:
            return deviates(expected, f"the packet passed: {summary(passed[0])}")
        if malformed := wire.describe_bad_lengths(frames):
            return deviates(expected, f"the packet passed: {malformed}")
        if row.silent and back:
            return deviates(expected, f"an answer: {summary(back[0])}")
        return conforms(expected, seen)
    wrong = _error_problem(row, far, back) if row.error else _answer_problem(row, far, back)
    if wrong:
        return deviates(expected, wrong if wrong == seen else f"{wrong} ({seen})")
    return conforms(expected, seen)


def describe_answer(row: Row) -> str:
    """Describe the answer that a row expects."""
    if row.expected:
        return row.expected
    if row.answer is None:
        return "nothing" if row.silent else "the packet is dropped"
    if isinstance(row.answer, Packet):
        return template_words(row.answer)
    return row.title


def template_words(template: Packet) -> str:
    """Describe the fields that a template sets, layer by layer."""
    layers = []
    for layer in template.iterpayloads():
        fields = ", ".join(
            f"{name} {value if not isinstance(value, bytes) else f'of {len(value)} octets'}"
            for name, value in layer.fields.items()
            if not isinstance(value, list) or value
        )
        layers.append(f"{layer.name} ({fields})" if fields else layer.name)
    return " / ".join(layers)


def send_packets(
    wire: Wire, side: SideName, packets: Sequence[Packet]
) -> Generator[Send, Sequence[Frame], Sequence[Frame]]:
    """Send packets on one link and return the device's frames."""
    return (yield Send([wire.frame(side, packet) for packet in packets]))


def _error_problem(row: Row, far: list[Packet], back: list[Packet]) -> str:
    """Check the ICMP error that should have come back."""
    if far:
        return f"the packet passed: {summary(far[0])}"
    errors = [p for p in back if isinstance(p, type(row.answer)) and is_icmp_error(p)]
    if not errors or not isinstance(row.answer, Packet):
        return "no ICMP error"
    return difference(row.answer, errors[0]) or (row.check(errors[0]) if row.check else "")


def _answer_problem(row: Row, far: list[Packet], back: list[Packet]) -> str:
    """Check the packets that arrived."""
    if not isinstance(row.answer, Packet):
        return row.answer(far) if row.answer else ""
    if not far:
        return f"nothing but {summary(back[0])}" if back and not row.near else NOTHING
    if len(far) > 1:
        return f"{len(far)} packets"
    wrong = difference(row.answer, far[0])
    if not wrong and "dst" in row.answer.fields:
        wrong = checksum_error(far[0], quoted=row.quoted)
    return wrong or (row.check(far[0]) if row.check else "")
