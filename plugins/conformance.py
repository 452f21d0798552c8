"""The conformance suite: checks that every technology plugin must pass.

``v6t plugins --check`` runs it, and a test of a plugin's author is one line::

    def test_my_technology_conforms():
        assert_conforms(MyTechnology)

It proves that frames are valid on both links, with a VLAN on either, and as long as the plugin says; that
what must be dropped is dropped; that the plugin is deterministic and can be sent to other processes. It
cannot prove that the translation is the RFC's: compare that with something independent.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from ipaddress import IPv6Address
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from v6t.base.entry_points import blame
from v6t.base.errors import UsageError, V6tError
from v6t.base.ethernet import FCS_OCTETS
from v6t.base.strict_model import descriptions
from v6t.intent.families import DeviceConfig
from v6t.packets import trailer
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.direction import DIRECTIONS, Direction
from v6t.packets.headers import to_numbers
from v6t.packets.reference import COMMON_REASONS
from v6t.packets.unique import sort_unique
from v6t.packets.walker import find_problems, locate_endpoints, walk
from v6t.plugins.base import Links, PluginParams, Technology
from v6t.plugins.stateful import StatefulTechnology
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.exports import from_stl_json, to_stl_json
from v6t.profiles.mixes import Sizes
from v6t.profiles.model import Role, Traffic, TrafficClass
from v6t.profiles.streams import Stream, StreamSet
from v6t.profiles.template import build

if TYPE_CHECKING:
    from v6t.packets.arrays import U8
    from v6t.packets.reference import Expected
    from v6t.plugins.base import Link

FRAMES = 48
"""Frames of each class that are checked."""
NAMES = 1000
"""Names of a zone that are checked."""
FINDINGS_PER_CHECK = 5
NONCE = 0x5A
TIME_NS = 0x0123456789ABCDEF
LEFT_VLAN, RIGHT_VLAN = 7, 4094
FIRST_ID = {"forward": 0, "reverse": 64}
SEED = 7
LARGER_SIZES = "570x4,1518x1"
"""Sizes of a mix besides the smallest."""
VERSIONS = {"IPv4": 4, "IPv6": 6}


@dataclass(frozen=True)
class Finding:
    """A fault of a plugin.

    Attributes:
        where: the check.
        said: one sentence.
    """

    where: str
    said: str

    def __str__(self) -> str:
        return f"{self.where}: {self.said}"


@dataclass(frozen=True)
class Report:
    """Result of all checks of a plugin.

    Attributes:
        checks: number of checks.
        findings: faults; none: the plugin conforms.
        notes: what could not be checked.
    """

    checks: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """A plugin with parameters and links, a frame size and a direction.

    Its frames are those that a tester sends, with trailers. A stateful plugin gets the table of a device that
    keeps the Initiator's ports and gives all connections one public address.

    Attributes:
        plugin: the instance.
        size: the listed size, or a mix of sizes.
        direction: of the frames.
        what: description for messages.
        opposite: the same in the other direction, if it exists already.
    """

    plugin: Technology
    size: int | str
    direction: Direction
    what: str
    opposite: Case | None = field(default=None, compare=False, repr=False)
    _expanders: dict[int, Expander] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        """Name in messages."""
        return f"{self.what}, {self.size} octets, {self.direction}"

    @cached_property
    def sizes(self) -> Sizes:
        """Sizes on both sides."""
        return self.plugin.sizes_of(self.size)

    @cached_property
    def traffic(self) -> Traffic:
        """The traffic as the plugin describes it."""
        return self.plugin.sized_traffic(self.direction, self.sizes, SEED)

    @cached_property
    def streams(self) -> StreamSet:
        """The compiled traffic."""
        return compile_traffic(self.traffic, first_stream_id=FIRST_ID[self.direction])

    @property
    def here(self) -> Link:
        """The link on which frames are sent."""
        return self.plugin.links.left if self.direction == "forward" else self.plugin.links.right

    @property
    def there(self) -> Link:
        """The link on which frames leave the device."""
        return self.plugin.links.right if self.direction == "forward" else self.plugin.links.left

    @cached_property
    def octets(self) -> dict[int, int]:
        """Sizes of received foreground frames by those of sent ones, FCS included."""
        sides = (self.plugin.side_sizes(pair) for pair, _ in self.sizes.pairs)
        return dict(s if self.direction == "forward" else s[::-1] for s in sides)

    @property
    def versions(self) -> tuple[int, int]:
        """IP version of foreground frames as sent, and as received."""
        left, right = self.plugin.ip_versions
        return (left, right) if self.direction == "forward" else (right, left)

    def first(self, stream: Stream) -> U8:
        """Return the first frames of a stream of this case."""
        if stream.stream_id not in self._expanders:
            self._expanders[stream.stream_id] = Expander(stream)
        return self._expanders[stream.stream_id].frames(0, FRAMES)

    def marked(self, stream: Stream) -> U8:
        """Return the first frames of a stream with trailers."""
        frames = self.first(stream)
        mark = {"stream_id": stream.stream_id, "nonce": NONCE, "time_ns": TIME_NS}
        trailer.stamp(frames, stream.checksum, seq=np.arange(FRAMES), **mark)
        return frames

    def answer(self, stream: Stream, frames: U8) -> Expected:
        """Return what a correct device makes of the first frames of a stream."""
        plugin = self.plugin
        if not isinstance(plugin, StatefulTechnology) or stream.role is not Role.FOREGROUND:
            return plugin.expect(self.direction, frames)
        initial, learned = (rows[: len(frames)] for rows in self._connections)
        if self.direction == "reverse":
            frames = _write_learned_ports(frames, learned)
        return plugin.connected(self.direction, frames, initial, learned)

    @cached_property
    def _connections(self) -> tuple[U8, U8]:
        """Frames that opened connections, and the Responder's table."""
        opposite: Direction = "reverse" if self.direction == "forward" else "forward"
        both = {
            self.direction: self,
            opposite: self.opposite or Case(self.plugin, self.size, opposite, self.what),
        }
        initial, response = (_foreground_frames(both[direction]) for direction in DIRECTIONS)
        response = response[:1]
        here, there = locate_endpoints(initial[0]), locate_endpoints(response[0])
        learned = np.empty((FRAMES, len(there.swapped_row)), dtype=np.uint8)
        learned[:] = response[:, there.row][:, there.swapped_row]
        if here.port(source=True) != here.port(source=False):
            learned[:, -2:] = initial[:, here.port(source=False)]
        return initial, learned


def _foreground_frames(case: Case) -> U8:
    return case.first(next(s for s in case.streams.streams if s.role is Role.FOREGROUND))


def _write_learned_ports(frames: U8, learned: U8) -> U8:
    """Return the Responder's template with the ports of learned connections and valid checksums."""
    out = frames.copy()
    ends = locate_endpoints(out[0])
    out[:, ends.port(source=True)] = learned[:, -2:]
    out[:, ends.port(source=False)] = learned[:, -4:-2]
    ends.write_checksum(out)
    return out


def exhausted(frame: bytes) -> bytes:
    """Return a frame with a TTL and hop limit of 1 in every IP header."""
    out = np.frombuffer(frame, dtype=np.uint8)[None].copy()
    for header in walk(frame):
        if header.name == "IPv6":
            out[0, header.start + 7] = 1
        elif header.name == "IPv4":
            out[0, header.start + 8] = 1
            write_ipv4_checksum(out, header.start)
    return out.tobytes()


def cases(kind: type[Technology], params: PluginParams | None = None) -> Iterator[Case]:
    """Yield all cases of a plugin.

    Args:
        kind: the plugin.
        params: in place of its defaults.
    """
    plain = params if params is not None else kind.params_model()
    usual, plugin = kind.default_frame_sizes[0], kind(plain, Links())
    sizes = sorted({usual, *kind.rfc_frame_sizes[:1]})
    for size in dict.fromkeys([*sizes, *kind.rfc_frame_sizes[-1:]]):
        yield from _both_directions(plugin, size, "as it is")
    yield from _both_directions(plugin, f"imix:{usual}x7,{LARGER_SIZES}", "several sizes")
    full, words = _with_all_classes(plain)
    roomy = usual + 100  # for background, which is IPv6 whatever the foreground is
    yield from _both_directions(kind(full, Links()), roomy, words)
    for side, vlan in (("left", LEFT_VLAN), ("right", RIGHT_VLAN)):
        links = replace(Links(), **{side: replace(getattr(Links(), side), vlan=vlan)})
        yield from _both_directions(kind(full, links), roomy, f"VLAN on the {side}, {words}")


def _both_directions(plugin: Technology, size: int | str, what: str) -> Iterator[Case]:
    forward = Case(plugin, size, "forward", what)
    yield forward
    yield Case(plugin, size, "reverse", what, forward)


def _with_all_classes(params: PluginParams) -> tuple[PluginParams, str]:
    """Add background and negative traffic to the parameters, if possible, and return a description."""
    names = type(params).model_fields
    more: dict[str, Any] = {name: 20 for name in names if name.endswith("_percent")}
    words = ["frames that must be dropped"] if more else []
    values = {name: getattr(params, name) for name in params.model_fields_set} | more
    if params.mixture is not None and {"n", "m"} <= names.keys():
        try:
            return type(params)(**{**values, "n": 2, "m": 1}), " and ".join([*words, "background"])
        except UsageError:
            pass  # background is impossible
    return type(params)(**values), " and ".join(words) or "as it is"


def check(
    kind: type[Technology], params: PluginParams | None = None, entry: str | None = None
) -> Report:
    """Check a plugin.

    Args:
        kind: its class.
        params: in place of its defaults.
        entry: name of its entry point.
    """
    findings: list[Finding] = []
    checks = 0

    def run(where: str, problems: Callable[[], Iterable[str]]) -> None:
        nonlocal checks
        checks += 1
        told = islice(_catch_errors(problems, kind), FINDINGS_PER_CHECK)
        findings.extend(Finding(where, problem) for problem in told)

    run("declaration", partial(check_class, kind))
    if entry is not None:
        run("entry point", partial(_check_name, kind, entry))
    if findings:
        return Report(checks, tuple(findings))
    try:
        plugin = kind(params if params is not None else kind.params_model())
        tried = list(cases(kind, params)) if plugin.exchange == "frames" else []
    except Exception as exc:  # noqa: BLE001  (a foreign plugin may raise anything)
        return Report(checks, (Finding("construction", _describe_error(exc, kind)),))
    run("description", partial(check_instance, plugin))
    if plugin.exchange == "queries":
        run("zone", partial(check_zone, plugin))
        return Report(checks, tuple(findings))
    run("pickling", partial(check_pickling, plugin))
    for case in tried:
        run(case.name, partial(check_traffic, case))
        run(case.name, partial(check_answers, case))
    notes = ()
    if not any(map(_has_negative_traffic, tried)):
        notes = ("it has no traffic that must be dropped (negative_percent)",)
    return Report(checks, tuple(findings), notes)


def assert_conforms(kind: type[Technology], params: PluginParams | None = None) -> None:
    """Fail a test with all findings.

    Raises:
        AssertionError: one line for each finding.
    """
    findings = check(kind, params).findings
    if findings:
        raise AssertionError("\n".join(map(str, findings)))


def _check_name(kind: type[Technology], entry: str) -> Iterator[str]:
    if kind.name != entry:
        yield f"it is called '{kind.name}', its entry point '{entry}': users name the latter"


def _has_negative_traffic(case: Case) -> bool:
    try:
        return any(c.role is Role.NEGATIVE for c in case.traffic.classes)
    except Exception:  # noqa: BLE001  (reported by the check of the traffic)
        return False


def _catch_errors(problems: Callable[[], Iterable[str]], kind: type[Technology]) -> Iterator[str]:
    try:
        yield from problems()
    except Exception as exc:  # noqa: BLE001  (a foreign plugin may raise anything)
        yield _describe_error(exc, kind)


def _describe_error(exc: Exception, kind: type[Technology]) -> str:
    """Describe an error with the last line of the plugin's package in its traceback."""
    if not isinstance(exc, V6tError):
        last = traceback.extract_tb(exc.__traceback__)[-1]
        return blame(exc) or f"{type(exc).__name__}: {exc} ({last.filename}, line {last.lineno})"
    package = kind.__module__.partition(".")[0]
    for frame, line in reversed(list(traceback.walk_tb(exc.__traceback__))):
        module = frame.f_globals.get("__name__", "")
        foreign = package != "v6t" and module.partition(".")[0] == package
        if module == kind.__module__ or foreign:
            return f"{exc.message} ({frame.f_code.co_filename}, line {line})"
    return exc.message


def check_class(kind: type[Technology]) -> Iterator[str]:
    """Yield what is missing or wrong in the class."""
    for what, value in (("name", kind.name), ("title", kind.title), ("rfcs", kind.rfcs)):
        if not value:
            yield f"{what} is empty"
    if not kind.default_frame_sizes:
        yield "default_frame_sizes is empty"
    words = descriptions(kind.params_model)
    for name, param in kind.params_model.model_fields.items():
        if not words[name].strip():
            yield f"parameter '{name}' has no description"
        if param.is_required():
            yield f"parameter '{name}' has no default"


def check_instance(plugin: Technology) -> Iterator[str]:
    """Yield what is wrong with the frame sizes and the intent of an instance."""
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


def check_pickling(plugin: Technology) -> Iterator[str]:
    """Yield differences of a plugin that was sent to another process."""
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


def check_zone(plugin: Technology) -> Iterator[str]:
    """Yield faults in the zone of a technology that answers queries."""
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
        yield "a record of a name's own equals the one the device makes: they cannot be distinguished"
    hosts = (IPv6Address(record.tobytes()) for record in records)
    for address in islice((a for a in hosts if a.is_multicast or a.is_unspecified), 1):
        yield f"{address} is no address of a host"
    if pickle.loads(pickle.dumps(plugin)).zone != zone:  # noqa: S301  (made here)
        yield "its zone is another one after pickling"
    intent = plugin.dut_intent()
    for side, link, address in (
        ("left", intent.left, zone.resolver),
        ("right", intent.right, zone.asker),
    ):
        if address not in [interface.ip for interface in link.addresses]:
            yield f"the device has no address {address} on the {side}, where the zone has it"


def check_traffic(case: Case) -> Iterator[str]:
    """Yield faults in the traffic of one case."""
    if all(c.role is not Role.FOREGROUND for c in case.traffic.classes):
        yield "traffic() has no foreground class"
    if case.traffic.direction != case.direction:
        yield f"traffic() is of direction {case.traffic.direction}"
    for described, stream in zip(case.traffic.classes, case.streams.streams, strict=True):
        for problem in _check_sent(case, described, stream):
            yield f"class '{stream.name}': {problem}"
    yield from _check_repeatable(case)


def _check_sent(case: Case, described: TrafficClass, stream: Stream) -> Iterator[str]:
    frames = case.marked(stream)
    yield from _check_link(frames, case.here, sending=True)
    if stream.role is not Role.NEGATIVE:
        yield from _check_headers(frames)
    if stream.role is Role.FOREGROUND:
        octets, version = frames.shape[1] + FCS_OCTETS, _read_version(frames[0])
        if octets not in case.octets:
            sizes = " or ".join(map(str, case.octets))
            yield f"frames have {octets} octets, frame_pair says {sizes}"
        if version != case.versions[0]:
            yield f"frames are IPv{version}, ip_versions says {case.versions[0]}"
    yield from _check_variables(described, frames)


def _check_headers(frames: U8) -> Iterator[str]:
    """Yield the first problem of the first frame with a wrong length or checksum."""
    problems = (
        f"frame {number}: {problem}"
        for number, frame in enumerate(frames)
        for problem in find_problems(frame.tobytes())
    )
    yield from islice(problems, 1)


def _read_version(frame: U8) -> int:
    """Return the IP version of a frame, or 0 if it carries no IP."""
    versions = (VERSIONS[h.name] for h in walk(frame.tobytes()) if h.name in VERSIONS)
    return next(versions, 0)


def _check_link(frames: U8, link: Link, *, sending: bool) -> Iterator[str]:
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


def _check_variables(described: TrafficClass, frames: U8) -> Iterator[str]:
    """Yield fields that do not hold their variable's bits, and values outside its bounds."""
    layout = build(described.layers, described.frame_size).layout
    copied = described.copied_bits()
    for variable in described.drawn_variables():
        known: dict[int, U8] = {}
        for path, copy in copied:
            if copy.variable is not variable or copy.add:
                continue  # bits of a sum are not bits of the variable
            first = layout.locate(path, copy)
            last = first + copy.length - 1
            bits = np.unpackbits(frames[:, first // 8 : last // 8 + 1], axis=1)
            columns = bits[:, first % 8 : first % 8 + copy.length].T
            seen = [known.setdefault(copy.source + n, column) for n, column in enumerate(columns)]
            if (np.array(seen) != columns).any():
                yield f"{path} does not hold the bits of variable '{variable.name}'"
        if known.keys() == set(range(variable.width)) and not len(variable.values):
            values = np.zeros(len(frames), dtype=np.uint64)  # the widest variable has 48 bits
            for place in range(variable.width):
                values = values << np.uint64(1) | known[place]
            outside = (values < variable.low) | (values > variable.top)
            if outside.any():
                yield f"variable '{variable.name}' takes the value {values[outside][0]}"


def _check_repeatable(case: Case) -> Iterator[str]:
    """Yield differences between two traffics of one seed, and after export to a file."""
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


def check_answers(case: Case) -> Iterator[str]:
    """Yield faults in the answers to the frames of one case."""
    for stream in case.streams.streams:
        for problem in _check_stream(case, stream):
            yield f"class '{stream.name}': {problem}"
    yield from _check_strangers(case)


def _check_stream(case: Case, stream: Stream) -> Iterator[str]:
    frames = case.marked(stream)
    original = frames.copy()
    answer = case.answer(stream, frames)
    if (frames != original).any():
        yield "expect() changes the frames it is given"
    shape = list(_check_shape(case, answer, len(frames)))
    yield from shape
    if shape:
        return
    if stream.role is Role.NEGATIVE:
        if answer.length.any():
            yield f"{np.count_nonzero(answer.length)} of {len(frames)} are forwarded"
        return
    if not answer.length.all():
        row = int(answer.length.argmin())
        yield f"frame {row} is dropped: {case.plugin.drops.describe(int(answer.reason[row]))}"
        return
    yield from _check_emitted(case, stream, frames, answer)
    some = case.answer(stream, frames[:5])
    width = int(some.length.max(initial=0))
    same = (some.length == answer.length[:5]).all()
    if not same or (some.frames[:, :width] != answer.frames[:5, :width]).any():
        yield "expect() answers a frame otherwise when fewer are asked for"
    late = np.array([np.frombuffer(exhausted(f.tobytes()), dtype=np.uint8) for f in frames])
    if case.answer(stream, late).length.any():
        yield "frames with a TTL or hop limit of 1 are forwarded"


def _check_shape(case: Case, answer: Expected, count: int) -> Iterator[str]:
    if len({count, len(answer.frames), len(answer.length), len(answer.reason)}) > 1:
        yield f"expect() answers {count} frames with {len(answer.length)}"
        return
    if answer.frames.dtype != np.uint8 or answer.frames.ndim != 2:
        yield "expect() does not answer with rows of octets (uint8)"
    if (answer.length > answer.frames.shape[1]).any() or (answer.length < 0).any():
        yield "expect() gives lengths beyond its frames"
    reasons = len(COMMON_REASONS) + len(case.plugin.drops)
    if (answer.reason >= reasons).any():
        highest = int(answer.reason.max())
        yield f"expect() gives drop reason {highest}, but the technology has {reasons}"
    if ((answer.reason == 0) != (answer.length > 0)).any():
        yield "a frame is dropped without a reason, or forwarded with one"


def _check_emitted(case: Case, stream: Stream, frames: U8, answer: Expected) -> Iterator[str]:
    sizes = set(answer.length.tolist())
    if len(sizes) > 1:
        yield f"equal frames leave in different sizes: {sorted(sizes)}"
        return
    out = answer.frames[:, : sizes.pop()]
    for problem in (*_check_link(out, case.there, sending=False), *_check_headers(out)):
        yield f"out of expect(): {problem}"
    if (out[:, -trailer.LENGTH :] != frames[:, -trailer.LENGTH :]).any():
        yield "out of expect(): the last 16 octets, the tester's mark, are not those sent"
    if stream.role is Role.FOREGROUND:
        octets, version = out.shape[1] + FCS_OCTETS, _read_version(out[0])
        size = case.octets.get(frames.shape[1] + FCS_OCTETS, octets)
        if octets != size:
            yield f"frames leave with {octets} octets, frame_pair says {size}"
        if version != case.versions[1]:
            yield f"frames leave as IPv{version}, ip_versions says {case.versions[1]}"


def _check_strangers(case: Case) -> Iterator[str]:
    """Yield frames of others, cut frames and frames without IP that are forwarded or have no reason."""
    stream = next(s for s in case.streams.streams if s.role is not Role.NEGATIVE)
    frames = case.marked(stream)[:4]
    at = 12 if case.here.vlan is None else 16

    def changed(octet: slice | int, value: Any) -> U8:
        copy = frames.copy()
        copy[:, octet] = value
        return copy

    strange = {
        "frames to another MAC address": changed(slice(6), frames[:, :6] ^ 0x10),
        "frames that carry no IP": changed(slice(at, at + 2), (0x08, 0x06)),
        "frames cut behind the Ethernet header": frames[:, : at + 2],
        "frames cut behind ten octets of IP": frames[:, : at + 12],
    }
    if case.here.vlan is not None:
        strange["frames of another VLAN"] = changed(14, frames[:, 14] ^ 1)
    for what, stranger in strange.items():
        answer = case.plugin.expect(case.direction, np.ascontiguousarray(stranger))
        if answer.length.any():
            yield f"{what} are forwarded"
        elif not answer.reason.all():
            yield f"{what} are dropped without a reason"
    if len(case.plugin.expect(case.direction, frames[:0]).length):
        yield "no frames are answered with frames"
