"""Header fields that a device sets itself: the values that RFCs allow, and the one that a frame has.

A reference translation is one frame, but RFCs leave fields of it to the implementation. The manual lists them
with their RFCs (Method, "Deviations and choices in short"), for all technologies and both directions.
TTL and hop limit of packets taken out or translated, addresses, lengths, ports, payload and every
checksum stay exact: a header checksum must fit the header it arrived with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from v6t.packets import checksum
from v6t.packets.arrays import I64, U8, Mask, sort_unique
from v6t.packets.direction import Direction
from v6t.packets.headers import IP, view
from v6t.packets.walker import FrameHeader, build_layout, group_by_headers

Headers = NDArray[np.void]

Dscp = Literal["allowed", "copied", "zero"] | int
_FRAGMENT_HEADER = 44
_ECT1, _ECT0, _CE = 1, 2, 3
_INNER, _OUTER = "copied from the inner header", "copied from the outer header"
_RESET = "copied, CE reset to ECT(0)"
_RFC6040, _RFC3168 = "combined as in RFC 6040", "combined as in RFC 3168"


@dataclass(frozen=True)
class HeaderPolicy:
    """What a device does where RFCs leave it a choice; ``allowed`` accepts all that they allow."""

    outer_dscp: Dscp = "allowed"
    outer_ecn: Literal["allowed", "copied", "zero", "reset"] = "allowed"
    """``reset`` copies it, but CE becomes ECT(0) (RFC 3168, section 9.1.1)."""
    inner_dscp: Literal["allowed", "kept", "copied"] = "allowed"
    """Of a packet taken out of a tunnel: its own (``kept``) or the outer one (``copied``)."""
    inner_ecn: Literal["rfc6040", "rfc3168", "kept"] = "rfc6040"
    """RFC 6040's combination; RFC 3168's, which does not turn ECT(0) into ECT(1); or always its own
    (``kept``), which loses congestion marks."""
    traffic_class: Dscp = "allowed"
    """The whole octet of a translated packet: the other header's, 0, or a value."""
    flow_label: Literal["allowed", "zero"] = "allowed"
    identification: Literal["allowed", "zero"] = "allowed"
    tunnel_hop_limit: int = 0
    """Hop limit or TTL of headers put before packets, as they leave the device; 0: any."""
    absent_checksum: bool = False  # a UDP checksum may be 0, which means "not computed" (RFC 768)
    dont_fragment: Literal["exact", "either", "forward", "reverse"] = "exact"
    """Of translated IPv4 packets; the name of a direction accepts both values there."""
    zero_checksum: Literal["never", "ipv6", "always"] = "never"
    """Where a UDP checksum computed as 0 may be written as 0, against RFC 768."""
    retranslated: bool = False
    """Packets that leave with the IP version they arrived with were translated twice."""

    def for_direction(self, direction: Direction) -> HeaderPolicy:
        """Return the policy that applies in one direction."""
        if self.dont_fragment in ("exact", "either"):
            return self
        return replace(self, dont_fragment="either" if self.dont_fragment == direction else "exact")


def merge_policies(policy: HeaderPolicy, device: HeaderPolicy) -> HeaderPolicy:
    """Return a technology's policy with the fields that a device's policy sets."""
    values = ((f.name, getattr(device, f.name), f.default) for f in fields(HeaderPolicy))
    return replace(policy, **{name: value for name, value, default in values if value != default})


class Change(Enum):
    """What a device did to a packet."""

    ENCAPSULATED = "encapsulated"
    DECAPSULATED = "decapsulated"
    TRANSLATED = "translated"
    FORWARDED = "forwarded"


def classify_change(before: tuple[int, int], after: tuple[int, int]) -> Change:
    """Return what happened to a packet, given IP version and length in octets before and after."""
    (old, length), (new, new_length) = before, after
    if new_length - length == IP[new].itemsize:
        return Change.ENCAPSULATED
    if length - new_length == IP[old].itemsize:
        return Change.DECAPSULATED
    return Change.FORWARDED if old == new else Change.TRANSLATED


class HeaderBits(NamedTuple):
    """Bits of a header field: ``width`` bits above the ``shift`` lowest ones."""

    field: str
    shift: int
    width: int

    def read(self, headers: Headers) -> I64:
        return headers[self.field].astype(np.int64) >> self.shift & (1 << self.width) - 1

    def write(self, headers: Headers, values: I64) -> None:
        mask = (1 << self.width) - 1 << self.shift
        headers[self.field] = headers[self.field].astype(np.int64) & ~mask | values << self.shift


_DSCP = {4: HeaderBits("tos", 2, 6), 6: HeaderBits("ver_tc_fl", 22, 6)}
_ECN = {4: HeaderBits("tos", 0, 2), 6: HeaderBits("ver_tc_fl", 20, 2)}
_TOS = {4: HeaderBits("tos", 0, 8), 6: HeaderBits("ver_tc_fl", 20, 8)}
_TOS_NAME = {4: "TOS", 6: "traffic class"}
_HOP_LIMIT = {4: HeaderBits("ttl", 0, 8), 6: HeaderBits("hlim", 0, 8)}
_HOP_LIMIT_NAME = {4: "TTL", 6: "hop limit"}
_FLOW_LABEL = HeaderBits("ver_tc_fl", 0, 20)
_IDENTIFICATION = HeaderBits("id", 0, 16)
_DF = HeaderBits("flags_frag", 14, 1)


class FieldRule(NamedTuple):
    """The allowed values of one field.

    ``behaviors`` map a name to the value ``(n,)`` it gives the field; values from ``minimum`` on are allowed,
    too. A frame with one of ``alternatives`` does not show which behavior the device has.
    """

    name: str
    bits: HeaderBits
    behaviors: Mapping[str, I64]
    minimum: int | None = None
    alternatives: Sequence[I64] = ()

    def allows(self, values: I64) -> Mask:
        """Mark rows whose value is allowed."""
        mask = np.zeros(len(values), bool) if self.minimum is None else values >= self.minimum
        for value in self.behaviors.values():
            mask |= values == value
        return mask

    def count_behaviors(self, values: I64, allowed: Mask) -> Counter[str]:
        """Count allowed frames by the only behavior that explains their value; omit ambiguous ones."""
        if not self.behaviors:
            variants = sort_unique(values[allowed])
            words = f"{self.name}: {variants[0] if len(variants) == 1 else 'varies'}"
            return +Counter({words: int(np.count_nonzero(allowed))})
        counts: Counter[str] = Counter()
        equal = {name: allowed & (values == value) for name, value in self.behaviors.items()}
        matches = sum(rows.astype(np.int64) for rows in equal.values())
        for value in self.alternatives:
            matches += values == value
        for name, rows in equal.items():
            counts[f"{self.name}: {name}"] = int(np.count_nonzero(rows & (matches == 1)))
        if self.minimum is not None:
            counts[f"{self.name}: another value"] = int(np.count_nonzero(allowed & (matches == 0)))
        return +counts

    def describe(self, value: int) -> str:
        digits = -(-self.bits.width // 4)
        allowed = [f"{int(v[0]):0{digits}x} ({name})" for name, v in self.behaviors.items()]
        if self.minimum is not None:
            allowed.append(f"{self.minimum:0{digits}x} and more")
        return f"{self.name}: received {value:0{digits}x}, allowed: {' or '.join(allowed)}"


class ToleratedFrames(NamedTuple):
    """Received frames, their allowed values and header checksums replaced by the reference's.

    ``allowed`` ``(n,)`` are rows with allowed values only; ``behaviors`` counts what frames show.
    """

    frames: U8
    allowed: Mask
    behaviors: Counter[str]


def tolerate(policy: HeaderPolicy, sent: U8, expected: U8, received: U8) -> ToleratedFrames:
    """Replace allowed values in received frames by those of the reference translation."""
    out, behaviors = received.copy(), Counter[str]()
    allowed = np.ones(len(received), dtype=bool)
    for rows, pair in _group_by_layout(sent, expected):
        frames, reference = out[rows], expected[rows]
        headers, wanted = pair.view_reference(frames), pair.view_reference(reference)
        # a header that arrived with a wrong checksum must not be given a right one
        fits = pair.has_valid_checksums(frames)
        changed = np.zeros(len(rows), dtype=bool)
        for rule in pair.list_rules(policy, sent[rows]):
            values, right = rule.bits.read(headers), rule.bits.read(wanted)
            mask = rule.allows(values)
            behaviors += rule.count_behaviors(values, mask)
            allowed[rows] &= mask
            changed |= mask & (values != right)
            rule.bits.write(headers, np.where(mask, right, values))
        if pair.new_version == 4 and changed.any():
            pair.write_checksums(frames, changed & fits)
            # certainly different from the reference's
            headers["chksum"] = np.where(changed & ~fits, ~wanted["chksum"], headers["chksum"])
        if policy.absent_checksum:
            pair.fill_udp_checksums(frames, reference)
        elif policy.zero_checksum in ("always", f"ipv{pair.new_version}"):
            pair.fill_udp_checksums(frames, reference, required=0xFFFF)
        out[rows] = frames
    return ToleratedFrames(out, allowed, behaviors)


def describe_violation(policy: HeaderPolicy, sent: U8, expected: U8, received: U8) -> str:
    """Describe the first disallowed field value of a frame, or return an empty string."""
    for _, pair in _group_by_layout(sent, expected):
        for rule in pair.list_rules(policy, sent):
            value = rule.bits.read(pair.view_reference(received))
            if not rule.allows(value)[0]:
                return rule.describe(int(value[0]))
        if pair.new_version == 4 and not pair.has_valid_checksums(received)[0]:
            mended = received.copy()
            pair.write_checksums(mended, np.ones(1, dtype=bool))
            if (tolerate(policy, sent, expected, mended).frames == expected).all():
                return "IPv4 header checksum: it is wrong for the received header"
    return ""


def combine_ecn(inner: NDArray[np.integer], outer: NDArray[np.integer]) -> U8:
    """Return the ECN of decapsulated packets (RFC 6040, section 4.2).

    Not-ECT in CE is not in the table: such packets are dropped.
    """
    combined: U8 = _COMBINED_ECN[inner, outer]
    return combined


_COMBINED_ECN = np.array([[0, 0, 0, 0], [1, 1, 1, 3], [2, 1, 2, 3], [3, 3, 3, 3]], dtype=np.uint8)
"""By inner and outer codepoint: 0 is Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE."""


class _HeaderPair(NamedTuple):
    """First sent and first expected IP header of frames with the same layout; all expected headers."""

    sent: FrameHeader
    header: FrameHeader
    expected: tuple[FrameHeader, ...]

    @property
    def old_version(self) -> int:
        return int(self.sent.name[3])

    @property
    def new_version(self) -> int:
        return int(self.header.name[3])

    def view_sent(self, frames: U8) -> Headers:
        return view(frames, IP[self.old_version], self.sent.start)

    def view_reference(self, frames: U8) -> Headers:
        return view(frames, IP[self.new_version], self.header.start)

    def has_valid_checksums(self, frames: U8) -> Mask:
        return checksum.has_valid_sum(frames[:, self.header.start : self.header.end])

    def write_checksums(self, frames: U8, rows: Mask) -> None:
        part, header = frames[rows], self.header
        if len(part):
            checksum.write_ipv4_checksum(part, header.start, header.end - header.start)
            frames[rows] = part

    def fill_udp_checksums(self, frames: U8, reference: U8, required: int | None = None) -> None:
        """Replace UDP checksums of 0 by the reference's if that is valid and, if given, ``required``."""
        layout = build_layout(self.expected)
        if layout.transport != "UDP":
            return
        field = slice(layout.checksum, layout.checksum + 2)
        rows = ~frames[:, field].any(axis=1)
        rows &= checksum.fold(layout.sum_transport(reference)) == 0xFFFF
        if required is not None:
            rows &= (reference[:, field] == list(required.to_bytes(2, "big"))).all(axis=1)
        frames[rows, field] = reference[rows, field]

    def list_rules(self, policy: HeaderPolicy, sent: U8) -> Sequence[FieldRule]:
        """Return the field rules for the change that the device made to these packets."""
        before, after = (h.limit - h.start for h in (self.sent, self.header))
        change = classify_change((self.old_version, before), (self.new_version, after))
        if change is Change.ENCAPSULATED:
            return _list_encapsulation_rules(policy, sent, self)
        if change is Change.DECAPSULATED:
            return _list_decapsulation_rules(policy, sent, self)
        if change is Change.TRANSLATED or policy.retranslated:
            return _list_translation_rules(policy, sent, self)
        return ()


def _group_by_layout(sent: U8, expected: U8) -> Iterator[tuple[NDArray[np.intp], _HeaderPair]]:
    """Group rows whose headers have the same layout; leave out frames without IP."""
    for rows, headers in group_by_headers(expected):
        for part, sent_headers in group_by_headers(sent[rows]):
            before = [header for header in sent_headers if header.name in ("IPv4", "IPv6")]
            after = [header for header in headers if header.name in ("IPv4", "IPv6")]
            if before and after:
                yield rows[part], _HeaderPair(before[0], after[0], headers)


def _list_encapsulation_rules(policy: HeaderPolicy, sent: U8, pair: _HeaderPair) -> list[FieldRule]:
    version, inner = pair.new_version, pair.view_sent(sent)
    dscp, ecn = _DSCP[pair.old_version].read(inner), _ECN[pair.old_version].read(inner)
    marks = {_INNER: ecn, "zero": np.zeros_like(ecn), _RESET: np.where(ecn == _CE, _ECT0, ecn)}
    allowed = {
        "allowed": (_INNER, "zero"), "copied": (_INNER,), "zero": ("zero",), "reset": (_RESET,),
    }[policy.outer_ecn]  # fmt: skip
    rules = [
        _make_choice_rule("outer DSCP", _DSCP[version], policy.outer_dscp, dscp, _INNER),
        _make_rule("outer ECN", _ECN[version], marks, allowed, (_INNER, _RESET)),
    ]
    if not policy.tunnel_hop_limit:
        rules.append(FieldRule(f"outer {_HOP_LIMIT_NAME[version]}", _HOP_LIMIT[version], {}, 1))
    if version == 6:
        return [*rules, _make_free_rule("outer flow label", _FLOW_LABEL, policy.flow_label)]
    return [  # RFC 4213, sections 3.2 and 3.5
        *rules,
        _make_free_rule("outer identification", _IDENTIFICATION, policy.identification),
        _make_free_rule("outer DF", _DF, "allowed"),
    ]


def _list_decapsulation_rules(policy: HeaderPolicy, sent: U8, pair: _HeaderPair) -> list[FieldRule]:
    version = pair.new_version
    inner, outer = view(sent, IP[version], pair.sent.end), pair.view_sent(sent)
    dscp = {"kept": _DSCP[version].read(inner), _OUTER: _DSCP[pair.old_version].read(outer)}
    ecn = _ECN[version].read(inner)
    both = combine_ecn(ecn, _ECN[pair.old_version].read(outer)).astype(np.int64)
    old = np.where((ecn == _ECT0) & (both == _ECT1), _ECT0, both)
    marks = {_RFC6040: both, _RFC3168: old, "kept": ecn}
    kept = {"allowed": ("kept", _OUTER), "kept": ("kept",), "copied": (_OUTER,)}[policy.inner_dscp]
    allowed = {"rfc6040": _RFC6040, "rfc3168": _RFC3168, "kept": "kept"}[policy.inner_ecn]
    return [
        _make_rule("inner DSCP", _DSCP[version], dscp, kept),
        _make_rule("inner ECN", _ECN[version], marks, (allowed,), (_RFC6040, _RFC3168)),
    ]


def _list_translation_rules(policy: HeaderPolicy, sent: U8, pair: _HeaderPair) -> list[FieldRule]:
    version, header = pair.new_version, pair.view_sent(sent)
    octet = _TOS[pair.old_version].read(header)
    copied = f"copied from the {_TOS_NAME[pair.old_version]}"
    name, bits = _TOS_NAME[version], _TOS[version]
    rules = [_make_choice_rule(name, bits, policy.traffic_class, octet, copied)]
    if version == 6:
        label = _make_free_rule("flow label", _FLOW_LABEL, policy.flow_label)
        return [*rules, label] if pair.old_version == 4 else rules
    if pair.old_version == 6 and header["nh"][0] == _FRAGMENT_HEADER:
        return rules
    rules.append(_make_free_rule("identification", _IDENTIFICATION, policy.identification))
    if policy.dont_fragment == "either":
        clear = np.zeros_like(octet)
        rules.append(FieldRule("DF", _DF, {"clear": clear, "set": clear + 1}))
    return rules


def _make_choice_rule(
    name: str, bits: HeaderBits, policy: Dscp, copied: I64, words: str
) -> FieldRule:
    """Return the rule of a field that is copied, zero, or configured."""
    behaviors = {words: copied, "zero": np.zeros_like(copied)}
    if isinstance(policy, int):
        always = f"always {policy}"
        behaviors[always] = np.full_like(copied, policy)
        return _make_rule(name, bits, behaviors, (always,))
    allowed = {"allowed": (words, "zero"), "copied": (words,), "zero": ("zero",)}[policy]
    return _make_rule(name, bits, behaviors, allowed)


def _make_rule(
    name: str,
    bits: HeaderBits,
    behaviors: Mapping[str, I64],
    allowed: Sequence[str],
    variants: Sequence[str] = (),
) -> FieldRule:
    """Return the rule that allows some behaviors; the others but for ``variants`` are alternatives."""
    alternatives = [v for name, v in behaviors.items() if name not in (*allowed, *variants)]
    return FieldRule(name, bits, {name: behaviors[name] for name in allowed}, None, alternatives)


def _make_free_rule(name: str, bits: HeaderBits, policy: str) -> FieldRule:
    """Return the rule of a field with any value, unless a device always writes 0."""
    zero = {"zero": np.zeros(1, dtype=np.int64)}
    return FieldRule(name, bits, zero, 0 if policy == "allowed" else None)
