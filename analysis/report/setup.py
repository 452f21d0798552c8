"""What was measured, on what: everything a reader needs to judge numbers, or repeat them (GEN-28)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from v6t.analysis.blocks import Block, Collapsible, Columns, Facts
from v6t.analysis.report.device import LISTED, as_applied
from v6t.analysis.report.sketch import sketch, turned, versions
from v6t.analysis.rundata import RunData
from v6t.analysis.variation import random_ports
from v6t.trials.trial import format_mix

TALL = 12
"""Facts beyond this number stand in two columns."""
_PORTS = {True: "pseudorandom", False: "not all pseudorandom", None: ""}


def setting(data: RunData, figures: bool) -> Iterator[Block]:
    """Technology, traffic, tester, device, and the machine v6t ran on."""
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
    """Describe what RFC 2544 section 26.1 calls protocol and data stream format (TP-08)."""
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
        yield "Sides", "turned: what is called left here is at the tester's right port (ST-01)"
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
    """Nested values as names with dots and texts."""
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
