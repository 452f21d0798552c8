"""Find the checksums that a program invalidates, and choose the cheapest way to keep them valid.

The ways are an IPv4 checksum in software, the NIC's (or TRex's) for neighboring IP and UDP/TCP headers, and
neutrality: a second flow variable in free payload words, always the complement of the first, keeps the
one's complement sum constant (RFC 1624). Random flow variables have no complement.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from v6t.packets.trailer import LENGTH as TRAILER_OCTETS
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.compiler.flow_variables import FlowVariable
from v6t.profiles.compiler.writes import Write, encode_writes
from v6t.profiles.model import make_limit_error
from v6t.profiles.template import HeaderChecksum, Template

HARDWARE_CHECKSUM_NS = 15.0  # the lowest measured value (15 to 30)


@dataclass(frozen=True)
class ChecksumPlan:
    """Additions to a field-engine program: instructions at its end, and complements in the payload.

    ``constants`` are template bits (first bit, width, value) that have to be changed first.
    """

    instructions: tuple[ins.Instruction, ...] = ()
    flow_vars: tuple[FlowVariable, ...] = ()
    writes: tuple[Write, ...] = ()
    constants: tuple[tuple[int, int, int], ...] = ()
    notes: tuple[str, ...] = ()


def plan_checksums(
    template: Template, flow_vars: Sequence[FlowVariable], writes: Sequence[Write]
) -> ChecksumPlan:
    """Plan how the checksums that ``writes`` would invalidate are kept valid."""
    if not writes:
        return ChecksumPlan()
    invalid = [
        checksum
        for checksum in template.layout.list_checksums(len(template.packet))
        if any(_find_span(checksum, write, whole=False) for write in writes)
    ]
    if not invalid:
        return ChecksumPlan(notes=("checksums: the varying fields affect none",))
    ipv4 = [c.header for c in invalid if c.header.name == "IP"]
    transport = [c for c in invalid if c.header.name != "IP"]
    if len(transport) > 1:
        names = " and ".join(c.header.label for c in transport)
        problem = f"the checksums of {names} both change, but TRex fixes only one per frame"
        raise make_limit_error(problem, "vary fields of one transport header only")
    if transport and not ipv4:
        neutral = _plan_complements(template, transport[0], flow_vars, writes)
        if neutral:
            return neutral
    fixes, notes = [], []
    if transport:
        fix, note = _fix_transport(transport[0])
        # the hardware instruction includes a neighboring IPv4 header
        hardware = fix["type"] == "fix_checksum_hw"
        ipv4 = [h for h in ipv4 if not hardware or h is not transport[0].network]
        fixes, notes = [fix], [note]
    return ChecksumPlan(
        instructions=(*(ins.fix_ipv4(header.offset) for header in ipv4), *fixes),
        notes=(*(f"checksums: {header.label} header in software" for header in ipv4), *notes),
    )


def _find_span(checksum: HeaderChecksum, write: Write, *, whole: bool) -> tuple[int, int] | None:
    """Return the covered span, in bits, that contains a part of a write, or all of it if ``whole``."""
    for start, end in checksum.spans:
        is_within = 8 * start <= write.first and write.bits.stop <= 8 * end
        if is_within or (not whole and write.first < 8 * end and 8 * start < write.bits.stop):
            return 8 * start, 8 * end
    return None


def _fix_transport(checksum: HeaderChecksum) -> tuple[ins.Instruction, str]:
    header, network, label = checksum.header, checksum.network, checksum.header.label
    if network is None:
        problem = f"the {label} checksum changes, but TRex computes it only directly above IP"
        raise make_limit_error(problem)
    l2_len, l3_len = network.offset, header.offset - network.offset
    if header.name.startswith("ICMPv6"):
        fix = {"type": "fix_checksum_icmpv6", "l2_len": l2_len, "l3_len": l3_len}
        return fix, f"checksums: {label} in software"
    if header.name not in ins.L4_TYPES:
        problem = f"the checksum of {label} changes, and TRex has no instruction for it"
        hint = "vary fields that it does not cover, or count instead of drawing at random"
        raise make_limit_error(problem, hint)
    if l2_len > ins.MAX_L2_OCTETS:
        problem = f"the {network.label} header begins at octet {l2_len}, beyond the "
        raise make_limit_error(f"{problem}{ins.MAX_L2_OCTETS} up to which TRex fixes checksums")
    fix = ins.fix_hardware(l2_len, l3_len, ins.L4_TYPES[header.name])
    pair = f"{network.label} and {label}" if network.name == "IP" else label
    return fix, f"checksums: {pair} by the NIC (by TRex if it cannot), header at octet {l2_len}"


def _plan_complements(
    template: Template,
    transport: HeaderChecksum,
    flow_vars: Sequence[FlowVariable],
    writes: Sequence[Write],
) -> ChecksumPlan | None:
    """Plan complements in the payload, if they cost less than the NIC's checksum."""
    by_name = {v.name: v for v in flow_vars}
    covered = [w for w in writes if _find_span(transport, w, whole=False)]
    complements: dict[str, FlowVariable] = {}
    for name in dict.fromkeys(w.flow_var for w in covered):
        if (inverse := by_name[name].make_complement(f"{name}.not")) is None:
            return None
        complements[name] = inverse
    layout, header = template.layout, transport.header
    # the first payload bit at an even distance from the transport header
    free = 8 * (layout.payload + (layout.payload - header.offset) % 2)
    limit = 8 * (len(template.packet) - TRAILER_OCTETS)
    number = int.from_bytes(template.packet, "big")
    added: list[Write] = []
    constants: list[tuple[int, int, int]] = []
    for write in covered:
        span = _find_span(transport, write, whole=True)
        if span is None or write.add != by_name[write.flow_var].add:
            return None
        # the same place within 16 bits as the original, counted from the start of its span
        first = free + (write.first - span[0]) % 16
        free = first + write.width
        free += -(free - 8 * header.offset) % 16
        if free > limit:
            return None
        inverse = complements[write.flow_var]
        added.append(Write(inverse.name, first, write.width, write.low, inverse.add))
        ones = (1 << write.width) - 1
        value = number >> 8 * len(template.packet) - write.bits.stop & ones
        constants.append((first, write.width, ones - value))
    new = tuple(complements.values())
    _, before = encode_writes(flow_vars, writes, template.packet)
    _, after = encode_writes([*flow_vars, *new], [*writes, *added], template.packet)
    if after - before >= HARDWARE_CHECKSUM_NS and header.name in ins.L4_TYPES:
        return None
    octets = f"{added[0].first // 8}..{free // 8 - 1}"
    note = (
        f"checksums: {header.label} stays valid because octets {octets} of the payload hold the "
        "complement of the varying fields"
    )
    return ChecksumPlan((), new, tuple(added), tuple(constants), (note,))
