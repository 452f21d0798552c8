"""A drawing without what no reader sees: tenths of a pixel, styles said once, no idle groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING
from xml.etree import ElementTree
from zlib import crc32

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SEEN = 0.3
"""A line that passes so close to a point need not go through it [px]."""
_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_NUMBER = re.compile(r"-?\d+\.\d+")
_POLYLINE = re.compile(r"[\sMLz\d.-]*")
_REFERENCE = re.compile(r"#([\w.:-]+)")


def lean(text: str, name: str) -> str:
    """Write the same picture in fewer octets.

    Args:
        text: an ``<svg>`` element as matplotlib writes it.
        name: of the figure; its identifiers follow from it, and are unique in a document where
            names are.
    """
    root = ElementTree.fromstring(text)  # noqa: S314  (what matplotlib wrote just now)
    return _Writer(name, set(_REFERENCE.findall(text))).drawn(root)


class _Writer:
    """Writes elements anew; styles become classes."""

    def __init__(self, name: str, used: set[str]) -> None:
        self._figure = name
        self._name = f"v{crc32(name.encode()):x}"
        self._ids: dict[str, str] = {}
        self._used = used
        self._rules: dict[str, str] = {}

    def drawn(self, root: ElementTree.Element) -> str:
        """Draw the whole element."""
        body = self._children(root)
        box = {k: root.attrib[k] for k in ("width", "height", "viewBox")}
        rules = "*{stroke-linejoin:round;stroke-linecap:butt}" + "".join(
            f".{kind}{{{rule}}}" for rule, kind in self._rules.items()
        )
        return (
            f'<svg xmlns="{_SVG}" id="{escape(self._figure)}-figure"'
            + "".join(f' {k}="{v}"' for k, v in box.items())
            + f"><style>{rules}</style>{body}</svg>"
        )

    def _children(self, parent: ElementTree.Element) -> str:
        """Of an element; neighbouring groups of one kind are one."""
        out: list[str] = []
        before = ""
        for child in parent:
            for opening, inner in self._written(child):
                if opening and opening == before:
                    out[-1] = inner + "</g>"
                else:
                    out += [opening, inner + "</g>" * bool(opening)]
                before = opening
        return "".join(out)

    def _written(self, element: ElementTree.Element) -> Iterator[tuple[str, str]]:
        """Beginnings of groups with what is in them; no beginning where it is no group."""
        kind = element.tag.rpartition("}")[2]
        if kind == "style":
            return
        if kind == "g":
            _share_style(element)
        attributes = "".join(f' {k}="{escape(v)}"' for k, v in self._attributes(kind, element))
        if kind == "g":
            inner = self._children(element)
            if inner:
                yield (f"<g{attributes}>" if attributes else ""), inner
            return
        inner = escape(element.text or "", quote=False) if kind == "text" else ""
        inner += self._children(element)
        if kind == "defs" and not inner:
            return
        yield "", f"<{kind}{attributes}>{inner}</{kind}>" if inner else f"<{kind}{attributes}/>"

    def _attributes(self, kind: str, element: ElementTree.Element) -> Iterator[tuple[str, str]]:
        for key, value in element.attrib.items():
            if key == "id":
                if value in self._used:
                    yield key, self._id(value)
            elif key == f"{{{_XLINK}}}href":
                yield "href", "#" + self._id(value[1:])
            elif key == "style":
                yield "class", self._class(value)
            elif key == "clip-path":
                yield key, _REFERENCE.sub(lambda match: "#" + self._id(match[1]), value)
            elif key == "d":
                yield key, _path(value)
            elif key == "transform" and value.startswith("rotate(-0 "):
                continue
            else:
                yield key, _rounded(value)

    def _id(self, former: str) -> str:
        return self._ids.setdefault(former, f"{self._name}-{len(self._ids)}")

    def _class(self, style: str) -> str:
        """Name a class for a style: the same in all figures, so that they may stand in one document."""
        rule = re.sub(r"\s*([:;,])\s*", r"\1", style).rstrip(";")
        return self._rules.setdefault(rule, f"v{crc32(rule.encode()):x}")


def _share_style(group: ElementTree.Element) -> None:
    """Give marks that look alike one common style."""
    styles = {mark.get("style") for mark in group}
    if len(group) > 1 and len(styles) == 1 and all(m.tag == f"{{{_SVG}}}use" for m in group):
        style = styles.pop()
        if style and "style" not in group.attrib:
            group.set("style", style)
            for mark in group:
                del mark.attrib["style"]


def _rounded(text: str) -> str:
    return _NUMBER.sub(lambda match: _tenths(float(match[0])), text)


def _tenths(value: float) -> str:
    return f"{round(value, 1) + 0.0:.7g}"


def _path(data: str) -> str:
    """Keep the points of straight lines that are seen; write any other path with fewer digits."""
    if not _POLYLINE.fullmatch(data):
        return re.sub(r"\s+(?=[A-Za-z])|(?<=[A-Za-z])\s+", "", _rounded(" ".join(data.split())))
    parts = []
    for piece in data.split("M")[1:]:
        closed = "z" in piece
        numbers = [float(n) for n in piece.replace("L", " ").replace("z", " ").split()]
        points = list(zip(numbers[::2], numbers[1::2], strict=True))
        shown = [f"{_tenths(x)} {_tenths(y)}" for x, y in _seen(points)]
        parts.append(f"M{shown[0]}" + ("L" + " ".join(shown[1:])) * (len(shown) > 1) + "z" * closed)
    return "".join(parts)


def _seen(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Points without those a line passes anyway (Ramer, Douglas and Peucker)."""
    if len(points) < 3 or points[0] == points[-1]:
        return points
    import numpy as np

    at = np.array(points)
    keep = np.zeros(len(at), dtype=bool)
    keep[[0, -1]] = True
    stretches = [(0, len(at) - 1)]
    while stretches:
        first, last = stretches.pop()
        if last - first < 2:
            continue
        off = _off(at[first + 1 : last], at[first], at[last])
        farthest = int(off.argmax())
        if off[farthest] > SEEN:
            middle = first + 1 + farthest
            keep[middle] = True
            stretches += [(first, middle), (middle, last)]
    return [point for point, visible in zip(points, keep, strict=True) if visible]


def _off(
    at: NDArray[np.float64], begin: NDArray[np.float64], end: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Distances of points from a stretch."""
    import numpy as np

    along = end - begin
    length = float(along @ along)
    share = np.clip((at - begin) @ along / length, 0.0, 1.0) if length else np.zeros(len(at))
    away: NDArray[np.float64] = np.hypot(*(at - begin - np.outer(share, along)).T)
    return away
