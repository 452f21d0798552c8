"""TRex's field-engine instructions as the JSON objects its server parses (v3.08).

The client drops ``init_value``, so ``inc`` starts at the minimum and ``dec`` at the maximum.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

Instruction = dict[str, Any]
Op = Literal["inc", "dec", "random"]  # how TRex advances a flow variable

MAX_VARIABLE_OCTETS = 64  # of one stream (``svMAX_FLOW_VAR``)
MAX_OFFSET = 512  # end of the highest octet a program may touch (``svMAX_PACKET_OFFSET_CHANGE``)
MAX_LIST = 65535  # entries of one ``value_list`` (a uint16)
MAX_L2_OCTETS = 127  # before the IP header whose checksums the NIC fills in (``l2_len``, 7 bits)

L4_UDP, L4_TCP = 11, 13
L4_TYPES = {"UDP": L4_UDP, "TCP": L4_TCP}
"""Checksums that the NIC (or TRex instead of it) computes, by layer."""
_VARIABLE_DEFAULTS = {"step": 1, "split_to_cores": True, "next_var": None}


def declare_range(name: str, size: int, op: Op, low: int, high: int, step: int = 1) -> Instruction:
    """Declare a flow variable of 1, 2, 4 or 8 octets; the range must be a multiple of the step."""
    head = {"type": "flow_var", "name": name, "size": size, "op": op}
    bounds = {"init_value": high if op == "dec" else low, "min_value": low, "max_value": high}
    return {**head, **bounds, **_VARIABLE_DEFAULTS, "step": step}


def declare_list(name: str, size: int, values: Sequence[int]) -> Instruction:
    """Declare a flow variable that takes the given values in turn."""
    head = {"type": "flow_var", "name": name, "size": size, "op": "inc"}
    return {**head, "value_list": list(values), **_VARIABLE_DEFAULTS}


def write(name: str, offset: int, add: int = 0) -> Instruction:
    """Store the whole variable, plus ``add``, in network byte order."""
    head = {"type": "write_flow_var", "name": name, "pkt_offset": offset}
    return {**head, **_make_addition(add)}


def write_mask(name: str, offset: int, size: int, mask: int, shift: int, add: int) -> Instruction:
    """Store the bits of ``(variable + add) << shift`` that ``mask`` selects in ``size`` octets."""
    head = {"type": "write_mask_flow_var", "name": name, "pkt_offset": offset}
    return {**head, "pkt_cast_size": size, "mask": mask, "shift": shift, **_make_addition(add)}


def _make_addition(add: int) -> Instruction:
    """Return the keys of an addition: a 32-bit signed number, which the data path wraps."""
    add = (add + (1 << 31)) % (1 << 32) - (1 << 31)
    return {"add_value": add, "is_big_endian": True}


def fix_ipv4(offset: int) -> Instruction:
    """Compute the checksum of the IPv4 header at ``offset`` in software."""
    return {"type": "fix_checksum_ipv4", "pkt_offset": offset}


def fix_hardware(l2_len: int, l3_len: int, l4_type: int) -> Instruction:
    """Compute IP and UDP/TCP checksums by the NIC, or by TRex where the NIC cannot."""
    return {"type": "fix_checksum_hw", "l2_len": l2_len, "l3_len": l3_len, "l4_type": l4_type}


def count_variable_octets(instructions: Iterable[Mapping[str, Any]]) -> int:
    """Return the variable memory of a program: all sizes, and the generator if any is random."""
    variables = [i for i in instructions if i["type"] == "flow_var"]
    generator = 4 if any(i["op"] == "random" for i in variables) else 0
    return generator + sum(int(i["size"]) for i in variables)


def locate_change(instruction: Mapping[str, Any], size: int) -> tuple[int, int]:
    """Return the first octet that an instruction changes, and how many; (0, 0) for a declaration.

    ``size`` is that of the variable which a plain write stores.
    """
    match instruction["type"]:
        case "write_mask_flow_var":
            return int(instruction["pkt_offset"]), int(instruction["pkt_cast_size"])
        case "write_flow_var":
            return int(instruction["pkt_offset"]), size
        case "fix_checksum_ipv4":
            return int(instruction["pkt_offset"]), 20
        case "fix_checksum_hw" | "fix_checksum_icmpv6":
            last = 20 if instruction.get("l4_type") == L4_TCP else 8
            return int(instruction["l2_len"]) + int(instruction["l3_len"]), last
    return 0, 0
