"""The template frame of a traffic class: header layers to octets, by scapy.

Only ``scapy.layers.l2``, ``inet`` and ``inet6`` are imported, and only when a template is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from v6t.base.errors import UsageError
from v6t.packets.checksum import build_pseudo_header, compute_checksum
from v6t.profiles.fields import Header, Layout, layout_of
from v6t.profiles.model import Layer
from v6t.profiles.streams import Checksum
from v6t.profiles.wire import FCS_OCTETS, MIN_FRAME_OCTETS

MAX_PACKET_OCTETS = 9 * 1024 + 22
"""Longest packet TRex takes (``MAX_PKT_SIZE``), FCS not counted."""

ADDRESSED = {"Ether": ("src", "dst"), "IP": ("src", "dst"), "IPv6": ("src", "dst")}
"""Fields scapy would otherwise fill from this machine's interfaces and routes."""

NETWORK = frozenset({"IP", "IPv6"})
"""Layers whose addresses the checksum of what they carry covers."""
WITHOUT_ADDRESSES = frozenset({"ICMP", "GRE"})
"""Layers whose checksum covers no addresses."""

PROTOCOL = {"UDP": 17, "TCP": 6, "ICMP": 1}


@dataclass(frozen=True)
class Template:
    """One frame without FCS, and where everything in it is."""

    packet: bytes
    layout: Layout

    def with_bits(self, bits: Iterable[tuple[int, int, int]]) -> Template:
        """A copy with constants written in, checksums valid again.

        Args:
            bits: (first bit of the frame, width, value) each.
        """
        number, size = int.from_bytes(self.packet, "big"), 8 * len(self.packet)
        for first, width, value in bits:
            low = size - first - width
            mask = ((1 << width) - 1) << low
            number = number & ~mask | value << low & mask
        packet = bytearray(number.to_bytes(len(self.packet), "big"))
        refresh_checksums(packet, self.layout)
        return Template(bytes(packet), self.layout)


def build(layers: Iterable[Layer], frame_size: int) -> Template:
    """Frame of ``frame_size`` octets (FCS included) with zero payload and valid checksums.

    Raises:
        UsageError: a layer or field scapy does not know, a missing address, or a frame size
            that does not hold the headers.
    """
    layers = tuple(Layer(layer.name, layer.constants) for layer in layers)
    if all(type(v) in (int, str, bytes) for layer in layers for v in layer.fields.values()):
        return _rebuilt(
            tuple((layer.name, tuple(layer.fields.items())) for layer in layers), frame_size
        )
    return _built(layers, frame_size)


@lru_cache(maxsize=512)  # of a run every trial, both phases and its plan ask for the same
def _rebuilt(
    layers: tuple[tuple[str, tuple[tuple[str, object], ...]], ...], frame_size: int
) -> Template:
    return _built(tuple(Layer(name, dict(fields)) for name, fields in layers), frame_size)


def _built(layers: tuple[Layer, ...], frame_size: int) -> Template:
    from scapy.packet import Raw

    packet: Any = None
    explicit = {number: frozenset(layer.fields) for number, layer in enumerate(layers)}
    for layer in layers:
        scapy_layer = _make(layer)
        packet = scapy_layer if packet is None else packet / scapy_layer
    if packet is None:
        raise UsageError("a traffic class needs header layers", code="invalid-traffic-model")
    length = frame_size - FCS_OCTETS
    if not MIN_FRAME_OCTETS <= frame_size <= MAX_PACKET_OCTETS + FCS_OCTETS:
        raise UsageError(
            f"a frame of {frame_size} octets (FCS included) cannot be sent",
            f"choose {MIN_FRAME_OCTETS} to {MAX_PACKET_OCTETS + FCS_OCTETS} octets",
            code="out-of-range",
        )
    headers = len(_render(packet))
    layout = layout_of(packet, explicit)
    if headers > length:
        names = "/".join(h.name for h in layout.headers)
        raise UsageError(
            f"a frame of {frame_size} octets is too small for {names}",
            f"its headers and the FCS take {headers + FCS_OCTETS} octets",
            code="frame-too-small",
        )
    _check_widths(layers, layout)
    octets = _render(packet / Raw(bytes(length - headers)))
    if len(octets) != length:
        raise UsageError(
            f"the headers make a packet of {len(octets)} octets instead of {length}",
            code="frame-too-long",
        )
    return Template(octets, layout)


def refresh_checksums(packet: bytearray, layout: Layout) -> None:
    """Recompute in place every checksum the caller of :func:`build` did not give himself."""
    below: list[Header | None] = [None]
    for header in layout.headers:
        below.append(header if header.name in NETWORK else below[-1])
    # innermost first: an outer transport checksum covers the inner ones
    for header, network in zip(reversed(layout.headers), reversed(below[:-1]), strict=True):
        name = checksum_field(header)
        if name is None or name in header.given:
            continue
        if header.name == "IP":
            _store(packet, header, name, header.end, b"")
        else:
            _store(packet, header, name, len(packet), _pseudo(packet, header, network))


def checksum_field(header: Header) -> str | None:
    """Name of the header's own checksum field, if it has one."""
    if header.name in {"IP", "UDP", "TCP", "ICMP"}:
        return "chksum"
    if header.name == "GRE":  # RFC 2784 section 2.1: only where its C bit says so
        return "chksum" if any(f.name == "chksum" for f in header.fields) else None
    return "cksum" if any(f.name == "cksum" for f in header.fields) else None


def final_checksum(layout: Layout) -> Checksum | None:
    """The innermost checksum that covers all behind the headers and that the compiler keeps valid.

    Those further out need no look: a change of covered octets that this one makes up for leaves
    their sums alone (RFC 1624).
    """
    for number, header in reversed(list(enumerate(layout.headers))):
        name = checksum_field(header)
        if name is None or header.name == "IP" or name in header.given:
            continue
        below = [h.offset for h in layout.headers[:number] if h.name in NETWORK]
        field = header.field(name).first // 8
        return Checksum(header.name, below[-1] if below else None, header.offset, field)
    return None


def _check_widths(layers: Sequence[Layer], layout: Layout) -> None:
    """Scapy lets a number that is too large for a field of bits spill into its neighbours."""
    for layer, header in zip(layers, layout.headers, strict=False):
        for field in header.fields:
            value = layer.fields.get(field.name)
            if isinstance(value, int) and not 0 <= value < 1 << field.width:
                raise UsageError(
                    f"{header.label}.{field.name} has {field.width} bits, {value} does not fit",
                    code="invalid-traffic-model",
                )


def _pseudo(packet: bytearray, header: Header, below: Header | None) -> bytes:
    """Pseudo header (RFC 768, RFC 8200 section 8.1); none for ICMP over IPv4 and GRE."""
    if below is None or header.name in WITHOUT_ADDRESSES:
        return b""
    start = below.field("src").first // 8
    end = below.field("dst").first // 8 + below.field("dst").width // 8
    length = len(packet) - header.offset
    protocol = PROTOCOL.get(header.name, 58)
    return build_pseudo_header(bytes(packet[start:end]), length, protocol)


def _store(packet: bytearray, header: Header, name: str, end: int, pseudo: bytes) -> None:
    at = header.field(name).first // 8
    packet[at : at + 2] = b"\0\0"
    value = compute_checksum(pseudo + bytes(packet[header.offset : end]))
    if header.name == "UDP" and value == 0:
        value = 0xFFFF  # RFC 768: zero means "no checksum"
    packet[at : at + 2] = value.to_bytes(2, "big")


def _make(layer: Layer) -> Any:
    known = _scapy_layers()
    if layer.name not in known:
        raise UsageError(
            f"'{layer.name}' is not a header layer",
            "known: " + ", ".join(sorted(known)[:40]),
            code="invalid-traffic-model",
        )
    for name in ADDRESSED.get(layer.name, ()):
        if layer.fields.get(name) is None:
            raise UsageError(
                f"the layer {layer.name} needs its field '{name}'", code="invalid-traffic-model"
            )
    try:
        return known[layer.name](**layer.fields)
    except (AttributeError, TypeError, ValueError, OSError) as exc:
        raise UsageError(
            f"scapy cannot make the layer {layer.name}: {exc}", code="invalid-traffic-model"
        ) from exc


def _render(packet: Any) -> bytes:
    import struct

    try:
        return bytes(packet)
    except (AttributeError, TypeError, ValueError, OSError, struct.error) as exc:
        reason = str(exc).splitlines()
        raise UsageError(
            f"scapy cannot build the frame: {' '.join(reason[:2])}", code="invalid-traffic-model"
        ) from exc


@lru_cache(maxsize=1)
def _scapy_layers() -> Mapping[str, type]:
    from scapy.config import conf

    conf.route_autoload = conf.route6_autoload = False  # frames here say where they go
    from scapy.layers import inet, inet6, l2
    from scapy.packet import Packet

    modules = (l2, inet, inet6)
    return {
        name: kind
        for module in modules
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, Packet) and name[0].isupper()
    }
