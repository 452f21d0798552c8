"""The template frame of a traffic class, built by scapy, and the layout of its fields."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from v6t.base.errors import UsageError
from v6t.base.ethernet import FCS_OCTETS, MIN_FRAME_OCTETS
from v6t.packets.checksum import build_pseudo_header, compute_checksum
from v6t.packets.trailer import Checksum
from v6t.profiles.model import Layer, VariableBits, make_model_error

MAX_PACKET_OCTETS = 9 * 1024 + 22  # of TRex (``MAX_PKT_SIZE``), FCS not counted
_CHECKSUM_LAYERS = {"IP", "UDP", "TCP", "ICMP", "GRE"}  # ICMPv6 has ``cksum``
_NO_PSEUDO_HEADER = {"IP", "ICMP", "GRE"}  # their checksum covers no addresses
_COMPUTED_FIELDS = {"chksum", "cksum", "len", "plen"}  # by scapy, unless the layer sets them
_ADDRESSED_LAYERS = {"Ether", "IP", "IPv6"}  # scapy would take their addresses from this machine
_PROTOCOL_NUMBERS = {"UDP": 17, "TCP": 6}
_SCAPY_ERRORS = (AttributeError, TypeError, ValueError, OSError, struct.error)


class HeaderField(NamedTuple):
    """A header field: ``width`` bits from bit ``first`` of the frame."""

    name: str
    first: int
    width: int


@dataclass(frozen=True)
class TemplateHeader:
    """One header: ``length`` octets from ``offset``; ``label`` is ``name:1`` for the second one of this name.

    ``explicit`` are the fields that the layer sets; the others have defaults or are computed.
    """

    name: str
    label: str
    offset: int
    length: int
    fields: Mapping[str, HeaderField]
    explicit: frozenset[str] = frozenset()

    @property
    def end(self) -> int:
        return self.offset + self.length


class HeaderChecksum(NamedTuple):
    """A checksum that the compiler keeps valid: at ``octet`` of a header, which follows a ``network`` header.

    ``spans`` are first octets and ends of what it covers; of a pseudo header, the addresses.
    """

    header: TemplateHeader
    network: TemplateHeader | None
    octet: int
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class TemplateLayout:
    """All headers of a frame, outermost first; the payload starts where the last one ends."""

    headers: tuple[TemplateHeader, ...]

    @property
    def payload(self) -> int:
        return self.headers[-1].end if self.headers else 0

    @property
    def names(self) -> str:
        return "/".join(header.name for header in self.headers)

    def list_checksums(self, length: int) -> list[HeaderChecksum]:
        """Return the checksums of a frame of this length, the outermost first."""
        network: TemplateHeader | None = None
        checksums = []
        for header in self.headers:
            # GRE has one only if its C bit is set (RFC 2784, section 2.1)
            name = "chksum" if header.name in _CHECKSUM_LAYERS else "cksum"
            field = None if name in header.explicit else header.fields.get(name)
            if field is not None:
                spans = [(header.offset, header.end if header.name == "IP" else length)]
                if network is not None and header.name not in _NO_PSEUDO_HEADER:
                    first, last = network.fields["src"], network.fields["dst"]
                    spans.append((first.first // 8, (last.first + last.width) // 8))
                checksums.append(HeaderChecksum(header, network, field.first // 8, tuple(spans)))
            network = header if header.name in ("IP", "IPv6") else network
        return checksums

    def find_field(self, path: str) -> tuple[TemplateHeader, HeaderField]:
        """Return the header and the field of ``"Layer.field"`` or ``"Layer:1.field"``."""
        label, _, name = path.partition(".")
        header = next((h for h in self.headers if h.label == label), None)
        if header is None or name not in header.fields:
            place = label if header else "the frame"
            known = ", ".join(header.fields if header else [h.label for h in self.headers])
            raise make_model_error(f"the frame has no field '{path}'", f"known in {place}: {known}")
        return header, header.fields[name]

    def locate_bits(self, path: str, bits: VariableBits) -> int:
        """Return the number of the frame bit to which a copy begins, or raise UsageError."""
        header, field = self.find_field(path)
        end = bits.destination + bits.length
        if not 0 <= bits.destination < end <= field.width:
            outside, inside = f"{bits.destination}..{end - 1}", f"0..{field.width - 1}"
            raise make_model_error(f"bits {outside} are not within {path} (bits {inside})")
        if field.name in _COMPUTED_FIELDS and field.name not in header.explicit:
            raise make_model_error(f"{path} cannot vary: the compiler fills it in")
        return field.first + bits.destination

    def describe_bits(self, first: int, last: int) -> str:
        """Name the fields that bits ``first..last`` of the frame belong to."""
        names = []
        for header in self.headers:
            for name, start, width in header.fields.values():
                low, high = max(first - start, 0), min(last - start, width - 1)
                if low <= high:
                    bits = "" if high - low + 1 == width else f"[{low}..{high}]"
                    names.append(f"{header.label}.{name}{bits}")
        low = max(first, 8 * self.payload)
        if low <= last:
            start, end = low // 8 - self.payload, last // 8 - self.payload
            names.append(f"payload octet {start}" + (f"..{end}" if end > start else ""))
        return ", ".join(names)


def locate_fields(packet: Any, explicit: Sequence[Iterable[str]] = ()) -> TemplateLayout:
    """Return the layout of a scapy packet; ``explicit`` are the fields that each layer sets."""
    from scapy.fields import ConditionalField
    from scapy.packet import NoPayload, Padding, Raw

    headers: list[TemplateHeader] = []
    offset, seen = 0, dict[str, int]()
    while not isinstance(packet, (Raw, NoPayload, Padding)):
        name = type(packet).__name__
        nth = seen[name] = seen.get(name, -1) + 1
        fields, bit = dict[str, HeaderField](), 8 * offset
        for desc in packet.fields_desc:
            if isinstance(desc, ConditionalField) and not desc._evalcond(packet):
                continue
            width = round(8 * desc.i2len(packet, packet.getfieldval(desc.name)))
            if width:
                fields[desc.name] = HeaderField(desc.name, bit, width)
            bit += width
        length = len(packet.self_build())
        label = f"{name}:{nth}" if nth else name
        names = frozenset(explicit[len(headers)] if len(headers) < len(explicit) else ())
        headers.append(TemplateHeader(name, label, offset, length, fields, names))
        offset += length
        packet = packet.payload
    return TemplateLayout(tuple(headers))


@dataclass(frozen=True)
class Template:
    """A frame without FCS, and the layout of its headers."""

    packet: bytes
    layout: TemplateLayout

    def with_bits(self, bits: Collection[tuple[int, int, int]]) -> Template:
        """Return a copy with changed bits (first bit, width, value) and valid checksums."""
        if not bits:
            return self
        number, size = int.from_bytes(self.packet, "big"), 8 * len(self.packet)
        for first, width, value in bits:
            low = size - first - width
            mask = ((1 << width) - 1) << low
            number = number & ~mask | value << low & mask
        packet = bytearray(number.to_bytes(len(self.packet), "big"))
        refresh_checksums(packet, self.layout)
        return Template(bytes(packet), self.layout)


def build_template(layers: Iterable[Layer], frame_size: int) -> Template:
    """Build a frame of ``frame_size`` octets (FCS included) with zero payload and valid checksums."""
    constants = tuple((layer.name, tuple(layer.constants.items())) for layer in layers)
    plain = all(type(value) in (int, str, bytes) for _, fields in constants for _, value in fields)
    return (_build if plain else _build.__wrapped__)(constants, frame_size)


@lru_cache(maxsize=512)  # all trials of a run, both phases and the plan use the same templates
def _build(
    layers: tuple[tuple[str, tuple[tuple[str, object], ...]], ...], frame_size: int
) -> Template:
    known = _list_scapy_layers()
    from scapy.packet import Raw

    packet: Any = None
    for name, fields in layers:
        scapy_layer = _make_layer(known, name, dict(fields))
        packet = scapy_layer if packet is None else packet / scapy_layer
    if packet is None:
        raise make_model_error("a traffic class needs header layers")
    length = frame_size - FCS_OCTETS
    if not MIN_FRAME_OCTETS <= frame_size <= MAX_PACKET_OCTETS + FCS_OCTETS:
        problem = f"a frame of {frame_size} octets (FCS included) cannot be sent"
        hint = f"choose {MIN_FRAME_OCTETS} to {MAX_PACKET_OCTETS + FCS_OCTETS} octets"
        raise UsageError(problem, hint, code="out-of-range")
    headers = len(_to_bytes(packet))
    explicit = [dict(fields) for _, fields in layers]
    layout = locate_fields(packet, explicit)
    if headers > length:
        problem = f"a frame of {frame_size} octets is too small for {layout.names}"
        hint = f"its headers and the FCS take {headers + FCS_OCTETS} octets"
        raise UsageError(problem, hint, code="frame-too-small")
    _check_widths(explicit, layout)
    octets = _to_bytes(packet / Raw(bytes(length - headers)))
    if len(octets) != length:
        problem = f"the headers make a packet of {len(octets)} octets instead of {length}"
        raise UsageError(problem, code="frame-too-long")
    return Template(octets, layout)


def refresh_checksums(packet: bytearray, layout: TemplateLayout) -> None:
    """Recompute in place every checksum that no layer sets."""
    # innermost first: an outer transport checksum covers the inner ones
    for header, _, at, (extent, *addresses) in reversed(layout.list_checksums(len(packet))):
        packet[at : at + 2] = b"\0\0"
        covered = bytes(packet[slice(*extent)])
        for span in addresses:
            protocol = _PROTOCOL_NUMBERS.get(header.name, 58)
            pseudo = build_pseudo_header(bytes(packet[slice(*span)]), len(covered), protocol)
            covered = pseudo + covered
        value = compute_checksum(covered)
        if header.name == "UDP" and value == 0:
            value = 0xFFFF  # RFC 768: zero means "no checksum"
        packet[at : at + 2] = value.to_bytes(2, "big")


def find_final_checksum(layout: TemplateLayout) -> Checksum | None:
    """Return the innermost checksum that covers the payload and is kept valid.

    A change that this checksum compensates does not change outer checksums (RFC 1624).
    """
    for header, network, octet, _ in reversed(layout.list_checksums(0)):
        if header.name != "IP":
            return Checksum(header.name, network.offset if network else None, header.offset, octet)
    return None


def _check_widths(layers: Sequence[Mapping[str, object]], layout: TemplateLayout) -> None:
    """Refuse numbers that do not fit their bit fields; scapy would overwrite neighboring fields."""
    for explicit, header in zip(layers, layout.headers, strict=False):
        for field in header.fields.values():
            value = explicit.get(field.name)
            if isinstance(value, int) and not 0 <= value < 1 << field.width:
                name = f"{header.label}.{field.name}"
                raise make_model_error(f"{name} has {field.width} bits, {value} does not fit")


def _make_layer(known: Mapping[str, type], name: str, fields: Mapping[str, Any]) -> Any:
    if name not in known:
        names = ", ".join(sorted(known)[:40])
        raise make_model_error(f"'{name}' is not a header layer", f"known: {names}")
    if name in _ADDRESSED_LAYERS and (fields.get("src") is None or fields.get("dst") is None):
        raise make_model_error(f"the layer {name} needs the fields 'src' and 'dst'")
    try:
        return known[name](**fields)
    except _SCAPY_ERRORS as exc:
        raise make_model_error(f"scapy cannot make the layer {name}: {exc}") from exc


def _to_bytes(packet: Any) -> bytes:
    try:
        return bytes(packet)
    except _SCAPY_ERRORS as exc:
        reason = " ".join(str(exc).splitlines()[:2])
        raise make_model_error(f"scapy cannot build the frame: {reason}") from exc


@lru_cache(maxsize=1)
def _list_scapy_layers() -> Mapping[str, type]:
    from scapy.config import conf

    conf.route_autoload = conf.route6_autoload = False  # frames contain their addresses
    import scapy.interfaces  # noqa: F401  (makes ``conf.ifaces``)

    conf.ifaces.reload = lambda: None  # this machine's interfaces are not used either
    from scapy.layers import inet, inet6, l2
    from scapy.packet import Packet

    return {
        name: kind
        for module in (l2, inet, inet6)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, Packet) and name[0].isupper()
    }
