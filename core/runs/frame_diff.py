"""Two frames beside each other, octets that differ marked."""

from __future__ import annotations

from collections.abc import Mapping

_ROW = 8
_CELL = 3


def render(frames: Mapping[str, str]) -> str:
    """Render the expected and the received frame as hexadecimal columns.

    Args:
        frames: ``expected`` and ``received`` in hexadecimal; either may be empty.
    """
    expected = bytes.fromhex(frames.get("expected", ""))
    received = bytes.fromhex(frames.get("received", ""))
    width = _ROW * _CELL
    lines = [f"  octet  {'expected':<{width}}   received"]
    for at in range(0, max(len(expected), len(received)), _ROW):
        left, right = expected[at : at + _ROW], received[at : at + _ROW]
        marks = " ".join(_mark(left, right, i) for i in range(_ROW))
        row = f"  {at:5}  {left.hex(' '):<{width}} {'|' if left == right else '#'} {right.hex(' ')}"
        lines.append(row.rstrip())
        if left != right and right:
            lines.append(f"  {'':5}  {'':<{width}}   {marks}".rstrip())
    if not expected:
        lines.append("  (expected: nothing, the device must drop it)")
    if not received:
        lines.append("  (received: nothing)")
    return "\n".join(lines)


def _mark(left: bytes, right: bytes, at: int) -> str:
    return "^^" if left[at : at + 1] != right[at : at + 1] else "  "
