"""Header fields a device writes anew: which values RFCs allow, and which one a frame shows.

A reference translation is one frame, but RFCs leave fields of it to the implementation. What they
leave, and nothing else, is told here, once for all technologies and both directions:

=====================  =============================  ==========================================
packet is              field                          values
=====================  =============================  ==========================================
put into another       outer DSCP                     the inner one or 0 (RFC 2473 section 6.4,
                                                      RFC 2983 section 3); a configured one if a
                                                      policy says which
                       outer ECN                      the inner one (normal mode) or 0
                                                      (compatibility mode, RFC 6040 section 4.1)
                       outer flow label               any (RFC 2473 section 6.5, RFC 6438)
                       outer hop limit or TTL         any but 0 (RFC 2473 section 6.3)
                       outer IPv4 identification, DF  any (RFC 4213 sections 3.2, 3.5)
taken out of another   DSCP                           the inner one (pipe) or the outer one
                                                      (uniform, RFC 2983 section 3)
                       ECN                            as RFC 6040 section 4.2 combines both
translated             traffic class, TOS             the other's octet or 0 (RFC 7915 sections
                                                      4.1 and 5.1); a configured one if a policy
                                                      says which
                       flow label                     0, or one the router chose for a packet
                                                      without (RFC 6437 section 3): any
                       identification                 any, unless there was a fragment header
                                                      (RFC 7915 section 5.1)
=====================  =============================  ==========================================

TTL and hop limit of what is taken out or translated, addresses, lengths, ports, payload and every
checksum stay exact: a header checksum must fit the header it came with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Literal

import numpy as np
from v6t.packets import inet
from v6t.packets.distinct import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import I64, U8, Mask
    from v6t.packets.direction import Direction


Dscp = Literal["allowed", "copied", "zero"] | int
_FRAGMENT = 44
_TAGS = b"".join(kind.to_bytes(2, "big") for kind in inet.ETHERTYPES_VLAN)
_ECT1, _ECT0, _CE = 1, 2, 3
_INNER, _OUTER = "copied from the inner header", "copied from the outer header"
_RESET = "copied, CE reset to ECT(0)"
_RFC6040, _RFC3168 = "combined as in RFC 6040", "combined as in RFC 3168"


@dataclass(frozen=True)
class HeaderPolicy:
    """What a device does where RFCs leave it a choice; ``allowed`` is whatever they allow.

    Attributes:
        outer_dscp: of a header put before a packet: the packet's own, 0, or a value.
        outer_ecn: likewise; ``reset`` copies it but for CE, which becomes ECT(0) (RFC 3168 section
            9.1.1, obsoleted by RFC 6040 and still in use).
        inner_dscp: of a packet that was taken out: its own (``kept``) or the outer header's
            (``copied``).
        inner_ecn: of a packet that was taken out: RFC 6040's combination; RFC 3168's, which
            does not turn ECT(0) into ECT(1); or its own whatever the outer header says
            (``kept``), which loses congestion marks.
        traffic_class: of a translated packet: the other header's whole octet, 0, or a value.
        flow_label: of IPv6 headers that are made.
        identification: of IPv4 headers that are made.
        tunnel_hop_limit: of headers put before packets, as they leave the device; 0: any.
        absent_checksum: a UDP checksum may be 0, which RFC 768 keeps for "none was computed".
        dont_fragment: of IPv4 packets that were translated; ``either`` takes it set or not, a
            direction's name does so in that one alone.
        zero_checksum: a UDP checksum that is computed as 0 may be written so and not as 0xFFFF, against
            RFC 768: towards IPv6 alone, or whatever the version.
        retranslated: packets that leave with the IP version they came with were translated twice
            on the way.
    """

    outer_dscp: Dscp = "allowed"
    outer_ecn: Literal["allowed", "copied", "zero", "reset"] = "allowed"
    inner_dscp: Literal["allowed", "kept", "copied"] = "allowed"
    inner_ecn: Literal["rfc6040", "rfc3168", "kept"] = "rfc6040"
    traffic_class: Dscp = "allowed"
    flow_label: Literal["allowed", "zero"] = "allowed"
    identification: Literal["allowed", "zero"] = "allowed"
    tunnel_hop_limit: int = 0
    absent_checksum: bool = False
    dont_fragment: Literal["exact", "either", "forward", "reverse"] = "exact"
    zero_checksum: Literal["never", "ipv6", "always"] = "never"
    retranslated: bool = False

    def towards(self, direction: Direction) -> HeaderPolicy:
        """What holds in one direction."""
        if self.dont_fragment in ("exact", "either"):
            return self
        own = self.dont_fragment == direction
        return replace(self, dont_fragment="either" if own else "exact")


def merged(policy: HeaderPolicy, device: HeaderPolicy) -> HeaderPolicy:
    """A technology's policy, and a device's own where that says something."""
    own = {
        f.name: getattr(device, f.name)
        for f in fields(HeaderPolicy)
        if getattr(device, f.name) != f.default
    }
    return replace(policy, **own)


class Change(Enum):
    """What became of a packet."""

    PUT_IN = "put into another"
    TAKEN_OUT = "taken out of another"
    TRANSLATED = "translated"
    FORWARDED = "forwarded"


_HEADER = {4: 20, 6: 40}


def change_of(before: tuple[int, int], after: tuple[int, int]) -> Change:
    """Versions and lengths [octets] of two packets tell how one came of the other.

    Translation exchanges a header of 20 octets for one of 40 (48 with a fragment header); a tunnel
    adds or takes away a whole one.
    """
    (old, length), (new, new_length) = before, after
    if new_length - length == _HEADER[new]:
        return Change.PUT_IN
    if length - new_length == _HEADER[old]:
        return Change.TAKEN_OUT
    return Change.FORWARDED if old == new else Change.TRANSLATED


@dataclass(frozen=True)
class Place:
    """Bits of a header.

    Attributes:
        first, size: octets of the big-endian number they are in.
        shift, width: bits below them, and how many they are.
    """

    first: int
    size: int
    shift: int
    width: int

    def read(self, packets: U8, at: int) -> I64:
        """Values ``(n,)`` in headers at octet ``at``."""
        return self._number(packets, at) >> self.shift & (1 << self.width) - 1

    def write(self, packets: U8, at: int, values: I64) -> None:
        """Replace them in place."""
        mask = (1 << self.width) - 1 << self.shift
        number = self._number(packets, at) & ~mask | values << self.shift
        for k in range(self.size):
            packets[:, at + self.first + k] = number >> 8 * (self.size - 1 - k) & 0xFF

    def _number(self, packets: U8, at: int) -> I64:
        number = np.zeros(len(packets), dtype=np.int64)
        for k in range(self.size):
            number = number << 8 | packets[:, at + self.first + k]
        return number


_DSCP = {4: Place(1, 1, 2, 6), 6: Place(0, 2, 6, 6)}
_ECN = {4: Place(1, 1, 0, 2), 6: Place(0, 2, 4, 2)}
_OCTET = {4: Place(1, 1, 0, 8), 6: Place(0, 2, 4, 8)}
_OCTET_NAME = {4: "TOS", 6: "traffic class"}
_HOPS = {4: Place(8, 1, 0, 8), 6: Place(7, 1, 0, 8)}
_HOPS_NAME = {4: "TTL", 6: "hop limit"}
_LABEL = Place(1, 3, 0, 20)
_IDENTIFICATION = Place(4, 2, 0, 16)
_DF = Place(6, 1, 6, 1)


@dataclass(frozen=True)
class Rule:
    """What one field may be.

    Attributes:
        name: of the field.
        place: in the header.
        ways: behaviours in words, and the value ``(n,)`` each has.
        least: any value from this one on is allowed, too; None: only those of ``ways``.
        against: values of what a device might do instead; one that has such a value shows nothing.
    """

    name: str
    place: Place
    ways: Mapping[str, I64]
    least: int | None = None
    against: Sequence[I64] = ()

    def allows(self, values: I64) -> Mask:
        """Rows whose value is allowed."""
        good = np.zeros(len(values), dtype=bool)
        for value in self.ways.values():
            good |= values == value
        if self.least is not None:
            good |= values >= self.least
        return good

    def seen(self, values: I64, good: Mask) -> Counter[str]:
        """Good frames by the behaviour they show; where several would look alike, none is shown."""
        if not self.ways:
            variants = distinct(values[good])
            words = f"{self.name}: {variants[0] if len(variants) == 1 else 'varies'}"
            return +Counter({words: int(np.count_nonzero(good))})
        counts: Counter[str] = Counter()
        like = {way: good & (values == value) for way, value in self.ways.items()}
        alike = sum(rows.astype(np.int64) for rows in like.values())
        for value in self.against:
            alike += values == value
        for way, rows in like.items():
            counts[f"{self.name}: {way}"] = int(np.count_nonzero(rows & (alike == 1)))
        if self.least is not None:
            other = good & (alike == 0)
            counts[f"{self.name}: another value"] = int(np.count_nonzero(other))
        return +counts


@dataclass(frozen=True)
class Tolerated:
    """Received frames, and what they show of the device.

    Attributes:
        frames: as received, but an allowed value of a field is replaced by the reference's, and
            with it a header checksum that fits.
        allowed: ``(n,)``, rows whose open fields all have an allowed value.
        seen: frames by the behaviour they show, in words.
    """

    frames: U8
    allowed: Mask
    seen: Counter[str]


def tolerate(policy: HeaderPolicy, sent: U8, expected: U8, received: U8) -> Tolerated:
    """Bring allowed differences of received frames to the reference's values.

    Args:
        policy: of technology and device.
        sent: ``(n, any)`` frames.
        expected: ``(n, length)`` the reference translation.
        received: ``(n, length)``.
    """
    out, seen = received.copy(), Counter[str]()
    allowed = np.ones(len(received), dtype=bool)
    for rows, there in _alike(sent, expected):
        rules = _rules(policy, sent[rows], expected[rows])
        frames, wanted = out[rows], expected[rows]
        # a header that arrived with a wrong checksum must not be given a right one
        fits = _header_fits(frames, there)
        changed = np.zeros(len(rows), dtype=bool)
        for rule in rules:
            values, reference = (rule.place.read(f, there.at) for f in (frames, wanted))
            good = rule.allows(values)
            seen += rule.seen(values, good)
            allowed[rows] &= good
            changed |= good & (values != reference)
            rule.place.write(frames, there.at, np.where(good, reference, values))
        if there.version == 4 and changed.any():
            _finish(frames, wanted, there, changed, fits)
        if policy.absent_checksum:
            _fill_checksums(frames, wanted)
        elif policy.zero_checksum == "always" or (
            policy.zero_checksum == "ipv6" and there.version == 6
        ):
            _fill_checksums(frames, wanted, only=0xFFFF)
        out[rows] = frames
    return Tolerated(out, allowed, seen)


def refused(policy: HeaderPolicy, sent: U8, expected: U8, received: U8) -> str:
    """The first field of one frame with a value that is not allowed, in words; empty: none."""
    for _, there in _alike(sent, expected):
        for rule in _rules(policy, sent, expected):
            value = rule.place.read(received, there.at)
            if not rule.allows(value)[0]:
                return _words(rule, int(value[0]))
        if there.version == 4 and not _header_fits(received, there)[0]:
            mended = received.copy()
            inet.finish_ipv4(mended, there.at, there.length)
            if (tolerate(policy, sent, expected, mended).frames == expected).all():
                return "IPv4 header checksum: it does not fit the header it came with"
    return ""


def combined_ecn(inner: I64, outer: I64) -> I64:
    """ECN of packets taken out of tunnels (RFC 6040 section 4.2); Not-ECT in CE is no packet."""
    combined: I64 = _COMBINED[inner, outer]
    return combined


_COMBINED = np.array([[0, 0, 0, 0], [1, 1, 1, 3], [2, 1, 2, 3], [3, 3, 3, 3]])
"""By inner and outer codepoint: 0 is Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE."""


@dataclass(frozen=True)
class _Header:
    """The first IP header of equal frames.

    Attributes:
        at: where it begins.
        version: of IP.
        octets: of the whole packet.
        length: of the header.
    """

    at: int
    version: int
    octets: int
    length: int


def _header(frame: U8) -> _Header | None:
    """None without an IP header."""
    headers = inet.headers_of(frame)
    if not headers.version:
        return None
    at = headers.l3
    if headers.version == 6:
        return _Header(at, 6, 40 + int(frame[at + 4]) * 256 + int(frame[at + 5]), 40)
    octets = int(frame[at + 2]) * 256 + int(frame[at + 3])
    return _Header(at, 4, octets, 4 * int(frame[at] & 15))


def _alike(sent: U8, expected: U8) -> Iterator[tuple[NDArray[np.intp], _Header]]:
    """Rows whose headers are laid out alike, and the header of their reference translation."""
    if not len(sent):
        return
    layouts = np.concatenate([_layout(sent), _layout(expected)], axis=1)
    _, first, group = np.unique(layouts, axis=0, return_index=True, return_inverse=True)
    for number, row in enumerate(first):
        there = _header(expected[row])
        if there is not None and _header(sent[row]) is not None:
            yield np.flatnonzero(group.reshape(-1) == number), there


def _layout(frames: U8) -> U8:
    """EtherType of each frame, and of its IP header version, lengths and next header."""
    out = np.zeros((len(frames), 7), dtype=np.uint8)
    kind, tag = frames[:, 12:14], np.frombuffer(_TAGS, dtype=np.uint8).reshape(-1, 2)
    at = 14 + 4 * (kind[:, None] == tag).all(axis=2).any(axis=1)
    for offset in distinct(at):
        rows = np.flatnonzero(at == offset)
        header = np.zeros((len(rows), 10), dtype=np.uint8)
        there = frames[rows, offset : offset + 10]
        header[:, : there.shape[1]] = there
        six = header[:, 0] >> 4 == 6
        out[rows, :2] = frames[rows, offset - 2 : offset]
        out[rows, 2] = np.where(six, 0x60, header[:, 0])
        out[rows, 3:5] = np.where(six[:, None], header[:, 4:6], header[:, 2:4])
        out[rows, 5] = np.where(six, header[:, 6], header[:, 9])
        out[rows, 6] = offset
    return out


def _rules(policy: HeaderPolicy, sent: U8, expected: U8) -> Sequence[Rule]:
    here, there = _header(sent[0]), _header(expected[0])
    if here is None or there is None:
        return ()
    change = change_of((here.version, here.octets), (there.version, there.octets))
    if change is Change.PUT_IN:
        return _put_in(policy, sent, here, there)
    if change is Change.TAKEN_OUT:
        return _taken_out(policy, sent, here, there)
    if change is Change.TRANSLATED or policy.retranslated:
        return _translated(policy, sent, here, there)
    return ()


def _put_in(policy: HeaderPolicy, sent: U8, here: _Header, there: _Header) -> Sequence[Rule]:
    dscp, ecn = _DSCP[here.version].read(sent, here.at), _ECN[here.version].read(sent, here.at)
    marks = {_INNER: ecn, "zero": np.zeros_like(ecn), _RESET: np.where(ecn == _CE, _ECT0, ecn)}
    allowed = {
        "allowed": (_INNER, "zero"), "copied": (_INNER,), "zero": ("zero",), "reset": (_RESET,),
    }[policy.outer_ecn]  # fmt: skip
    rules = [
        _choice("outer DSCP", _DSCP[there.version], policy.outer_dscp, dscp, _INNER),
        _rule("outer ECN", _ECN[there.version], marks, allowed, (_INNER, _RESET)),
    ]
    if not policy.tunnel_hop_limit:
        rules.append(Rule(f"outer {_HOPS_NAME[there.version]}", _HOPS[there.version], {}, 1))
    if there.version == 6:
        return [*rules, _free("outer flow label", _LABEL, policy.flow_label)]
    return [
        *rules,
        _free("outer identification", _IDENTIFICATION, policy.identification),
        _free("outer DF", _DF, "allowed"),
    ]


def _taken_out(policy: HeaderPolicy, sent: U8, here: _Header, there: _Header) -> Sequence[Rule]:
    within = here.at + here.length
    own, outer = (
        [places[v].read(sent, at) for places in (_DSCP, _ECN)]
        for v, at in ((there.version, within), (here.version, here.at))
    )
    dscp = {"kept": own[0], _OUTER: outer[0]}
    which = {"allowed": ("kept", _OUTER), "kept": ("kept",), "copied": (_OUTER,)}[policy.inner_dscp]
    both = combined_ecn(own[1], outer[1])
    old = np.where((own[1] == _ECT0) & (both == _ECT1), _ECT0, both)
    marks = {_RFC6040: both, _RFC3168: old, "kept": own[1]}
    allowed = {"rfc6040": _RFC6040, "rfc3168": _RFC3168, "kept": "kept"}[policy.inner_ecn]
    return [
        _rule("inner DSCP", _DSCP[there.version], dscp, which),
        _rule("inner ECN", _ECN[there.version], marks, (allowed,), (_RFC6040, _RFC3168)),
    ]


def _translated(policy: HeaderPolicy, sent: U8, here: _Header, there: _Header) -> Sequence[Rule]:
    octet = _OCTET[here.version].read(sent, here.at)
    words = f"copied from the {_OCTET_NAME[here.version]}"
    name, place = _OCTET_NAME[there.version], _OCTET[there.version]
    rules = [_choice(name, place, policy.traffic_class, octet, words)]
    if there.version == 6:
        from_ipv4 = here.version == 4
        return [*rules, _free("flow label", _LABEL, policy.flow_label)] if from_ipv4 else rules
    if here.version == 6 and sent[0, here.at + 6] == _FRAGMENT:
        return rules
    rules.append(_free("identification", _IDENTIFICATION, policy.identification))
    if policy.dont_fragment == "either":
        clear = np.zeros_like(octet)
        rules.append(Rule("DF", _DF, {"clear": clear, "set": clear + 1}))
    return rules


def _choice(name: str, place: Place, policy: Dscp, copied: I64, words: str) -> Rule:
    """A field that is copied, zero, or configured."""
    ways = {words: copied, "zero": np.zeros_like(copied)}
    if isinstance(policy, int):
        always = f"always {policy}"
        return _rule(name, place, {**ways, always: np.full_like(copied, policy)}, (always,))
    allowed = {"allowed": (words, "zero"), "copied": (words,), "zero": ("zero",)}[policy]
    return _rule(name, place, ways, allowed)


def _rule(
    name: str,
    place: Place,
    ways: Mapping[str, I64],
    allowed: Sequence[str],
    variants: Sequence[str] = (),
) -> Rule:
    """Some ways of several are allowed; variants of one way are not told apart from each other."""
    against = [v for way, v in ways.items() if way not in (*allowed, *variants)]
    return Rule(name, place, {way: ways[way] for way in allowed}, against=against)


def _free(name: str, place: Place, policy: str) -> Rule:
    """A field that may be anything, unless a device always writes 0."""
    zero = {"zero": np.zeros(1, dtype=np.int64)}
    return Rule(name, place, zero, 0 if policy == "allowed" else None)


def _words(rule: Rule, value: int) -> str:
    digits = -(-rule.place.width // 4)
    allowed = [f"{int(v[0]):0{digits}x} ({way})" for way, v in rule.ways.items()]
    if rule.least is not None:
        allowed.append(f"{rule.least:0{digits}x} and more")
    return f"{rule.name}: received {value:0{digits}x}, allowed: {' or '.join(allowed)}"


def _header_fits(frames: U8, there: _Header) -> Mask:
    """Rows whose header checksum is right, were it IPv4."""
    end = there.at + there.length
    fits: Mask = inet.fold(inet.ones_complement_sum(frames, there.at, end)) == 0xFFFF
    return fits


def _finish(frames: U8, wanted: U8, there: _Header, changed: Mask, fits: Mask) -> None:
    """Header checksums of changed rows: right if they were, else surely not the reference's."""
    field = slice(there.at + 10, there.at + 12)
    right = frames[changed & fits]
    if len(right):
        inet.finish_ipv4(right, there.at, there.length)
        frames[changed & fits] = right
    wrong = changed & ~fits
    frames[wrong, field] = ~wanted[wrong, field]


def _fill_checksums(frames: U8, wanted: U8, only: int | None = None) -> None:
    """The reference's UDP checksum where it is right and 0 came; of all, or where it has one value."""
    headers = inet.headers_of(wanted[0])
    if headers.udp is None:
        return
    field = slice(headers.udp + 6, headers.udp + 8)
    rows = ~frames[:, field].any(axis=1) & (inet.udp_sum(wanted, headers) == 0xFFFF)
    if only is not None:
        rows &= (wanted[:, field] == list(only.to_bytes(2, "big"))).all(axis=1)
    frames[rows, field] = wanted[rows, field]
