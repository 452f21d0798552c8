"""Batches of DNS questions, the authoritative server's answers, and verdicts on what the client receives."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from v6t.packets.arrays import U8, U32, Mask, sort_unique
from v6t.packets.headers import to_octets
from v6t.profiles.dns.zone import (
    LABEL_OCTETS,
    NAME_OCTETS,
    SUFFIX,
    SUFFIX_WIRE,
    Zone,
    decode_labels,
    encode_labels,
    encode_name,
    read_name,
)

A, CNAME, SOA, AAAA = 1, 5, 6, 28
HEADER = 12  # octets
LABEL_OFFSET = HEADER + 1
SUFFIX_OFFSET = LABEL_OFFSET + LABEL_OCTETS
QUESTION_END = HEADER + NAME_OCTETS + 4  # header, name, type and class
CLASS_IN = b"\0\1"
_NAME_POINTER = b"\xc0\x0c"  # to the name in the question
_ZONE_POINTER = (0xC000 | SUFFIX_OFFSET).to_bytes(2, "big")
_OPT = b"\0\0\x29\x04\xd0\0\0\0\0\0\0"
"""An OPT record of 1232 octets without options (RFC 6891, section 6.1.2)."""
_REFUSED, _RESPONSE, _AUTHORITATIVE = 5, 0x80, 0x04
_SUFFIX = np.frombuffer(SUFFIX_WIRE, np.uint8)
_SUFFIX_LABELS, _ = read_name(SUFFIX_WIRE, 0)


def build_question() -> bytes:
    """Return a question for the AAAA record of a name to be filled in, with recursion desired."""
    name = bytes((LABEL_OCTETS,)) + bytes(LABEL_OCTETS) + SUFFIX_WIRE
    return b"\0\0\1\0\0\1\0\0\0\0\0\0" + name + AAAA.to_bytes(2, "big") + CLASS_IN


def write_questions(messages: U8, identifiers: NDArray[np.integer], addresses: U32) -> None:
    """Write identifiers and names into messages made by :func:`build_question`."""
    messages[:, :2] = to_octets(identifiers, 2)
    messages[:, LABEL_OFFSET : SUFFIX_OFFSET + 1] = encode_labels(addresses)


def make_case_mask(message: bytes) -> U8:
    """Return a mask of the bits to compare, as resolvers may change the case of the zone's letters."""
    mask = np.full(len(message), 0xFF, np.uint8)
    mask[SUFFIX_OFFSET : SUFFIX_OFFSET + len(SUFFIX_WIRE)][ord("a") <= _SUFFIX] = 0xDF
    return mask


_QUERY = np.frombuffer(build_question(), np.uint8)
_QUERY_MASK = make_case_mask(build_question())  # the bits that identify such a question
_QUERY_MASK[:4] = 0, 0, 0xF8, 0
_QUERY_MASK[6:12] = 0
_QUERY_MASK[LABEL_OFFSET:SUFFIX_OFFSET] = 0
_QUERY_MASK[QUESTION_END - 3] = 0


@dataclass
class QuestionCounts:
    """Numbers of questions from the device; ``repeated`` ones are for records in its cache."""

    aaaa: int = 0
    a: int = 0
    repeated: int = 0
    other: int = 0


@dataclass
class Authority:
    """Authoritative server of a zone; its counters are its only state.

    ``native_share`` of the names have their own AAAA record; the first ``cached`` are cached.
    """

    zone: Zone
    native_share: float = 0.0
    cached: int = 0  # names
    counts: QuestionCounts = field(default_factory=QuestionCounts)

    def answer(self, messages: U8) -> list[tuple[NDArray[np.int64], U8]]:
        """Return pairs of row numbers and equally long answers to equally long messages."""
        answers: list[tuple[NDArray[np.int64], U8]] = []
        ours: Mask = np.zeros(len(messages), bool)
        if messages.shape[1] >= QUESTION_END:
            ours = np.logical_not(((messages[:, :QUESTION_END] ^ _QUERY) & _QUERY_MASK).any(axis=1))
            addresses, spelled = decode_labels(messages[:, LABEL_OFFSET : SUFFIX_OFFSET + 1])
            ours &= spelled
            kind = messages[:, QUESTION_END - 3]
            aaaa = ours & (kind == AAAA)
            early = addresses[aaaa].astype(np.int64) - self.zone.first < self.cached
            self.counts.aaaa += int(np.count_nonzero(aaaa))
            self.counts.a += int(np.count_nonzero(ours & (kind == A)))
            self.counts.repeated += int(np.count_nonzero(early))
            is_native = (kind == AAAA) & self.zone.has_native_record(addresses, self.native_share)
            record = np.where(is_native, AAAA, np.where(kind == A, A, 0))
            has_opt = messages[:, 11] > 0  # the question has an OPT record
            for form in sort_unique((record * 2 + has_opt)[ours]):
                rows = np.nonzero(ours & (record * 2 + has_opt == form))[0]
                alike = messages[rows], addresses[rows]
                answers.append((rows, self._answer_batch(*alike, *divmod(int(form), 2))))
        for row in np.nonzero(~ours)[0]:
            if reply := self._answer_single(messages[row].tobytes()):
                self.counts.other += 1
                answers.append((np.array([row]), np.frombuffer(reply, np.uint8)[None, :]))
        return answers

    def _answer_batch(self, questions: U8, addresses: U32, record: int, has_opt: int) -> U8:
        """Answer questions that all get the same kind of record and all have, or lack, an OPT record."""
        rest, data = self._build_negative_soa(_ZONE_POINTER), None
        if record:
            data = (
                to_octets(addresses, 4) if record == A else self.zone.list_native_records(addresses)
            )
            size = data.shape[1]
            head = _NAME_POINTER + record.to_bytes(2, "big") + CLASS_IN
            rest = head + self.zone.ttl_s.to_bytes(4, "big") + size.to_bytes(2, "big") + bytes(size)
        rest += _OPT * has_opt
        answers = np.empty((len(questions), QUESTION_END + len(rest)), np.uint8)
        answers[:, :QUESTION_END] = questions[:, :QUESTION_END]
        answers[:, QUESTION_END:] = np.frombuffer(rest, np.uint8)
        answers[:, 2] = answers[:, 2] & 1 | _RESPONSE | _AUTHORITATIVE
        answers[:, 3] = 0
        answers[:, 6:12] = (0, int(record > 0), 0, int(not record), 0, has_opt)
        if data is not None:
            begin = QUESTION_END + 12
            answers[:, begin : begin + data.shape[1]] = data
        return answers

    def _build_negative_soa(self, owner: bytes) -> bytes:
        """Return the SOA record that limits negative caching (RFC 2308, section 5)."""
        ttl = self.zone.ttl_s.to_bytes(4, "big")
        data = encode_name("ns.invalid") + encode_name("hostmaster.invalid")
        data += (1).to_bytes(4, "big") + ttl * 4
        return owner + SOA.to_bytes(2, "big") + CLASS_IN + ttl + len(data).to_bytes(2, "big") + data

    def _answer_single(self, message: bytes) -> bytes | None:
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
        has_opt = message[10:12] != b"\0\0"
        code = 0 if inside else _REFUSED
        flags = bytes((message[2] & 1 | _RESPONSE | (_AUTHORITATIVE if inside else 0), code))
        counts = bytes((0, 1, 0, 0, 0, int(inside), 0, int(has_opt)))
        rest = self._build_negative_soa(SUFFIX_WIRE) if inside else b""
        return message[:2] + flags + counts + message[HEADER:end] + rest + _OPT * has_opt


VALID = "valid"  # verdict on an answer
LATE, MISSING, REPEATED, STRAY = "late", "no answer", "repeated", "to no question of the trial"
MALFORMED, OTHER_QUESTION, EMPTY = "malformed", "another question", "no AAAA record"
WRONG, TRUNCATED = "wrong AAAA record", "truncated"
WRONG_ANSWERS = (WRONG, OTHER_QUESTION)
"""Verdicts on answers that no device may give; they end the run instead of counting as loss."""
RCODES = {1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}
"""RFC 1035, section 4.1.1."""

_TEMPLATE = bytearray(build_question() + b"\xc0\x0c\0\x1c\0\1" + bytes(4) + b"\0\x10" + bytes(16))
"""The usual form of an answer."""
_TEMPLATE[2:4], _TEMPLATE[6:8] = b"\x80\0", b"\0\1"
_ANSWER, _ANSWER_END = np.frombuffer(bytes(_TEMPLATE), np.uint8), len(_TEMPLATE)
_ANSWER_MASK = make_case_mask(bytes(_TEMPLATE))  # the bits of a correct answer
_ANSWER_MASK[:4] = 0, 0, 0xFA, 0x0F  # a response, not truncated, to a query; its code
_ANSWER_MASK[8:12] = 0  # records after the answer
_ANSWER_MASK[QUESTION_END + 6 : QUESTION_END + 10] = 0  # time to live


@dataclass(frozen=True)
class AnswerVerdicts:
    """Verdicts on a batch of answers: the valid rows, and the reasons for the other rows."""

    valid: Mask
    reasons: dict[int, str]


def judge_answers(messages: U8, addresses: U32, expected: U8) -> AnswerVerdicts:
    """Judge equally long answers ``(n, octets)`` by the AAAA records that they must hold (RFC 6147)."""
    right: Mask = np.zeros(len(messages), bool)
    if messages.shape[1] >= _ANSWER_END:
        form = np.empty((len(messages), _ANSWER_END), np.uint8)
        form[:] = _ANSWER
        form[:, LABEL_OFFSET : SUFFIX_OFFSET + 1] = encode_labels(addresses)
        form[:, -16:] = expected
        right = np.logical_not(((messages[:, :_ANSWER_END] ^ form) & _ANSWER_MASK).any(axis=1))
    reasons: dict[int, str] = {}
    for row in np.nonzero(~right)[0]:  # few: a correct answer in another form, or a wrong one
        try:
            message, record = messages[row].tobytes(), expected[row].tobytes()
            verdict = _judge_single(message, int(addresses[row]), record)
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
    expected_name = tuple(part.encode() for part in (label, *SUFFIX.split(".")))
    if name != expected_name or message[at - 4 : at] != AAAA.to_bytes(2, "big") + CLASS_IN:
        return OTHER_QUESTION
    if code:
        return code
    records = _read_records(message, at, name)
    if not records:
        return EMPTY
    return VALID if records == {expected} else WRONG


def _read_records(message: bytes, offset: int, name: tuple[bytes, ...]) -> set[bytes]:
    """Return the AAAA records of a name in the answer section, following aliases in order."""
    records = set()
    for _ in range(int.from_bytes(message[6:8], "big")):
        owner, offset = read_name(message, offset)
        kind, size = (int.from_bytes(message[offset + n : offset + n + 2], "big") for n in (0, 8))
        kind *= message[offset + 2 : offset + 4] == CLASS_IN
        begin = offset + 10
        offset = begin + size
        if offset > len(message):
            raise ValueError("a record extends beyond the message")
        if owner == name and kind == AAAA:
            records.add(message[begin:offset])
        elif owner == name and kind == CNAME:
            name, _ = read_name(message, begin)
    return records
