"""Compiled streams as files that ``trex-console`` starts, as captures, and as a description."""

import base64
import itertools
import json
import keyword
import os
import re
import struct
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path, PurePath
from typing import Any

from v6t.base.errors import UsageError
from v6t.packets.direction import DIRECTIONS
from v6t.packets.trailer import Checksum
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.model import Role
from v6t.profiles.streams import Stream, StreamSet
from v6t.profiles.template import TemplateLayout, locate_fields

_V6T_KEY = "v6t"  # key of v6t's own data; TRex's client ignores unknown keys
_PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
"""Classic pcap with nanosecond time stamps, of Ethernet frames."""

_PROFILE = '''\
"""{title}

Made by v6t. In trex-console: start -f THIS_FILE -p PORT (the name may have one dot only).
"""

import argparse
import json

from trex.stl.api import STLStream

STREAMS = json.loads(r"""
{streams}
""")


class Profile(object):
    def get_streams(self, direction=0, tunables=(), **kwargs):
        parser = argparse.ArgumentParser(description=__doc__)
        parser.parse_args(list(tunables))
        return [STLStream.from_json(stream) for stream in STREAMS]


def register():
    return Profile()
'''


def write_pcap(
    path: Path, frames: Iterable[bytes | None], rate_fps: float, overwrite: bool = False
) -> int:
    """Write frames (without FCS) to a capture, ``1 / rate_fps`` apart, and return their number.

    None is a dropped frame, whose time passes. The file is written completely or not at all.
    """
    if path.exists() and not overwrite:
        problem = f"{path} exists already"
        raise UsageError(problem, "choose another name or use --overwrite", code="file-exists")
    partial = path.with_name(path.name + ".part")
    count = 0
    try:
        with partial.open("wb") as out:
            out.write(_PCAP_HEADER)
            for place, frame in enumerate(frames):
                if frame is not None:
                    count += 1
                    stamp = divmod(round(place * 1e9 / rate_fps), 1_000_000_000)
                    out.write(struct.pack("<IIII", *stamp, len(frame), len(frame)) + frame)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return count


def to_stl_json(streams: StreamSet) -> str:
    """Convert streams to JSON for ``STLProfile.load`` (``start -f x.json``)."""
    return _dump(streams, extra=True) + "\n"


def to_stl_py(streams: StreamSet) -> str:
    """Convert streams to a self-contained profile module (``start -f x.py``)."""
    title = f"Traffic of direction {streams.direction}, {len(streams.streams)} streams."
    return _PROFILE.format(title=title, streams=_dump(streams, extra=False))


def from_stl_json(text: str) -> StreamSet:
    """Read streams from the output of :func:`to_stl_json`, or raise UsageError."""
    try:
        streams = []
        for trex in json.loads(text):
            extra = trex.pop(_V6T_KEY)
            checksum = extra["checksum"] and Checksum(**extra["checksum"])
            name, role, notes = str(trex["name"]), Role(extra["role"]), tuple(extra["notes"])
            numbers = int(extra["stream_id"]), int(extra["weight"])
            streams.append(Stream(name, role, *numbers, trex, checksum, notes))
            direction = extra["direction"]
        if direction not in DIRECTIONS:
            raise ValueError(direction)
    except (ValueError, KeyError, TypeError, AttributeError, UnboundLocalError) as exc:
        problem = "the text does not contain streams written by v6t"
        raise UsageError(problem, code="invalid-stream-set") from exc
    return StreamSet(direction, tuple(streams))


def check_file_name(name: str) -> None:
    """Refuse a file name that ``trex-console`` cannot load.

    TRex reads the type after the only dot of the name, and imports a ``.py`` by its bare name.
    """
    base = PurePath(name).name
    stem, _, kind = base.partition(".")
    if kind not in {"json", "py"} or not stem:
        problem = f"trex-console cannot load '{base}': the only dot must precede 'json' or 'py'"
        raise UsageError(problem, code="not-a-file-name")
    is_taken = stem in sys.stdlib_module_names or stem in {"trex", "scapy", "yaml", "zmq"}
    if kind == "py" and (is_taken or not stem.isidentifier() or keyword.iskeyword(stem)):
        problem = f"trex-console cannot import '{base}': it must be an unused Python module name"
        hint = "use letters, digits and underscores, for example mape_br_forward.py"
        raise UsageError(problem, hint, code="not-a-file-name")


def _dump(streams: StreamSet, *, extra: bool) -> str:
    objects = []
    for stream in streams.streams:
        ours: dict[str, Any] = {
            "direction": streams.direction,
            "role": stream.role.value,
            "stream_id": stream.stream_id,
            "weight": stream.weight,
            "checksum": stream.checksum and asdict(stream.checksum),
            "notes": list(stream.notes),
        }
        # one line per key and instruction, so that a diff of two files shows what changed
        lines = []
        for key, value in {**stream.trex, **({_V6T_KEY: ours} if extra else {})}.items():
            text = json.dumps(value)
            if key == "vm":
                inner = ",\n".join("   " + json.dumps(i) for i in value["instructions"])
                text = '{"instructions": [\n' + inner + "\n  ]}"
            lines.append(f"  {json.dumps(key)}: {text}")
        objects.append(" {\n" + ",\n".join(lines) + "\n }")
    return "[\n" + ",\n".join(objects) + "\n]"


def explain(streams: StreamSet) -> str:
    """Describe each instruction of each stream, with the names of the fields it changes."""
    lines = (_explain_stream(stream, streams.direction) for stream in streams.streams)
    return "\n".join(itertools.chain.from_iterable(lines))


def _explain_stream(stream: Stream, direction: str) -> Iterable[str]:
    from scapy.layers import inet, inet6  # noqa: F401  (teach Ether what may follow)
    from scapy.layers.l2 import Ether

    trex, program = stream.trex, stream.program
    packet = base64.b64decode(trex["packet"]["binary"])
    layout = locate_fields(Ether(packet))
    sizes = {i["name"]: int(i["size"]) for i in program if i["type"] == "flow_var"}
    yield f"stream {stream.stream_id} '{stream.name}' ({stream.role.value}, {direction})"
    names = "/".join(h.label for h in layout.headers)
    yield f"  frame: {names}, {len(packet) + 4} octets with FCS; weight {stream.weight}"
    rate = f"{trex['mode']['rate']['value']:g} frames/s"
    total = trex["mode"].get("total_pkts")
    amount = "without end" if total is None else f"{total} frames"
    if not trex["enabled"]:
        amount = "no frame in this burst"
    yield f"  sends {rate}, {amount}, from {trex['isg']:g} us on; seed {trex['random_seed']}"
    used = ins.count_variable_octets(program)
    yield f"  program: {len(program)} instructions, {used} of {ins.MAX_VARIABLE_OCTETS} octets"
    for instruction in program:
        yield f"    {_explain_instruction(instruction, layout, sizes)}"
    for note in stream.notes:
        yield f"  note: {note}"


def _explain_instruction(i: ins.Instruction, layout: TemplateLayout, sizes: dict[str, int]) -> str:
    match i["type"]:
        case "flow_var":
            if values := i.get("value_list"):
                shown = ", ".join(map(str, values[:6])) + (", ..." if len(values) > 6 else "")
                text = f"the {len(values)} values {shown} in turn"
            elif i["op"] == "random":
                text = f"random {i['min_value']}..{i['max_value']}"
            else:
                verb = "counts up" if i["op"] == "inc" else "counts down"
                text = f"{verb} within {i['min_value']}..{i['max_value']} by {i['step']}"
            return f"variable {i['name']} ({i['size']} octets): {text}"
        case "write_flow_var" | "write_mask_flow_var":
            return _explain_write(i, layout, sizes[i["name"]])
        case "fix_checksum_ipv4":
            return f"compute the checksum of the IPv4 header at octet {i['pkt_offset']}"
    l3, l4 = i["l2_len"], i["l2_len"] + i["l3_len"]
    if i["type"] == "fix_checksum_icmpv6":
        return f"compute the ICMPv6 checksum at octet {l4}"
    where = f"the IP header at octet {l3} and the transport header at octet {l4}"
    return f"let the NIC compute the checksums of {where}"


def _explain_write(i: Mapping[str, Any], layout: TemplateLayout, var_size: int) -> str:
    offset, size = ins.locate_change(i, var_size)
    sign = "-" if i["add_value"] < 0 else "+"
    value = f"{i['name']} {sign} {abs(i['add_value'])}" if i["add_value"] else i["name"]
    where = f"octet {offset}" + (f"..{offset + size - 1}" if size > 1 else "")
    if i["type"] == "write_flow_var":
        fields = layout.describe_bits(8 * offset, 8 * (offset + size) - 1)
        return f"store {value} in {where}: {fields}"
    if shift := i["shift"]:
        value = f"({value}) {'<<' if shift > 0 else '>>'} {abs(shift)}"
    if var_size == 8:
        value = value.replace(i["name"], f"high half of {i['name']}")
    digits = f"{i['mask']:0{8 * size}b}"
    fields = ", ".join(
        layout.describe_bits(8 * offset + run.start(), 8 * offset + run.end() - 1)
        for run in re.finditer("1+", digits)
    )
    return f"set bits 0x{i['mask']:0{2 * size}x} of {where} to {value}: {fields}"
