"""What was measured, on what: everything a reader needs to judge numbers, or repeat them."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from v6t.analysis.blocks import Block, Collapsible, Columns, Drawing, Facts, Listing
from v6t.analysis.rundata import RunData
from v6t.analysis.variation import random_ports
from v6t.trials.trial import format_mix

LISTED = {"facts": "before the first change", "while_measured": "while it was measured"}
"""Texts that a device printed, and when."""


def as_applied(device: Mapping[str, Any], name: str) -> Iterator[Collapsible]:
    """Yield the commands in their order, and what the device printed; one click away."""
    commands: Sequence[str] = device.get("commands", ())
    if commands:
        text = "\n".join(line for command in commands for line in command_lines(command))
        summary = f"{name}: configuration as it was applied, {len(commands)} commands"
        yield Collapsible(summary, [Listing(text)], brief=True)
    for key, when in LISTED.items():
        parts: Mapping[str, str] = device.get(key) or {}
        texts = [part for part in parts.items() if part[1].strip()]
        if texts:
            text = "\n\n".join(
                "\n  ".join([f"{what}:", *_lines(text.strip())]) for what, text in texts
            )
            yield Collapsible(f"{name}: what it said {when}", [Listing(text)])


def command_lines(command: str) -> list[str]:
    """Write a command as one would type it, with its standard input below it."""
    line, fed, text = command.partition(" <<< ")
    if not fed:
        return [command]
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return [command]
    if not isinstance(value, str):
        return [command]
    return [f"{line} <<'END'", *value.splitlines(), "END"]


def _lines(text: str) -> list[str]:
    if text[:1] in "[{":
        try:
            document = json.loads(text)
        except ValueError:
            return text.splitlines()
        entries = document if isinstance(document, list) else [document]
        return [json.dumps(entry) for entry in entries] or [text]
    return text.splitlines()


WIDTH, HEIGHT, BOX = 760, 150, 150
_INK, _BLUE = "#1a1a1a", "#0072B2"


def sketch(data: RunData) -> Drawing:
    """Draw tester, device and tester again, from left to right."""
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
    """Return the IP versions of the left and right link; empty where unknown."""
    if not data.setup:
        return "", ""
    left, right = data.setup["ip_versions"]
    return f"IPv{left}", f"IPv{right}"


def turned(data: RunData) -> bool:
    """Return whether the technology's left side was at the tester's right port."""
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


TALL = 12
"""Facts beyond this number stand in two columns."""
_PORTS = {True: "pseudorandom", False: "not all pseudorandom", None: ""}


def setting(data: RunData, figures: bool) -> Iterator[Block]:
    """Yield technology, traffic, tester, device, and the machine v6t ran on."""
    c, m = data.config, data.manifest
    if figures:
        yield sketch(data)
    tester = m.get("tester") or {"kind": c["tester"]["kind"], **c["tester"]["options"]}
    device = tester.get("device") or {"driver": c["dut"]["driver"], **c["dut"]["options"]}
    tester = {k: v for k, v in tester.items() if k != "device"}
    yield Columns(
        [
            ("Measured", Facts(tuple(_measured(data)))),
            ("Traffic", Facts(tuple(_traffic(data)))),
            ("Tester", Facts(tuple(_plain(tester)))),
            ("Device under test", Facts(tuple(_plain(device)))),
            ("Machine of v6t", Facts(tuple(_machine(m)))),
        ]
    )
    yield from _configured(device)
    for what, facts in (("Tester", tester), ("Device under test", device)):
        for name, inner in facts.items():
            if isinstance(inner, Mapping) and inner and name not in (*LISTED, "parts"):
                yield _folded(f"{what}: {name.replace('_', ' ')}", inner)
    if data.params:
        yield _folded("Parameters of the technology", data.params)


def _configured(device: Mapping[str, Any]) -> Iterator[Block]:
    yield from as_applied(device, "Device under test")
    for name, part in (device.get("parts") or {}).items():
        yield from as_applied(part, name)
        rest = {k: v for k, v in part.items() if k not in (*LISTED, "commands")}
        yield _folded(f"{name}: the rest of what is known", rest)


def _folded(title: str, values: Mapping[str, Any]) -> Collapsible:
    rows = tuple(flat(values))
    half = (len(rows) + 1) // 2
    columns = [("", Facts(rows[:half])), ("", Facts(rows[half:]))]
    return Collapsible(title, [Columns(columns) if len(rows) > TALL else Facts(rows)], brief=True)


def _measured(data: RunData) -> Iterator[tuple[str, str]]:
    c, m = data.config, data.manifest
    p = c["procedure"]
    yield "Technology", c["plugin"]
    yield "Follows", ", ".join(data.rfcs) or "-"
    others = (r.benchmark for r in data.records)  # a stateful device's connections come unasked
    yield "Benchmarks", ", ".join(dict.fromkeys([*c["benchmarks"], *others]))
    yield "Trials", f"{p['trial_duration_s']:g} s, {p['repetitions']} repetitions"
    yield "Preset", c["preset"]
    yield "Medium", f"{c['line_rate_bps'] / 1e9:g} Gbit/s"
    yield "Rates", "frames per second per direction, unless a heading says otherwise"
    yield "Started", str(m.get("created", "-"))
    yield "Finished", ", ".join(m.get("finished", ())) or "-"


def _traffic(data: RunData) -> Iterator[tuple[str, str]]:
    c = data.config
    left, right = versions(data)
    sizes = "with FCS" if left and left == right else "IPv6, with FCS"
    headers = data.setup.get("headers")
    if headers:
        left, right = (" over ".join(reversed(names)) for names in headers)
        yield "Protocol", f"{left} on the left, {right} on the right"
    elif left:
        yield "Protocol", f"UDP over {left} on the left, over {right} on the right"
    yield "Frame sizes", f"{', '.join(map(str, c['frame_sizes']))} octets ({sizes})"
    for mix in dict.fromkeys(r.frame_sizes.mix for r in data.records if r.frame_sizes.mix):
        sequence = data.mix_sequences.get(mix)
        yield "Mix of sizes", format_mix(mix) + (f": {sequence}" if sequence else "")
    yield "Directions", ", ".join(c["modes"])
    if turned(data):
        yield "Sides", "turned: what is called left here is at the tester's right port"
    n, m = data.params.get("n"), data.params.get("m")
    if n and m is not None:
        spread = "" if n == m else f", {m} of {n} frames, spread evenly"
        negative = float(data.params.get("negative_percent") or 0)
        which = " of what is no negative traffic" if negative else ""
        yield "Foreground", f"{100 * m / n:.4g} %{which}{spread}"
        if negative:
            yield "Negative", f"{negative:g} % that the device must drop"
    ports = _PORTS[random_ports(data.params)]
    if ports:
        yield "Ports", ports
    yield "Seed", str(c["seed"])


def _machine(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    machine = dict(manifest.get("machine", {}))
    kib = machine.pop("memory_kib", None)
    yield from _plain({k: v for k, v in machine.items() if v is not None})
    if kib:
        yield "memory", f"{kib / 2**20:.1f} GiB"
    yield "python", str(manifest.get("python", ""))
    packages = manifest.get("packages", {})
    yield "packages", ", ".join(f"{k} {v}" for k, v in packages.items() if v)
    yield "source commit", str(manifest.get("source_commit") or "installed package")


def _plain(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    plain = {k: v for k, v in facts.items() if not isinstance(v, Mapping) and k != "commands"}
    for name, value in flat(plain):
        yield name.replace("_", " "), value


def flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested values as dotted names and texts."""
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{name}.")
        elif isinstance(value, bool):
            yield name, "yes" if value else "no"
        elif isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
            yield name, "; ".join(value) or "none"
        elif isinstance(value, (list, tuple, dict)):
            yield name, json.dumps(value) if value else "none"
        else:
            yield name, "none" if value is None else str(value)
