"""DNS questions, answers and verdicts on answers, compared with dnspython."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import numpy as np
import pytest
from v6t.plugins import translation
from v6t.plugins.dns64 import Dns64, Dns64Params
from v6t.profiles.dns import messages
from v6t.profiles.dns.envelope import DnsLayout
from v6t.profiles.dns.messages import Authority, build_question, write_questions
from v6t.profiles.dns.zone import SUFFIX, decode_labels, encode_labels
from v6t.tests.packets.oracle import verify

COUNT = 100
ZONE = Dns64(Dns64Params()).zone
ADDRESSES = ZONE.list_addresses(np.arange(0, 1 << 30, (1 << 30) // COUNT)[:COUNT])


def make_name(address):
    return "-".join(f"{octet:03d}" for octet in int(address).to_bytes(4, "big")) + f".{SUFFIX}."


def test_dnspython_parses_questions():
    rows = np.tile(np.frombuffer(build_question(), np.uint8), (COUNT, 1))
    write_questions(rows, np.arange(COUNT) * 211, ADDRESSES)
    for row, (octets, address) in enumerate(zip(rows, ADDRESSES, strict=True)):
        read = dns.message.from_wire(octets.tobytes())
        (requested,) = read.question
        assert (read.id, str(requested.name)) == (row * 211 & 0xFFFF, make_name(address))
        assert requested.rdtype == dns.rdatatype.AAAA
        assert read.flags == dns.flags.RD and read.to_wire() == octets.tobytes()


def test_labels_are_decoded_and_others_rejected():
    addresses, valid = decode_labels(encode_labels(ADDRESSES))
    assert valid.all()
    assert (addresses == ADDRESSES).all()
    wrong = ("256-000-000-001", "12a-000-000-001", "001-002-003.004", " 01-002-003-004")
    assert not decode_labels(np.array([[*w.encode(), 9] for w in wrong], np.uint8))[1].any()


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("edns", [False, True])
@pytest.mark.parametrize("kind", ["A", "AAAA", "HTTPS"])
def test_authority_answers_from_its_zone(kind, edns, share):
    requested = [
        dns.message.make_query(make_name(a), kind, use_edns=0 if edns else -1, id=n)
        for n, a in enumerate(ADDRESSES)
    ]
    rows = np.array([list(m.to_wire()) for m in requested], np.uint8)
    authority, answered = Authority(ZONE, native_share=share), 0
    for chosen, answers in authority.answer(rows):
        for row, octets in zip(chosen, answers, strict=True):
            answered += 1
            read = dns.message.from_wire(octets.tobytes())
            assert requested[row].is_response(read)
            assert read.rcode() == dns.rcode.NOERROR
            assert read.flags & dns.flags.AA
            assert (read.edns >= 0) == edns
            address, expected = ADDRESSES[row : row + 1], ""
            if kind == "A":
                expected = str(IPv4Address(int(address[0])))
            elif kind == "AAAA" and ZONE.has_native_record(address, share)[0]:
                expected = str(IPv6Address(ZONE.list_native_records(address).tobytes()))
            matching = [str(r) for rrset in read.answer for r in rrset]
            assert matching == ([expected] if expected else [])
            if not expected:  # a resolver may cache that the record does not exist (RFC 2308)
                (soa,) = read.authority
                assert soa.rdtype == dns.rdatatype.SOA
    assert answered == COUNT
    counted = {"A": authority.counts.a, "AAAA": authority.counts.aaaa}
    assert counted == {k: COUNT * (k == kind) for k in counted}


@pytest.mark.parametrize("kind", ["SOA", "NS", "DS"])
@pytest.mark.parametrize("name", [f"{SUFFIX}.", f"other.{SUFFIX}.", "elsewhere.example."])
def test_authority_refuses_only_names_outside_its_zone(name, kind):
    requested, authority = dns.message.make_query(name, kind, use_edns=0), Authority(ZONE)
    ((_, answers),) = authority.answer(np.frombuffer(requested.to_wire(), np.uint8)[None, :])
    read = dns.message.from_wire(answers[0].tobytes())
    assert requested.is_response(read)
    inside = name.endswith(f"{SUFFIX}.")
    assert read.rcode() == (dns.rcode.NOERROR if inside else dns.rcode.REFUSED)
    assert authority.counts.other == 1


@pytest.mark.parametrize(
    "octets", [b"", b"\0" * 12, b"\xff" * 60, bytes(range(64)), build_question()[:-3]]
)
def test_message_that_is_not_a_question_is_not_answered(octets):
    assert Authority(ZONE).answer(np.frombuffer(octets.ljust(12, b"\0"), np.uint8)[None, :]) == []


@pytest.mark.parametrize("length", translation.PREFIX_LENGTHS)
def test_expected_records_follow_rfc6052(length):
    prefix = IPv6Network(f"2001:db8::/{length}")
    zone = Dns64(Dns64Params(prefix=str(prefix))).zone
    for address, record in zip(ADDRESSES, zone.list_expected_records(ADDRESSES, 0.0), strict=True):
        embedded = translation.embed_ipv4(prefix, IPv4Address(int(address)))
        assert IPv6Address(record.tobytes()) == embedded


def judge(message, share=0.0):
    octets = message if isinstance(message, bytes) else message.to_wire()
    rows = np.frombuffer(octets, np.uint8)[None, :]
    expected = ZONE.list_expected_records(ADDRESSES[:1], share)
    return messages.judge_answers(rows, ADDRESSES[:1], expected).reasons.get(0, messages.VALID)


def make_response(*records, code=0, kind="AAAA", name="", flags=0):
    requested = dns.message.make_query(name or make_name(ADDRESSES[0]), kind)
    message = dns.message.make_response(requested)
    message.set_rcode(code)
    message.flags |= flags
    message.answer = [dns.rrset.from_text(*r.split(maxsplit=4)) for r in records]
    return message


AAAA = str(IPv6Address(ZONE.list_expected_records(ADDRESSES[:1], 0.0).tobytes()))
NAME = make_name(ADDRESSES[0])
RECORD = f"{NAME} 60 IN AAAA {AAAA}"
ANSWERS = [
    (make_response(RECORD), messages.VALID),
    (make_response(f"{NAME} 60 IN CNAME x.test.", f"x.test. 60 IN AAAA {AAAA}"), messages.VALID),
    (make_response(f"{NAME.upper()} 60 IN AAAA {AAAA}"), messages.VALID),
    (make_response(f"x.test. 60 IN AAAA {AAAA}"), messages.EMPTY),
    (make_response(f"{NAME} 60 IN AAAA 2001:db8:64::1"), messages.WRONG),
    (make_response(RECORD, f"{NAME} 60 IN AAAA 2001:db8::1"), messages.WRONG),
    (make_response(), messages.EMPTY),
    (make_response(RECORD, flags=dns.flags.TC), messages.TRUNCATED),
    (make_response(code=2), "SERVFAIL"),
    (make_response(code=3), "NXDOMAIN"),
    (make_response(code=9), "RCODE 9"),
    (make_response(f"{NAME} 60 IN A 1.2.3.4", kind="A"), messages.OTHER_QUESTION),
    (make_response(name=make_name(ADDRESSES[1])), messages.OTHER_QUESTION),
    (dns.message.make_query(NAME, "AAAA"), messages.MALFORMED),
    (b"\0\0\x80\0" + bytes(8), messages.MALFORMED),
    (make_response(RECORD).to_wire()[:-9], messages.MALFORMED),
]


@pytest.mark.parametrize(("message", "reason"), ANSWERS, ids=map(str, range(len(ANSWERS))))
def test_dns_answer_is_judged(message, reason):
    assert judge(message) == reason


def test_name_with_a_native_record_must_be_answered_with_it():
    native = IPv6Address(ZONE.list_native_records(ADDRESSES[:1]).tobytes())
    assert judge(make_response(f"{NAME} 60 IN AAAA {native}"), share=1.0) == messages.VALID
    assert judge(make_response(RECORD), share=1.0) == messages.WRONG


def test_answer_with_random_change_of_its_record_is_not_valid():
    valid = np.frombuffer(make_response(RECORD).to_wire(), np.uint8)
    rng = np.random.default_rng(1)
    for _ in range(300):
        damaged, place = valid.copy(), int(rng.integers(2, len(valid)))
        if 8 <= place < 12:  # counts of later sections, which are not read
            continue
        damaged[place] ^= rng.integers(1, 256)
        # an answer remains valid only if its record and code are unchanged
        if judge(damaged.tobytes()) == messages.VALID:
            read = dns.message.from_wire(damaged.tobytes(), ignore_trailing=True)
            assert [str(r) for rrset in read.answer for r in rrset] == [AAAA]
            assert read.rcode() == 0


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("vlan", [None, 7])
def test_dns_frames_and_replies_have_valid_headers(version, vlan):
    zone = Dns64(Dns64Params(upstream="ipv6" if version == 6 else "ipv4")).zone
    layout = DnsLayout(version, vlan)
    head = layout.build_header(("02:00:00:00:00:01", "02:00:00:00:00:02"), zone.egress, zone.server)
    frames = np.tile(np.frombuffer(head + build_question(), np.uint8), (COUNT, 1))
    write_questions(frames[:, layout.dns_offset :], np.arange(COUNT), ADDRESSES)
    frames[:, layout.udp_offset + 1], frames[:, layout.udp_offset + 3] = 9, 53
    layout.write_lengths(frames)
    assert layout.select_frames(frames).all()
    assert verify(frames).all()
    for rows, answers in Authority(zone).answer(frames[:, layout.dns_offset :]):
        back = layout.make_replies(frames[rows], answers.shape[1])
        back[:, layout.dns_offset :] = answers
        layout.write_lengths(back)
        assert layout.select_frames(back).all()
        assert verify(back).all()
        assert back[0, :6].tobytes() == bytes.fromhex("020000000001")
