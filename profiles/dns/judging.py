"""Verdicts on the answers that the client receives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from v6t.profiles.dns.messages import (
    AAAA,
    HEADER,
    LABEL_AT,
    QUESTION_END,
    SUFFIX_AT,
    mask_of,
    question,
)
from v6t.profiles.dns.zone import SUFFIX, labels_of, read_name

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8

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
_CNAME, _IN = 5, b"\0\1"


def _form() -> tuple[U8, U8]:
    """Return the usual form of an answer, and the bits that make it right."""
    form = question() + b"\xc0\x0c\0\x1c\0\1" + bytes(4) + b"\0\x10" + bytes(16)
    mask = mask_of(form)
    mask[:2] = 0
    mask[2], mask[3] = 0xFA, 0x0F  # a response, not truncated, to a query; its code
    mask[8:12] = 0  # records after the answer
    mask[QUESTION_END + 6 : QUESTION_END + 10] = 0  # time to live
    pattern = bytearray(form)
    pattern[2:4], pattern[6:8] = b"\x80\0", b"\0\1"
    return np.frombuffer(bytes(pattern), np.uint8), mask


_FORM, _MASK = _form()
_END = len(_FORM)


@dataclass(frozen=True)
class Judged:
    """Verdicts on a batch of answers.

    Attributes:
        valid: the rows that are right.
        reasons: of the other rows.
    """

    valid: NDArray[np.bool_]
    reasons: dict[int, str]


def judge(messages: U8, addresses: NDArray[np.uint32], expected: U8) -> Judged:
    """Judge equally long answers to questions that were asked.

    Args:
        messages: ``(n, octets)``, each long enough for a header.
        addresses: of the names that were asked.
        expected: ``(n, 16)``, the AAAA record each must hold (RFC 6147, section 5.1).
    """
    right: NDArray[np.bool_] = np.zeros(len(messages), bool)
    if messages.shape[1] >= _END:
        form = np.empty((len(messages), _END), np.uint8)
        form[:] = _FORM
        form[:, LABEL_AT : SUFFIX_AT + 1] = labels_of(addresses)
        form[:, -16:] = expected
        right = np.logical_not(((messages[:, :_END] ^ form) & _MASK).any(axis=1))
    reasons: dict[int, str] = {}
    for row in np.nonzero(~right)[0]:  # few: another form of a right answer, or none
        verdict = _single(messages[row].tobytes(), int(addresses[row]), expected[row].tobytes())
        if verdict == VALID:
            right[row] = True
        else:
            reasons[int(row)] = verdict
    return Judged(right, reasons)


def _single(message: bytes, address: int, expected: bytes) -> str:
    """Judge one answer, in any form a server may give it."""
    if not message[2] & 0x80 or message[2] & 0x78:
        return MALFORMED
    if message[2] & 0x02:
        return TRUNCATED
    question = _question(message)
    if question is None:
        return _code(message) or MALFORMED
    name, at = question
    label = "-".join(f"{octet:03}" for octet in address.to_bytes(4, "big"))
    wanted = tuple(part.encode() for part in (label, *SUFFIX.split(".")))
    if name != wanted or message[at - 4 : at] != b"\0\x1c\0\1":
        return OTHER_QUESTION
    code = _code(message)
    if code:
        return code
    try:
        records = _records(message, at, name)
    except (IndexError, ValueError):
        return MALFORMED
    if not records:
        return EMPTY
    return VALID if records == {expected} else WRONG


def _code(message: bytes) -> str:
    number = message[3] & 0x0F
    return RCODES.get(number, f"RCODE {number}") if number else ""


def _question(message: bytes) -> tuple[tuple[bytes, ...], int] | None:
    """Return the name asked for in lower case, and the octet after the question."""
    if message[4:6] != b"\0\1":
        return None
    try:
        name, at = read_name(message, HEADER)
    except (IndexError, ValueError):
        return None
    return (name, at + 4) if at + 4 <= len(message) else None


def _records(message: bytes, at: int, name: tuple[bytes, ...]) -> set[bytes]:
    """Return the AAAA records of a name in the answer section, aliases followed in order."""
    records = set()
    for _ in range(int.from_bytes(message[6:8], "big")):
        owner, at = read_name(message, at)
        kind, size = (int.from_bytes(message[at + n : at + n + 2], "big") for n in (0, 8))
        kind *= message[at + 2 : at + 4] == _IN
        begin = at + 10
        at = begin + size
        if at > len(message):
            raise ValueError("a record ends behind the message")
        if owner == name and kind == AAAA:
            records.add(message[begin:at])
        elif owner == name and kind == _CNAME:
            name, _ = read_name(message, begin)
    return records
