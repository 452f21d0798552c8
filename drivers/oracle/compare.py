"""Comparison of received frames with the reference translation."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from v6t.drivers.oracle.replay import FrameSource, make_frames
from v6t.drivers.tester import Oracle
from v6t.packets import header_policy as headerpolicy
from v6t.packets import trailer
from v6t.packets.arrays import I32, I64, U8
from v6t.packets.direction import Direction
from v6t.packets.header_policy import HeaderPolicy
from v6t.packets.walker import walk
from v6t.profiles.expand import Expander
from v6t.profiles.streams import Stream

_UNCHANGED_POLICY = headerpolicy.HeaderPolicy()  # policy of a cable, which changes no header


@dataclass(frozen=True)
class Comparison:
    """Result of comparing frames with the reference translation."""

    checked: int
    matched: int  # Frames that are equal, or differ only where RFCs allow it
    mismatch: Mapping[str, str] | None = None  # Description of the first frame that differs
    seen: Mapping[str, int] = field(default_factory=dict)
    """Number of frames by behavior, of behaviors that RFCs leave open."""


def merge_comparisons(comparisons: Sequence[Comparison]) -> Comparison:
    """Add up the comparisons of several streams."""
    seen: Counter[str] = Counter()
    for each in comparisons:
        seen.update(each.seen)
    return Comparison(
        checked=sum(c.checked for c in comparisons),
        matched=sum(c.matched for c in comparisons),
        mismatch=next((c.mismatch for c in comparisons if c.mismatch is not None), None),
        seen=dict(sorted(seen.items())),
    )


def compare_samples(
    stream: Stream,
    samples: list[U8],
    nonce: int | None,
    direction: Direction,
    oracle: Oracle | None,
    source: FrameSource | None = None,
    read_numbers: Callable[[U8], I64] | None = None,
) -> Comparison:
    """Compare received frames with the reference translation of the sent ones, which are rebuilt.

    Args:
        samples: received frames, arrays of equally long rows.
        nonce: number of the trial in the trailers; None to accept any, because the tester (TRex)
            chose nonce and identifier itself.
        oracle: the reference translation; None if frames must come back unchanged.
        source: source of the sent frames; None if they were sent as compiled.
        read_numbers: returns the numbers of frames within the stream; None to read the trailers.
    """
    checked = matched = 0
    first: Mapping[str, str] | None = None
    seen: Counter[str] = Counter()
    expander = source or Expander(stream)
    policy = _UNCHANGED_POLICY if oracle is None else oracle.header_policy.for_direction(direction)
    for frames in _group_by_length(samples):
        marks = trailer.read(frames)
        numbers = marks.seq if read_numbers is None else read_numbers(frames)
        sent = make_frames(expander, numbers)
        trailer.stamp(
            sent,
            expander.checksum,
            seq=marks.seq,
            stream_id=marks.stream_id if nonce is None else stream.stream_id,
            nonce=marks.nonce if nonce is None else nonce,
            time_ns=marks.time_ns,
        )
        expected, lengths = _translate(sent, direction, oracle)
        width = frames.shape[1]
        equal = lengths == width
        like = np.flatnonzero(equal)
        if len(like):
            wanted = expected[like, :width]
            tolerated = headerpolicy.tolerate(policy, sent[like], wanted, frames[like])
            equal[like] = tolerated.allowed & (tolerated.frames == wanted).all(axis=1)
            seen.update(tolerated.behaviors)
        checked += len(frames)
        matched += int(np.count_nonzero(equal))
        if first is None and not equal.all():
            row = int(equal.argmin())
            wanted = expected[row, : lengths[row]]
            first = _describe_mismatch(stream, policy, sent[row], wanted, frames[row])
    return Comparison(checked, matched, first, dict(sorted(seen.items())))


def describe_missing_frame(
    stream: Stream,
    number: int,
    direction: Direction,
    oracle: Oracle | None,
    source: FrameSource | None = None,
) -> Mapping[str, str]:
    """Describe a lost frame and its reference translation."""
    expander = source or Expander(stream)
    sent = expander.compute_frames(number, 1)
    seq = np.array([number])
    trailer.stamp(sent, expander.checksum, seq=seq, stream_id=stream.stream_id, nonce=0, time_ns=0)
    expected, lengths = _translate(sent, direction, oracle)
    return _describe_frames(stream, sent[0].tobytes(), expected[0, : lengths[0]].tobytes(), b"")


def _translate(sent: U8, direction: Direction, oracle: Oracle | None) -> tuple[U8, I32]:
    if oracle is None:
        return sent, np.full(len(sent), sent.shape[1], dtype=np.int32)
    answer = oracle.expect(direction, sent)
    return answer.frames, answer.length


def _group_by_length(samples: list[U8]) -> list[U8]:
    groups: dict[int, list[U8]] = {}
    for rows in samples:
        groups.setdefault(rows.shape[1], []).append(rows)
    return [np.concatenate(parts) for parts in groups.values()]


def _describe_mismatch(
    stream: Stream, policy: HeaderPolicy, sent: U8, wanted: U8, got: U8
) -> Mapping[str, str]:
    """Describe a mismatch, if possible by an octet in which the device has no choice."""
    pair = _describe_frames(stream, sent.tobytes(), wanted.tobytes(), got.tobytes())
    if len(wanted) != len(got):
        return pair
    rows = sent[None, :], wanted[None, :], got[None, :]
    if not (why := headerpolicy.describe_violation(policy, *rows)):
        tolerated = headerpolicy.tolerate(policy, *rows).frames
        why = describe_difference(wanted.tobytes(), tolerated.tobytes())
    return {**pair, "why": why}


def _describe_frames(
    stream: Stream, sent: bytes, expected: bytes, received: bytes
) -> Mapping[str, str]:
    return {
        "class": stream.name,
        "sent": sent.hex(),
        "expected": expected.hex(),
        "received": received.hex(),
        "why": describe_difference(expected, received),
    }


def describe_difference(expected: bytes, received: bytes) -> str:
    """Describe the first difference between two frames with its header field."""
    if not received:
        return "the device dropped it" if expected else "dropped, as it should be"
    if not expected:
        return "the device forwarded a frame it must drop"
    for at, (want, got) in enumerate(zip(expected, received, strict=False)):
        if want != got:
            name = _name_field(expected, at)
            return f"octet {at} ({name}): expected {want:02x}, received {got:02x}"
    return f"{len(expected)} octets expected, {len(received)} received"


_ETHERNET = ((0, 6, "destination MAC"), (6, 12, "source MAC"), (12, 14, "EtherType"))
_IPV4 = (
    (0, 1, "version"), (1, 2, "TOS"), (2, 4, "total length"), (4, 6, "identification"),
    (6, 8, "flags"), (8, 9, "TTL"), (9, 10, "protocol"), (10, 12, "header checksum"),
    (12, 16, "source"), (16, 20, "destination"), (20, 60, "options"),
)  # fmt: skip
_IPV6 = (
    (0, 4, "version, traffic class, flow label"), (4, 6, "payload length"), (6, 7, "next header"),
    (7, 8, "hop limit"), (8, 24, "source"), (24, 40, "destination"),
)  # fmt: skip
_UDP = ((0, 2, "source port"), (2, 4, "destination port"), (4, 6, "length"), (6, 8, "checksum"))

_TCP = (
    (0, 2, "source port"), (2, 4, "destination port"), (4, 8, "sequence number"),
    (8, 12, "acknowledgement number"), (12, 14, "flags"), (14, 16, "window"), (16, 18, "checksum"),
)  # fmt: skip
_GRE = ((0, 2, "flags"), (2, 4, "protocol type"))
_FIELDS = {"Ethernet": _ETHERNET, "IPv4": _IPV4, "IPv6": _IPV6, "GRE": _GRE, "UDP": _UDP,
           "TCP": _TCP}  # fmt: skip


def _name_field(frame: bytes, at: int) -> str:
    deep = 0
    for header in walk(frame):
        deep += header.name in ("IPv4", "IPv6")
        if header.start <= at < header.end:
            inner = "inner " if deep > 1 and header.name in ("IPv4", "IPv6") else ""
            fields = _FIELDS.get(header.name, ())
            named = (f for low, high, f in fields if low <= at - header.start < high)
            return f"{inner}{header.name} {next(named, '')}".strip()
    return "payload"
