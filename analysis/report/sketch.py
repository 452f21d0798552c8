"""The test setup as a picture: tester, device, links, which frames go where."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from v6t.analysis.blocks import Drawing
from v6t.analysis.rundata import RunData

WIDTH, HEIGHT, BOX = 760, 150, 150
_INK, _BLUE = "#1a1a1a", "#0072B2"


def sketch(data: RunData) -> Drawing:
    """Tester, device and tester again, from left to right."""
    left, right = versions(data)
    middle = f"IPv{data.setup['middle_version']}" if data.setup else ""
    parts = _parts(data)
    tester, device = data.config["tester"]["kind"], data.config["dut"]["driver"]
    ports = ("right", "left") if turned(data) else ("left", "right")
    boxes = [("Tester", f"{tester}, {ports[0]}"), *parts, ("Tester", f"{tester}, {ports[1]}")]
    step = (WIDTH - BOX) / (len(boxes) - 1)
    width = min(BOX, step - 60)
    shapes = [
        _box(i * step + (BOX - width) / 2, width, *words, device=0 < i < len(boxes) - 1)
        for i, words in enumerate(boxes)
    ]
    edge = BOX / 2 + width / 2
    for i in range(len(boxes) - 1):
        word = left if i == 0 else right if i == len(boxes) - 2 else middle
        shapes.append(_link(i * step + edge, (i + 1) * step + BOX / 2 - width / 2, word))
    words = [
        f"{side} link{name}: {word}, {_few(octets)}"
        for side, name, word, octets in zip(
            ports, _names(data), (left, right), _octets(data), strict=True
        )
        if octets
    ]
    says = "; ".join([f"Test setup: {tester} tester on both sides of the {device} device", *words])
    says += "."
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" font-family="DejaVu Sans, Arial, sans-serif">{"".join(shapes)}</svg>'
    )
    return Drawing(text, says, says)


def versions(data: RunData) -> tuple[str, str]:
    """Which IP is on the left and on the right link; empty where nothing says it."""
    if not data.setup:
        return "", ""
    left, right = data.setup["ip_versions"]
    return f"IPv{left}", f"IPv{right}"


def turned(data: RunData) -> bool:
    """Whether the technology's left side was at the tester's right port (ST-01)."""
    return bool(data.config.get("initiator") == "right")


def _names(data: RunData) -> tuple[str, str]:
    left, right = data.setup.get("sides", ("left", "right"))
    return ("", "") if (left, right) == ("left", "right") else (f" ({left})", f" ({right})")


def _octets(data: RunData) -> tuple[list[int], list[int]]:
    sent = data.setup.get("octets", {})
    measured = sorted({r.frame_sizes.ipv6 for r in data.records})
    pairs = [sent[str(size)] for size in measured if str(size) in sent]
    return [left for left, _ in pairs], [right for _, right in pairs]


def _parts(data: RunData) -> list[tuple[str, str]]:
    devices = data.setup.get("devices", ())
    if len(devices) < 2:
        return [("Device under test", data.config["dut"]["driver"])]
    return [(device["name"], device["what"]) for device in devices]


def _few(values: Sequence[int]) -> str:
    shown = ", ".join(map(str, values[:3]))
    return f"{shown} ... {values[-1]} octets" if len(values) > 4 else f"{_all(values)} octets"


def _all(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def _box(x: float, width: float, title: str, below: str, *, device: bool) -> str:
    fill, stroke = ("#e8f1f8", _BLUE) if device else ("#f4f6f8", "#777777")
    middle = x + width / 2
    return (
        f'<rect x="{x:.0f}" y="35" width="{width:.0f}" height="80" rx="6" fill="{fill}" '
        f'stroke="{stroke}" stroke-width="2"/>'
        f'<text x="{middle:.0f}" y="70" text-anchor="middle" font-size="14" font-weight="600" '
        f'fill="{_INK}">{escape(title)}</text>'
        f'<text x="{middle:.0f}" y="92" text-anchor="middle" font-size="12" '
        f'fill="{_INK}">{escape(below)}</text>'
    )


def _link(x: float, end: float, word: str) -> str:
    middle = (x + end) / 2
    return (
        f'<path d="M{x + 3:.0f} 68H{end - 3:.0f}M{end - 10:.0f} 63L{end - 3:.0f} 68L'
        f"{end - 10:.0f} 73M{end - 3:.0f} 84H{x + 3:.0f}M{x + 10:.0f} 79L{x + 3:.0f} 84L"
        f'{x + 10:.0f} 89" fill="none" stroke="{_INK}" stroke-width="1.5"/>'
        f'<text x="{middle:.0f}" y="58" text-anchor="middle" font-size="12" '
        f'fill="{_INK}">{escape(word)}</text>'
    )
