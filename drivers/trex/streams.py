"""Streams as TRex sends them: with its stamps, or with marks that their own programs write.

*Stamps.* When a latency stream starts, TRex sets an ECN bit in its template and writes 0xFFFF into
the identification or flow label (``CFlowStatRuleMgr::start_stream``, v3.08), which NICs that filter
need. In software mode, the only one where v6t counts by trailers, TRex knows frames by their last 16
octets (``RXLatency::handle_flow_latency_stats``). The program of a stream runs after that, so a write
of it restores the header's first octets. A stamp changes the payload of every frame, so that each
frame needs its checksum computed.

*Marks.* TRex stamps 128 streams, and hands stamped frames to a port one by one
(``CCoreEthIF::send_one_pkt_lat``, v3.08), others up to 32 at a time. A marked frame ends like a
stamped one, but its stream number has the highest bit set, which TRex's receiver ignores; a capture
filter counts it. It holds no time. Its number within the stream, in network byte order, stands where
TRex's does as far as programs reach (octet 512); in longer frames it stands before the trailer, at a
fixed distance from the frame's end.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from v6t.base.errors import UsageError
from v6t.drivers.oracle.replay import Cycle, FrameSource
from v6t.intent.device import Link
from v6t.packets import trailer
from v6t.packets.arrays import I64, U8
from v6t.packets.checksum import compute_checksum, sum_columns, write_update
from v6t.packets.headers import to_numbers, to_octets
from v6t.packets.walker import locate_headers
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.expand import Expander
from v6t.profiles.streams import Checksum, Stream, StreamSet

MARK_IDS = 1 << 15  # First stream number of marked streams
MARKS_PER_CLASS = 1 << 12  # Consecutive stream numbers of one of eight classes
MARKED_CLASSES = MARK_IDS // MARKS_PER_CLASS
FIRST_SEQUENCE = (1 << 32) - 2  # TRex's sequence numbers start here (``m_seq_num`` in bp_sim.h)
NUMBER_OCTETS = 4  # Octets of a marked frame's number
_HEADER_VARIABLE, _NUMBER_VARIABLE = "trex-header", "mark-number"
_FIRST_OCTETS = {4: 8, 6: 4}  # Octets that TRex changes in a header, by IP version
_VLAN_TAG = b"\x81\x00"  # EtherType of IEEE 802.1Q


def with_stamps(streams: StreamSet) -> StreamSet:
    """Return a set with all its streams prepared for TRex's stamps."""
    return replace(streams, streams=tuple(map(with_stamp, streams.streams)))


def with_stamp(stream: Stream) -> Stream:
    """Return a stream prepared for TRex's stamps: its program undoes TRex's changes of headers."""
    packet, program = bytearray(stream.packet), list(stream.program)
    if any(i["type"] == "flow_var" and i["name"] == _HEADER_VARIABLE for i in program):
        return stream
    layout = locate_headers(stream.packet)
    if (free := len(packet) - layout.end) < trailer.LENGTH:
        problem = f"frames of '{stream.name}' have {free} octets of payload; TRex's stamp needs 16"
        raise UsageError(problem, "choose a larger frame size", code="frame-too-small")
    version, l3 = layout.networks[0] if layout.networks else (0, 0)
    octets = _FIRST_OCTETS.get(version, 0)
    if ins.count_variable_octets(program) + octets > ins.MAX_VARIABLE_OCTETS:
        # no room to undo what TRex changes in the template
        if version == 4:
            packet[l3 + 1] |= 1
            packet[l3 + 4 : l3 + 6] = b"\xff\xff"
            packet[l3 + 10 : l3 + 12] = bytes(2)
            checksum = compute_checksum(bytes(packet[l3 : l3 + 20]))
            packet[l3 + 10 : l3 + 12] = checksum.to_bytes(2, "big")
        else:
            packet[l3 + 1] = packet[l3 + 1] & 0xF0 | 0x10
            packet[l3 + 2 : l3 + 4] = b"\xff\xff"
    elif octets:
        value = int.from_bytes(packet[l3 : l3 + octets], "big")
        restored = ins.declare_range(_HEADER_VARIABLE, octets, "inc", value, value)
        program = [restored, ins.write(_HEADER_VARIABLE, l3), *program]
    return with_checksum_fixes(stream.with_packet(bytes(packet)).with_program(program))


def with_checksum_fixes(stream: Stream) -> Stream:
    """Return a stream that corrects the checksum over its trailer and that of an outer IPv4 header."""
    layout = locate_headers(stream.packet)
    program = list(stream.program)
    fixed = {i["pkt_offset"] for i in program if i["type"] == "fix_checksum_ipv4"}
    fixed |= {i["l2_len"] for i in program if i["type"] == "fix_checksum_hw"}
    checksum, fixes = stream.checksum, list[ins.Instruction]()
    if checksum is not None and not any(i["type"] == "fix_checksum_hw" for i in program):
        kind, below = ins.L4_TYPES.get(checksum.protocol), checksum.network
        if kind is None or below is None or below > ins.MAX_L2_OCTETS:
            problem = f"TRex cannot correct the {checksum.protocol} checksum of '{stream.name}'"
            hint = "count by ports, send frames without that checksum, or with its network header "
            hint += f"at octet {ins.MAX_L2_OCTETS} at most"
            raise UsageError(f"{problem} after it stamps frames", hint, code="beyond-trex")
        fixes.append(ins.fix_hardware(below, checksum.header - below, kind))
        fixed.add(below)
    outer = layout.networks[0] if layout.networks else None
    if outer is not None and outer.version == 4 and outer.start not in fixed:
        fixes.insert(0, ins.fix_ipv4(outer.start))
    return stream.with_program(program + fixes)


def is_marked(stream: Stream) -> bool:
    """Whether frames of a stream carry a mark, not TRex's stamp."""
    return stream.stream_id >= MARK_IDS


def compute_number_distance(length: int) -> int:
    """Return the distance of the number from the end of a marked frame [octets]."""
    reach = length - trailer.LENGTH + 4
    if reach + NUMBER_OCTETS <= ins.MAX_OFFSET:
        return length - reach
    return length - (ins.MAX_OFFSET - trailer.LENGTH)


def find_number_distance(stream: Stream) -> int:
    """Return the distance of the number from the end of a stream's marked frames; 0 if stamped."""
    return compute_number_distance(len(stream.packet)) if is_marked(stream) else 0


def with_mark(stream: Stream) -> Stream:
    """Return the stream with a mark that holds its identifier and the number of the frame."""
    packet = bytearray(stream.packet)
    end = len(packet)
    packet[end - trailer.LENGTH :] = bytes(trailer.LENGTH)
    packet[end - trailer.LENGTH] = trailer.MAGIC
    packet[end - 14 : end - 12] = stream.stream_id.to_bytes(2, "little")
    count = ins.declare_range(_NUMBER_VARIABLE, NUMBER_OCTETS, "inc", 0, (1 << 32) - 1)
    place = ins.write(_NUMBER_VARIABLE, end - compute_number_distance(end))
    return stream.with_packet(bytes(packet)).with_program([count, place, *stream.program])


def read_numbers(frames: U8, distance: int = 0) -> I64:
    """Return the number of each stamped or marked frame within its stream.

    Args:
        distance: :func:`compute_number_distance` of marked frames as sent; 0 for stamped frames.
    """
    if distance == 0:
        return (trailer.read(frames).seq - np.uint32(FIRST_SEQUENCE)).astype(np.int64)
    if (at := frames.shape[1] - distance) < 0:
        return np.zeros(len(frames), dtype=np.int64)
    return to_numbers(frames[:, at : at + NUMBER_OCTETS]).astype(np.int64)


def write_numbers(frames: U8, numbers: I64, checksum: Checksum | None) -> None:
    """Write the numbers of long frames before their trailer, and keep checksums valid."""
    length = frames.shape[1]
    if (distance := compute_number_distance(length)) < trailer.LENGTH:
        return
    at = length - distance
    first = at if checksum is None else at - (at - checksum.header) % 2
    before = sum_columns(frames, first, first + 6)
    frames[:, at : at + NUMBER_OCTETS] = to_octets(numbers, NUMBER_OCTETS)
    if checksum is not None:
        after = sum_columns(frames, first, first + 6)
        write_update(frames, checksum.field, before, after, udp=checksum.protocol == "UDP")


class MarkedCycle(Cycle):
    """Cycle of marked frames, whose numbers continue from one pass to the next."""

    def compute_frames(self, first: int, count: int, out: U8 | None = None) -> U8:
        out = super().compute_frames(first, count, out)
        write_numbers(out, np.arange(first, first + count), self.checksum)
        return out


@dataclass(frozen=True, kw_only=True)
class SentStream(Stream):
    """Stream whose frames come from a source, not from its program, until the trailer is written."""

    make_source: Callable[[], FrameSource] = field(compare=False)

    def source(self) -> FrameSource:
        return self.make_source()


def mark_stream(stream: Stream, rows: int = 1 << 62) -> SentStream:
    """Return a stream with a mark; after ``rows`` frames its frames repeat."""
    source = partial(MarkedCycle, Expander(stream), rows)
    return SentStream(**vars(with_checksum_fixes(with_mark(stream))), make_source=source)


def mark_streams(streams: StreamSet) -> StreamSet | None:
    """Return streams with marks, or None if TRex's identifiers or programs have no room."""
    distances = {compute_number_distance(len(s.packet)) for s in streams.streams}
    used = max(ins.count_variable_octets(s.program) for s in streams.streams)
    has_room = used + NUMBER_OCTETS <= ins.MAX_VARIABLE_OCTETS
    # each class needs one of the ten captures that two directions share with their samples
    has_room &= len(streams.streams) <= MARKED_CLASSES // 2
    if len(distances) != 1 or not has_room:
        return None
    marked = (
        mark_stream(replace(stream, stream_id=MARK_IDS + number * MARKS_PER_CLASS))
        for number, stream in enumerate(streams.streams)
    )
    return replace(streams, streams=tuple(marked))


def replace_link_header(frame: bytes, old: Link, new: Link) -> bytes:
    """Return a frame with the MAC addresses and the VLAN of one link replaced by those of another.

    Other addresses stay, for example broadcast.
    """
    texts = (old.tester_mac, new.tester_mac), (old.dut_mac, new.dut_mac)
    macs = dict([bytes.fromhex(mac.replace(":", "")) for mac in pair] for pair in texts)
    head = b"".join(macs.get(mac, mac) for mac in (frame[:6], frame[6:12]))
    tag, vlan = int.from_bytes(frame[14:16], "big"), new.vlan
    if vlan is None or frame[12:14] != _VLAN_TAG or tag & 0xFFF != old.vlan:
        return head + frame[12:]
    return head + _VLAN_TAG + (tag & 0xF000 | vlan).to_bytes(2, "big") + frame[16:]


def with_cache(streams: StreamSet, size: int) -> StreamSet:
    """Return streams of which TRex caches ``size`` frames each; 0 for no cache."""
    if not size:
        return streams
    programs = ((s, {**s.trex["vm"], "cache": size}) for s in streams.streams)
    cached = tuple(replace(s, trex={**s.trex, "vm": program}) for s, program in programs)
    return replace(streams, streams=cached)
