"""Compiled streams, captures, and the frames that a correct device sends."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from v6t.base.errors import V6tError
from v6t.core.config.plugins import load_technology_type
from v6t.drivers.oracle.compare import compare_samples
from v6t.packets.arrays import U8
from v6t.packets.direction import DIRECTIONS
from v6t.packets.reference import Expected
from v6t.plugins.conformance import NONCE, Case, exhaust_hops, list_cases
from v6t.profiles.dns.zone import Zone
from v6t.profiles.streams import Stream
from v6t.tests.core.support import v6t
from v6t.tests.golden.store import Parts

SHAPES = {
    "1518 octets in a burst": "--frame-size 1518 --count 1000 --rate 10k --cores 2",
    "IMIX": "--frame-size imix --rate 1Gbps",
    "VLANs": "--testbed testbed.yaml",
}
TESTBED = """\
links:
  left: {vlan: 100, dut_mac: "02:00:00:00:0a:01", mtu: 9000}
  right: {vlan: 200, tester_mac: "02:00:00:00:0b:02"}
"""
CAPTURED_FRAMES = 40
COMPARED_FRAMES = 6
DAMAGED_OCTETS = (0, 11, 15, 22, 33, 45)
"""Octets of Ethernet, IP and transport headers, each of which is changed in a separate frame."""
INPUT_OCTETS = (0, 12, 14, 17, 20, 26, 34)
"""Octets of received frames that are changed: destination MAC, EtherType, lengths, addresses."""
PCAP_HEADER_OCTETS, RECORD_HEADER_OCTETS = 24, 16


def compile_all(technology: str, words: list[str]) -> Parts:
    """Compile a technology in both directions: streams, a capture and the expected frames."""
    Path("testbed.yaml").write_text(TESTBED)
    parts: Parts = {}
    for direction in DIRECTIONS:
        shape = ["compile", "--plugin", technology, "--direction", direction, *words]
        profile = v6t(*shape)
        statuses = [profile.status]
        if profile.status == 0:
            parts[f"{direction} streams"] = list(list_stream_lines(profile.out))
        if "--count" not in shape:
            shape += ["--count", str(CAPTURED_FRAMES)]
        shape += ["--format", "pcap", "--overwrite", "-o", "sent"]
        both = v6t(*shape, "--expected", "expected").status
        # the capture of sent frames is written even if there are no expected frames
        statuses += [both and v6t(*shape).status, both]
        for name, status in zip(("sent", "expected"), statuses[1:], strict=True):
            if status == 0:
                capture = list_capture_lines(Path(name).read_bytes())
                parts[f"{direction} {name}"] = list(capture)[:CAPTURED_FRAMES]
        parts[f"{direction} exit status"] = [str(status) for status in statuses]
    return parts


def list_stream_lines(text: str) -> Iterator[str]:
    """Yield the packet, mode and instructions of each stream, without names of streams and variables."""
    for entry in json.loads(text):
        stream = entry.get("stream", entry)
        names: dict[str, str] = {}
        for instruction in stream.get("vm", {}).pop("instructions", []):
            for key in ("name", "fv_name", "next_var"):
                if isinstance(instruction.get(key), str):
                    instruction[key] = names.setdefault(instruction[key], f"v{len(names)}")
            yield json.dumps(instruction, sort_keys=True)
        entry.pop("name", None)
        stream.pop("name", None)
        entry.get("v6t", {}).pop("name", None)
        yield json.dumps(entry, sort_keys=True)


def list_capture_lines(capture: bytes) -> Iterator[str]:
    """Yield the time stamp and octets of each frame of a capture."""
    at = PCAP_HEADER_OCTETS
    while at < len(capture):
        octets = int.from_bytes(capture[at + 8 : at + 12], "little")
        end = at + RECORD_HEADER_OCTETS + octets
        yield capture[at : at + 8].hex() + " " + capture[at + RECORD_HEADER_OCTETS : end].hex()
        at = end


def exchange_frames(technology: str) -> Parts:
    """Return the frames that a correct device sends in each case of the conformance check."""
    kind = load_technology_type(technology)
    zone = kind().zone
    if zone is not None:
        return {"names": list_zone_lines(zone)}
    parts: Parts = {}
    for case in list_cases(kind):
        part = f"{case.size} {case.direction} VLANs {case.links[0].vlan} {case.links[1].vlan}"
        part += f" {len(case.streams.streams)} streams"
        try:
            for stream in case.streams.streams:
                parts.setdefault(part, []).extend(list_answer_lines(case, stream))
        except V6tError as exc:
            parts[part] = [f"exit status {exc.exit_code}"]
    return parts


def list_answer_lines(case: Case, stream: Stream) -> Iterator[str]:
    """Yield each stamped frame, its translation or drop reason, and which damaged frames match."""
    sent = case.stamp_frames(stream)[:COMPARED_FRAMES]
    answer = case.translate(stream, sent)
    rows = zip(sent, answer.frames, answer.length.tolist(), answer.reason.tolist(), strict=True)
    for frame, emitted, length, reason in rows:
        yield frame.tobytes().hex()
        yield emitted[:length].tobytes().hex() if length else f"drop-{reason}"
    if answer.length[0] and case.direction == "forward" and stream is case.streams.streams[0]:
        yield judge(case, stream, answer)
        for frame in make_changed_frames(sent[0]):
            translated = case.translate(stream, frame)
            yield f"{translated.reason[0]} {translated.length[0]}"


class _FirstAnswer:
    """A reference translation that gives the same answer for every frame."""

    zone = None

    def __init__(self, case: Case, answer: Expected) -> None:
        self.header_policy = case.plugin.header_policy
        self._answer = answer

    def expect(self, direction: Any, rows: U8) -> Expected:
        """Return the answer once for each frame."""
        parts = (self._answer.frames, self._answer.length, self._answer.reason)
        return Expected(*(np.repeat(part[:1], len(rows), axis=0) for part in parts))


def make_changed_frames(frame: U8) -> Iterator[U8]:
    """Yield changed copies of a frame, which a device drops or translates differently."""
    yield exhaust_hops(frame[None])
    for octet in INPUT_OCTETS:
        changed = frame[None].copy()
        changed[0, octet] ^= 0x15
        yield changed


def judge(case: Case, stream: Stream, answer: Expected) -> str:
    """Compare a correct, several damaged and a short frame with the translation; 1 means a match."""
    oracle = _FirstAnswer(case, answer)
    correct = answer.frames[:1, : answer.length[0]]
    received = [correct]
    for octet in DAMAGED_OCTETS:
        received.append(correct.copy())
        received[-1][0, octet] ^= 0x41
    received.append(correct[:, :-1].copy())
    compared = (compare_samples(stream, [r], NONCE, case.direction, oracle) for r in received)
    return "".join(str(result.matched) for result in compared)


def list_zone_lines(zone: Zone) -> list[str]:
    """Return a zone, its first and last addresses, and which of them have native records."""
    addresses = zone.list_addresses(np.array([0, 1, 2, zone.count - 1, zone.count]))
    native = [zone.has_native_record(addresses, share).tolist() for share in (0.0, 0.3, 1.0)]
    return [str(dataclasses.astuple(zone)), str(addresses.tolist()), *map(str, native)]
