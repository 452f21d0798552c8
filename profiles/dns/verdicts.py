"""Verdicts on the answers that the client receives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from v6t.profiles.dns.messages import (
    AAAA,
    CLASS_IN,
    CNAME,
    HEADER,
    LABEL_AT,
    QUESTION_END,
    SUFFIX_AT,
    build_question,
    make_mask,
)
from v6t.profiles.dns.zone import SUFFIX, encode_labels, read_name

if TYPE_CHECKING:
    from v6t.packets.arrays import U8, U32, Mask

VALID = "valid"
LATE, MISSING, REPEATED, STRAY = "late", "no answer", "repeated", "to no question of the trial"
MALFORMED, OTHER_QUESTION, EMPTY = "malformed", "another question", "no AAAA record"
WRONG, TRUNCATED = "wrong AAAA record", "truncated"
DIFFERS = (WRONG, OTHER_QUESTION)
"""Answers that no device may give: they end the run instead of counting as loss."""
RCODES = {
    1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED",
}  # fmt: skip
"""RFC 1035 section 4.1.1."""

_PATTERN = bytearray(build_question() + b"\xc0\x0c\0\x1c\0\1" + bytes(4) + b"\0\x10" + bytes(16))
"""The usual form of an answer."""
_PATTERN[2:4], _PATTERN[6:8] = b"\x80\0", b"\0\1"
_FORM, _END = np.frombuffer(bytes(_PATTERN), np.uint8), len(_PATTERN)
_MASK = make_mask(bytes(_PATTERN))
"""The bits that make such an answer right."""
_MASK[:4] = 0, 0, 0xFA, 0x0F  # a response, not truncated, to a query; its code
_MASK[8:12] = 0  # records after the answer
_MASK[QUESTION_END + 6 : QUESTION_END + 10] = 0  # time to live


@dataclass(frozen=True)
class AnswerVerdicts:
    """Verdicts on a batch of answers: the rows that are right, and the reasons of the others."""

    valid: Mask
    reasons: dict[int, str]


def judge_answers(messages: U8, addresses: U32, expected: U8) -> AnswerVerdicts:
    """Judge equally long answers ``(n, octets)``, each with the AAAA record that it must hold (RFC 6147)."""
    right: Mask = np.zeros(len(messages), bool)
    if messages.shape[1] >= _END:
        form = np.empty((len(messages), _END), np.uint8)
        form[:] = _FORM
        form[:, LABEL_AT : SUFFIX_AT + 1] = encode_labels(addresses)
        form[:, -16:] = expected
        right = np.logical_not(((messages[:, :_END] ^ form) & _MASK).any(axis=1))
    reasons: dict[int, str] = {}
    for row in np.nonzero(~right)[0]:  # few: another form of a right answer, or none
        try:
            verdict = _judge_single(
                messages[row].tobytes(), int(addresses[row]), expected[row].tobytes()
            )
        except (IndexError, ValueError):
            verdict = MALFORMED
        if verdict == VALID:
            right[row] = True
        else:
            reasons[int(row)] = verdict
    return AnswerVerdicts(right, reasons)


def _judge_single(message: bytes, address: int, expected: bytes) -> str:
    """Judge one answer in any form; a malformed one may raise IndexError or ValueError."""
    if not message[2] & 0x80 or message[2] & 0x78:
        return MALFORMED
    if message[2] & 0x02:
        return TRUNCATED
    number = message[3] & 0x0F
    code = RCODES.get(number, f"RCODE {number}") if number else ""
    try:
        name, at = read_name(message, HEADER)
    except (IndexError, ValueError):
        return code or MALFORMED
    at += 4
    if message[4:6] != b"\0\1" or at > len(message):
        return code or MALFORMED
    label = "-".join(f"{octet:03}" for octet in address.to_bytes(4, "big"))
    wanted = tuple(part.encode() for part in (label, *SUFFIX.split(".")))
    if name != wanted or message[at - 4 : at] != AAAA.to_bytes(2, "big") + CLASS_IN:
        return OTHER_QUESTION
    if code:
        return code
    records = _read_records(message, at, name)
    if not records:
        return EMPTY
    return VALID if records == {expected} else WRONG


def _read_records(message: bytes, at: int, name: tuple[bytes, ...]) -> set[bytes]:
    """Return the AAAA records of a name in the answer section, aliases followed in order."""
    records = set()
    for _ in range(int.from_bytes(message[6:8], "big")):
        owner, at = read_name(message, at)
        kind, size = (int.from_bytes(message[at + n : at + n + 2], "big") for n in (0, 8))
        kind *= message[at + 2 : at + 4] == CLASS_IN
        begin = at + 10
        at = begin + size
        if at > len(message):
            raise ValueError("a record ends behind the message")
        if owner == name and kind == AAAA:
            records.add(message[begin:at])
        elif owner == name and kind == CNAME:
            name, _ = read_name(message, begin)
    return records
