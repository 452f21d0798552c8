"""What a plugin's reference translation answers: valid frames, drops with a reason, no surprises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from v6t.packets import trailer
from v6t.plugins.conformance.cases import Case, exhausted
from v6t.plugins.conformance.sent import first_problem, link_problems, outer_version
from v6t.profiles.model import Role
from v6t.profiles.wire import FCS_OCTETS

if TYPE_CHECKING:
    from v6t.packets.arrays import U8
    from v6t.packets.reference import Expected
    from v6t.profiles.streams import Stream


def answered(case: Case) -> Iterator[str]:
    """What is wrong with the answers to the frames of one case."""
    for stream in case.streams.streams:
        who = f"class '{stream.name}'"
        yield from (f"{who}: {problem}" for problem in _of_stream(case, stream))
    yield from _strangers(case)


def _of_stream(case: Case, stream: Stream) -> Iterator[str]:
    frames = case.marked(stream)
    original = frames.copy()
    answer = case.answer(stream, frames)
    if (frames != original).any():
        yield "expect() changes the frames it is given"
    shape = _shape(case, answer, len(frames))
    yield from shape
    if shape:
        return
    if stream.role is Role.NEGATIVE:
        if answer.length.any():
            yield f"{np.count_nonzero(answer.length)} of {len(frames)} are forwarded"
        return
    if not answer.length.all():
        row = int(answer.length.argmin())
        why = case.plugin.drop_reasons[int(answer.reason[row])]
        yield f"frame {row} is dropped: {why}"
        return
    yield from _valid(case, stream, frames, answer)
    yield from _one_by_one(case, stream, frames, answer)
    late = np.array([np.frombuffer(exhausted(f.tobytes()), dtype=np.uint8) for f in frames])
    if case.answer(stream, late).length.any():
        yield "frames with a TTL or hop limit of 1 are forwarded"


def _shape(case: Case, answer: Expected, count: int) -> list[str]:
    """Arrays as the contract has them."""
    problems = []
    if len({count, len(answer.frames), len(answer.length), len(answer.reason)}) > 1:
        return [f"expect() answers {count} frames with {len(answer.length)}"]
    if answer.frames.dtype != np.uint8 or answer.frames.ndim != 2:
        problems.append("expect() does not answer with rows of octets (uint8)")
    if (answer.length > answer.frames.shape[1]).any() or (answer.length < 0).any():
        problems.append("expect() gives lengths beyond its frames")
    if (answer.reason >= len(case.plugin.drop_reasons)).any():
        problems.append(
            f"expect() gives drop reason {int(answer.reason.max())}, but drop_reasons has "
            f"{len(case.plugin.drop_reasons)}"
        )
    if ((answer.reason == 0) != (answer.length > 0)).any():
        problems.append("a frame is dropped without a reason, or forwarded with one")
    return problems


def _valid(case: Case, stream: Stream, frames: U8, answer: Expected) -> Iterator[str]:
    sizes = set(answer.length.tolist())
    if len(sizes) > 1:
        yield f"equal frames leave in different sizes: {sorted(sizes)}"
        return
    out = answer.frames[:, : sizes.pop()]
    yield from (
        f"out of expect(): {problem}" for problem in link_problems(out, case.there, sending=False)
    )
    yield from (f"out of expect(): frame {k}: {problem}" for k, problem in first_problem(out))
    if (out[:, -trailer.LENGTH :] != frames[:, -trailer.LENGTH :]).any():
        yield "out of expect(): the last 16 octets, the tester's mark, are not those sent"
    if stream.role is Role.FOREGROUND:
        octets = out.shape[1] + FCS_OCTETS
        size = case.octets.get(frames.shape[1] + FCS_OCTETS)
        if size is not None and octets != size:  # what is sent is looked at elsewhere
            yield f"frames leave with {octets} octets, frame_pair says {size}"
        version = outer_version(out[0])
        if version != case.versions[1]:
            yield f"frames leave as IPv{version}, ip_versions says {case.versions[1]}"


def _one_by_one(case: Case, stream: Stream, frames: U8, answer: Expected) -> Iterator[str]:
    """Each row is answered for itself: what else is in the batch makes no difference."""
    some = case.answer(stream, frames[:5])
    width = int(some.length.max(initial=0))
    if (some.length != answer.length[:5]).any() or (
        some.frames[:, :width] != answer.frames[:5, :width]
    ).any():
        yield "expect() answers a frame otherwise when fewer are asked for"


def _strangers(case: Case) -> Iterator[str]:
    """What is not for the device, cut short, or no IP packet at all is dropped without an error."""
    stream = next(s for s in case.streams.streams if s.role is not Role.NEGATIVE)
    frames = case.marked(stream)[:4]
    other = frames.copy()
    other[:, :6] ^= 0x10
    arp = frames.copy()
    at = 12 if case.here.vlan is None else 16
    arp[:, at : at + 2] = (0x08, 0x06)
    strange = {
        "frames to another MAC address": other,
        "frames that carry no IP": arp,
        "frames cut behind the Ethernet header": frames[:, : at + 2],
        "frames cut behind ten octets of IP": frames[:, : at + 12],
    }
    if case.here.vlan is not None:
        untagged = frames.copy()
        untagged[:, 14] ^= 1
        strange["frames of another VLAN"] = untagged
    for what, stranger in strange.items():
        answer = case.plugin.expect(case.direction, np.ascontiguousarray(stranger))
        if answer.length.any():
            yield f"{what} are forwarded"
        elif not answer.reason.all():
            yield f"{what} are dropped without a reason"
    if len(case.plugin.expect(case.direction, frames[:0]).length):
        yield "no frames are answered with frames"
