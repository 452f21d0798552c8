"""The conformance suite: everything that a plugin is checked for, in its author's tests and ours.

A test of your own is one line::

    def test_it_conforms():
        assert_conforms(MyTechnology)

What it proves: frames are valid on both links, with VLAN on either, and as long as the plugin says;
what must be dropped is dropped; the plugin is deterministic and can be sent to other processes. What
it cannot prove: that the translation is the RFC's. Compare that with something independent.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from ipaddress import IPv6Address
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.base.entry_points import blame
from v6t.base.errors import UsageError, V6tError
from v6t.base.strict_model import descriptions
from v6t.intent.families import DeviceConfig
from v6t.packets import trailer
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.direction import DIRECTIONS, Direction
from v6t.packets.headers import to_numbers
from v6t.packets.unique import sort_unique
from v6t.packets.walker import find_problems, locate_endpoints, walk
from v6t.plugins.base import Links, PluginParams, Technology
from v6t.plugins.stateful import StatefulTechnology
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.export.stl import from_stl_json, to_stl_json
from v6t.profiles.fields import bound_bits
from v6t.profiles.mixes import Sizes
from v6t.profiles.model import Role, Traffic, TrafficClass
from v6t.profiles.streams import Stream, StreamSet
from v6t.profiles.template import build
from v6t.profiles.wire import FCS_OCTETS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from v6t.packets.arrays import U8
    from v6t.packets.reference import Expected
    from v6t.plugins.base import Link

FRAMES = 48
"""Frames of each class that are looked at."""
NONCE = 0x5A
TIME_NS = 0x0123456789ABCDEF
LEFT_VLAN, RIGHT_VLAN = 7, 4094
FIRST_ID = {"forward": 0, "reverse": 64}
SEED = 7
MORE = "570x4,1518x1"
"""Sizes of a mix beside the smallest."""


@dataclass(frozen=True)
class Case:
    """A plugin with parameters and links, a frame size and a direction.

    Attributes:
        plugin: ready to be asked.
        size: the listed size, or a mix of sizes.
        direction: which way.
        what: is special about it, in words.
        opposite: the same in the other direction, where it is at hand.
    """

    plugin: Technology
    size: int | str
    direction: Direction
    what: str
    opposite: Case | None = field(default=None, compare=False, repr=False)
    _expanders: dict[int, Expander] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.what}, {self.size} octets, {self.direction}"

    @cached_property
    def sizes(self) -> Sizes:
        """On both sides."""
        return self.plugin.sizes_of(self.size)

    @cached_property
    def traffic(self) -> Traffic:
        """As the plugin describes it."""
        return self.plugin.sized_traffic(self.direction, self.sizes, SEED)

    @cached_property
    def streams(self) -> StreamSet:
        """Compiled."""
        return compile_traffic(self.traffic, first_stream_id=FIRST_ID[self.direction])

    @property
    def here(self) -> Link:
        """The link its frames are sent on."""
        return self.plugin.links.left if self.direction == "forward" else self.plugin.links.right

    @property
    def there(self) -> Link:
        """The link they leave the device on."""
        return self.plugin.links.right if self.direction == "forward" else self.plugin.links.left

    @cached_property
    def octets(self) -> dict[int, int]:
        """Of foreground frames as they come back, by those that are sent, FCS included."""
        sides = (self.plugin.side_sizes(pair) for pair, _ in self.sizes.pairs)
        return dict(s if self.direction == "forward" else s[::-1] for s in sides)

    @property
    def versions(self) -> tuple[int, int]:
        """IP version of foreground frames as sent, and as they come back."""
        left, right = self.plugin.ip_versions
        return (left, right) if self.direction == "forward" else (right, left)

    def first(self, stream: Stream) -> U8:
        """The first frames of a stream of this case."""
        if stream.stream_id not in self._expanders:
            self._expanders[stream.stream_id] = Expander(stream)
        return self._expanders[stream.stream_id].frames(0, FRAMES)

    def marked(self, stream: Stream) -> U8:
        """The first frames of a stream, marked."""
        frames = self.first(stream)
        trailer.stamp(
            frames,
            stream.checksum,
            seq=np.arange(FRAMES),
            stream_id=stream.stream_id,
            nonce=NONCE,
            time_ns=TIME_NS,
        )
        return frames

    def answer(self, stream: Stream, frames: U8) -> Expected:
        """What a correct device makes of frames of a stream, the first one first."""
        plugin = self.plugin
        if not isinstance(plugin, StatefulTechnology) or stream.role is not Role.FOREGROUND:
            return plugin.expect(self.direction, frames)
        initial, learned = (rows[: len(frames)] for rows in self._connections)
        if self.direction == "reverse":
            frames = _addressed(frames, learned)
        return plugin.connected(self.direction, frames, initial, learned)

    @cached_property
    def _connections(self) -> tuple[U8, U8]:
        """Frames that opened connections, and what the Responder learned of them."""
        other: Direction = "reverse" if self.direction == "forward" else "forward"
        ways = {
            self.direction: self,
            other: self.opposite or Case(self.plugin, self.size, other, self.what),
        }
        initial, answer = (ways[way].first(foreground(ways[way].streams)) for way in DIRECTIONS)
        answer = answer[:1]
        here, there = locate_endpoints(initial[0]), locate_endpoints(answer[0])
        learned = np.empty((FRAMES, len(there.swapped_row)), dtype=np.uint8)
        learned[:] = answer[:, there.row][:, there.swapped_row]
        if here.port(source=True) != here.port(source=False):
            learned[:, -2:] = initial[:, here.port(source=False)]
        return initial, learned


def foreground(streams: StreamSet) -> Stream:
    """The first foreground stream of a set."""
    return next(s for s in streams.streams if s.role is Role.FOREGROUND)


def _addressed(frames: U8, learned: U8) -> U8:
    """The Responder's template with the ports of learned connections, checksums valid."""
    out = frames.copy()
    ends = locate_endpoints(out[0])
    out[:, ends.port(source=True)] = learned[:, -2:]
    out[:, ends.port(source=False)] = learned[:, -4:-2]
    ends.write_checksum(out)
    return out


def exhausted(frame: bytes) -> bytes:
    """The same frame with a TTL and hop limit of 1 in every IP header."""
    out = bytearray(frame)
    for header in walk(frame):
        if header.name == "IPv6":
            out[header.start + 7] = 1
        elif header.name == "IPv4":
            out[header.start + 8] = 1
            row = np.frombuffer(bytes(out), dtype=np.uint8)[None].copy()
            write_ipv4_checksum(row, header.start)
            out = bytearray(row.tobytes())
    return bytes(out)


def cases(kind: type[Technology], params: PluginParams | None = None) -> Iterator[Case]:
    """Everything a plugin is tried with.

    Args:
        kind: the plugin.
        params: instead of its defaults.
    """
    plain = params if params is not None else kind.params_model()
    sizes = sorted({*kind.default_frame_sizes[:1], *kind.rfc_frame_sizes[:1]})
    sizes += kind.rfc_frame_sizes[-1:]
    for size in dict.fromkeys(sizes):
        yield from _both(kind(plain, Links()), size, "as it is")
    usual = kind.default_frame_sizes[0]
    yield from _both(kind(plain, Links()), f"imix:{usual}x7,{MORE}", "several sizes")
    full, words = _everything(plain)
    # room for background, which is IPv6 whatever the foreground is
    roomy = usual + 100
    yield from _both(kind(full, Links()), roomy, words)
    for left, right in ((LEFT_VLAN, None), (None, RIGHT_VLAN)):
        links = Links()
        links = Links(replace(links.left, vlan=left), replace(links.right, vlan=right))
        side = "left" if right is None else "right"
        yield from _both(kind(full, links), roomy, f"VLAN on the {side}, {words}")


def _both(plugin: Technology, size: int | str, what: str) -> Iterator[Case]:
    forward = Case(plugin, size, "forward", what)
    yield forward
    yield Case(plugin, size, "reverse", what, forward)


def _everything(params: PluginParams) -> tuple[PluginParams, str]:
    """The parameters with background and with frames that must be dropped, where there are any."""
    names = type(params).model_fields
    more: dict[str, Any] = {name: 20 for name in names if name.endswith("_percent")}
    words = ["frames that must be dropped"] if more else []
    values = {name: getattr(params, name) for name in params.model_fields_set} | more
    if params.mixture is not None and {"n", "m"} <= names.keys():
        try:
            return type(params)(**{**values, "n": 2, "m": 1}), " and ".join([*words, "background"])
        except UsageError:
            pass  # some cannot have any (MIX-03)
    return type(params)(**values), " and ".join(words) or "as it is"


def declared(kind: type[Technology]) -> Iterator[str]:
    """What is missing or wrong in the class."""
    for what, value in (("name", kind.name), ("title", kind.title), ("rfcs", kind.rfcs)):
        if not value:
            yield f"{what} is empty"
    if not kind.default_frame_sizes:
        yield "default_frame_sizes is empty"
    if not kind.drop_reasons or kind.drop_reasons[0] != "forwarded":
        yield "drop_reasons does not begin with 'forwarded'"
    words = descriptions(kind.params_model)
    for name, model_field in kind.params_model.model_fields.items():
        if not words[name].strip():
            yield f"parameter '{name}' has no description"
        if model_field.is_required():
            yield f"parameter '{name}' has no default"


def described(plugin: Technology) -> Iterator[str]:
    """What is missing or wrong in an instance with its default parameters."""
    for size in (*plugin.default_frame_sizes, *plugin.rfc_frame_sizes):
        try:
            pair = plugin.frame_pair(size)
        except UsageError as exc:
            yield f"frame_pair refuses its own frame size of {size} octets: {exc.message}"
            continue
        difference = pair.ipv6 - pair.ipv4
        if set(plugin.ip_versions) == {4, 6} and difference != plugin.overhead:
            yield f"frame_pair({size}) differs by {difference}, overhead says {plugin.overhead}"
    intent = plugin.dut_intent()
    if intent.technology != plugin.name:
        yield f"dut_intent() is of '{intent.technology}'"
    if not isinstance(intent.configuration, DeviceConfig):
        yield f"the configuration of dut_intent() is {intent.configuration!r}, not a DeviceConfig"


def pickled(plugin: Technology) -> Iterator[str]:
    """A plugin goes to other processes: what arrives there must be the same."""
    try:
        other = pickle.loads(pickle.dumps(plugin))  # noqa: S301  (made here)
    except Exception as exc:  # noqa: BLE001  (anything may fail here, and is told)
        yield f"it cannot be pickled: {type(exc).__name__}: {exc}"
        return
    if (other.params, other.links) != (plugin.params, plugin.links):
        yield "parameters or links are others after pickling"
        return
    size = plugin.default_frame_sizes[0]
    for direction in DIRECTIONS:
        mine, its = (Case(p, size, direction, "") for p in (plugin, other))
        if mine.streams != its.streams:
            yield "it sends other frames after pickling"
            return
        for stream in mine.streams.streams:
            frames = mine.marked(stream)
            answer, again = mine.answer(stream, frames), its.answer(stream, frames)
            if (answer.length != again.length).any() or (answer.frames != again.frames).any():
                yield "it answers otherwise after pickling"
                return


IPS = {"IPv4": 4, "IPv6": 6}


def sent(case: Case) -> Iterator[str]:
    """What is wrong with the traffic of one case."""
    roles = {c.role for c in case.traffic.classes}
    if Role.FOREGROUND not in roles:
        yield "traffic() has no foreground class"
    if case.traffic.direction != case.direction:
        yield f"traffic() is of direction {case.traffic.direction}"
    for described, stream in zip(case.traffic.classes, case.streams.streams, strict=True):
        frames = case.marked(stream)
        who = f"class '{stream.name}'"
        yield from (
            f"{who}: {problem}" for problem in link_problems(frames, case.here, sending=True)
        )
        if stream.role is not Role.NEGATIVE:
            yield from (f"{who}: frame {k}: {problem}" for k, problem in first_problem(frames))
        if stream.role is Role.FOREGROUND:
            octets = frames.shape[1] + FCS_OCTETS
            if octets not in case.octets:
                sizes = " or ".join(map(str, case.octets))
                yield f"{who}: frames have {octets} octets, frame_pair says {sizes}"
            version = outer_version(frames[0])
            if version != case.versions[0]:
                yield f"{who}: frames are IPv{version}, ip_versions says {case.versions[0]}"
        yield from (f"{who}: {problem}" for problem in _as_described(described, frames))
    yield from _the_same_again(case)


def first_problem(frames: U8) -> Iterator[tuple[int, str]]:
    """The first frame with a wrong length or checksum, and the first thing that is wrong."""
    for number, frame in enumerate(frames):
        problems = find_problems(frame.tobytes())
        if problems:
            yield number, problems[0]
            return


def outer_version(frame: U8) -> int:
    """IP version of a frame; 0: it carries none."""
    versions = (IPS[h.name] for h in walk(frame.tobytes()) if h.name in IPS)
    return next(versions, 0)


def link_problems(frames: U8, link: Link, *, sending: bool) -> Iterator[str]:
    """Ethernet addresses and VLAN tag that are not the link's."""
    ends = (link.dut_mac, link.tester_mac) if sending else (link.tester_mac, link.dut_mac)
    macs = np.frombuffer(bytes.fromhex("".join(ends).replace(":", "")), dtype=np.uint8)
    if (frames[:, :12] != macs).any():
        yield "MAC addresses are not those of the link"
    tagged = frames[:, 12:14] == (0x81, 0x00)
    if link.vlan is None:
        if tagged.all(axis=1).any():
            yield "frames have a VLAN tag, the link has none"
    elif not tagged.all() or (to_numbers(frames[:, 14:16]) & 0x0FFF != link.vlan).any():
        yield f"frames are not tagged with VLAN {link.vlan}"


def _as_described(described: TrafficClass, frames: U8) -> Iterator[str]:
    """Every bound field holds the variable's value, within its bounds."""
    layout, bindings = (
        build(described.layers, described.frame_size).layout,
        described.all_bindings(),
    )
    for variable in described.drawn_variables():
        known: dict[int, NDArray[np.uint8]] = {}
        for binding in (b for b in bindings if b.variable == variable.name):
            first, last = bound_bits(layout, binding)
            start = 0 if binding.var_first is None else binding.var_first
            if binding.add:
                continue  # bits of a sum are not bits of the variable
            bits = np.unpackbits(frames[:, first // 8 : last // 8 + 1], axis=1)
            bits = bits[:, first % 8 : first % 8 + last - first + 1]
            for place in range(bits.shape[1]):
                seen = known.setdefault(start + place, bits[:, place])
                if (seen != bits[:, place]).any():
                    yield f"{binding.field} does not hold the bits of variable '{variable.name}'"
                    break
        if known.keys() == set(range(variable.width)) and not len(variable.values):
            values = np.zeros(len(frames), dtype=np.uint64)  # the widest variable has 48 bits
            for place in range(variable.width):
                values = values << np.uint64(1) | known[place]
            outside = (values < variable.low) | (values > variable.top)
            if outside.any():
                yield f"variable '{variable.name}' takes the value {values[outside][0]}"


def _the_same_again(case: Case) -> Iterator[str]:
    """One seed is one traffic; single frames, all at once, and of a file are the same."""
    again = compile_traffic(
        case.plugin.sized_traffic(case.direction, case.sizes, SEED),
        first_stream_id=case.streams.streams[0].stream_id,
    )
    if again != case.streams:
        yield "traffic() with one seed is not the same twice"
    read = from_stl_json(to_stl_json(case.streams))
    for stream, other in zip(case.streams.streams, read.streams, strict=True):
        reader = Expander(other)
        single = np.concatenate([reader.frames(k, 1) for k in range(0, FRAMES, 7)])
        if (case.first(stream)[::7] != single).any():
            yield f"class '{stream.name}': frames of the exported stream are others"


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


NAMES = 1000


def asked(plugin: Technology) -> Iterator[str]:
    """What is wrong with its zone."""
    zone = plugin.zone
    if zone is None:
        yield "it is of queries, and has no zone"
        return
    numbers = np.arange(0, zone.count, max(1, zone.count // NAMES))
    addresses = zone.addresses(numbers)
    if len(sort_unique(addresses)) != len(numbers):
        yield "two names spell the same address"
    records, own = zone.answers(addresses, 0.0), zone.answers(addresses, 1.0)
    if (records == own).all(axis=1).any():
        yield "a record of a name's own is the one the device makes: nobody could tell them apart"
    for record in records:
        record_address = IPv6Address(record.tobytes())
        if record_address.is_multicast or record_address.is_unspecified:
            yield f"{record_address} is no address of a host"
            break
    other = pickle.loads(pickle.dumps(plugin))  # noqa: S301  (made here)
    if other.zone != zone:
        yield "its zone is another one after pickling"
    intent = plugin.dut_intent()
    for side, address in (("left", zone.resolver), ("right", zone.asker)):
        if address not in [own.ip for own in getattr(intent, side).addresses]:
            yield f"the device has no address {address} on the {side}, where the zone has it"


MOST = 5
"""Sentences kept of one check: the rest mostly says the same."""


@dataclass(frozen=True)
class Finding:
    """Something a plugin does wrong.

    Attributes:
        where: what was tried.
        said: one sentence.
    """

    where: str
    said: str

    def __str__(self) -> str:
        return f"{self.where}: {self.said}"


@dataclass(frozen=True)
class Report:
    """What a check found.

    Attributes:
        checks: how many were made.
        findings: what is wrong; none: the plugin conforms.
        notes: what could not be looked at.
    """

    checks: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()


def check(
    kind: type[Technology], params: PluginParams | None = None, entry: str | None = None
) -> Report:
    """Check a plugin.

    Args:
        kind: its class.
        params: to check it with; its defaults otherwise.
        entry: name of the entry point it was found by.
    """
    findings: list[Finding] = []
    checks, negative = 0, False

    def look(where: str, problems: Callable[[], Iterable[str]]) -> None:
        nonlocal checks
        checks += 1
        findings.extend(
            Finding(where, problem) for problem in islice(_safely(problems, kind), MOST)
        )

    look("declaration", lambda: declared(kind))
    if entry is not None:
        look("entry point", lambda: _named(kind, entry))
    if findings:
        return Report(checks, tuple(findings))
    try:
        plugin = kind(params if params is not None else kind.params_model())
        tried = list(cases(kind, params)) if plugin.exchange == "frames" else []
    except Exception as exc:  # noqa: BLE001  (a foreign plugin may raise anything)
        return Report(checks, (Finding("construction", _in_words(exc, kind)),))
    look("description", lambda: described(plugin))
    if plugin.exchange == "queries":
        look("zone", lambda: asked(plugin))
        return Report(checks, tuple(findings))
    look("pickling", lambda: pickled(plugin))
    for case in tried:
        look(case.name, lambda case=case: sent(case))
        look(case.name, lambda case=case: answered(case))
        negative |= _has_negative(case)
    notes = () if negative else ("it has no traffic that must be dropped (negative_percent)",)
    return Report(checks, tuple(findings), notes)


def _named(kind: type[Technology], entry: str) -> Iterator[str]:
    if kind.name != entry:
        yield f"it is called '{kind.name}', its entry point '{entry}': users name the latter"


def assert_conforms(kind: type[Technology], params: PluginParams | None = None) -> None:
    """For tests: fail with everything that is wrong.

    Raises:
        AssertionError: one line for each finding.
    """
    findings = check(kind, params).findings
    if findings:
        raise AssertionError("\n".join(map(str, findings)))


def _has_negative(case: Case) -> bool:
    try:
        return any(c.role is Role.NEGATIVE for c in case.traffic.classes)
    except Exception:  # noqa: BLE001  (told where the traffic was looked at)
        return False


def _safely(problems: Callable[[], Iterable[str]], kind: type[Technology]) -> Iterator[str]:
    try:
        yield from problems()
    except Exception as exc:  # noqa: BLE001  (a foreign plugin may raise anything)
        yield _in_words(exc, kind)


def _in_words(exc: Exception, kind: type[Technology]) -> str:
    """An error in words, with the line of the plugin (the last one on the way) it came from."""
    if not isinstance(exc, V6tError):
        message = blame(exc)
        if message is not None:
            return message
        last = traceback.extract_tb(exc.__traceback__)[-1]
        return f"{type(exc).__name__}: {exc} ({last.filename}, line {last.lineno})"
    for frame, line in reversed(list(traceback.walk_tb(exc.__traceback__))):
        if _of_author(frame.f_globals.get("__name__", ""), kind.__module__):
            return f"{exc.message} ({frame.f_code.co_filename}, line {line})"
    return exc.message


def _of_author(module: str, plugin: str) -> bool:
    """Whether a module is the plugin's, or another of its package (v6t's own is everybody's)."""
    package = plugin.partition(".")[0]
    return module == plugin or (package != "v6t" and module.partition(".")[0] == package)
