"""Conformance checks for technology plugins; they cannot prove that a translation follows its RFC."""

import pickle
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from ipaddress import IPv6Address
from itertools import chain, islice, product
from typing import Any, TypeVar

import numpy as np
from v6t.base.errors import UsageError, V6tError
from v6t.base.ethernet import FCS_OCTETS
from v6t.base.strict_model import describe_fields
from v6t.intent.families import DeviceConfig
from v6t.packets import trailer
from v6t.packets.arrays import U8, sort_unique
from v6t.packets.checksum import write_ipv4_checksum
from v6t.packets.direction import DIRECTIONS, Direction
from v6t.packets.headers import read_hops, to_numbers
from v6t.packets.reference import COMMON_REASONS, Expected
from v6t.packets.walker import find_problems, locate_endpoints, walk
from v6t.plugins.base import Link, Links, PluginParams, Technology
from v6t.plugins.stateful import StatefulTechnology
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.exports import from_stl_json, to_stl_json
from v6t.profiles.model import Role, Traffic, TrafficClass
from v6t.profiles.streams import Stream, StreamSet
from v6t.profiles.template import build_template

FRAMES, NAMES = 48, 1000  # frames of each class and names of a zone that are checked
MAX_FINDINGS_PER_CHECK = 5
NONCE, TIME_NS = 0x5A, 0x0123456789ABCDEF
FIRST_STREAM_ID = {"forward": 0, "reverse": 64}
SEED = 7
IP_VERSIONS = {"IPv4": 4, "IPv6": 6}

_T = TypeVar("_T")
# Error code, whether the plugin has this error, and its description.
Results = Iterator[tuple[str, Any, str]]


@dataclass(frozen=True)
class ConformanceFinding:
    """An error in a plugin."""

    where: str  # check and case
    code: str  # for example ``hop-limit``
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


@dataclass(frozen=True)
class ConformanceReport:
    """Result of all checks of a plugin."""

    checks: int  # number of checks
    findings: tuple[ConformanceFinding, ...]
    notes: tuple[str, ...] = ()  # about checks that were impossible


@dataclass(frozen=True)
class Case:
    """A test case: a plugin, a frame size or mix, and a direction; NATs are assumed to keep ports."""

    plugin: Technology
    size: int | str
    direction: Direction
    variant: str  # description of sizes, classes and links

    @cached_property
    def traffic(self) -> Traffic:
        sizes = self.plugin.make_sizes(self.size)
        return self.plugin.build_sized_traffic(self.direction, sizes, SEED)

    @cached_property
    def streams(self) -> StreamSet:
        return compile_traffic(self.traffic, first_stream_id=FIRST_STREAM_ID[self.direction])

    def _order_by_direction(self, left: _T, right: _T) -> tuple[_T, _T]:
        """Order the values of the left and right link: sending link first."""
        return (left, right) if self.direction == "forward" else (right, left)

    @property
    def links(self) -> tuple[Link, Link]:
        """Link on which the tester sends, and link on which it receives."""
        return self._order_by_direction(self.plugin.links.left, self.plugin.links.right)

    @property
    def versions(self) -> tuple[int, int]:
        return self._order_by_direction(*self.plugin.ip_versions)

    @cached_property
    def received_sizes(self) -> dict[int, int]:
        """Sizes of received foreground frames by sizes of sent ones, FCS included."""
        pairs = self.plugin.make_sizes(self.size).pair_counts
        link_sizes = (self.plugin.list_link_sizes(pair) for pair, _ in pairs)
        return dict(self._order_by_direction(*sizes) for sizes in link_sizes)

    @cached_property
    def frames(self) -> dict[int, U8]:
        """Frames without trailers by stream ID."""
        return {s.stream_id: Expander(s).compute_frames(0, FRAMES) for s in self.streams.streams}

    def stamp_frames(self, stream: Stream) -> U8:
        """Return the frames of a stream with trailers."""
        frames, mark = self.frames[stream.stream_id].copy(), {"nonce": NONCE, "time_ns": TIME_NS}
        seq = np.arange(FRAMES)
        trailer.stamp(frames, stream.checksum, stream_id=stream.stream_id, seq=seq, **mark)
        return frames

    def translate(self, stream: Stream, frames: U8) -> Expected:
        """Return the reference translation of frames, by their connections if there are any."""
        plugin = self.plugin
        if not isinstance(plugin, StatefulTechnology) or stream.role is not Role.FOREGROUND:
            return plugin.expect(self.direction, frames)
        initial, learned = (rows[: len(frames)] for rows in self._connections)
        if self.direction == "reverse":
            frames = frames.copy()
            ends = locate_endpoints(frames[0])
            frames[:, ends.get_port(source=True)] = learned[:, -2:]
            frames[:, ends.get_port(source=False)] = learned[:, -4:-2]
            ends.write_checksum(frames)
        return plugin.expect_for_connections(self.direction, frames, initial, learned)

    @cached_property
    def _connections(self) -> tuple[U8, U8]:
        """First frames of connections, and the rows that the Responder learns from them."""
        initial, response = (
            next(c.frames[s.stream_id] for s in c.streams.streams if s.role is Role.FOREGROUND)
            for c in (replace(self, direction=direction) for direction in DIRECTIONS)
        )
        here, there = locate_endpoints(initial[0]), locate_endpoints(response[0])
        learned = np.empty((FRAMES, len(there.swapped_row)), dtype=np.uint8)
        learned[:] = response[:1, there.row][:, there.swapped_row]
        if here.get_port(source=True) != here.get_port(source=False):
            learned[:, -2:] = initial[:, here.get_port(source=False)]
        return initial, learned


def exhaust_hops(frames: U8) -> U8:
    """Return copies of frames of one layout ``(n, length)`` with TTL and hop limit 1 in every IP header."""
    out = frames.copy()
    for header in walk(frames[0].tobytes()):
        if header.name in IP_VERSIONS:
            read_hops(out, IP_VERSIONS[header.name], header.start)[:] = 1
        if header.name == "IPv4":
            write_ipv4_checksum(out, header.start)
    return out


def _list_hops(frames: U8) -> list[U8]:
    """Return TTL or hop limit of the outermost and the innermost IP header of frames of one layout."""
    headers = [h for h in walk(frames[0].tobytes()) if h.name in IP_VERSIONS]
    return [read_hops(frames, IP_VERSIONS[h.name], h.start) for h in (headers[0], headers[-1])]


def list_cases(kind: type[Technology], params: PluginParams | None = None) -> Iterator[Case]:
    """Yield all cases of a plugin, each in both directions; ``params`` replace its default parameters."""
    plain = params if params is not None else kind.params_model()
    usual, plugin, links = kind.default_frame_sizes[0], kind(plain, Links()), Links()
    sizes = [*sorted({usual, *kind.rfc_frame_sizes[:1]}), *kind.rfc_frame_sizes[-1:]]
    full, roomy = _enable_all_classes(plain), usual + 100  # background is IPv6
    left = links.left.model_copy(update={"vlan": 7})
    right = links.right.model_copy(update={"vlan": 4094})
    shapes: list[tuple[Technology, int | str, str]] = [
        *((plugin, size, "one size") for size in dict.fromkeys(sizes)),
        (plugin, f"imix:{usual}x7,570x4,1518x1", "several sizes"),
        (kind(full, links), roomy, "all classes"),
        (kind(full, replace(links, left=left)), roomy, "VLAN on the left"),
        (kind(full, replace(links, right=right)), roomy, "VLAN on the right"),
    ]
    for (plugin, size, what), direction in product(shapes, DIRECTIONS):
        yield Case(plugin, size, direction, what)


def _enable_all_classes(params: PluginParams) -> PluginParams:
    """Return parameters with negative and, where possible, background traffic."""
    names = type(params).model_fields
    values = {name: getattr(params, name) for name in params.model_fields_set}
    values |= {name: 20 for name in names if name.endswith("_percent")}
    if params.mixture is not None and {"n", "m"} <= names.keys():
        with suppress(UsageError):  # background is impossible
            return type(params)(**{**values, "n": 2, "m": 1})
    return type(params)(**values)


def check_plugin(
    kind: type[Technology], params: PluginParams | None = None, entry_point: str | None = None
) -> ConformanceReport:
    """Check a plugin; ``params`` replace its default parameters, ``entry_point`` names its entry point."""
    if findings := _run_check("declaration", partial(check_class, kind, entry_point), kind):
        return ConformanceReport(1, tuple(findings))
    try:
        plugin = kind(params if params is not None else kind.params_model())
        tried = list(list_cases(kind, params)) if plugin.exchange == "frames" else []
    except Exception as exc:  # noqa: BLE001  (a foreign plugin may raise anything)
        finding = ConformanceFinding("construction", "error", _describe_error(exc, kind))
        return ConformanceReport(1, (finding,))
    queries, roles = plugin.exchange == "queries", set()
    other = ("zone", check_zone) if queries else ("pickling", check_pickling)
    checks = [(n, partial(c, plugin)) for n, c in (("description", check_instance), other)]
    for case in tried:
        name = f"{case.variant}, {case.size} octets, {case.direction}"
        checks += [(name, partial(rows, case)) for rows in (check_traffic, check_translation)]
        with suppress(Exception):  # reported by check_traffic
            roles |= {c.role for c in case.traffic.classes}
    findings = [finding for where, rows in checks for finding in _run_check(where, rows, kind)]
    lacking = tried and Role.NEGATIVE not in roles
    notes = ("it has no traffic that must be dropped (negative_percent)",) if lacking else ()
    return ConformanceReport(1 + len(checks), tuple(findings), notes)


def assert_conforms(kind: type[Technology], params: PluginParams | None = None) -> None:
    """Raise AssertionError with all findings, one per line."""
    if findings := check_plugin(kind, params).findings:
        raise AssertionError("\n".join(map(str, findings)))


def _run_check(
    where: str, check: Callable[[], Results], kind: type[Technology]
) -> list[ConformanceFinding]:
    """Run a check and return its first findings; an exception is a finding, too."""
    findings: list[ConformanceFinding] = []
    try:
        faults = (ConformanceFinding(where, code, text) for code, fault, text in check() if fault)
        findings.extend(islice(faults, MAX_FINDINGS_PER_CHECK))
    except Exception as exc:  # noqa: BLE001  (a foreign plugin may raise anything)
        findings.append(ConformanceFinding(where, "error", _describe_error(exc, kind)))
    return findings


def _describe_error(exc: Exception, kind: type[Technology]) -> str:
    package = kind.__module__.partition(".")[0]
    frames = list(traceback.walk_tb(exc.__traceback__))
    known = isinstance(exc, V6tError)
    where = "" if known else f" ({frames[-1][0].f_code.co_filename}, line {frames[-1][1]})"
    for frame, line in frames:
        module = frame.f_globals.get("__name__", "")
        if module == kind.__module__ or (package != "v6t" and module.partition(".")[0] == package):
            where = f" ({frame.f_code.co_filename}, line {line})"
    return (exc.message if isinstance(exc, V6tError) else f"{type(exc).__name__}: {exc}") + where


def check_class(kind: type[Technology], entry_point: str | None) -> Results:
    """Check the class variables and the descriptions of parameters."""
    for name in ("name", "title", "rfcs", "default_frame_sizes"):
        yield name, not getattr(kind, name), f"{name} is empty"
    words = describe_fields(kind.params_model)
    for name, param in kind.params_model.model_fields.items():
        yield "description", not words[name].strip(), f"parameter '{name}' has no description"
        yield "default", param.is_required(), f"parameter '{name}' has no default"
    differs = entry_point not in {None, kind.name}
    yield "name", differs, f"its name is {kind.name}, its entry point {entry_point}"


def check_instance(plugin: Technology) -> Results:
    """Check the declared frame sizes and the device intent."""
    overhead, translates = plugin.overhead, set(plugin.ip_versions) == {4, 6}
    for size in (*plugin.default_frame_sizes, *plugin.rfc_frame_sizes):
        try:
            pair = plugin.make_frame_pair(size)
        except UsageError as exc:
            yield "frame-size", True, f"make_frame_pair refuses its own size {size}: {exc.message}"
            continue
        longer = pair.ipv6 - pair.ipv4
        message = f"make_frame_pair({size}) differs by {longer}, overhead is {overhead}"
        yield "overhead", translates and longer != overhead, message
    intent = plugin.make_dut_intent()
    model, name = intent.configuration, intent.technology
    yield "intent", name != plugin.name, f"make_dut_intent() is of '{name}'"
    yield "intent", not isinstance(model, DeviceConfig), f"make_dut_intent() configures {model!r}"


def check_pickling(plugin: Technology) -> Results:
    """Check that a pickled copy of the plugin sends and expects the same frames."""
    try:
        other = pickle.loads(pickle.dumps(plugin))  # noqa: S301  (made here)
    except Exception as exc:  # noqa: BLE001  (anything may fail here, and is reported)
        yield "pickling", True, f"it cannot be pickled: {type(exc).__name__}: {exc}"
        return
    differs = (other.params, other.links) != (plugin.params, plugin.links)
    yield "pickling", differs, "parameters or links change with pickling"
    for direction in DIRECTIONS:
        case = Case(plugin, plugin.default_frame_sizes[0], direction, "")
        copy = replace(case, plugin=other)
        yield "pickling", case.streams != copy.streams, "it sends other frames after pickling"
        for stream in case.streams.streams:
            answers = (each.translate(stream, case.stamp_frames(stream)) for each in (case, copy))
            yield "pickling", _frames_differ(*answers), "it answers differently after pickling"


def _frames_differ(a: Expected, b: Expected) -> bool:
    count, width = min(len(a.length), len(b.length)), int(b.length.max(initial=0))
    lengths = (a.length[:count] != b.length[:count]).any()
    return bool(lengths or (a.frames[:count, :width] != b.frames[:count, :width]).any())


def check_zone(plugin: Technology) -> Results:
    """Check the DNS zone of a technology whose device answers queries."""
    if (zone := plugin.zone) is None:
        yield "zone", True, "it exchanges queries but has no zone"
        return
    addresses = zone.list_addresses(np.arange(0, zone.count, max(1, zone.count // NAMES)))
    unique = len(sort_unique(addresses)) == len(addresses)
    yield "zone", not unique, "two names encode the same address"
    records, own = (zone.list_expected_records(addresses, share) for share in (0.0, 1.0))
    equal = (records == own).all(axis=1).any()
    yield "zone", equal, "a name's native record equals the one that the device makes"
    hosts = (IPv6Address(record.tobytes()) for record in records)
    for address in islice((a for a in hosts if a.is_multicast or a.is_unspecified), 1):
        yield "zone", True, f"{address} is not an address of a host"
    copy = pickle.loads(pickle.dumps(plugin)).zone  # noqa: S301  (made here)
    yield "pickling", copy != zone, "its zone differs after pickling"
    intent = plugin.make_dut_intent()
    for side, address in (("left", zone.resolver), ("right", zone.egress)):
        lacks = address not in [interface.ip for interface in getattr(intent, side).addresses]
        yield "intent", lacks, f"the device lacks the zone's address {address} on the {side}"


def check_traffic(case: Case) -> Results:
    """Check that streams have the declared frames and variables, and that they are repeatable."""
    roles, direction = {c.role for c in case.traffic.classes}, case.traffic.direction
    yield "no-foreground", Role.FOREGROUND not in roles, "build_traffic() has no foreground class"
    yield "direction", direction != case.direction, f"build_traffic() is of direction {direction}"
    exported = from_stl_json(to_stl_json(case.streams)).streams
    sent = zip(case.traffic.classes, case.streams.streams, exported, strict=True)
    for model, stream, read in sent:
        frames = case.stamp_frames(stream)
        differ = (case.frames[stream.stream_id] != Expander(read).compute_frames(0, FRAMES)).any()
        rows = _check_frames(case, stream, frames, set(case.received_sizes), 0)
        export = [("export", differ, "the exported stream has other frames")]
        for code, fault, text in chain(rows, _check_variables(model, frames), export):
            yield code, fault, f"class '{stream.name}': {text}"
    changed = replace(case).streams != case.streams
    yield "not-repeatable", changed, "build_traffic() differs between two calls with one seed"


def _check_variables(model: TrafficClass, frames: U8) -> Results:
    """Check that all fields of a variable hold the same bits, within its range."""
    layout = build_template(model.layers, model.frame_size).layout
    digits, copies = np.unpackbits(frames, axis=1), model.copied_bits
    for variable in model.list_drawn_variables():
        known: dict[int, U8] = {}
        for path, copy in copies:
            if copy.variable is not variable or copy.add:
                continue  # bits of a sum are not bits of the variable
            for bit, column in enumerate(digits.T[layout.locate_bits(path, copy) :][: copy.length]):
                differ = (known.setdefault(copy.source + bit, column) != column).any()
                yield "variable", differ, f"{path} does not hold the bits of '{variable.name}'"
        if len(known) == variable.width and not len(variable.values):
            powers = 1 << np.arange(variable.width, dtype=np.int64)  # of up to 48 bits
            values = sum(known[bit] * power for bit, power in enumerate(powers[::-1]))
            beyond = (values < variable.low) | (values > variable.top)
            yield "variable", np.any(beyond), f"'{variable.name}' is outside its range"


def _check_frames(case: Case, stream: Stream, frames: U8, sizes: set[int], side: int) -> Results:
    """Check headers and sizes of sent frames (``side`` 0) or forwarded frames (``side`` 1)."""
    link, version = case.links[side], case.versions[side]
    ends = (link.tester_mac, link.dut_mac) if side else (link.dut_mac, link.tester_mac)
    macs = np.frombuffer(bytes.fromhex("".join(ends).replace(":", "")), dtype=np.uint8)
    yield "mac-address", (frames[:, :12] != macs).any(), "MAC addresses are not those of the link"
    tagged = (frames[:, 12:14] == (0x81, 0x00)).all(axis=1)
    if link.vlan is None:
        yield "vlan", tagged.any(), "frames have a VLAN tag, the link has none"
    else:
        right = tagged & (to_numbers(frames[:, 14:16]) & 0x0FFF == link.vlan)
        yield "vlan", not right.all(), f"frames are not tagged with VLAN {link.vlan}"
    if stream.role is not Role.NEGATIVE:
        problems = ((n, text) for n, f in enumerate(frames) for text in find_problems(f.tobytes()))
        for number, problem in islice(problems, 1):
            yield "header", True, f"frame {number}: {problem}"
    if stream.role is Role.FOREGROUND:
        length, stated = frames.shape[1] + FCS_OCTETS, " or ".join(map(str, sizes))
        message = f"frames have {length} octets, make_frame_pair returns {stated}"
        yield "frame-size", length not in sizes, message
        headers = walk(frames[0].tobytes())
        first = next((IP_VERSIONS[h.name] for h in headers if h.name in IP_VERSIONS), 0)
        yield "ip-version", first != version, f"frames are IPv{first}, ip_versions has {version}"


def check_translation(case: Case) -> Results:
    """Check the reference translation of one case, and that foreign frames are dropped."""
    for stream in case.streams.streams:
        for code, fault, text in _check_stream(case, stream):
            yield code, fault, f"class '{stream.name}': {text}"
    yield from _check_foreign_frames(case)


def _check_stream(case: Case, stream: Stream) -> Results:
    """Check that frames of a stream are dropped or forwarded as their role requires."""
    frames = case.stamp_frames(stream)
    answer = case.translate(stream, frames)
    changed = (frames != case.stamp_frames(stream)).any()
    yield "input-changed", changed, "expect() changes its input frames"
    shape = [row for row in _check_shape(case, answer, len(frames)) if row[1]]
    yield from shape
    if shape:
        return
    forwarded = np.count_nonzero(answer.length)
    if stream.role is Role.NEGATIVE:
        yield "negative-forwarded", forwarded, f"{forwarded} of {len(frames)} are forwarded"
    elif forwarded < len(frames):
        row = int(answer.length.argmin())
        reason = case.plugin.drops.describe(int(answer.reason[row]))
        yield "dropped", True, f"frame {row} is dropped: {reason}"
    else:
        yield from _check_forwarded(case, stream, frames, answer)
        differs = _frames_differ(answer, case.translate(stream, frames[:5]))
        yield "batch", differs, "expect() returns a different answer to a frame among fewer frames"
        immortal = case.translate(stream, exhaust_hops(frames)).length.any()
        yield "hop-limit", immortal, "frames with a TTL or hop limit of 1 are forwarded"


def _check_shape(case: Case, answer: Expected, count: int) -> Results:
    """Check types, lengths and drop reasons of the translation of ``count`` frames."""
    emitted, length, reason = answer.frames, answer.length, answer.reason
    if len({count, len(emitted), len(length), len(reason)}) > 1:
        yield "shape", True, f"expect() returns {len(length)} rows for {count} frames"
        return
    octets = emitted.dtype == np.uint8 and emitted.ndim == 2
    yield "shape", not octets, "expect() does not return rows of octets (uint8)"
    beyond = (length > emitted.shape[1]) | (length < 0)
    yield "shape", beyond.any(), "expect() returns lengths beyond its frames"
    reasons, highest = len(COMMON_REASONS) + len(case.plugin.drops), int(reason.max())
    yield "drop-reason", highest >= reasons, f"expect() returns reason {highest} of {reasons}"
    wrong = (reason == 0) != (length > 0)
    yield "drop-reason", wrong.any(), "a frame is dropped without a reason, or forwarded with one"


def _check_forwarded(case: Case, stream: Stream, frames: U8, answer: Expected) -> Results:
    lengths = set(answer.length.tolist())
    if len(lengths) > 1:
        yield "frame-size", True, f"equal frames leave in different sizes: {sorted(lengths)}"
        return
    out = answer.frames[:, : lengths.pop()]
    sizes = {case.received_sizes.get(frames.shape[1] + FCS_OCTETS, out.shape[1] + FCS_OCTETS)}
    for code, fault, text in _check_frames(case, stream, out, sizes, 1):
        yield code, fault, f"out of expect(): {text}"
    pairs = zip(_list_hops(out), _list_hops(frames), strict=True)  # a router reduces the outer only
    undiminished = np.all([after >= before for after, before in pairs], axis=0).any()
    yield "hop-limit", undiminished, "out of expect(): neither TTL nor hop limit is reduced"
    changed = (out[:, -trailer.LENGTH :] != frames[:, -trailer.LENGTH :]).any()
    yield "trailer", changed, "out of expect(): the trailer of 16 octets is not the one sent"


def _check_foreign_frames(case: Case) -> Results:
    """Check that frames for another station, VLAN or protocol and cut frames are dropped."""
    stream = next(s for s in case.streams.streams if s.role is not Role.NEGATIVE)
    frames, vlan = case.stamp_frames(stream)[:4], case.links[0].vlan
    at = 12 if vlan is None else 16
    unknown, tagged = frames.copy(), frames.copy()
    unknown[:, at : at + 2] = (0x08, 0x06)
    tagged[:, 14] ^= 1
    strangers = {
        "frames to another MAC address": frames ^ np.eye(1, frames.shape[1], dtype=np.uint8) * 16,
        "frames that carry no IP": unknown,
        "frames truncated after the Ethernet header": frames[:, : at + 2].copy(),
        "frames truncated after ten octets of IP": frames[:, : at + 12].copy(),
        **({} if vlan is None else {"frames of another VLAN": tagged}),
    }
    for what, stranger in strangers.items():
        answer = case.plugin.expect(case.direction, stranger)
        yield "stranger", answer.length.any(), f"{what} are forwarded"
        yield "drop-reason", not answer.reason.all(), f"{what} are dropped without a reason"
    some = len(case.plugin.expect(case.direction, frames[:0]).length)
    yield "shape", some, "expect() returns frames for an empty input"
