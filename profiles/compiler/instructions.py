"""TRex's field-engine instructions as the JSON objects its server parses (v3.08).

Key names follow the client's ``CTRexVmIns*`` classes. The client drops ``init_value`` when it
loads a file, so an ``inc`` variable here always starts at its minimum and a ``dec`` one at its
maximum: what the client then assumes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

Instruction = dict[str, Any]
Op = Literal["inc", "dec", "random"]

MAX_VARIABLE_OCTETS = 64
"""Variable memory of one stream (``svMAX_FLOW_VAR``)."""
MAX_OFFSET = 512
"""End of the highest octet a program may touch (``svMAX_PACKET_OFFSET_CHANGE``)."""
MAX_LIST = 65535
"""Entries of one ``value_list`` (a uint16)."""
MAX_L2_OCTETS = 127
"""Octets before the IP header whose checksums the NIC fills in (``l2_len``, 7 bits)."""

L4_UDP = 11
L4_TCP = 13
L4_TYPES = {"UDP": L4_UDP, "TCP": L4_TCP}
"""Checksums that the NIC (or TRex instead of it) computes, by layer."""


def flow_var(name: str, size: int, op: Op, low: int, high: int, step: int = 1) -> Instruction:
    """A variable of ``size`` 1, 2, 4 or 8 octets; the caller makes the range a multiple of step."""
    return {
        "type": "flow_var",
        "name": name,
        "size": size,
        "op": op,
        "init_value": high if op == "dec" else low,
        "min_value": low,
        "max_value": high,
        "step": step,
        "split_to_cores": True,
        "next_var": None,
    }


def list_var(name: str, size: int, values: Sequence[int]) -> Instruction:
    """A variable that takes the given values in turn."""
    return {
        "type": "flow_var",
        "name": name,
        "size": size,
        "op": "inc",
        "value_list": list(values),
        "step": 1,
        "split_to_cores": True,
        "next_var": None,
    }


def write(name: str, offset: int, add: int = 0) -> Instruction:
    """Store the whole variable, plus ``add``, in network byte order."""
    return {
        "type": "write_flow_var",
        "name": name,
        "pkt_offset": offset,
        "add_value": _signed(add),
        "is_big_endian": True,
    }


def write_mask(
    name: str, offset: int, size: int, mask: int, shift: int, add: int = 0
) -> Instruction:
    """Store the bits of ``(variable + add) << shift`` that ``mask`` selects in ``size`` octets."""
    return {
        "type": "write_mask_flow_var",
        "name": name,
        "pkt_offset": offset,
        "pkt_cast_size": size,
        "mask": mask,
        "shift": shift,
        "add_value": _signed(add),
        "is_big_endian": True,
    }


def fix_ipv4(offset: int) -> Instruction:
    """Software checksum of the IPv4 header at ``offset``."""
    return {"type": "fix_checksum_ipv4", "pkt_offset": offset}


def fix_hardware(l2_len: int, l3_len: int, l4_type: int) -> Instruction:
    """IP and UDP/TCP checksums by the NIC, or by TRex where the NIC cannot."""
    return {"type": "fix_checksum_hw", "l2_len": l2_len, "l3_len": l3_len, "l4_type": l4_type}


def fix_icmpv6(l2_len: int, l3_len: int) -> Instruction:
    """Software ICMPv6 checksum."""
    return {"type": "fix_checksum_icmpv6", "l2_len": l2_len, "l3_len": l3_len}


def variable_octets(instructions: Iterable[Mapping[str, Any]]) -> int:
    """Variable memory a program takes: sizes, plus the generator's state if any is random."""
    variables = [i for i in instructions if i["type"] == "flow_var"]
    generator = 4 if any(i["op"] == "random" for i in variables) else 0
    return generator + sum(int(i["size"]) for i in variables)


def touched(instruction: Mapping[str, Any], size: int) -> tuple[int, int]:
    """First octet of the frame an instruction changes and how many (0, 0 for a variable).

    ``size`` stands for a plain write's variable, whose size another instruction holds.
    """
    kind = instruction["type"]
    if kind == "write_mask_flow_var":
        return int(instruction["pkt_offset"]), int(instruction["pkt_cast_size"])
    if kind == "write_flow_var":
        return int(instruction["pkt_offset"]), size
    if kind == "fix_checksum_ipv4":
        return int(instruction["pkt_offset"]), 20
    if kind in {"fix_checksum_hw", "fix_checksum_icmpv6"}:
        last = 20 if instruction.get("l4_type") == L4_TCP else 8
        return int(instruction["l2_len"]) + int(instruction["l3_len"]), last
    return 0, 0


def _signed(value: int) -> int:
    """The server parses ``add_value`` as a 32-bit signed number; the data path wraps."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)
