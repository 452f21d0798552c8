"""Batches of questions for AAAA records, and authoritative answers to a device's questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets.unique import sort_unique
from v6t.profiles.dns.zone import (
    LABEL,
    NAME_OCTETS,
    SUFFIX_WIRE,
    Zone,
    labels_of,
    octets,
    read_labels,
    read_name,
    wire_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from v6t.packets.arrays import U8

A, NS, SOA, AAAA, OPT = 1, 2, 6, 28, 41
HEADER = 12
LABEL_AT = HEADER + 1
SUFFIX_AT = LABEL_AT + LABEL
QUESTION_END = HEADER + NAME_OCTETS + 4
"""Octets of a question: header, name, type and class."""
_IN = b"\0\1"
_POINTER = b"\xc0\x0c"
_ZONE_POINTER = (0xC000 | SUFFIX_AT).to_bytes(2, "big")
_EDNS = b"\0\0\x29\x04\xd0\0\0\0\0\0\0"
"""An OPT record of 1232 octets without options (RFC 6891, section 6.1.2)."""
_REFUSED, _RESPONSE, _AUTHORITATIVE = 5, 0x80, 0x04
_LOWER = 0x20
_SUFFIX = np.frombuffer(SUFFIX_WIRE, np.uint8)
_SUFFIX_LABELS, _ = read_name(SUFFIX_WIRE, 0)
_LETTERS = np.where(ord("a") <= _SUFFIX, _LOWER, 0).astype(np.uint8)
"""Bits in which an upper case letter differs: some resolvers vary them."""


def question() -> bytes:
    """Return a question for the AAAA record of a name of zeros, recursion desired."""
    name = bytes((LABEL,)) + bytes(LABEL) + SUFFIX_WIRE
    return b"\0\0\1\0\0\1\0\0\0\0\0\0" + name + AAAA.to_bytes(2, "big") + _IN


def write_questions(
    messages: U8, identifiers: NDArray[np.integer], addresses: NDArray[np.uint32]
) -> None:
    """Write identifiers and names into messages that begin as :func:`question`."""
    messages[:, 0] = identifiers >> 8 & 0xFF
    messages[:, 1] = identifiers & 0xFF
    messages[:, LABEL_AT : SUFFIX_AT + 1] = labels_of(addresses)


def mask_of(message: bytes) -> U8:
    """Return the bits of a message to compare: resolvers may vary the case of the zone's letters."""
    mask = np.full(len(message), 0xFF, np.uint8)
    mask[SUFFIX_AT : SUFFIX_AT + len(SUFFIX_WIRE)] -= _LETTERS
    return mask


def _form() -> tuple[U8, U8]:
    """Return a question for one of the names, and the bits that identify it."""
    form = question()
    mask = mask_of(form)
    mask[:2], mask[2], mask[3] = 0, 0xF8, 0
    mask[6:12] = 0
    mask[LABEL_AT:SUFFIX_AT] = 0
    mask[QUESTION_END - 3] = 0
    return np.frombuffer(form, np.uint8), mask


_FORM, _FORM_MASK = _form()
_RECORDS: tuple[Callable[[Zone, NDArray[np.uint32]], U8 | None], ...] = (
    lambda zone, addresses: None,
    lambda zone, addresses: octets(addresses),
    lambda zone, addresses: zone.own_records(addresses),
)
"""No record, the A record, the name's own AAAA record."""


@dataclass
class Asked:
    """Numbers of the questions that a device asked the authoritative server.

    Attributes:
        aaaa, a: for a name's records.
        repeated: for AAAA records of names that were in its cache.
        other: all others.
    """

    aaaa: int = 0
    a: int = 0
    repeated: int = 0
    other: int = 0


@dataclass
class Authority:
    """Authoritative server of a zone; its counters are its only state.

    Attributes:
        zone: its names and records.
        own_share: share of the names with their own AAAA record.
        cached: number of first names that were asked before.
    """

    zone: Zone
    own_share: float = 0.0
    cached: int = 0
    asked: Asked = field(default_factory=Asked)

    def answer(self, messages: U8) -> list[tuple[NDArray[np.int64], U8]]:
        """Return pairs of row numbers and equally long answers to equally long messages."""
        answers: list[tuple[NDArray[np.int64], U8]] = []
        ours: NDArray[np.bool_] = np.zeros(len(messages), bool)
        if messages.shape[1] >= QUESTION_END:
            ours = np.logical_not(((messages[:, :QUESTION_END] ^ _FORM) & _FORM_MASK).any(axis=1))
            addresses, spelled = read_labels(messages[:, LABEL_AT : SUFFIX_AT + 1])
            ours &= spelled
            kind = messages[:, QUESTION_END - 3]
            self._count(addresses, kind * ours)
            aaaa = (kind == AAAA) & self.with_own(addresses)
            # by what is answered, and whether the question has an OPT record
            form = np.where(aaaa, 2, np.where(kind == A, 1, 0)) * 2 + (messages[:, 11] > 0)
            for number in sort_unique(form[ours]):
                chosen = np.nonzero(ours & (form == number))[0]
                record = _RECORDS[number // 2](self.zone, addresses[chosen])
                extended = bool(number % 2)
                answers.append((chosen, self._alike(messages[chosen], record, extended=extended)))
        for row in np.nonzero(~ours)[0]:
            reply = self._elsewhere(messages[row].tobytes())
            if reply:
                self.asked.other += 1
                answers.append((np.array([row]), np.frombuffer(reply, np.uint8)[None, :]))
        return answers

    def with_own(self, addresses: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Mark the names that have their own AAAA record."""
        return self.zone.with_own(addresses, self.own_share)

    def _count(self, addresses: NDArray[np.uint32], kinds: NDArray[np.uint8]) -> None:
        aaaa = kinds == AAAA
        self.asked.aaaa += int(np.count_nonzero(aaaa))
        self.asked.a += int(np.count_nonzero(kinds == A))
        early = addresses[aaaa].astype(np.int64) - self.zone.first < self.cached
        self.asked.repeated += int(np.count_nonzero(early))

    def _alike(self, questions: U8, data: U8 | None, *, extended: bool) -> U8:
        """Return answers that differ in identifier, question and data only."""
        rest = self._negative() if data is None else self._record(data.shape[1])
        rest += _EDNS if extended else b""
        answers = np.empty((len(questions), QUESTION_END + len(rest)), np.uint8)
        answers[:, :QUESTION_END] = questions[:, :QUESTION_END]
        answers[:, QUESTION_END:] = np.frombuffer(rest, np.uint8)
        answers[:, 2] = answers[:, 2] & 1 | _RESPONSE | _AUTHORITATIVE
        answers[:, 3] = 0
        has_data = data is not None
        answers[:, 6:12] = (0, int(has_data), 0, int(not has_data), 0, int(extended))
        if data is not None:
            begin = QUESTION_END + 12
            answers[:, begin : begin + data.shape[1]] = data
        return answers

    def _record(self, size: int) -> bytes:
        head = _POINTER + (A if size == 4 else AAAA).to_bytes(2, "big") + _IN
        return head + self.zone.ttl_s.to_bytes(4, "big") + size.to_bytes(2, "big") + bytes(size)

    def _negative(self, owner: bytes = _ZONE_POINTER) -> bytes:
        """Return the SOA record that limits negative caching (RFC 2308, section 5)."""
        ttl = self.zone.ttl_s.to_bytes(4, "big")
        data = wire_name("ns.invalid") + wire_name("hostmaster.invalid")
        data += (1).to_bytes(4, "big") + ttl * 4
        head = owner + SOA.to_bytes(2, "big") + _IN + ttl
        return head + len(data).to_bytes(2, "big") + data

    def _elsewhere(self, message: bytes) -> bytes | None:
        """Answer "no such record" within the zone and "refused" elsewhere (RFC 1035, section 4.1.1)."""
        if message[2] & 0xF8 or message[4:6] != b"\0\1":
            return None
        try:
            labels, end = read_name(message, HEADER)
        except (IndexError, ValueError):
            return None
        end += 4
        if end > len(message):
            return None
        inside = labels[-len(_SUFFIX_LABELS) :] == _SUFFIX_LABELS
        extended = message[10:12] != b"\0\0"
        code = 0 if inside else _REFUSED
        flags = bytes((message[2] & 1 | _RESPONSE | (_AUTHORITATIVE if inside else 0), code))
        counts = bytes((0, 1, 0, 0, 0, int(inside), 0, int(extended)))
        rest = self._negative(SUFFIX_WIRE) if inside else b""
        return message[:2] + flags + counts + message[HEADER:end] + rest + _EDNS * extended
