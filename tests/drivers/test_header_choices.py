"""Comparisons accept exactly the header values that RFCs allow, for each technology.

The tests modify reference frames octet by octet; the tables are those of the RFCs.
"""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from v6t.core.config.plugins import load_technology_type
from v6t.drivers.duts.header_profile import ChainOracle, HeaderProfile, ProfiledOracle
from v6t.drivers.oracle.compare import compare_samples
from v6t.drivers.oracle.connection_oracle import ConnectionOracle
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.direction import DIRECTIONS
from v6t.packets.header_policy import Change, HeaderPolicy, classify_change, tolerate
from v6t.packets.walker import locate_headers
from v6t.plugins.ipv4aas import Ipv4aas, Ipv4aasParams
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.model import Role
from v6t.tests.example_6rd.v6t_sixrd import SixrdBorderRelay
from v6t.tests.packets.oracle import verify

from .lab_testers import make_stamped_frames

pytestmark = pytest.mark.slow

# TOS or traffic class octets: Not-ECT, ECT(1), ECT(0) and CE without a DSCP, and EF with some of them.
OCTETS = (0, 1, 2, 3, 0xB8, 0xB9, 0xBB)
EITHER_DF = {"df": "set", "dont_fragment": "either"}
# One technology of each policy and kind of change; see test_other_technologies_have_the_same_policy.
TUNNELS = ("mape-br", "dslite-aftr")
TRANSLATORS = ("siit", "nat46")
OTHERS = ("ipv4-router", "ipv6-router", "nat44")
VARIANTS = ("464xlat", "map-t", "ds-lite", "lw4o6", "map-e")


def make_plugin(name):
    if name in VARIANTS:
        return Ipv4aas(Ipv4aasParams(variant=name))
    return SixrdBorderRelay() if name == "sixrd-br" else load_technology_type(name)()


def test_other_technologies_have_the_same_policy():
    translators = ("mapt-br", "mapt-ce", "clat", "nat64", "nat66", "nptv6")
    tunnels = ("mape-ce", "ds-lite", "lw4o6", "map-e")
    policies = {make_plugin(name).header_policy for name in (*translators, *tunnels)}
    assert policies == {make_plugin("mape-br").header_policy}
    assert make_plugin("map-t").header_policy == make_plugin("464xlat").header_policy
    softwire = replace(make_plugin("mape-br").header_policy, outer_dscp="copied")
    assert {make_plugin(name).header_policy for name in ("lwaftr", "lwb4")} == {softwire}


@cache
def compile_plugin(name, direction):
    plugin = make_plugin(name)
    sizes = plugin.make_frame_pair(plugin.default_frame_sizes[0])
    return compile_traffic(plugin.build_traffic(direction, sizes))


@cache
def make_oracle(name):
    """Return the reference translation; if stateful, all frames belong to the first connection."""
    plugin = make_plugin(name)
    if not plugin.stateful:
        return plugin
    pool = plugin.params.public_pool
    oracle = ConnectionOracle(plugin, *(compile_plugin(name, d) for d in DIRECTIONS))
    endpoint = pool.first.packed.ljust(8 if plugin.responder_version == 4 else 32, b"\0")
    row = endpoint + pool.ports.min.to_bytes(2, "big") + bytes(2)
    oracle._table = SimpleNamespace(rows=np.frombuffer(row, np.uint8)[None])
    oracle.locate = lambda frames: np.zeros(len(frames), np.int64)
    return oracle


def make_profiled_oracle(name, profile):
    return ProfiledOracle(make_oracle(name), HeaderProfile(**profile))


class Header:
    """IP header of a frame that can be modified; IPv4 header checksums stay valid."""

    def __init__(self, frame, at=14, version=None):
        self.frame, self.at = frame, at
        self.version = frame[at] >> 4 if version is None else version

    @property
    def inner(self):
        return Header(self.frame, self.at + (40 if self.version == 6 else 20))

    @property
    def octet(self):
        """Return the TOS octet or traffic class."""
        first, second = (int(value) for value in self.frame[self.at : self.at + 2])
        return second if self.version == 4 else (first & 15) << 4 | second >> 4

    @octet.setter
    def octet(self, value):
        if self.version == 4:
            self.write(1, value)
        else:
            self.write(0, 0x60 | value >> 4, (value & 15) << 4 | self.frame[self.at + 1] & 15)

    @property
    def hops(self):
        return int(self.frame[self.at + (8 if self.version == 4 else 7)])

    @hops.setter
    def hops(self, value):
        self.write(8 if self.version == 4 else 7, value)

    def write(self, first, *octets):
        self.frame[self.at + first : self.at + first + len(octets)] = octets
        self.fix_checksum()

    def fix_checksum(self):
        if self.version == 4:
            write_ipv4_checksum(self.frame[None, :], self.at)


def make_stream(name, direction, octet, inner=None):
    """Return the foreground stream with these TOS or traffic class octets."""
    stream = next(s for s in compile_plugin(name, direction).streams if s.role is Role.FOREGROUND)
    packet = np.frombuffer(stream.packet, np.uint8).copy()
    header = Header(packet)
    header.octet = octet
    if inner is not None:
        header.inner.octet = inner
    return stream.with_packet(packet.tobytes())


def translate(oracle, direction, sent):
    """Return the reference frames, which are empty if the frames are dropped."""
    expected = oracle.expect(direction, sent)
    return expected.frames[:, : expected.length[0]].copy()


def compare_changed(name, direction, octet, inner, change, oracle=None):
    """Change the reference frames and compare them; return None if they are dropped."""
    oracle = oracle or make_oracle(name)
    stream = make_stream(name, direction, octet, inner)
    received = translate(oracle, direction, make_stamped_frames(stream, range(3)))
    if not received.size:
        return None
    for row in received:
        change(Header(row))
    return compare_samples(stream, [received], 7, direction, oracle)


def is_accepted(*args, **kwargs):
    comparison = compare_changed(*args, **kwargs)
    assert comparison.checked == 3
    assert comparison.matched in (0, 3), "different verdicts"
    assert (comparison.mismatch is None) == (comparison.matched == 3)
    return comparison.matched == 3


def list_accepted_rows(oracle, sent, expected, received):
    tolerated = tolerate(oracle.header_policy, sent, expected, received)
    good = tolerated.allowed & (tolerated.frames == expected).all(axis=1)
    return set(np.flatnonzero(good).tolist())


def list_accepted_octets(name, direction, octet, inner=None):
    stream, oracle = make_stream(name, direction, octet, inner), make_oracle(name)
    sent = make_stamped_frames(stream, range(256))
    expected = translate(oracle, direction, sent)
    received = expected.copy()
    for value, row in enumerate(received):
        Header(row).octet = value
    good = list_accepted_rows(oracle, sent, expected, received)
    compared = compare_samples(stream, [received], 7, direction, oracle)
    assert (compared.checked, compared.matched) == (256, len(good))
    return good


def list_unchecked_octets(name, direction, octet, mask, *, fix):
    """Return the octets whose bits may change; ``fix`` computes new header checksums."""
    oracle, stream = make_oracle(name), make_stream(name, direction, octet)
    octets = translate(oracle, direction, make_stamped_frames(stream, [0])).shape[1]
    sent = make_stamped_frames(stream, range(octets))
    expected = translate(oracle, direction, sent)
    received = expected.copy()
    headers = [Header(expected[0])] if fix else []
    if fix and (name, direction) in ENCAPSULATING:
        headers.append(headers[0].inner)
    checksums = {h.at + at for h in headers if h.version == 4 for at in (10, 11)}
    for at, row in enumerate(received):
        row[at] ^= mask if at not in checksums else 0
        for one in headers:
            Header(row, one.at, one.version).fix_checksum()
    return list_accepted_rows(oracle, sent, expected, received) - checksums


def set_octet(value):
    return lambda header: setattr(header, "octet", value)


def add_hops(more):
    return lambda header: setattr(header, "hops", header.hops + more)


def add_inner_hops(more):
    return lambda header: add_hops(more)(header.inner)


def write_octets(first, *octets):
    return lambda header: header.write(first, *octets)


def flip_bits(at, mask=1):
    """Flip bits without a new checksum."""

    def change(header):
        header.frame[at] ^= mask

    return change


ENCAPSULATING = [(name, "reverse") for name in TUNNELS]
DECAPSULATING = [(name, "forward") for name in TUNNELS]
WITHOUT_TUNNEL = [(n, d) for n in (*TRANSLATORS, *OTHERS, "464xlat") for d in DIRECTIONS]


@pytest.mark.parametrize(("name", "direction"), [*ENCAPSULATING, *WITHOUT_TUNNEL])
def test_traffic_class_is_copied_zero_or_unchanged(name, direction):
    for octet in OCTETS:
        dscp, ecn = octet & 0xFC, octet & 3
        allowed = {octet} if name in OTHERS else {octet, 0}
        if name in TUNNELS:
            allowed = {d | e for d in (dscp, 0) for e in (ecn, 0)}
        if name == "dslite-aftr":  # RFC 6333, section 7.1: the DSCP is copied
            allowed = {dscp | ecn, dscp}
        assert list_accepted_octets(name, direction, octet) == allowed, octet


@pytest.mark.parametrize("value", [1, 63, 64, 255])
@pytest.mark.parametrize(("name", "direction"), ENCAPSULATING)
def test_outer_hop_limit_and_flow_label_may_have_any_value(name, direction, value):
    # the traffic class is 0
    for change in (write_octets(7, value), write_octets(1, 0x0A, 0xBC, value)):
        assert is_accepted(name, direction, 0, None, change)


# RFC 6040, section 4.2, figure 4: inner ECN by inner and outer ECN; None: the frame is dropped.
RFC_6040 = {
    #    outer: Not-ECT, ECT(0), ECT(1), CE
    0b00: (0b00, 0b00, 0b00, None),
    0b10: (0b10, 0b10, 0b01, 0b11),
    0b01: (0b01, 0b01, 0b01, 0b11),
    0b11: (0b11, 0b11, 0b11, 0b11),
}
OUTER = (0b00, 0b10, 0b01, 0b11)


@pytest.mark.parametrize(("name", "direction"), DECAPSULATING)
def test_decapsulated_ecn_follows_rfc_6040_and_dscp_is_inner_or_outer(name, direction):
    dscps = {0x28} if name == "dslite-aftr" else {0xB8, 0x28}
    for inner, row in RFC_6040.items():
        for outer, ecn in zip(OUTER, row, strict=True):
            octets = (0x28 | outer, 0xB8 | inner)
            if ecn is None:
                assert compare_changed(name, direction, *octets, set_octet(0)) is None
            else:
                allowed = {dscp | ecn for dscp in dscps}
                assert list_accepted_octets(name, direction, *octets) == allowed, (inner, outer)


TO_IPV6 = [*(("ipv6-router", d) for d in DIRECTIONS), ("siit", "reverse"), ("nat46", "forward")]
# Offsets of octets in a frame's first header.
FLOW_LABEL, HOP_LIMIT, IDENTIFICATION = {15, 16, 17}, {21}, {18, 19}
UNCHECKED_OCTETS = {
    **dict.fromkeys(ENCAPSULATING, FLOW_LABEL | HOP_LIMIT),
    **{key: set() for key in [*DECAPSULATING, *((n, d) for n in OTHERS for d in DIRECTIONS)]},
    **{("464xlat", direction): IDENTIFICATION for direction in DIRECTIONS},
    **{(n, d): FLOW_LABEL if (n, d) in TO_IPV6 else IDENTIFICATION
       for n in TRANSLATORS for d in DIRECTIONS},
}  # fmt: skip


@pytest.mark.parametrize("octet", [0, 0xB9])
@pytest.mark.parametrize("fixes_checksums", [False, True], ids=["old checksums", "new checksums"])
@pytest.mark.parametrize(("name", "direction"), UNCHECKED_OCTETS)
def test_all_other_octets_must_match(name, direction, fixes_checksums, octet):
    expected = UNCHECKED_OCTETS[name, direction]
    if expected == IDENTIFICATION and not fixes_checksums:
        expected = set()
    for mask in (1, 0x80) if expected == set() else (1,):
        assert list_unchecked_octets(name, direction, octet, mask, fix=fixes_checksums) == expected


TO_IPV4 = [case for case in UNCHECKED_OCTETS if case not in (*ENCAPSULATING, *TO_IPV6)]
# Changes of several bits; test_all_other_octets_must_match inverts single bits.
WRONG = {
    "hop limit not decremented": (TO_IPV4 + TO_IPV6, add_hops(1)),
    "no UDP checksum over IPv4": (TO_IPV4, write_octets(26, 0, 0)),
    "no UDP checksum over IPv6": (TO_IPV6, write_octets(46, 0, 0)),
    "DF inverted": (TO_IPV4, lambda h: h.write(6, h.frame[h.at + 6] ^ 0x40)),
    "outer hop limit 0": (ENCAPSULATING, write_octets(7, 0)),
    "inner TTL not decremented": (ENCAPSULATING, add_inner_hops(1)),
}


@pytest.mark.parametrize("octet", [0, 0xB9])
@pytest.mark.parametrize("field", WRONG)
def test_wrong_header_field_is_rejected(field, octet):
    cases, change = WRONG[field]
    accepted = [case for case in cases if is_accepted(*case, octet, None, change)]
    assert cases and not accepted


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("zero", ["never", "ipv6", "always", "absent"])
def test_zero_checksum_is_accepted_for_computed_zero_or_if_absent(direction, zero):
    """Zero is accepted for 0xFFFF only, so a device that computes no checksum is detected."""
    expected = Expander(make_stream("nat64", direction, 0)).compute_frames(0, 2)
    layout = locate_headers(expected[0])
    at = layout.checksum
    # with this payload, the sum is 0 and the checksum 0xFFFF (RFC 768)
    expected[0, at : at + 4] = 0
    checksum = int(layout.sum_transport(expected[:1])[0] % 0xFFFF)
    expected[0, at + 2 : at + 4] = list((0xFFFF - checksum).to_bytes(2, "big"))
    expected[0, at : at + 2] = 0xFF
    assert verify(expected[:1]).all()
    received = expected.copy()
    received[:, at : at + 2] = 0
    absent = zero == "absent"
    profile = {"absent_checksum": True} if absent else {"zero_checksum": zero}
    oracle = make_profiled_oracle("nat64", profile)
    tolerated = {0} if zero in ("always", "absent", f"ipv{layout.version}") else set()
    accepted = list_accepted_rows(oracle, expected, expected, received)
    assert accepted == tolerated | ({1} if absent else set())
    invalid = expected.copy()
    invalid[:, at] ^= 1  # a reference without a valid checksum
    assert not list_accepted_rows(oracle, invalid, invalid, received)
    received[0, -1] ^= 1
    received[1, at + 1] = 1
    assert not list_accepted_rows(oracle, expected, expected, received)
    assert list_accepted_rows(oracle, expected, expected, expected) == {0, 1}


@pytest.mark.parametrize(("profile", "name", "direction", "octet", "inner", "right", "wrong"), [
    ({"outer_dscp": "copied"}, "mape-br", "reverse", 0xB8, None, set_octet(0xB8), set_octet(0)),
    ({"outer_dscp": "zero"}, "mape-br", "reverse", 0xB8, None, set_octet(0), set_octet(0xB8)),
    ({"outer_dscp": 10}, "mape-br", "reverse", 0xB8, None, set_octet(40), set_octet(0xB8)),
    ({"outer_dscp": "zero"}, "dslite-aftr", "reverse", 0xB8, None, set_octet(0), set_octet(0xB8)),
    ({}, "lwaftr", "reverse", 0xB8, None, set_octet(0xB8), set_octet(0)),
    ({"outer_ecn": "copied"}, "lwaftr", "reverse", 1, None, set_octet(1), set_octet(0)),
    ({"outer_ecn": "zero"}, "lwaftr", "reverse", 1, None, set_octet(0), set_octet(1)),
    ({"outer_ecn": "reset"}, "lwb4", "reverse", 3, None, set_octet(2), set_octet(3)),
    ({"outer_ecn": "reset"}, "lwb4", "reverse", 1, None, set_octet(1), set_octet(0)),
    ({"inner_dscp": "kept"}, "mape-br", "forward", 0x28, 0xB8, set_octet(0xB8), set_octet(0x28)),
    ({"inner_dscp": "copied"}, "mape-br", "forward", 0x28, 0xB8, set_octet(0x28), set_octet(0xB8)),
    ({"inner_ecn": "kept"}, "lwaftr", "forward", 3, 2, set_octet(2), set_octet(3)),
    ({"inner_ecn": "rfc3168"}, "lwaftr", "forward", 1, 2, set_octet(2), set_octet(1)),
    ({"inner_ecn": "rfc3168"}, "lwaftr", "forward", 3, 2, set_octet(3), set_octet(2)),
    ({"traffic_class": "zero"}, "siit", "forward", 0xB9, None, set_octet(0), set_octet(0xB9)),
    ({"traffic_class": "copied"}, "siit", "reverse", 0xB9, None, set_octet(0xB9), set_octet(0)),
    ({"traffic_class": 0x20}, "siit", "reverse", 0xB9, None, set_octet(0x20), set_octet(0)),
    ({"tunnel_hop_limit": 63}, "mape-br", "reverse", 0, None, write_octets(7, 63), write_octets(7, 62)),
    ({"flow_label": "zero"}, "mape-br", "reverse", 0, None, write_octets(1, 0, 0, 0), write_octets(1, 0, 0, 1)),
    ({"identification": "zero"}, "siit", "forward", 0, None, write_octets(4, 0, 0), write_octets(4, 0, 1)),
    # the reference clears DF (RFC 7915, section 5.1); some versions of TAYGA set it
    ({"df": "set"}, "siit", "forward", 0, None, write_octets(6, 0x40), write_octets(6, 0)),
    (EITHER_DF, "siit", "forward", 0, None, write_octets(6, 0), write_octets(6, 0x20)),
    (EITHER_DF, "siit", "forward", 0, None, write_octets(6, 0x40), write_octets(6, 0x60)),
])  # fmt: skip
def test_profile_accepts_one_behaviour_only(profile, name, direction, octet, inner, right, wrong):
    oracle = make_profiled_oracle(name, profile)
    assert is_accepted(name, direction, octet, inner, right, oracle)
    assert not is_accepted(name, direction, octet, inner, wrong, oracle)


@pytest.mark.parametrize(("profile", "outer", "inner"), [
    ({}, 64, 0), ({"tunnel_hop_limit": 255}, 255, 0), ({"tunnel_keeps_ttl": True}, 64, 1),
    ({"tunnel_hop_limit": 63, "tunnel_keeps_ttl": True}, 63, 1),
])  # fmt: skip
def test_profile_sets_hop_limits_of_tunnel(profile, outer, inner):
    sent = make_stamped_frames(make_stream("mape-br", "reverse", 0), range(3))
    expected = make_oracle("mape-br").expect("reverse", sent).frames.copy()
    for row in expected:
        Header(row).hops = outer
        Header(row).inner.hops += inner
    oracle = make_profiled_oracle("mape-br", profile)
    assert (oracle.expect("reverse", sent).frames == expected).all()


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("octet", [0x00, 0x40])
def test_chain_has_df_of_last_translator_of_direction(direction, octet):
    no_hops, set_df = (dict.fromkeys(DIRECTIONS, value) for value in (0, "set"))
    policy = HeaderPolicy(dont_fragment=direction)
    chain = ChainOracle(make_oracle("siit"), no_hops, set_df, policy)
    expected = direction == "forward" or bool(octet)
    assert is_accepted("siit", "forward", 0, None, write_octets(6, octet), chain) == expected


COPIED_OUT = "outer DSCP: copied from the inner header"
COMBINED = "inner ECN: combined as in RFC 6040"


@pytest.mark.parametrize(("profile", "name", "direction", "octet", "inner", "change", "seen"), [
    ({}, "mape-br", "reverse", 0xB9, None, set_octet(0xB8),
     {COPIED_OUT, "outer ECN: zero", "outer flow label: zero", "outer hop limit: 64"}),
    # a header without DSCP and ECN does not show how they are treated
    ({}, "mape-br", "reverse", 0, None, write_octets(1, 0, 7, 7),
     {"outer flow label: another value", "outer hop limit: 64"}),
    ({}, "lwaftr", "forward", 0x28, 0xB8, set_octet(0x28), {"inner DSCP: copied from the outer header"}),
    ({}, "siit", "reverse", 0xB9, None, set_octet(0), {"traffic class: zero", "flow label: zero"}),
    # only another ECN in the outer header shows whether it is copied
    ({}, "lwaftr", "forward", 2, 2, set_octet(2), set()),
    ({}, "lwaftr", "forward", 0, 1, set_octet(1), set()),
    ({}, "lwaftr", "forward", 3, 2, set_octet(3), {COMBINED}),
    ({}, "lwaftr", "forward", 1, 2, set_octet(1), {COMBINED}),
    # behavior that the profile requires is reported if it can be distinguished
    ({"outer_dscp": "copied"}, "mape-br", "reverse", 0xB8, None, set_octet(0xB8),
     {COPIED_OUT, "outer flow label: zero", "outer hop limit: 64"}),
    ({"outer_dscp": "copied"}, "mape-br", "reverse", 0, None, set_octet(0),
     {"outer flow label: zero", "outer hop limit: 64"}),
    (EITHER_DF, "siit", "forward", 0, None, write_octets(6, 0x00), {"DF: clear", "identification: zero"}),
    (EITHER_DF, "siit", "forward", 0, None, write_octets(6, 0x40), {"DF: set", "identification: zero"}),
])  # fmt: skip
def test_comparison_reports_device_behaviour(profile, name, direction, octet, inner, change, seen):
    oracle = make_profiled_oracle(name, profile)
    comparison = compare_changed(name, direction, octet, inner, change, oracle)
    assert comparison.seen == dict.fromkeys(seen, 3)


@pytest.mark.parametrize(("name", "direction", "octet", "change", "why"), [
    ("mape-br", "reverse", 0xB9, set_octet(0x41),
     "outer DSCP: received 10, allowed: 2e (copied from the inner header) or 00 (zero)"),
    ("mape-br", "reverse", 1, set_octet(2),
     "outer ECN: received 2, allowed: 1 (copied from the inner header) or 0 (zero)"),
    ("mape-br", "reverse", 1, write_octets(7, 0), "outer hop limit: received 00, allowed: "),
    ("siit", "forward", 0, flip_bits(15, 0x90), "TOS: received 90, allowed: 00 (copied"),
    ("siit", "forward", 0xB8, flip_bits(15, 0xB8), "header checksum: it is wrong"),
    ("siit", "forward", 0, add_hops(1), "octet 22 (IPv4 TTL): expected 3f, received 40"),
])  # fmt: skip
def test_mismatch_names_allowed_values(name, direction, octet, change, why):
    mismatch = compare_changed(name, direction, octet, None, change).mismatch
    assert why in mismatch["why"]
    assert mismatch["received"] != mismatch["expected"]


@pytest.mark.parametrize(("before", "after", "change"), [
    ((4, 46), (6, 86), Change.ENCAPSULATED), ((6, 86), (4, 46), Change.DECAPSULATED),
    ((6, 86), (4, 106), Change.ENCAPSULATED), ((4, 106), (6, 86), Change.DECAPSULATED),
    ((4, 46), (4, 66), Change.ENCAPSULATED), ((6, 100), (6, 60), Change.DECAPSULATED),
    ((4, 46), (6, 66), Change.TRANSLATED), ((6, 66), (4, 46), Change.TRANSLATED),
    ((4, 46), (6, 74), Change.TRANSLATED), ((6, 74), (4, 46), Change.TRANSLATED),
    ((4, 46), (4, 46), Change.FORWARDED), ((6, 66), (6, 66), Change.FORWARDED),
])  # fmt: skip
def test_change_is_classified_by_length(before, after, change):
    assert classify_change(before, after) is change


def test_ipv6_in_ipv4_tunnel_accepts_same_header_values():
    """RFC 4213, in a plugin that is not part of v6t."""
    case = ("sixrd-br", "reverse")
    for octet in OCTETS:
        allowed = {d | e for d in (octet & 0xFC, 0) for e in (octet & 3, 0)}
        assert list_accepted_octets(*case, octet) == allowed
    either_df = write_octets(6, 0, 0), write_octets(6, 0x40, 0)
    for change in (write_octets(4, 9, 9), *either_df, write_octets(8, 1)):
        assert is_accepted(*case, 0, None, change)
    wrong = write_octets(8, 0), flip_bits(19), flip_bits(25), add_inner_hops(-1)
    for change in (*wrong, lambda header: setattr(header.inner, "octet", 4)):
        assert not is_accepted(*case, 0, None, change)
