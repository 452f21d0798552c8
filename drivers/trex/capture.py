"""Captured and recorded test frames: filtered, read into columns, told apart by stream, and compared.

Frames come in batches: times of arrival by the server's clock [s] ``(n,)``, and octets
``(n, length)`` of equally long frames.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from v6t.base.errors import EnvironmentLacking, TesterError
from v6t.drivers.oracle.compare import Comparison, compare_samples, merge_comparisons
from v6t.drivers.trex import streams as trex_streams
from v6t.drivers.trex.bursts import OfferedLoad
from v6t.drivers.trex.streams import MARK_IDS, is_marked, read_numbers
from v6t.packets import trailer
from v6t.packets.arrays import F64, I64, U8, count_unique, sort_unique
from v6t.packets.walker import walk
from v6t.profiles.model import Role
from v6t.profiles.streams import Stream, StreamSet

if TYPE_CHECKING:
    from v6t.drivers.transport.ssh_client import SshClient
    from v6t.drivers.trex.attachment import Attachment

Batch = tuple[F64, U8]
_CONTROL_PROTOCOLS = ("arp", "icmp", "icmp6")  # Devices send ARP, ICMP and ND unasked
_CONTROL_WITHOUT_ECHO = ("arp", "(icmp and icmp[0] != 8 and icmp[0] != 0)",
                         "(icmp6 and ip6[40] != 128 and ip6[40] != 129)")  # fmt: skip
_MULTICAST_FILTER = "ether[0] & 1 = 1"  # RA, MLD, IGMP, LLDP, spanning tree, routing protocols
TEST_FRAME_FILTER = f"ether[len - {trailer.LENGTH}] = {trailer.MAGIC}"
STAMPED_FRAME_FILTER = f"{TEST_FRAME_FILTER} and ether[len - 13] & 128 = 0"
_MARKED_FRAME_FILTER = f"{TEST_FRAME_FILTER} and ether[len - 13] & 128 != 0"
_FILE_HEADER, _RECORD_HEADER = 24, 16  # Octets of the headers of a pcap file and of a record
SPARE_FRAMES = 1000  # Number of unexpected frames for which a recording has room
_GROWTH_OCTETS = 80  # Two headers that the device may add to a frame
_CHUNK_FRAMES = 1 << 20  # Frames that are read at a time
SAMPLES_PER_STREAM = 20  # Frames that are compared to identify a stream


def make_batches(frames: Iterable[tuple[float, bytes]]) -> list[Batch]:
    """Group frames by length, in the order of their arrival."""
    by_length: dict[int, list[tuple[float, bytes]]] = {}
    for when, octets in frames:
        by_length.setdefault(len(octets), []).append((when, octets))
    return [
        (
            np.array([when for when, _ in group]),
            np.frombuffer(b"".join(f for _, f in group), np.uint8).reshape(len(group), length),
        )
        for length, group in by_length.items()
    ]


def read_recording(path: Path) -> list[Batch]:
    """Read a classic pcap file; a batch of all its frames, if equally long, is a view of it."""
    if path.stat().st_size < _FILE_HEADER + _RECORD_HEADER:
        return []
    data = np.memmap(path, np.uint8, "r")
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">"}.get(data[:4].tobytes())
    if order is None:
        raise TesterError(f"{path} is not a TRex recording", code="tester-fault")
    captured, length = data[_FILE_HEADER + 8 : _FILE_HEADER + 16].view(f"{order}u4").tolist()
    rows, rest = divmod(len(data) - _FILE_HEADER, _RECORD_HEADER + captured)
    if rest == 0 and captured == length:
        table = data[_FILE_HEADER:].reshape(rows, _RECORD_HEADER + captured)
        heads = table[:, :_RECORD_HEADER].copy().view(f"{order}u4")
        if (heads[:, 2:] == length).all():
            return [(heads[:, 0] + heads[:, 1] / 1e6, table[:, _RECORD_HEADER:])]
    return make_batches(_read_records(data.tobytes(), order, path))


def _read_records(data: bytes, order: str, path: Path) -> Iterator[tuple[float, bytes]]:
    at = _FILE_HEADER
    while at + _RECORD_HEADER <= len(data):
        seconds, micros, captured, length = struct.unpack_from(f"{order}IIII", data, at)
        if captured != length:
            raise TesterError(f"{path} holds frames that were cut", code="tester-fault")
        at += _RECORD_HEADER
        if at + captured > len(data):
            break  # the server was writing when it was stopped
        yield seconds + micros / 1e6, data[at : at + captured]
        at += captured


def _split_batches(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Split batches into parts that fit into memory; drop frames that are shorter than a trailer."""
    for times_s, frames in batches:
        count = len(frames) if frames.shape[1] >= trailer.LENGTH else 0
        for first in range(0, count, _CHUNK_FRAMES):
            part = slice(first, first + _CHUNK_FRAMES)
            yield times_s[part], frames[part]


def _find_current_nonces(batches: Iterable[Batch], nonce: int) -> U8:
    """Return the nonce octet of the trial's frames, by stream number.

    Marked frames hold the trial's nonce. In stamped frames TRex counts the starts of the stream
    number there (``CLatencyPktData::reset``, v3.08), so the frame of a number that left last is of
    this trial, and frames with another octet are of earlier trials.
    """
    octet = np.full(1 << 16, nonce, dtype=np.uint8)
    latest: dict[int, int] = {}
    for _, frames in _split_batches(batches):
        marks = trailer.read(frames)
        stamped = marks.magic_ok & (marks.stream_id < MARK_IDS)
        for number in sort_unique(marks.stream_id[stamped]).tolist():
            rows = np.flatnonzero(stamped & (marks.stream_id == number))
            last = rows[marks.time_ns[rows].argmax()]
            if int(marks.time_ns[last]) >= latest.get(number, 0):
                latest[number] = int(marks.time_ns[last])
                octet[number] = marks.nonce[last]
    return octet


def select_current_frames(batches: Sequence[Batch], nonce: int) -> Iterator[tuple[Batch, int]]:
    """Yield the trial's frames of each batch, and the number of frames of earlier trials."""
    expected = _find_current_nonces(batches, nonce)
    for times_s, frames in _split_batches(batches):
        marks = trailer.read(frames)
        current = marks.magic_ok & (marks.nonce == expected[marks.stream_id])
        stale = int(np.count_nonzero(~current))
        # a view of the file where nothing is stale
        yield ((times_s[current], frames[current]) if stale else (times_s, frames)), stale


def make_control_filter(streams: Iterable[StreamSet]) -> str:
    """Return the filter for control frames, which port counters include.

    Where test frames are ICMP, echoes are not control frames.
    """
    headers = {header.name for one in streams for s in one.streams for header in walk(s.packet)}
    has_icmp = bool(headers & {"ICMP", "ICMPv6"})
    terms = " or ".join(_CONTROL_WITHOUT_ECHO if has_icmp else _CONTROL_PROTOCOLS)
    return f"{_MULTICAST_FILTER} or {terms} or (vlan and ({terms}))"


def make_class_filter(number: int, nonce: int = 0) -> str:
    """Return the filter for the marked frames of one of eight classes in a trial with a nonce."""
    high = MARK_IDS + number * trex_streams.MARKS_PER_CLASS >> 8
    return f"{TEST_FRAME_FILTER} and ether[len - 15] = {nonce} and ether[len - 13] & 240 = {high}"


def make_sample_filter(frames: int, wanted: int, distance: int = 0, nonce: int = 0) -> str:
    """Return the filter that passes about ``wanted`` of ``frames`` frames of each stream.

    Their number decides, so that the device's changes of headers do not change which frames are kept:
    in stamped frames little-endian, 12 octets before the end; in marked ones in network byte order,
    ``distance`` octets before the end. ``distance`` 0 stands for stamped frames.
    """
    bits = count_stride_bits(frames, wanted)
    if distance == 0:
        return " and ".join([STAMPED_FRAME_FILTER, *_list_mask_terms(bits, 12, -1)])
    own_trial = f"{_MARKED_FRAME_FILTER} and ether[len - 15] = {nonce}"
    return " and ".join([own_trial, *_list_mask_terms(bits, distance - 3, 1)])


def make_neighbors_filter(frames: int, wanted: int) -> str:
    """Return the filter that passes whole runs of 256 neighbors, about ``wanted`` of ``frames``."""
    terms = _list_mask_terms(count_stride_bits(frames, wanted), 11, -1, octets=3)
    return " and ".join([TEST_FRAME_FILTER, *terms])


def count_stride_bits(frames: int, wanted: int) -> int:
    """Return the number of low bits that are zero in about ``wanted`` of ``frames`` numbers."""
    return max(0, (frames // max(1, wanted)).bit_length() - 1)


def _list_mask_terms(bits: int, low: int, step: int, octets: int = 4) -> list[str]:
    """List BPF terms that hold if the low bits of a number are zero."""
    mask = (1 << bits) - 1
    masks = (mask >> 8 * octet & 0xFF for octet in range(octets))
    return [f"ether[len - {low + step * n}] & {m} = 0" for n, m in enumerate(masks) if m]


def make_capture_request(
    kind: str,
    ports: Sequence[int],
    pattern: str,
    limit: int,
    class_number: int = 0,
    snaplen: int = 0,
) -> dict[str, Any]:
    """Return a request to capture at most ``limit`` frames at ports that match a BPF pattern."""
    request = {"kind": kind, "ports": list(ports), "class": class_number}
    return {**request, "filter": pattern, "limit": limit, "snaplen": snaplen}


class Recordings:
    """Requests and reads recordings, captures that TRex writes to files of the server's host.

    Attributes:
        stale: frames of earlier trials in the last recording of each name.
    """

    def __init__(self, attachment: Attachment, remote: SshClient | None) -> None:
        self._attachment = attachment
        self._remote = remote
        self._paths: dict[str, tuple[str, int]] = {}
        self.stale: dict[str, int] = {}

    def request(self, name: str, load: OfferedLoad, frames: int) -> dict[str, Any]:
        """Return the request to record ``frames`` test frames of a load."""
        path = f"{self._attachment.ask('make_directory')}/{name}.pcap"
        self._paths[name] = path, load.nonce
        limit = frames + SPARE_FRAMES
        octets = limit * (load.streams.longest_packet + _GROWTH_OCTETS + _RECORD_HEADER)
        request = make_capture_request("recording", load.rx_ports[:1], TEST_FRAME_FILTER, limit)
        return {**request, "path": path, "octets": octets}

    def read(self, name: str) -> Iterator[Batch]:
        """Yield batches of the trial's frames from a recording, then remove its file."""
        source, nonce = self._paths.pop(name)
        with tempfile.TemporaryDirectory(prefix="v6t-") as directory:
            path = Path(source)
            if self._remote is not None:
                path = Path(directory) / "recording.pcap"
                self._remote.fetch(source, path)
            if not path.exists():
                problem = f"the recording of {name} is not here: {path}"
                hint = "TRex writes it on the server's host: set ssh: user@host in the testbed"
                raise EnvironmentLacking(problem, hint, code="file-unreadable")
            self.stale[name] = 0
            for batch, stale in select_current_frames(read_recording(path), nonce):
                self.stale[name] += stale
                if len(batch[0]):
                    yield batch
        self._attachment.ask("remove_file", path=source)


class StampColumns(NamedTuple):
    """Arrays ``(n,)`` from the trailers of captured frames."""

    arrived_s: F64  # Arrival by the server's clock [s]
    departed_ticks: I64  # Departure by TRex's time stamp counter; meaningless for marked frames
    sequence: I64  # Number within the stream


class CaptureReader:
    """Reader of the captured test frames of one direction.

    Args:
        batches: frames to add at once.
        distance: :func:`~v6t.drivers.trex.streams.compute_number_distance` of marked frames; 0 if no
            frame is marked.
        keep: number of frames to keep of each stream number; None to keep all.
    """

    def __init__(
        self, batches: Iterable[Batch] = (), distance: int = 0, keep: int | None = None
    ) -> None:
        self._distance = distance
        self._keep = keep
        self.frames = 0  # number of frames with a trailer
        self.samples: dict[int, list[U8]] = {}  # kept frames by stream number
        self._parts: dict[int, list[StampColumns]] = {}
        self._times: list[F64] = []
        for batch in batches:
            self.add(*batch)

    def add(self, times_s: F64, frames: U8) -> None:
        """Add a batch of frames with the times of their arrival [s]."""
        marks = trailer.read(frames)
        sequence = read_numbers(frames)
        if self._distance:
            numbers = read_numbers(frames, self._distance)
            sequence = np.where(marks.stream_id >= MARK_IDS, numbers, sequence)
        with_trailer = np.flatnonzero(marks.magic_ok)
        self.frames += len(with_trailer)
        ticks = marks.time_ns.astype(np.int64)
        streams = marks.stream_id[with_trailer]
        ids, counts = count_unique(streams)
        parts = np.split(with_trailer[np.argsort(streams, kind="stable")], np.cumsum(counts)[:-1])
        for number, rows in zip(ids.tolist(), parts, strict=False):
            if not (kept := self.samples.setdefault(number, [])) or self._keep is None:
                kept.append(frames[rows[: self._keep]])
            part = StampColumns(times_s[rows], ticks[rows], sequence[rows])
            self._parts.setdefault(number, []).append(part)
        self._times.append(times_s)

    def select_columns(self, numbers: Iterable[int]) -> StampColumns:
        """Return the columns of frames with these stream numbers."""
        nothing = StampColumns(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))
        parts = [part for number in numbers for part in self._parts.get(number, ())]
        return StampColumns(*map(np.concatenate, zip(nothing, *parts, strict=True)))

    @property
    def stamps(self) -> StampColumns:
        """Columns of all stamped frames."""
        return self.select_columns(number for number in self._parts if number < MARK_IDS)

    @property
    def longest_gap_s(self) -> float | None:
        """Longest time between two arrivals [s], or None with fewer than two frames."""
        times_s = np.sort(np.concatenate(self._times)) if self._times else np.zeros(0)
        return float(np.diff(times_s).max()) if len(times_s) > 1 else None


def identify_streams(
    samples: Mapping[int, Sequence[U8]], loads: Sequence[OfferedLoad]
) -> dict[int, Stream]:
    """Return the stream of each stream number in trailers: by mark, or by comparing frames.

    TRex chooses the numbers of stamped streams, usually in the order of the streams, so the next
    stream is tried first. Frames that must be dropped come back in loopback only.
    """
    pairs = ((stream, load) for load in loads for stream in load.streams.streams)
    known = [
        (s, load) for s, load in pairs if s.role is not Role.NEGATIVE or load.find_oracle(s) is None
    ]
    known.sort(key=lambda one: one[0].role is Role.NEGATIVE)
    marked = {s.stream_id: s for s, _ in known if is_marked(s)}
    stamped = [one for one in known if not is_marked(one[0])]
    streams: dict[int, Stream] = {}
    for number, frames in sorted(samples.items()):
        if number in marked:
            streams[number] = marked[number]
            continue
        few = [frames[0][:: max(1, len(frames[0]) // SAMPLES_PER_STREAM)][:SAMPLES_PER_STREAM]]
        best, matched = None, -1
        for candidate in stamped:
            comparison = _compare(*candidate, few)
            if comparison.matched > matched:
                best, matched = candidate, comparison.matched
            if comparison.matched == comparison.checked:
                break
        if best is not None:
            stamped.remove(best)  # another number means another stream
            stamped.append(best)
            streams[number] = best[0]
    return streams


def compare_frames(
    reader: CaptureReader, loads: Sequence[OfferedLoad], step: int = 1
) -> Comparison:
    """Compare every ``step``-th kept frame of one direction with the reference translation."""
    load_of = {s.stream_id: load for load in loads for s in load.streams.streams}
    comparisons = [
        _compare(stream, load_of[stream.stream_id], [f[::step] for f in reader.samples[number]])
        for number, stream in identify_streams(reader.samples, loads).items()
        if stream.role is not Role.NEGATIVE
    ]
    return merge_comparisons(comparisons)


def _compare(stream: Stream, load: OfferedLoad, frames: Sequence[U8]) -> Comparison:
    source = stream.source() if isinstance(stream, trex_streams.SentStream) else None
    oracle, distance = load.find_oracle(stream), trex_streams.find_number_distance(stream)
    reader = partial(read_numbers, distance=distance)
    return compare_samples(stream, list(frames), None, load.direction, oracle, source, reader)
