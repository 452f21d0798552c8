"""Which checksums a program invalidates, and the cheapest way to keep them valid (GEN-25).

Four means, in ns per frame as measured (trex.md section 9):

* nothing, where no bound field enters a checksum;
* a software checksum of an IPv4 header;
* the NIC (or TRex instead of it) for the IP and UDP/TCP checksums next to each other, innermost
  headers included;
* neutrality: a second variable, always the bitwise complement of the first, in free payload words
  keeps the one's complement sum constant (RFC 1624), so the template's checksum stays right.
  Random variables have no complement in TRex.

The template's last 16 octets belong to the tester's trailer and are never used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from v6t.base.errors import UsageError
from v6t.packets.trailer import LENGTH as TRAILER_OCTETS
from v6t.profiles.compiler import instructions as ins
from v6t.profiles.compiler.lower import Piece, lower
from v6t.profiles.compiler.variables import Part, complement
from v6t.profiles.fields import Header, Layout
from v6t.profiles.template import NETWORK, WITHOUT_ADDRESSES, Template, checksum_field

HARDWARE_NS = 15.0
"""The least measured (15 to 30): a NIC that computes checksums needs no more."""


@dataclass(frozen=True)
class ChecksumPlan:
    """What to add to a program.

    Attributes:
        instructions: at the end of the program.
        parts, pieces: further variables and what they write (neutrality).
        constants: bits of the template (first bit, width, value) that have to change first.
        notes: the choice, in words.
    """

    instructions: tuple[ins.Instruction, ...] = ()
    parts: tuple[Part, ...] = ()
    pieces: tuple[Piece, ...] = ()
    constants: tuple[tuple[int, int, int], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Sum:
    """One checksum: its header, the IP header next to it, and the bits it covers."""

    header: Header
    network: Header | None
    spans: tuple[tuple[int, int], ...]

    def covers(self, piece: Piece) -> bool:
        last = piece.first + piece.width - 1
        return any(piece.first < end and start <= last for start, end in self.spans)


def plan_checksums(
    template: Template, parts: Sequence[Part], pieces: Sequence[Piece]
) -> ChecksumPlan:
    """Choose how the checksums that ``pieces`` disturb are kept valid.

    Raises:
        UsageError: TRex cannot keep one of them valid.
    """
    disturbed = [s for s in _sums(template) if any(s.covers(p) for p in pieces)]
    if not disturbed:
        return ChecksumPlan(notes=("checksums: none is affected by what varies",))
    ipv4 = [s for s in disturbed if s.header.name == "IP"]
    transport = [s for s in disturbed if s.header.name != "IP"]
    if not transport:
        return _software(ipv4)
    if len(transport) > 1:
        names = " and ".join(s.header.label for s in transport)
        raise UsageError(
            f"the checksums of {names} both change, but TRex fixes only one per frame",
            "bind fields of one transport header only",
            code="beyond-trex",
        )
    neutral = None if ipv4 else _neutral(template, transport[0], parts, pieces)
    return neutral or _fixed(ipv4, transport[0])


def _sums(template: Template) -> list[_Sum]:
    """Every checksum the compiler keeps, outermost header first."""
    sums: list[_Sum] = []
    network: Header | None = None
    end = 8 * len(template.packet)
    for header in template.layout.headers:
        name = checksum_field(header)
        if name is not None and name not in header.given:
            if header.name == "IP":
                sums.append(_Sum(header, None, ((8 * header.offset, 8 * header.end),)))
            else:
                spans = [(8 * header.offset, end)]
                if network is not None and header.name not in WITHOUT_ADDRESSES:
                    spans += [_span(network, "src"), _span(network, "dst")]
                sums.append(_Sum(header, network, tuple(spans)))
        if header.name in NETWORK:
            network = header
    return sums


def _span(header: Header, name: str) -> tuple[int, int]:
    field = header.field(name)
    return field.first, field.first + field.width


def _software(sums: Iterable[_Sum]) -> ChecksumPlan:
    labels = [s.header.label for s in sums]
    return ChecksumPlan(
        instructions=tuple(ins.fix_ipv4(s.header.offset) for s in sums),
        notes=tuple(f"checksums: {label} header in software" for label in labels),
    )


def _fixed(ipv4: Sequence[_Sum], transport: _Sum) -> ChecksumPlan:
    """Transport checksum by instruction; IPv4 headers it does not include in software."""
    header, network = transport.header, transport.network
    if network is None:
        raise UsageError(
            f"the {header.label} checksum changes, but TRex computes it only directly above IP",
            code="beyond-trex",
        )
    l2_len, l3_len = network.offset, header.offset - network.offset
    if header.name.startswith("ICMPv6"):
        rest = _software(ipv4)
        note = f"checksums: {header.label} in software"
        return ChecksumPlan(
            (*rest.instructions, ins.fix_icmpv6(l2_len, l3_len)), notes=(*rest.notes, note)
        )
    if header.name not in ins.L4_TYPES:
        raise UsageError(
            f"the checksum of {header.label} changes with what is bound, and TRex has no "
            "instruction for it",
            "bind fields that no such checksum covers, or count instead of drawing at random",
            code="beyond-trex",
        )
    if l2_len > ins.MAX_L2_OCTETS:
        raise UsageError(
            f"the {network.label} header begins at octet {l2_len}, but TRex fixes checksums only "
            f"up to octet {ins.MAX_L2_OCTETS} (a 7-bit length)",
            code="beyond-trex",
        )
    rest = _software([s for s in ipv4 if s.header is not network])
    fix = ins.fix_hardware(l2_len, l3_len, ins.L4_TYPES[header.name])
    pair = f"{network.label} and {header.label}" if network.name == "IP" else header.label
    note = f"checksums: {pair} by the NIC (by TRex if it cannot), header at octet {l2_len}"
    return ChecksumPlan((*rest.instructions, fix), notes=(*rest.notes, note))


def _neutral(
    template: Template, transport: _Sum, parts: Sequence[Part], pieces: Sequence[Piece]
) -> ChecksumPlan | None:
    """Complements in the payload, if all can be made for less than the NIC's checksum costs."""
    by_name = {p.name: p for p in parts}
    covered = [p for p in pieces if transport.covers(p)]
    involved = [by_name[n] for n in dict.fromkeys(p.part for p in covered)]
    mirrors = {p.name: complement(p, f"{p.name}.not") for p in involved}
    terms = [m for m in mirrors.values() if m is not None]
    if len(terms) < len(involved):
        return None
    payload = _payload_start(template.layout, transport.header)
    limit = 8 * (len(template.packet) - TRAILER_OCTETS)
    number = int.from_bytes(template.packet, "big")
    written: list[Piece] = []
    constants: list[tuple[int, int, int]] = []
    for piece in covered:
        part, mirror = by_name[piece.part], mirrors[piece.part]
        if mirror is None or piece.add != part.add or len(_spans_hit(transport, piece)) != 1:
            return None
        # the same place within 16 bits as the original, counted from the start of its span
        start = _spans_hit(transport, piece)[0][0]
        first = payload + (piece.first - start) % 16
        payload = first + piece.width
        payload += -(payload - 8 * transport.header.offset) % 16
        if payload > limit:
            return None
        written.append(Piece(mirror.name, first, piece.width, piece.low, mirror.add))
        ones = (1 << piece.width) - 1
        now = number >> 8 * len(template.packet) - piece.first - piece.width & ones
        constants.append((first, piece.width, ones - now))
    _, before = lower(parts, pieces, template.packet)
    _, after = lower([*parts, *terms], [*pieces, *written], template.packet)
    if after - before >= HARDWARE_NS and transport.header.name in ins.L4_TYPES:
        return None
    octets = f"{written[0].first // 8}..{payload // 8 - 1}"
    note = (
        f"checksums: {transport.header.label} stays valid because octets {octets} of the payload "
        "hold the complement of what varies"
    )
    return ChecksumPlan((), tuple(terms), tuple(written), tuple(constants), (note,))


def _spans_hit(total: _Sum, piece: Piece) -> list[tuple[int, int]]:
    last = piece.first + piece.width - 1
    return [s for s in total.spans if s[0] <= piece.first and last < s[1]]


def _payload_start(layout: Layout, header: Header) -> int:
    """First payload bit at an even distance from the transport header."""
    octets = layout.payload
    return 8 * (octets + (octets - header.offset) % 2)
